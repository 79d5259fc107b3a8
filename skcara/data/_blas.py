"""Cap on the threads of BLAS.

The products of a pass work on chunks that fit in the cache. Splitting such a product
over BLAS threads costs more than it saves (25 times slower on a busy machine), so a
fit runs with one BLAS thread and gets its parallelism from threads over chunks.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _controller():
    # Scanning the loaded libraries takes milliseconds: once per process is enough,
    # because numpy and scipy have loaded theirs by the time a fit starts.
    return ThreadpoolController().select(user_api="blas")


def one_blas_thread() -> AbstractContextManager:
    """Context manager inside which every BLAS product uses one thread."""
    controller = _controller()
    # Setting a limit takes a tenth of a small fit, asking for it next to nothing.
    if all(library.num_threads == 1 for library in controller.lib_controllers):
        return nullcontext()
    return controller.limit(limits=1)
