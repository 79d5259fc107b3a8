"""Cap on the threads of BLAS.

The products of a pass work on chunks that fit in the cache. Splitting such a product
over BLAS threads costs more than it saves (25 times slower on a busy machine), so a
fit runs with one BLAS thread and gets its parallelism from threads over chunks.
"""

from functools import lru_cache

from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _controller():
    # Scanning the loaded libraries takes milliseconds: once per process is enough,
    # because numpy and scipy have loaded theirs by the time a fit starts.
    return ThreadpoolController()


def one_blas_thread():
    """Context manager inside which every BLAS product uses one thread."""
    return _controller().limit(limits=1, user_api="blas")
