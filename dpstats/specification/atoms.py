"""Atoms: the distinct statistics among all products of two coded columns (methods: structural zeros, aliases).

The product of coded columns i and j is a monomial in a cell. Conflicting cells make a structural zero, which is not
released; products that are the same statistic share one atom and one noise draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.specification.blocks import Block, Degrees

STRUCTURAL_ZERO = -1


@dataclass(frozen=True, slots=True)
class Atoms:
    """The statistics that a moment release consists of (zone: public).

    Attributes
    ----------
    index : ndarray of int
        Shape (D, D), symmetric: atom of each product of coded columns, or `STRUCTURAL_ZERO`.
    left, right : ndarray of int
        Shape (K,): the one pair of coded columns from which each atom is computed; -1 for a count that is not a
        product.
    count : int
        Atom of the number of complete rows.
    weighted : bool
        True if rows have weights, so that the square of a column of ones is the sum of weights and not the count.
    rounds_twice : bool
        True if some atom is shared by products of differently rounded columns, such as x z and (xz) 1.
    """

    index: NDArray[np.int32]
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    count: int
    rounds_twice: bool
    weighted: bool = False

    @property
    def n_atoms(self) -> int:
        """K, the number of released sums."""
        return len(self.left)


def build_atoms(blocks: Sequence[Block], signs: Sequence[str], *, weighted: bool = False) -> Atoms:
    """Find the atoms of all products of the columns of `blocks`.

    Parameters
    ----------
    blocks : sequence of Block
        All coded blocks in order, the response's included.
    signs : sequence of str
        Coded symbols that are always -1 or +1; their square is 1.
    weighted : bool
        Whether rows have weights.
    """
    offsets = np.cumsum([0, *(block.n_columns for block in blocks)])
    index = np.full((offsets[-1], offsets[-1]), STRUCTURAL_ZERO, dtype=np.intp)
    starts: dict[object, int] = {}
    n_slots = 0
    for b, first in enumerate(blocks):
        for c, second in enumerate(blocks[b:], start=b):
            product = _product(first, second, signs)
            if product.key not in starts:
                starts[product.key] = n_slots
                n_slots += product.n_slots
            table = np.where(product.slots < 0, STRUCTURAL_ZERO, product.slots + starts[product.key])
            index[offsets[b] : offsets[b + 1], offsets[c] : offsets[c + 1]] = table
            index[offsets[c] : offsets[c + 1], offsets[b] : offsets[b + 1]] = table.T
    return _with_count(_compress(index, _signatures(blocks, signs)), blocks, weighted=weighted)


@dataclass(frozen=True, slots=True)
class _Product:
    """The products of two blocks: their common key, and the slot of each pair within it (-1 for conflicts)."""

    key: object
    n_slots: int
    slots: NDArray[np.intp]


def _product(first: Block, second: Block, signs: Sequence[str]) -> _Product:
    factors = sorted({*first.factors, *second.factors})
    vectors = sorted({*first.vectors, *second.vectors})
    slots = np.zeros((first.n_columns, second.n_columns), dtype=np.intp)
    conflict = np.zeros(slots.shape, dtype=bool)
    n_slots = 1
    once: list[tuple[str, bool]] = []
    for name in (*factors, *vectors):
        left, right = _axis(first, name), _axis(second, name)
        if left is None or right is None:
            levels, size = (left[0][:, None], left[1]) if left is not None else (right[0][None, :], right[1])  # type: ignore[index]
        elif name in factors:
            levels, size = left[0][:, None], left[1]
            conflict |= left[0][:, None] != right[0][None, :]
        else:
            low = np.minimum(left[0][:, None], right[0][None, :])
            levels, size = low * left[1] + np.maximum(left[0][:, None], right[0][None, :]), left[1] ** 2
        if name in vectors:
            once.append((name, left is None or right is None))
        slots = slots * size + levels
        n_slots *= size
    key = (multiset(first.degrees, second.degrees, signs), tuple(factors), tuple(once))
    return _Product(key, n_slots, np.where(conflict, STRUCTURAL_ZERO, slots))


def _axis(block: Block, name: str) -> tuple[NDArray[np.intp], int] | None:
    """Level or vector column of each coded column of a block along one of its names."""
    names = (*block.factors, *block.vectors)
    if name not in names:
        return None
    axis = names.index(name)
    return block.positions()[:, axis], block.shape[axis]


def multiset(first: Degrees, second: Degrees, signs: Sequence[str]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Degrees of each symbol in the two monomials; the square of a sign symbol vanishes."""
    degrees: dict[str, tuple[int, ...]] = {}
    for symbol, degree in (*first, *second):
        degrees[symbol] = tuple(sorted((*degrees.get(symbol, ()), degree)))
    return tuple(sorted((s, d) for s, d in degrees.items() if not (s in signs and len(d) == 2)))


def _signatures(blocks: Sequence[Block], signs: Sequence[str]) -> NDArray[np.int64]:
    """Return a number per coded column for how it is rounded: monomial and vector column, not signs and cells."""
    known: dict[object, int] = {}
    numbers = []
    for block in blocks:
        degrees = tuple((symbol, degree) for symbol, degree in block.degrees if symbol not in signs)
        for position in block.positions()[:, len(block.factors) :].tolist():
            key = (degrees, tuple(zip(block.vectors, position, strict=True)))
            numbers.append(known.setdefault(key, len(known)))
    return np.array(numbers, dtype=np.int64)


def _compress(index: NDArray[np.intp], signatures: NDArray[np.int64]) -> Atoms:
    """Return the used slots numbered 0, 1, ..., with one pair for each, a square where there is one."""
    rows, columns = np.triu_indices(len(index))
    order = np.argsort(rows != columns, kind="stable")
    rows, columns = rows[order], columns[order]
    flat = index[rows, columns]
    kept = flat != STRUCTURAL_ZERO
    used, first = np.unique(flat[kept], return_index=True)
    lookup = np.full(max(int(index.max()) + 2, 1), STRUCTURAL_ZERO, dtype=np.intp)
    lookup[used] = np.arange(len(used))
    left, right = rows[kept][first], columns[kept][first]
    pairs = np.sort(np.stack([signatures[rows[kept]], signatures[columns[kept]]]), axis=0)
    code = pairs[0] * (int(signatures.max()) + 1) + pairs[1]
    rounds_twice = bool((code != code[first][lookup[flat[kept]]]).any())
    return Atoms(lookup[index].astype(np.int32), left, right, STRUCTURAL_ZERO, rounds_twice)


def _with_count(atoms: Atoms, blocks: Sequence[Block], *, weighted: bool) -> Atoms:
    """Point `count` at the atom of the number of complete rows, adding it where no product equals it.

    With weights nothing equals it, and even columns of ones are rounded.
    """
    start = 0
    for block in () if weighted else blocks:
        if block.is_single and block.always_one:
            return Atoms(atoms.index, atoms.left, atoms.right, int(atoms.index[start, start]), atoms.rounds_twice)
        start += block.n_columns
    left, right = np.append(atoms.left, -1), np.append(atoms.right, -1)
    return Atoms(atoms.index, left, right, len(atoms.left), atoms.rounds_twice or weighted, weighted)
