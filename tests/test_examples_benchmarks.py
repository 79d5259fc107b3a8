"""The benchmarks' judge, reference optima and adapters keep their promises."""

import csv
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from example_modules import EXAMPLES, imported
from sklearn.utils.fixes import parse_version

from skcara.recombination import RECOMBINATION_METHODS

FOLDER = EXAMPLES / "benchmarks"
NAMES = ("problems", "judge", "reference", "adapters")
NAMES += ("search_problems", "search_reference")


@pytest.fixture(scope="module")
def bench():
    """Modules of the benchmark folder."""
    with imported(FOLDER, NAMES) as modules:
        yield modules


needs_recent_rivals = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.8"),
    reason="rivals are called with the parameters of scikit-learn 1.8",
)
PENALTIES = [(0.0, 0.02), (0.03, 0.0), (0.02, 0.01)]
LOSSES = ["squared", "logistic", "multinomial"]


def make(bench, loss, l1, l2, seed, n_rows=300, n_features=6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)) + 0.3
    score = X @ rng.standard_normal((n_features, 3)) + rng.gumbel(size=(n_rows, 3))
    y = {
        "squared": score[:, 0],
        "logistic": (score[:, 0] > 0).astype(float),
        "multinomial": score.argmax(axis=1).astype(float),
    }[loss]
    return bench["problems"].BenchProblem("test", loss, X, y, l1=l1, l2=l2)


def draw_params(problem, seed):
    rng = np.random.default_rng(seed)
    coef = rng.standard_normal((problem.n_features, problem.n_outputs))
    return coef, rng.standard_normal(problem.n_outputs)


