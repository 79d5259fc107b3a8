"""Squared loss: sufficient statistics of all rows, or of a sample as a metric."""

from skcara.solvers.squared._sample import iterate_on_sample
from skcara.solvers.squared._squared import iterate_statistics

__all__ = ["iterate_on_sample", "iterate_statistics"]
