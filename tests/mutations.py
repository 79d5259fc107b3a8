"""Breaks on purpose: each changes one line, and some test must notice.

::

    python tests/mutations.py                # all of them, some minutes
    python tests/mutations.py --only gap     # those with this word in their name

A copy of the package gets one break at a time, and the tests that are named with it
run against the copy. A break that survives is a promise that no test keeps. The breaks
are of what results rest on: certificates, weights, intercepts, acceptance of steps,
measures, folds, scores, the order of rows and of sums.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Break(NamedTuple):
    """One line of a module, what it is replaced by, and who must notice."""

    name: str
    module: str
    line: str
    replacement: str
    tests: str


CERTIFICATES = "tests/estimators/test_certificates.py"
WEIGHTS = "tests/estimators/test_weights.py"
OPTIMUM = "tests/estimators/test_optimum.py"
LASSO_CV = "tests/estimators/test_lasso_cv.py"
LOGISTIC_TWIN = "tests/estimators/test_logistic_twin.py"
ROUNDING = "tests/solvers/test_rounding.py"
BREAKS = [
    Break(
        "half of the duality gap",
        "objective/_criteria.py",
        "gap = objective + 0.5 * residual.square_error - dual",
        "gap = 0.5 * (objective - dual)",
        CERTIFICATES,
    ),
    Break(
        "dual gap of an infeasible point",
        "objective/_criteria.py",
        "shrink = l1 / largest if largest > l1 else 1.0",
        "shrink = 1.0",
        CERTIFICATES,
    ),
    Break(
        "rounding of a pass",
        "objective/_rounding.py",
        "bound = self.residual + self._in_sums * self._size",
        "bound = 0.0",
        ROUNDING,
    ),
    Break(
        "rounding of the Gram matrix",
        "passes/_gram.py",
        "n_roundings = depth + 2 * self._problem.n_params + _EXTRA",
        "n_roundings = 1e-3",
        ROUNDING,
    ),
    Break(
        "everything is optimal",
        "objective/_criteria.py",
        "return bool(mean <= expected) and np.count_nonzero(is_small) == is_small.size",
        "return True",
        CERTIFICATES,
    ),
    Break(
        "correlations at the bound of positivity",
        "objective/_criteria.py",
        "covariance[at_bound] = np.maximum(self.covariance[at_bound], 0.0)",
        "covariance[at_bound] = 0.0",
        f"{CERTIFICATES} tests/objective",
    ),
    Break(
        "violation at zero",
        "objective/_penalty.py",
        "np.maximum(np.abs(slope + pull) - (l1 - np.abs(pull)), 0.0)",
        "np.where(params == 0, 0.0 * slope, np.abs(slope + pull))",
        "tests/objective tests/solvers/test_canewton.py",
    ),
    Break(
        "violation away from zero",
        "objective/_penalty.py",
        "pull = np.sign(params) * l1",
        "pull = 0.0 * params * l1",
        "tests/objective tests/solvers/test_canewton.py",
    ),
    Break(
        "sample weights dropped",
        "passes/_gram.py",
        "        if chunk.weights is not None:",
        "        if False:",
        WEIGHTS,
    ),
    Break(
        "weights not normalised",
        "objective/_problem.py",
        "return chunk.weights / self.total_weight",
        "return chunk.weights",
        f"{WEIGHTS} tests/objective tests/passes",
    ),
    Break(
        "weights of classes dropped",
        "estimators/_class_weight.py",
        "weights = self._factors.take(self._codes[rows])",
        "weights = np.ones(len(self._codes[rows]))",
        WEIGHTS,
    ),
    Break(
        "intercept penalised",
        "estimators/_base.py",
        "penalty.l2[:n_features] = l2",
        "penalty.l2[:] = l2",
        OPTIMUM,
    ),
    Break(
        "intercept in other coordinates",
        "data/_coordinates.py",
        "return coef, params[-1] - shift @ coef",
        "return coef, params[-1]",
        f"{OPTIMUM} tests/data/test_coordinates.py",
    ),
    Break(
        "intercept of predictions",
        "data/_linear.py",
        "            part += intercept",
        "            pass",
        "tests/data/test_linear.py tests/estimators/test_predictions.py",
    ),
    Break(
        "every Newton step is accepted",
        "solvers/newton/_newton.py",
        "if trial.objective <= anchor.objective - required + noise:",
        "if True:",
        "tests/solvers/test_canewton.py tests/solvers/test_outside_loss.py",
    ),
    Break(
        "every step of a reduced measure is accepted",
        "solvers/newton/_reduced_steps.py",
        "required = 2 * SUFFICIENT_DECREASE * share * predicted",
        "required = -np.inf",
        "tests/solvers/test_canewton.py tests/solvers/test_calibration.py "
        "tests/solvers/test_outside_loss.py",
    ),
    Break(
        "slope of the barrier",
        "solvers/newton/_interior.py",
        "return self._l1 * x / self.bounds(x)",
        "return self._l1 * x / (2 * self.bounds(x))",
        "tests/solvers/test_interior.py",
    ),
    Break(
        "steps through the interior are not taken",
        "solvers/newton/_reduced_steps.py",
        "if effort > _MAX_EFFORT and problem.has_hard_signs:",
        "if False:",
        "tests/solvers/test_interior.py",
    ),
    Break(
        "classes without a penalty drift together",
        "solvers/_quadratic.py",
        "return anchor + self._without_drift(params - anchor)",
        "return params",
        "tests/solvers/test_quadratic.py",
    ),
    Break(
        "secant updates forget which columns are flat",
        "solvers/_quadratic.py",
        "shared = self.l1, self.positive, self._n_outputs, self._flat_columns",
        "shared = self.l1, self.positive, self._n_outputs",
        "tests/solvers/test_quadratic.py",
    ),
    Break(
        "a tiny objective has to be as near as a large one",
        "solvers/_rounds.py",
        "return 0 <= objective <= share or self",
        "return self",
        "tests/solvers/test_interior.py",
    ),
    Break(
        "every move of blocks is accepted",
        "solvers/descent/_safeguard.py",
        "return trial.objective <= evaluation.objective + slack",
        "return True",
        "tests/solvers/test_cabcd.py tests/solvers/test_cagd.py",
    ),
    Break(
        "predicted decrease is not asked for",
        "solvers/_rounds.py",
        "self.predicted() <= share * abs(objective)",
        "True",
        f"tests/solvers/test_driver.py tests/solvers/test_canewton.py {OPTIMUM}",
    ),
    Break(
        "ceiling at the objective at zero",
        "solvers/_ceiling.py",
        "is_above = not item.evaluation.objective <= ceiling * (1 + _NOISE)",
        "is_above = False",
        "tests/solvers/test_ceiling.py",
    ),
    Break(
        "rows of weight zero are read",
        "data/_source.py",
        "chunk = self._without_idle_rows(self._chunk(part.start, part))",
        "chunk = self._chunk(part.start, part)",
        "tests/estimators/test_idle_rows.py",
    ),
    Break(
        "calibration is not verified",
        "recombination/_calibration.py",
        "is_exact = (error <= allowed).all()",
        "is_exact = True",
        "tests/solvers/test_calibration.py tests/recombination",
    ),
    Break(
        "calibrated masses may vanish",
        "recombination/_calibration.py",
        "is_kept = masses > least_factor * base",
        "is_kept = masses > -np.inf",
        "tests/solvers/test_calibration.py tests/recombination",
    ),
    Break(
        "residual of a measure",
        "recombination/_verification.py",
        "return float((difference / scale).max()), mass_error",
        "return 0.0, mass_error",
        "tests/recombination",
    ),
    Break(
        "scale of the weights of a support",
        "estimators/_base.py",
        "None if one is None else one.weights * total_weight for one in measures",
        "None if one is None else one.weights for one in measures",
        "tests/estimators/test_sklearn_tools.py tests/io/test_fit.py",
    ),
    Break(
        "answers of a stack in another order",
        "passes/_evaluate.py",
        "return [slice(*pair) for pair in pairwise(edges)]",
        "return [slice(*pair) for pair in pairwise(edges)][::-1]",
        "tests/passes tests/estimators/test_shared_reads.py",
    ),
    Break(
        "control statistic of half the curvature",
        "solvers/descent/_control.py",
        "        return bound * np.diag(metric)",
        "        return 0.5 * bound * np.diag(metric)",
        "tests/solvers/test_inner.py tests/solvers/test_curvature.py "
        "tests/solvers/test_cagd.py tests/solvers/test_steps.py",
    ),
    Break(
        "curvature of a secant",
        "solvers/descent/_control.py",
        "curvature = (secant.gradient @ secant.params) / moved",
        "curvature = 2 * (secant.gradient @ secant.params) / moved",
        "tests/solvers/test_curvature.py tests/solvers/test_cagd.py "
        "tests/solvers/test_steps.py tests/solvers/test_inner.py",
    ),
    Break(
        "the last rows of a span are not read",
        "data/_source.py",
        "yield slice(start, min(start + self.chunk_rows, last))",
        "yield slice(start, min(start + self.chunk_rows, last) - 1)",
        "tests/data/test_source.py tests/passes",
    ),
    Break(
        "variance of sparse columns",
        "data/_rows.py",
        "squared(centred).T @ weights + missing * offsets**2,",
        "squared(centred).T @ weights,",
        "tests/passes",
    ),
    Break(
        "membership in training sets",
        "data/_atoms.py",
        "return cls(labels, 1 - test, test)",
        "return cls(labels, 0 * test + 1, test)",
        f"tests/data/test_atoms.py {LASSO_CV}",
    ),
    Break(
        "membership of overlapping folds",
        "data/_atoms.py",
        "return in_test, codes % base, codes // base",
        "return in_test, codes // base, codes % base",
        "tests/data/test_atoms.py",
    ),
    Break(
        "sums of an atom in a later chunk",
        "solvers/paths/_atom_sums.py",
        "                    totals[atom] += sums",
        "                    totals[atom] = sums",
        "tests/solvers/test_paths_moments.py tests/solvers/test_paths_search.py",
    ),
    Break(
        "bias in a score of the squared loss",
        "solvers/paths/_validation.py",
        "return loss.squares(coefs) + bias**2, bounds",
        "return loss.squares(coefs), bounds",
        LASSO_CV,
    ),
    Break(
        "choice of the penalty",
        "solvers/paths/_penalty_search.py",
        "ratio, place = np.unravel_index(np.argmin(means), means.shape)",
        "ratio, place = np.unravel_index(np.argmax(means), means.shape)",
        LASSO_CV,
    ),
    Break(
        "correction of a logistic score",
        "solvers/paths/_fold_column.py",
        "self.score_loss = self._test.loss + correction",
        "self.score_loss = self._test.loss - correction",
        "tests/solvers/test_paths_column.py",
    ),
    Break(
        "rows that moved in a Hessian",
        "solvers/paths/_near_hessians.py",
        "self._shared -= self.sample.hessians(self._predictions, moved)",
        "self._shared -= self.sample.hessians(predictions, moved)",
        "tests/solvers/test_paths_sample.py",
    ),
    Break(
        "calibration of a fold",
        "solvers/paths/_fold_calibration.py",
        "return weights * np.clip(factors, _LEAST_FACTOR, _LARGEST_FACTOR)",
        "return weights / np.clip(factors, _LEAST_FACTOR, _LARGEST_FACTOR)",
        "tests/solvers/test_paths_sample.py",
    ),
    Break(
        "leverage of a row",
        "passes/_influence.py",
        'return np.einsum("rhdk,rhdk->rhk", products, products).max(axis=1)',
        'return np.einsum("rhdk,rhdk->rhk", products, products).min(axis=1)',
        "tests/solvers/test_sampling.py",
    ),
    Break(
        "weights of a logistic training set",
        "data/_fold_sets.py",
        "np.concatenate([batch.train @ mass for batch, mass in own]),",
        "np.concatenate([batch.train @ mass + 1 for batch, mass in own]),",
        "tests/estimators/test_logistic_cv.py",
    ),
    Break(
        "rows of an atom",
        "data/_fold_sets.py",
        "chosen = np.flatnonzero(chunk.atom == atom)",
        "chosen = np.flatnonzero(chunk.atom >= atom)",
        "tests/data/test_fold_sets.py",
    ),
    Break(
        "folds of an atom",
        "data/_fold_sets.py",
        "sets = batch.train[:, atom, None], batch.test[:, atom, None]",
        "sets = batch.test[:, atom, None], batch.test[:, atom, None]",
        "tests/data/test_fold_sets.py",
    ),
    Break(
        "units of a standardised search",
        "objective/_problem.py",
        "        if self.units is not None:",
        "        if False:",
        "tests/estimators/test_logistic_cv.py",
    ),
    Break(
        "moments that some targets know are collected for all",
        "passes/_evaluate.py",
        "return Evaluate, coordinates, self.group_rows, self.collects_moments",
        "return Evaluate, coordinates, self.group_rows, self.with_moments",
        "tests/passes/test_tasks.py",
    ),
    Break(
        "scales of folds without an outlier",
        "passes/_fold_moments.py",
        "is_far = sums * offset > _MAX_OFFSET**2 * scatter",
        "is_far = sums * offset > np.inf",
        "tests/passes/test_tasks.py",
    ),
    Break(
        "scatter between two parts of a fold",
        "passes/_fold_moments.py",
        "self.scatter += other.scatter + own * share * distance**2",
        "self.scatter += other.scatter",
        "tests/passes/test_tasks.py",
    ),
    Break(
        "moments of many alike rows",
        "recombination/_moments.py",
        'return np.multiply(values.T, masses, order="C").sum(axis=1)',
        "return (values.T * masses).T.sum(axis=0)",
        "tests/recombination/test_contract.py",
    ),
    Break(
        "order of a spill file",
        "io/_spill.py",
        "for start in range(first, self.n_rows, block_rows):",
        "for start in reversed(range(first, self.n_rows, block_rows)):",
        "tests/io/test_parquet.py tests/io/test_fit.py",
    ),
    Break(
        "order of the additions of a tree",
        "io/_sums.py",
        "pair = (other, result) if index & 1 else (result, other)",
        "pair = (result, other)",
        "tests/io/test_sums.py",
    ),
    Break(
        "errors of an exact sum",
        "io/_exact.py",
        "error = (left - (total - share)) + (right - share)",
        "error = right - share",
        "tests/io/test_sums.py",
    ),
    Break(
        "chunks that are cut",
        "io/_blocks.py",
        "start, waiting, n_waiting = start + chunk_rows, [], 0",
        "waiting, n_waiting = [], 0",
        "tests/io/test_blocks.py",
    ),
    Break(
        "a failed fit leaves what it has begun",
        "estimators/_base.py",
        "        vars(estimator).update(before)",
        "        pass",
        "tests/estimators/test_faults.py",
    ),
    Break(
        "the order of threads",
        "data/_threads.py",
        "            outcome = False, self._function(self._items[number])",
        "            outcome = False, self._function(self._items[number - 1])",
        "tests/data/test_threads.py",
    ),
    Break(
        "rounding of a prediction",
        "objective/_rounding.py",
        "self.residual = float(gamma(chain) * predicted + _EPS * read)",
        "self.residual = float(_EPS * read)",
        f"{ROUNDING} {CERTIFICATES}",
    ),
    Break(
        "penalty of a dual point",
        "objective/_criteria.py",
        "square = largest_square + l2 * (coef @ coef)",
        "square = largest_square",
        f"{CERTIFICATES} tests/objective",
    ),
    Break(
        "conjugate of the L2 term in a dual value",
        "objective/_criteria.py",
        "conjugate = excess @ excess / (2 * l2)",
        "conjugate = 0.0",
        f"{CERTIFICATES} tests/objective",
    ),
    Break(
        "covariance around the means",
        "objective/_criteria.py",
        "self.covariance -= offset * self.mean",
        "self.covariance -= 0.0",
        f"{CERTIFICATES} tests/objective tests/solvers/test_cagd.py",
    ),
    Break(
        "intercept next to coefficients of zero",
        "solvers/_quadratic.py",
        "        if np.count_nonzero(params):",
        "        if np.count_nonzero(params[self._is_bounded]):",
        "tests/solvers/test_quadratic.py",
    ),
    Break(
        "a lower objective outside of the tolerance",
        "solvers/_driver.py",
        "            self._best = self._accepted\n",
        "            pass\n",
        "tests/solvers/test_secant_steps.py",
    ),
    Break(
        "every Newton step of a fold is accepted",
        "solvers/paths/_fold_newton.py",
        "is_good = trials[2] <= values[waiting] - required + noise",
        "is_good = trials[2] <= np.inf",
        "tests/solvers/test_paths_newton.py",
    ),
    Break(
        "shifts of all outputs of a column",
        "solvers/_output_shifts.py",
        "    shift[is_behind & ~has_minimum] = 0.0\n",
        "    pass\n",
        "tests/solvers/test_output_shifts.py",
    ),
    Break(
        "models of classes that are rare in one fold",
        "solvers/paths/_fold_newton.py",
        "is_valid[doubtful] = self._are_right(predictions, doubtful)",
        "is_valid[doubtful] = True",
        "tests/estimators/test_logistic_cv.py",
    ),
    Break(
        "gradients that follow from another",
        "solvers/paths/_fold_reads.py",
        "gradient = gradient + (change - l2 * way).reshape(gradient.shape)",
        "gradient = gradient + change.reshape(gradient.shape)",
        "tests/solvers/test_paths_reads.py",
    ),
    Break(
        "weights of classes in log losses",
        "passes/_folds.py",
        "row_weights = row_weights * self.test_factors.take(piece.target)",
        "row_weights = 1.0 * row_weights",
        f"tests/passes {LOGISTIC_TWIN}",
    ),
    Break(
        "weights of classes in scores that count",
        "passes/_fold_scores.py",
        "weights = weights * self.factors.take(chunk.target)",
        "weights = 1.0 * weights",
        LOGISTIC_TWIN,
    ),
    Break(
        "rows that are held out several times",
        "passes/_fold_scores.py",
        "_, test = self.sets.counts(chunk.atom)",
        "test = self.sets.counts(chunk.atom)[1] > 0",
        LOGISTIC_TWIN,
    ),
    Break(
        "weights of classes in a scaler",
        "estimators/_logistic_search.py",
        "requests.append(FoldMoments(facts, sets, data.inverse_factors))",
        "requests.append(FoldMoments(facts, sets, None))",
        "tests/estimators/test_logistic_cv.py",
    ),
    Break(
        "classes that can be separated",
        "objective/_loss.py",
        "return int(np.count_nonzero((largest >= limit) & (largest > 0)))",
        "return 1",
        "tests/estimators/test_degenerate.py",
    ),
    Break(
        "weights of influential rows",
        "data/_sampling.py",
        "weights = np.maximum(rows.weights, threshold * rows.ratios)[order]",
        "weights = rows.weights[order]",
        "tests/data tests/solvers/test_sampling.py",
    ),
    Break(
        "masses of groups",
        "passes/_evaluate.py",
        "[np.add.reduceat(self._shares(chunk), edges)]",
        "[np.add.reduceat(0 * self._shares(chunk) + 1, edges)]",
        "tests/passes",
    ),
    Break(
        "predictions that overflow",
        "passes/_evaluate.py",
        "has_overflowed=not np.isfinite(squares[number])",
        "has_overflowed=False",
        "tests/passes",
    ),
    Break(
        "a step of a fold that was too long",
        "solvers/paths/_fold_column.py",
        "            self.params = 0.5 * (self.base + self.params)",
        "            self.params = self._candidate",
        "tests/solvers/test_paths_column.py",
    ),
    Break(
        "a model that goes uphill",
        "solvers/_quadratic.py",
        "return not self.decrease(start, slope, params) <= 64 * _EPS * terms",
        "return False",
        "tests/solvers/test_quadratic.py",
    ),
]


def apply(change: Break, package: Path):
    """Break the copy of a module; the line must be there exactly once."""
    module = package / change.module
    text = module.read_text()
    if text.count(change.line) != 1:
        raise LookupError(
            f"{change.name!r}: {text.count(change.line)} times in {change.module}: "
            f"{change.line.strip()!r}"
        )
    module.write_text(text.replace(change.line, change.replacement))


def is_noticed(change: Break) -> bool:
    """Whether the tests fail on a copy with this break."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("skcara", "tests"):
            shutil.copytree(
                ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for name in ("pyproject.toml", "setup.cfg", "examples", "doc", "README.md"):
            os.symlink(ROOT / name, copy / name)
        apply(change, copy / "skcara")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        run = subprocess.run(
            [*command, *change.tests.split()],
            cwd=copy,
            env=os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        # Anything but failed tests (1) or an error of the package (2) is a mistake.
        if run.returncode not in (0, 1, 2):
            raise RuntimeError(run.stdout[-2000:] + run.stderr[-2000:])
        return run.returncode != 0


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="word in the names of the breaks")
    options = parser.parse_args(arguments)
    survivors = 0
    for change in BREAKS:
        if options.only not in change.name:
            continue
        noticed = is_noticed(change)
        survivors += not noticed
        print(f"{'noticed ' if noticed else 'SURVIVED'} {change.name}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
