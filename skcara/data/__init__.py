"""Rows of the user's data, read in chunks: the lowest layer of the package."""

from skcara.data._atoms import (
    FoldBatch,
    atom_counts,
    fold_batches,
    most_atoms,
    row_labels,
    rows_of_test_set,
)
from skcara.data._blas import one_blas_thread
from skcara.data._chunk import Chunk, PartialTask, SumTask, Task
from skcara.data._coordinates import Coordinates
from skcara.data._fold_sets import FoldSets
from skcara.data._group_sums import group_sums
from skcara.data._linear import linear_predictions
from skcara.data._products import gram, predictions, stays_in_cache, weighted_sums
from skcara.data._reference import weighted_centre, weighted_square
from skcara.data._row_labels import ContiguousLabels, StackedLabels, labels_between
from skcara.data._rows import (
    append_ones,
    centred_strips,
    csr_view,
    in_order,
    row_range,
    rows_at,
    scaled_rows,
    sparse_moments,
    squared,
    squared_product,
    squared_sums,
    transposed,
    with_entries,
)
from skcara.data._sampling import (
    PriorityRows,
    random_generator,
    rare_uniforms,
    row_uniforms,
)
from skcara.data._source import (
    SPAN_CHUNKS,
    ArraySource,
    Facts,
    Source,
    TargetMoments,
    chunk_rows_for,
)
from skcara.data._sparse_gram import SparseGram
from skcara.data._sparse_pairs import SparsePairs
from skcara.data._threads import Threads

__all__ = [
    "SPAN_CHUNKS",
    "ArraySource",
    "Chunk",
    "ContiguousLabels",
    "Coordinates",
    "Facts",
    "FoldBatch",
    "FoldSets",
    "PartialTask",
    "PriorityRows",
    "Source",
    "SparseGram",
    "SparsePairs",
    "StackedLabels",
    "SumTask",
    "TargetMoments",
    "Task",
    "Threads",
    "append_ones",
    "atom_counts",
    "centred_strips",
    "chunk_rows_for",
    "csr_view",
    "fold_batches",
    "gram",
    "group_sums",
    "in_order",
    "labels_between",
    "linear_predictions",
    "most_atoms",
    "one_blas_thread",
    "predictions",
    "random_generator",
    "rare_uniforms",
    "row_labels",
    "row_range",
    "row_uniforms",
    "rows_at",
    "rows_of_test_set",
    "scaled_rows",
    "sparse_moments",
    "squared",
    "squared_product",
    "squared_sums",
    "stays_in_cache",
    "transposed",
    "weighted_centre",
    "weighted_square",
    "weighted_sums",
    "with_entries",
]
