"""Memory that the next chunk of a pass finds again.

Dask starts its workers with ``MALLOC_TRIM_THRESHOLD_=65536``, so that those which run
for days stay small: whenever 64 kilobytes at the end of the heap are free, glibc gives
them back to the system, and its other thresholds no longer follow what a program needs.
The vectors of a chunk are larger than that. Each of them is new memory then, to be
cleared page by page, for every chunk again: a pass takes 1.6 times as long with two
classes, twice with three, and 2.7 times in a search.

During a pass the heap keeps what is free, as it does where nobody sets that variable.
Afterwards everything is as it was.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache

# Names of the options in glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# What glibc starts with, and the most that it goes to by itself if it may.
_FIRST_MMAP_THRESHOLD = 128 * 2**10
_MMAP_THRESHOLD, _TRIM_THRESHOLD = 2**25, 2**26


def kept_heap() -> AbstractContextManager:
    """Context manager inside which the heap of this process keeps free memory.

    It changes nothing unless the environment keeps the heap small, and where the
    allocator is not that of glibc. The setting is one of the process.
    """
    threshold = _from_environment("MALLOC_TRIM_THRESHOLD_")
    if threshold is None or threshold >= _TRIM_THRESHOLD or _glibc() is None:
        return nullcontext()
    return _changed(threshold)


@contextmanager
def _changed(threshold: int) -> Iterator[None]:
    mapped = _from_environment("MALLOC_MMAP_THRESHOLD_") or _FIRST_MMAP_THRESHOLD
    try:
        _set_thresholds(_TRIM_THRESHOLD, max(mapped, _MMAP_THRESHOLD))
        yield
    finally:
        _set_thresholds(threshold, mapped)


def _set_thresholds(trim: int, mapped: int):
    libc = _glibc()
    libc.mallopt(_M_TRIM_THRESHOLD, trim)
    libc.mallopt(_M_MMAP_THRESHOLD, mapped)


def _from_environment(name: str) -> int | None:
    """Number of bytes in a variable; None if it is not there, or is none."""
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else None


@lru_cache(maxsize=1)
def _glibc():
    """Library of C with the functions of glibc, or None."""
    try:
        libc = ctypes.CDLL(None)
    except (OSError, TypeError):  # Windows has none for the whole process
        return None
    is_glibc = hasattr(libc, "gnu_get_libc_version") and hasattr(libc, "mallopt")
    return libc if is_glibc else None
