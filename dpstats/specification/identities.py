"""Linear identities among atoms that hold for every table: cell totals that agree (methods, 1.6)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.specification.atoms import Atoms, multiset
from dpstats.specification.blocks import Block

NEGLIGIBLE = 1e-9


@dataclass(frozen=True, slots=True)
class Identities:
    """C m = 0 for the exact atoms m of any table (zone: public).

    Attributes
    ----------
    matrix : ndarray
        C, shape (r, K), orthonormal rows; r = 0 where no sum is redundant.
    """

    matrix: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Table:
    """Atoms of one monomial over all cells of some factors."""

    factors: tuple[str, ...]
    cells: NDArray[np.intp]
    atoms: NDArray[np.intp]

    def total(self, base: Sequence[str], cell: Sequence[int], n_atoms: int) -> NDArray[np.float64]:
        """Return the row vector that adds up the atoms whose cell extends a base cell."""
        keep = np.ones(len(self.atoms), dtype=bool)
        for factor, level in zip(base, cell, strict=True):
            keep &= self.cells[:, self.factors.index(factor)] == level
        row = np.zeros(n_atoms)
        row[self.atoms[keep]] = 1.0
        return row


def find_identities(blocks: Sequence[Block], atoms: Atoms, signs: Sequence[str]) -> Identities:
    """Equate all totals of one monomial over one base cell that can be computed from different atoms.

    Parameters
    ----------
    blocks : sequence of Block
        All coded blocks in order, the response's included.
    atoms : Atoms
        Their atoms.
    signs : sequence of str
        Coded symbols that are always -1 or +1.
    """
    rows = []
    for tables in _tables(blocks, atoms, signs).values():
        bases = {tuple(sorted(set(a.factors) & set(b.factors))) for a, b in itertools.combinations(tables, 2)} | {
            table.factors for table in tables
        }
        for base in sorted(bases):
            finer = [table for table in tables if set(base) <= set(table.factors)]
            if len(finer) < 2:
                continue
            columns = [finer[0].factors.index(factor) for factor in base]
            for cell in sorted({tuple(cell) for cell in finer[0].cells[:, columns].tolist()}):
                first, *others = [table.total(base, cell, atoms.n_atoms) for table in finer]
                rows += [first - other for other in others]
    return Identities(_row_space(np.array(rows).reshape(len(rows), atoms.n_atoms)))


def _row_space(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    _, singular, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(right[singular > NEGLIGIBLE * max(float(singular.max(initial=0.0)), 1.0)])


def _tables(blocks: Sequence[Block], atoms: Atoms, signs: Sequence[str]) -> dict[object, list[_Table]]:
    """Group the atoms by monomial (and vector columns), and within it by the factors of their cell."""
    places = [(block, position) for block in blocks for position in block.positions().tolist()]
    grouped: dict[object, dict[tuple[str, ...], dict[tuple[int, ...], int]]] = {}
    for k, (left, right) in enumerate(zip(atoms.left.tolist(), atoms.right.tolist(), strict=True)):
        if left < 0 and atoms.weighted:
            continue
        key, cell = _describe(places[left], places[right], signs) if left >= 0 else (((), ()), {})
        factors = tuple(sorted(cell))
        grouped.setdefault(key, {}).setdefault(factors, {})[tuple(cell[f] for f in factors)] = k
    return {
        key: [
            _Table(
                factors,
                np.array(list(cells), dtype=np.intp).reshape(len(cells), len(factors)),
                np.array([*cells.values()]),
            )
            for factors, cells in by_factors.items()
        ]
        for key, by_factors in grouped.items()
    }


def _describe(
    first: tuple[Block, list[int]], second: tuple[Block, list[int]], signs: Sequence[str]
) -> tuple[tuple[object, object], dict[str, int]]:
    """Return the monomial and vector columns of a product, and its cell."""
    cell: dict[str, int] = {}
    vectors: list[tuple[str, int]] = []
    for block, position in (first, second):
        cell |= dict(zip(block.factors, position, strict=False))
        vectors += zip(block.vectors, position[len(block.factors) :], strict=True)
    return (multiset(first[0].degrees, second[0].degrees, signs), tuple(sorted(vectors))), cell