@pytest.mark.parametrize("loss", LOSSES)
def test_judge_gradient_is_the_derivative_of_its_objective(
    bench, loss, global_random_seed
):
    problem = make(bench, loss, 0.0, 0.0, global_random_seed)
    judge = bench["judge"].Judge(problem)
    coef, intercept = draw_params(problem, global_random_seed)
    coef_part, intercept_part = judge.loss_gradient(judge.margins(coef, intercept))
    direction, shift = draw_params(problem, global_random_seed + 1)
    h = 1e-5
    plus = judge.objective(coef + h * direction, intercept + h * shift)
    minus = judge.objective(coef - h * direction, intercept - h * shift)
    slope = (coef_part * direction).sum() + intercept_part @ shift
    # Central differences are exact to h^2 times the third derivative.
    assert (plus - minus) / (2 * h) == pytest.approx(slope, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_dual_gap_bounds_the_suboptimality(bench, loss, l1, l2, global_random_seed):
    """Weak duality: for any candidate, gap >= F - F*; at the optimum both vanish."""
    problem = make(bench, loss, l1, l2, global_random_seed)
    judge = bench["judge"].Judge(problem)
    coef, intercept, optimum = bench["reference"].solve_reference(problem)
    best = judge.evaluate(coef, intercept)
    assert abs(best.dual_gap) <= 1e-12 * optimum
    assert best.violation <= 1e-13
    for size in (1e-3, 0.1, 1.0):
        noise, shift = draw_params(problem, global_random_seed + 2)
        verdict = judge.evaluate(coef + size * noise, intercept + size * shift)
        assert verdict.objective > optimum
        assert verdict.dual_gap >= verdict.objective - optimum - 1e-12


@pytest.mark.parametrize("l1", [0.03, 10.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_dual_gap_bounds_the_suboptimality_at_zero(bench, loss, l1, global_random_seed):
    """At zero the raw derivatives are not dual feasible: the judge must repair them.

    With a small penalty they leave the box, with a large one the intercept is wrong.
    """
    problem = make(bench, loss, l1, 0.0, global_random_seed)
    *_, optimum = bench["reference"].solve_reference(problem)
    coef = np.zeros((problem.n_features, problem.n_outputs))
    verdict = bench["judge"].Judge(problem).evaluate(coef, np.zeros(problem.n_outputs))
    assert verdict.dual_gap >= verdict.objective - optimum - 1e-12


def test_judge_reproduces_the_soft_threshold(bench):
    """Orthonormal columns: the lasso optimum is known in closed form."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((64, 4))
    X -= X.mean(axis=0)
    X = 8.0 * np.linalg.qr(X)[0]
    y = X @ [2.0, -1.0, 0.05, 0.0] + 3.0
    problem = bench["problems"].BenchProblem("orthonormal", "squared", X, y, l1=0.1)
    expected = np.array([1.9, -0.9, 0.0, 0.0])[:, None]
    verdict = bench["judge"].Judge(problem).evaluate(expected, np.array([3.0]))
    assert verdict.violation <= 1e-14
    assert abs(verdict.dual_gap) <= 1e-14
    coef, intercept, _ = bench["reference"].solve_reference(problem)
    np.testing.assert_allclose(coef, expected, atol=1e-13)
    assert intercept[0] == pytest.approx(3.0)


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_judge_survives_huge_margins(bench, loss, global_random_seed):
    problem = make(bench, loss, 0.01, 0.01, global_random_seed)
    coef, intercept = draw_params(problem, 0)
    judge = bench["judge"].Judge(problem)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        verdict = judge.evaluate(1e4 * coef, intercept)
    assert np.isfinite([verdict.objective, verdict.violation, verdict.dual_gap]).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_verdict_does_not_depend_on_chunks_or_storage(
    bench, loss, global_random_seed, monkeypatch
):
    problem = make(bench, loss, 0.02, 0.01, global_random_seed)
    coef, intercept = draw_params(problem, global_random_seed)
    whole = bench["judge"].Judge(problem).evaluate(coef, intercept)
    monkeypatch.setattr(bench["judge"], "CHUNK_ROWS", 7)
    sparse = bench["problems"].BenchProblem(
        "sparse", loss, sp.csr_array(problem.X), problem.y, l1=0.02, l2=0.01
    )
    for other in (problem, sparse):
        verdict = bench["judge"].Judge(other).evaluate(coef, intercept)
        assert verdict.objective == pytest.approx(whole.objective, rel=1e-14)
        assert verdict.dual_gap == pytest.approx(whole.dual_gap, rel=1e-10)
        assert verdict.violation == pytest.approx(whole.violation, rel=1e-10)


def test_reference_solves_collinear_least_squares(bench, global_random_seed):
    """Condition number 1e8: normal equations fail, the reference reaches the floor."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((500, 5))
    X[:, 4] = X[:, 0] + 1e-8 * X[:, 4]
    noise = rng.standard_normal(500)
    noise -= np.linalg.lstsq(np.c_[X, np.ones(500)], noise, rcond=1e-15)[0] @ np.vstack(
        [X.T, np.ones(500)]
    )
    problem = bench["problems"].BenchProblem("collinear", "squared", X, X[:, 4] + noise)
    *_, optimum = bench["reference"].solve_reference(problem)
    assert optimum == pytest.approx(0.5 * np.mean(noise**2), rel=1e-10)


@needs_recent_rivals
def test_adapters_solve_the_problem_they_are_given(bench):
    """Parameter conversion: each rival's solution satisfies our KKT conditions."""
    solved = set()
    for build in bench["problems"].QUICK_PROBLEMS.values():
        problem = build()
        judge = bench["judge"].Judge(problem)
        *_, optimum = bench["reference"].solve_reference(problem)
        for adapter in bench["adapters"].ADAPTERS:
            if adapter.library != "sklearn" or adapter.skip(problem):
                continue
            solution = adapter.solve(problem, adapter.settings[-1])
            objective = judge.objective(solution.coef, solution.intercept)
            assert (objective - optimum) / optimum <= 1e-9, (problem.name, adapter.name)
            solved.add(adapter.name)
    assert len(solved) == 8


def test_peers_benchmark_writes_its_report(tmp_path):
    command = [sys.executable, str(FOLDER / "bench_peers.py"), "--quick"]
    problems = ["quick-lasso", "household"]
    command += ["--problems", *problems, "--rivals", "sklearn Lasso"]
    output = subprocess.run(
        [*command, "--output", str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "household: skipped" in output
    report = (tmp_path / "README.md").read_text()
    assert "sklearn Lasso precompute" in report
    assert (tmp_path / "quick-lasso.png").stat().st_size > 0
    header = (tmp_path / "runs.csv").read_text().splitlines()[0]
    assert header.startswith("problem,rival,setting,seconds,suboptimality")


@needs_recent_rivals
def test_defaults_are_held_to_their_promise(tmp_path):
    command = [sys.executable, str(FOLDER / "bench_defaults.py"), "--quick"]
    subprocess.run([*command, "--output", str(tmp_path)], check=True)
    with (tmp_path / "defaults.csv").open() as stream:
        records = list(csv.DictReader(stream))
    assert len(records) == 8
    assert all(float(one["skcara_suboptimality"]) <= 1e-6 for one in records)
    assert "| quick-census |" in (tmp_path / "defaults.md").read_text()


def test_reference_without_a_matrix_agrees_with_the_one_with_it(bench, monkeypatch):
    problem = bench["problems"].QUICK_PROBLEMS["quick-text"]()
    *_, optimum = bench["reference"].solve_reference(problem)
    monkeypatch.setattr(bench["reference"], "MATRIX_FREE_COORDS", 1)
    *_, other = bench["reference"].solve_reference(problem)
    assert other == pytest.approx(optimum, rel=1e-14)


def test_costs_of_descent_are_measured(tmp_path):
    command = [sys.executable, str(FOLDER / "bench_inner.py"), "--quick"]
    command += ["--repeats", "1", "--output", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    text = (tmp_path / "inner.md").read_text()
    assert text.count("CaGD, ") == 9
    assert "| LogisticLoss, with group sums |" in text


def test_shared_reads_are_measured(tmp_path):
    command = [sys.executable, str(FOLDER / "bench_shared.py"), "--quick"]
    command += ["--repeats", "1", "--output", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    text = (tmp_path / "shared.md").read_text()
    assert text.count("| stacked |") == 2
    assert text.count("20 targets |") == 2


def test_profile_accounts_for_the_whole_fit(tmp_path):
    command = [sys.executable, str(FOLDER / "bench_profile.py")]
    command += ["--problems", "quick-logistic-l2", "--output", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    header, values = (tmp_path / "profile.csv").read_text().splitlines()
    shares = dict(zip(header.split(",")[2:], values.split(",")[2:], strict=True))
    shares = {part: float(share) for part, share in shares.items()}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["passes"] > 0
    assert shares["reduced measures"] > 0
    assert "| quick-logistic-l2 |" in (tmp_path / "profile.md").read_text()


@needs_recent_rivals
def test_small_fits_are_compared_with_their_twins(tmp_path):
    command = [sys.executable, str(FOLDER / "bench_small.py"), "--quick"]
    subprocess.run([*command, "--output", str(tmp_path)], check=True)
    with (tmp_path / "small.csv").open() as stream:
        records = list(csv.DictReader(stream))
    assert len({record["family"] for record in records}) == 6
    for record in records:
        for rival in ("skcara", "twin"):
            assert float(record[f"solved_{rival}_suboptimality"]) <= 1e-8
            assert float(record[f"default_{rival}_ms"]) > 0
    report = (tmp_path / "small.md").read_text()
    assert report.count("| multinomial, 4 classes | 200 x 5 |") == 2


@needs_recent_rivals
def test_random_shapes_are_the_same_whenever_they_are_drawn(tmp_path):
    command = [sys.executable, str(FOLDER / "bench_shapes.py"), "--quick"]
    shapes = []
    for run in ("first", "second"):
        output = tmp_path / run
        subprocess.run([*command, "--output", str(output)], check=True)
        with (output / "shapes.csv").open() as stream:
            records = list(csv.DictReader(stream))
        assert all(record["is_solved"] == "True" for record in records)
        assert all(float(record["ratio"]) > 0 for record in records)
        shapes.append([(one["n_rows"], one["n_features"]) for one in records])
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) == 3
    assert "## Largest losses" in (output / "shapes.md").read_text()


def test_threads_are_compared_with_plain_ones(tmp_path):
    script = FOLDER / "bench_threads.py"
    arguments = ["--quick", "--repeats", "1", "--output", str(tmp_path)]
    subprocess.run([sys.executable, str(script), *arguments], check=True)
    with open(tmp_path / "threads.csv") as file:
        rows = list(csv.DictReader(file))
    works = [row["work"] for row in rows]
    plain = [work for work in works if work.startswith("plain threads")]
    # The machine is measured before and after the fits.
    assert works[:2] == works[-2:] == plain[:2]
    assert len(set(works)) == len(works) - 2 >= 10
    for row in rows:
        ratio = float(row["seconds_1"]) / float(row["seconds_2"])
        assert float(row["speedup"]) == pytest.approx(ratio)


def test_price_list_of_the_methods_is_complete(tmp_path):
    command = [sys.executable, str(FOLDER / "bench_methods.py"), "--quick"]
    command += ["--dimension", "3", "--output", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    report = (tmp_path / "methods.md").read_text()
    assert all(f"| `{method}` |" in report for method in RECOMBINATION_METHODS)


def test_slower_fits_are_reported_and_faster_ones_are_not(tmp_path):
    """The table claims that one fit was a thousand times faster, another slower."""
    command = [sys.executable, str(FOLDER / "bench_regression.py"), "--quick"]
    command += ["--repeats", "1", "--table", str(tmp_path / "ratios.csv")]
    subprocess.run([*command, "--update"], check=True, capture_output=True)
    lines = (tmp_path / "ratios.csv").read_text().splitlines()
    ratios = dict(line.rsplit(",", 1) for line in lines[1:])
    assert len(ratios) == 11
    stored = {name: 1e3 * float(ratio) for name, ratio in ratios.items()}
    stored["tall lasso"] /= 1e6
    rows = [f"{name},{ratio}" for name, ratio in stored.items()]
    (tmp_path / "ratios.csv").write_text("\n".join([lines[0], *rows]))
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    warnings = [line for line in output.splitlines() if line.startswith("WARNING")]
    assert warnings == ["WARNING: tall lasso is slower than the stored ratio allows."]


@pytest.mark.slow
def test_costs_of_rows_elsewhere_are_measured(tmp_path):
    pytest.importorskip("distributed")
    pytest.importorskip("pyarrow")
    command = [sys.executable, str(FOLDER / "bench_scale.py"), "--quick"]
    command += ["--output", str(tmp_path), "--scratch", str(tmp_path), "--only"]
    for section in ("Traffic and reads", "Memory"):
        # A cluster and limits of memory: what waits for ever there must not do so here.
        subprocess.run(
            [*command, section], check=True, capture_output=True, timeout=600
        )
    report = (tmp_path / "scale.md").read_text()
    # The second run kept what the first one wrote.
    assert "| lasso, 4e+04 rows, computed | 2 |" in report
    assert report.count("| map, ") == report.count("| parquet, ") == 3
    assert [path.name for path in tmp_path.iterdir()] == ["scale.md"]


BUDGETS = """
import time
from types import SimpleNamespace
import measure

def spin(problem, setting):
    while True:
        pass

def sleep(problem, setting):
    time.sleep(setting)
    return setting

def fail(problem, setting):
    raise SystemExit(3)

def outcome(solve, clock):
    adapter = SimpleNamespace(solve=solve)
    return measure.timed_fit(adapter, None, 0.5, clock=clock, budget=0.2)

assert outcome(spin, "cpu") is None
assert outcome(spin, "wall") is None
assert outcome(sleep, "cpu")[1] == 0.5
assert outcome(sleep, "wall") is None
try:
    outcome(fail, "cpu")
except EOFError:
    print("fine")
"""


def test_a_budget_is_in_seconds_of_the_clock():
    """Waiting for others costs processor time nothing; a crash is not a slow fit."""
    command = [sys.executable, "-c", BUDGETS]
    run = subprocess.run(command, cwd=FOLDER, check=True, capture_output=True)
    assert run.stdout == b"fine\n"


@needs_recent_rivals
def test_searches_are_judged_by_exact_fold_fits(tmp_path):
    command = [sys.executable, str(FOLDER / "bench_search.py"), "--quick"]
    command += ["--problems", "quick-lasso", "quick-logistic", "covtype"]
    command += ["--output", str(tmp_path)]
    first = subprocess.run(
        [*command, "--rivals", "sklearn"], check=True, capture_output=True, text=True
    )
    assert "covtype: skipped" in first.stdout
    # What is not run again is kept.
    subprocess.run([*command, "--rivals", "loop"], check=True, capture_output=True)
    with (tmp_path / "runs.csv").open() as stream:
        records = {
            (row["problem"], row["rival"]): row for row in csv.DictReader(stream)
        }
    rivals = ("skcara", "sklearn CV class", "loop of skcara fits")
    assert {("quick-lasso", rival) for rival in rivals} <= records.keys()
    for problem in ("quick-lasso", "quick-logistic"):
        assert float(records[problem, "skcara"]["score_error"]) <= 1e-6
    # The judge is not a copy of what it judges.
    assert float(records["quick-lasso", "sklearn CV class"]["score_error"]) > 1e-6
    report = (tmp_path / "README.md").read_text()
    assert report.count("| loop of skcara fits |") == 2


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
def test_exact_fold_fits_agree_with_the_reference(bench, l1_ratio, global_random_seed):
    """Two ways to the errors of exact fits agree: by QR factors and by Newton steps."""
    problem = make(bench, "squared", 0.0, 0.0, global_random_seed)
    search = bench["search_problems"].SearchProblem(
        "test",
        "squared",
        problem.X,
        problem.y,
        bench["search_problems"].folds("squared"),
        (l1_ratio,),
    )
    reference = bench["search_reference"]
    exact = reference.exact_errors(search)
    places = reference.judged_places(search)
    for fold, (train, test) in enumerate(search.splits[: len(exact)]):
        for column, strength in enumerate(search.strengths[0, places]):
            own = bench["problems"].BenchProblem(
                "fold",
                "squared",
                problem.X[train],
                problem.y[train],
                l1=l1_ratio * strength,
                l2=(1 - l1_ratio) * strength,
            )
            coef, intercept, _ = bench["reference"].solve_reference(own)
            residual = problem.y[test] - (problem.X[test] @ coef + intercept)[:, 0]
            assert exact[fold, 0, column] == pytest.approx(
                np.mean(residual**2), rel=1e-10
            )
