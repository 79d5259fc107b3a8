"""Text that the docstrings of the three estimators share.

One home for each sentence: a class docstring contains ``{solver_parameters}`` and
``{fitted_attributes}`` on lines of their own, and :func:`fill_docstring` puts the text
there.
"""

import inspect

SOLVER_PARAMETERS = """\
solver : {"auto", "canewton", "cabcd", "cagd"}, default="auto"
    The algorithm.

    - "auto": the fastest path that reaches `tol`; at present always "canewton".
    - "canewton": minimises the objective of a few thousand reweighted rows that
      have exactly the gradient of all rows, then builds the next such measure; with
      the squared loss and few columns, all that matters is collected in one read.
    - "cabcd": Carathéodory block coordinate descent, Algorithms 2 and 3 of [1]_, with
      all the block rules of [2]_.
    - "cagd": Carathéodory gradient descent, Algorithm 1 of [1]_.
recombination : {"auto", "calibration", "pivoting", "combined", "log", "cone", "tree", \
"litterer-lyons", "maalouf", "davis"} or None, default="auto"
    How measures are reduced, see :func:`skcara.recombine`; "auto" is calibration of a
    sample where the measure may be large, else pivoting. With None nothing is reduced
    and the solver becomes plain Newton, block coordinate descent or gradient descent
    on all rows.
block_size : int, default=2
    Coordinates per block. Used by "cabcd".
partition : {"VB", "Sort", "Order", "Avg"}, default="VB"
    How coordinates are grouped into blocks: variable blocks, blocks of similar
    curvature, consecutive coordinates, or blocks that mix large and small curvature.
    Used by "cabcd".
selection : {"GS", "Random", "Cyclic", "Perm", "Lipschitz", "GSD", "GSL", "GSDHb", \
"GSQ", "IHT"}, default="GS"
    Which block moves next; :func:`skcara.blocks.rule_params` translates the names of
    [2]_, and not every selection goes with every partition. Used by "cabcd".
fraction : "auto", float in (0, 1] or None, default="auto"
    How much moves in one round: with "GS" the share of the total absolute gradient
    whose coordinates move, in parallel blocks, with "Random" the share of the
    coordinates. None moves one block a round. "auto" is 0.75 for "VB" with "GS", 0.5
    for "VB" with "Random", else None. Used by "cabcd".
direction : {"auto", "gradient", "Lb", "Hb"}, default="auto"
    Step of a block: `step_size` times the gradient, the gradient divided by the
    Lipschitz constant of the block, or the Newton step of the block. Used by "cabcd".
step_size : "auto" or float, default="auto"
    Length of a gradient step; "auto" takes it from the curvature. Used by "cagd" and
    "cabcd".
momentum : float in [0, 1), default=0.0
    Heavy-ball momentum. Used by "cagd" and "cabcd".
control : {"auto", "lipschitz", "block-hessian", "secant", "secant-bb"}, \
default="auto"
    Model of the curvature that tells how long a reduced measure is trusted. Used by
    "cagd" and "cabcd".
max_inner_iter : "auto" or int, default="auto"
    Most steps on one reduced measure. Used by "cagd" and "cabcd"."""

RUN_PARAMETERS = """\
n_jobs : int, default=None
    Threads that read the data and work on blocks, as in joblib. The result does not
    depend on it.
random_state : int, RandomState or Generator instance or None, default=None
    Seed of the random choices: which rows enter a measure, and random block rules.
    None is a fixed seed.
verbose : int, default=0
    Print one line per outer round."""

FITTED_ATTRIBUTES = """\
n_features_in_ : int
    Number of columns seen during fit.
feature_names_in_ : ndarray of shape (`n_features_in_`,)
    Names of the columns, if all are strings.
solver_ : str
    The solver that ran.
strategy_ : str
    The way it took, for "canewton" one of "working sets", "coordinate descent",
    "row space", "statistics", "sample metric", "all rows", "newton", "secant steps",
    "calibrated sample", "recombined groups"; else "descent".
n_passes_ : float
    Full reads of the data; a step on a reduced measure counts as its share of rows.
n_recombinations_ : int
    Number of measures that a recombination method reduced.
n_calibrations_ : int
    Number of samples whose weights were calibrated to the full gradient.
support_ : ndarray of int or None
    Rows of the last reduced measure; None if nothing was reduced.
support_weights_ : ndarray or None
    Their weights, summing to the total sample weight: an estimator fitted on
    ``X[support_], y[support_]`` with these weights sees the scale of the full data.
objective_ : float
    Mean loss plus penalty on the full data at the returned coefficients.
optimality_ : float
    Largest distance of the gradient of `objective_` to what is optimal, on the full
    data, intercept included.
history_ : ndarray with named fields
    One record per outer round: `round`, `passes`, `seconds`, `objective`,
    `optimality`, `support_size`, `inner_steps`, `criterion` (what is compared with
    `tol`)."""

REFERENCES = """\
.. [1] F. Cosentino, H. Oberhauser, A. Abate, "Carathéodory Sampling for Stochastic
   Gradient Descent", 2020, arXiv:2006.01819.
.. [2] J. Nutini, I. Laradji, M. Schmidt, "Let's Make Block Coordinate Descent
   Converge Faster", Journal of Machine Learning Research 23, 2022."""


def fill_docstring(cls):
    """Class decorator that inserts the shared text into the docstring of ``cls``."""
    text = inspect.cleandoc(cls.__doc__)
    for field, shared in (
        ("{solver_parameters}", SOLVER_PARAMETERS),
        ("{run_parameters}", RUN_PARAMETERS),
        ("{fitted_attributes}", FITTED_ATTRIBUTES),
        ("{references}", REFERENCES),
    ):
        text = text.replace(field, shared)
    cls.__doc__ = text
    return cls
