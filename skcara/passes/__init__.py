"""What solvers may ask of the data: every sum over the rows that the package needs.

A solver yields these requests and is sent the answers; it never reads by itself. A
request that needs a pass is a :class:`~skcara.data.Task`, or becomes one together with
others of the same ``stack_key``: what they have in common is then computed once. A
request for single rows has a method ``fetch``. ``cost`` is the share of the data that
is read.
"""

from skcara.passes._columns import (
    BlockGrams,
    ColumnSquares,
    GroupProducts,
    column_pairs,
    pair_numbers,
)
from skcara.passes._curvature import CurvatureSums, EvaluateCurvature
from skcara.passes._evaluate import Evaluate, evaluate_first
from skcara.passes._fold_hessians import FoldHessians
from skcara.passes._fold_moments import FoldMoments
from skcara.passes._fold_scores import HeldOutConfusions, HeldOutScores
from skcara.passes._folds import EvaluateFolds, FoldSums
from skcara.passes._gram import DirectionSquare, Gram, GramSums, PreconditionedGram
from skcara.passes._hessian import Hessian
from skcara.passes._influence import DrawByLeverage, DrawInfluential
from skcara.passes._row_columns import AtomMasses, GatherColumns, RowColumns
from skcara.passes._single_rows import (
    Columns,
    Draw,
    Glance,
    Take,
    TakeBlock,
    TakenRows,
)

__all__ = [
    "AtomMasses",
    "BlockGrams",
    "ColumnSquares",
    "Columns",
    "CurvatureSums",
    "DirectionSquare",
    "Draw",
    "DrawByLeverage",
    "DrawInfluential",
    "Evaluate",
    "EvaluateCurvature",
    "EvaluateFolds",
    "FoldHessians",
    "FoldMoments",
    "FoldSums",
    "GatherColumns",
    "Glance",
    "Gram",
    "GramSums",
    "GroupProducts",
    "HeldOutConfusions",
    "HeldOutScores",
    "Hessian",
    "PreconditionedGram",
    "RowColumns",
    "Take",
    "TakeBlock",
    "TakenRows",
    "column_pairs",
    "evaluate_first",
    "pair_numbers",
]
