"""Progress of reads: a bar on a terminal, lines elsewhere."""

import sys
import time
from importlib.util import find_spec


class Watch:
    """Is told about reads, and says nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def begin(self, n_rows: int | None):
        """Begin a read of so many rows; None if it will tell how many there are."""

    def advance(self, n_rows: int):
        """Note that so many rows more were read."""

    def end(self):
        """Note that all rows were read."""


class _Timed(Watch):
    """Counts reads, rows and seconds.

    Parameters
    ----------
    name : str
        Who reads.
    expected_reads : int
        About how many reads there will be.
    """

    def __init__(self, name: str, expected_reads: int):
        self._name, self._expected_reads = name, expected_reads
        self._n_reads = self._n_rows = 0
        self._started = 0.0

    def begin(self, n_rows):
        """Begin a read."""
        self._n_reads += 1
        self._n_rows, self._started = 0, time.perf_counter()

    def advance(self, n_rows):
        """Count rows."""
        self._n_rows += n_rows

    @property
    def _title(self):
        about = max(self._expected_reads, self._n_reads)
        return f"{self._name}: read {self._n_reads} of about {about}"

    @property
    def _speed(self):
        seconds = max(time.perf_counter() - self._started, 1e-9)
        return f"{self._n_rows / seconds:,.0f} rows/s"


class ReadLines(_Timed):
    """Prints a line after every read."""

    def end(self):
        """Print the rows and the speed of the read."""
        print(f"{self._title}: {self._n_rows:,} rows, {self._speed}")


class ReadBar(_Timed):
    """Draws one bar for all reads, which fills up during each of them.

    Parameters
    ----------
    name, expected_reads
        As for every watch that counts.
    console : rich.console.Console, optional
        Default the terminal.
    """

    def __init__(self, name, expected_reads, console=None):
        super().__init__(name, expected_reads)
        from rich import progress

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TextColumn("{task.fields[speed]}"),
            progress.TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
        )
        self._task = self._bar.add_task(name, total=None, speed="")

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *exception):
        self._bar.stop()

    def begin(self, n_rows):
        """Start at the left again."""
        super().begin(n_rows)
        self._bar.reset(self._task, total=n_rows, description=self._title, speed="")

    def advance(self, n_rows):
        """Fill the bar."""
        super().advance(n_rows)
        self._bar.update(self._task, completed=self._n_rows, speed=self._speed)

    def end(self):
        """Fill the bar to the end, also if nobody knew how long it would be."""
        self._bar.update(self._task, total=self._n_rows, refresh=True)


def make_watch(name: str, expected_reads: int, verbose) -> Watch | None:
    """Return what ``verbose`` asks for: None, a bar on a terminal, or lines."""
    if not verbose:
        return None
    is_drawn = sys.stdout.isatty() and find_spec("rich") is not None
    return (ReadBar if is_drawn else ReadLines)(name, expected_reads)
