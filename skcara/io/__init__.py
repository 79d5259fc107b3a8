"""Rows that are larger than memory, or than one machine.

:func:`from_parquet`, :func:`from_chunks` and :func:`from_dask` make sources, which
``fit`` takes in the place of ``X`` and ``y``.
"""

from skcara.io._chunks import from_chunks
from skcara.io._dask import from_dask
from skcara.io._parquet import from_parquet
from skcara.io._source import DataSource

__all__ = ["DataSource", "from_chunks", "from_dask", "from_parquet"]
