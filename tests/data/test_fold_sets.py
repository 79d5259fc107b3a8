"""Sets of folds: which rows a piece has, and which folds they belong to."""

import numpy as np
import pytest

from skcara.data import Chunk, FoldBatch, FoldSets


@pytest.mark.parametrize("n_rows", [7, 3000])
@pytest.mark.parametrize("n_atoms", [1, 3])
def test_pieces_have_every_row_once_with_its_own_folds(n_rows, n_atoms):
    rng = np.random.default_rng(0)
    atom = rng.integers(0, n_atoms, n_rows)
    atom[-n_atoms:] = np.arange(n_atoms)
    test = np.eye(n_atoms, dtype=int)
    sets = FoldSets([FoldBatch(None, 1 - test, test)])
    numbers = np.arange(float(n_rows))
    chunk = Chunk(0, numbers[:, None], numbers, numbers + 1, atom)
    seen = []
    for piece, train, held_out in sets.pieces(chunk, 500):
        assert piece.n_rows <= 500
        rows = piece.rows[:, 0].astype(int)
        np.testing.assert_array_equal(piece.target, rows)
        np.testing.assert_array_equal(piece.weights, rows + 1)
        shape = (n_atoms, piece.n_rows)
        own = test[:, atom[rows]]
        np.testing.assert_array_equal(np.broadcast_to(held_out, shape), own)
        np.testing.assert_array_equal(np.broadcast_to(train, shape), 1 - own)
        seen.append(rows)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(n_rows))
