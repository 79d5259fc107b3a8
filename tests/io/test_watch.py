"""Reads of sources are shown while they happen: one bar, or a line each."""

import io
import re

import numpy as np
import pytest

from skcara import CaLasso, CaLogisticRegression
from skcara.data import chunk_rows_for
from skcara.io import from_chunks, from_dask
from skcara.io._watch import ReadBar, ReadLines, make_watch

N_ROWS, N_COLUMNS = 30_000, 4
CHUNK_ROWS = chunk_rows_for(N_COLUMNS, is_sparse=False)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, N_COLUMNS))
    return X, X.sum(axis=1) + rng.logistic(size=N_ROWS)


def source_of(X, y):
    return from_chunks(
        lambda: zip(np.array_split(X, 9), np.array_split(y, 9), strict=True)
    )


def read_lines(text):
    """Reads and rows of the lines about reads."""
    found = re.findall(r": read (\d+) of about \d+: ([\d,]+) rows, [\d,]+ rows/s", text)
    return [(int(read), int(rows.replace(",", ""))) for read, rows in found]


def test_one_line_for_every_read(data, capsys):
    X, y = data
    model = CaLogisticRegression(verbose=1).fit(source_of(X, y > 0))
    text = capsys.readouterr().out
    # The survey and the passes; what was read in steps on a sample is not a read.
    assert read_lines(text) == [(k + 1, N_ROWS) for k in range(len(read_lines(text)))]
    assert 3 <= len(read_lines(text)) <= 1 + model.n_passes_
    assert "CaLogisticRegression: read 1 of about 5" in text
    CaLogisticRegression().fit(source_of(X, y > 0))
    assert not capsys.readouterr().out


def test_dask_tells_its_reads(data, capsys):
    da = pytest.importorskip("dask.array")
    X, y = data
    CaLasso(0.01, verbose=1).fit(da.from_array(X, chunks=(7000, 4)), y)
    assert read_lines(capsys.readouterr().out) == [(1, N_ROWS), (2, N_ROWS)]
    # A source remembers what it found before the passes.
    source = from_dask(da.from_array(X, chunks=(7000, 4)), y)
    for expected in ([(1, N_ROWS), (2, N_ROWS)], [(1, N_ROWS)]):
        CaLasso(0.01, verbose=1).fit(source)
        assert read_lines(capsys.readouterr().out) == expected


def test_the_bar_fills_up_during_each_read(data):
    console = pytest.importorskip("rich.console")
    X, y = data
    terminal = console.Console(file=io.StringIO(), force_terminal=True, width=120)
    source, shown = source_of(X, y), []

    class Recorded(ReadBar):
        def advance(self, n_rows):
            super().advance(n_rows)
            (task,) = self._bar.tasks
            shown.append((self._n_reads, task.completed, task.total))

    with source.reading(2, Recorded("CaLasso", 2, terminal)):
        problem = source.for_regression()
        list(problem._reader.chunks())
    first = [row for row in shown if row[0] == 1]
    second = [row for row in shown if row[0] == 2]
    rows = [*range(CHUNK_ROWS, N_ROWS, CHUNK_ROWS), N_ROWS]
    assert first == [(1, done, None) for done in rows]
    assert second == [(2, done, N_ROWS) for done in rows]
    text = terminal.file.getvalue()
    assert "CaLasso: read 2 of about 2" in text
    assert re.search(r"100%.*[\d,]+ rows/s", text)


def test_nothing_watches_after_a_fit_or_an_error(data, capsys):
    X, y = data
    source = source_of(X, y)
    with pytest.raises(ZeroDivisionError), source.reading(1, ReadLines("me", 1)):
        raise ZeroDivisionError
    source.for_regression()
    assert not capsys.readouterr().out


def test_what_verbose_asks_for(monkeypatch):
    pytest.importorskip("rich")
    assert make_watch("me", 1, 0) is None
    assert type(make_watch("me", 1, 1)) is ReadLines
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert type(make_watch("me", 1, True)) is ReadBar


def test_callbacks_get_the_source(data):
    pytest.importorskip("sklearn.callback")
    X, y = data
    source, given = source_of(X, y), []

    class Listener:
        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
            given.append((X, y))

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if fitted_estimator is not None:
                first = next(fitted_estimator.predict(source))
                assert len(first) == CHUNK_ROWS

    CaLasso(0.01).set_callbacks(Listener()).fit(source)
    assert given
    assert all(X is source and y is None for X, y in given)
