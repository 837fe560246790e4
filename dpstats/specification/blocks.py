"""Coded columns in blocks, of which a row uses at most one column (methods: blocks, closure, reduction).

A coded column is (Chebyshev monomial of coded symbols) x (cell of some factors) x (column of a vector symbol). The
block of a column is the same without the choice of cell and vector column.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Degrees = tuple[tuple[str, int], ...]
"""Chebyshev degree per symbol text, sorted; the constant is ``()``."""


@dataclass(frozen=True, slots=True, order=True)
class Block:
    """A group of coded columns (zone: public).

    Attributes
    ----------
    degrees : tuple of (str, int)
        The monomial: Chebyshev degree of each coded symbol.
    factors : tuple of str
        Factors whose joint cell selects the column, sorted.
    vectors : tuple of str
        Vector symbols whose column enters as a factor, sorted.
    shape : tuple of int
        Levels of each factor, then width of each vector symbol.
    always_one : bool
        True if the entry of a complete row is always -1 or +1.
    squarable : bool
        True for a single numeric column whose square is a statistic of its own (not -1/+1).
    """

    degrees: Degrees
    factors: tuple[str, ...]
    vectors: tuple[str, ...]
    shape: tuple[int, ...]
    always_one: bool
    squarable: bool

    @property
    def n_columns(self) -> int:
        """Number of coded columns."""
        return math.prod(self.shape)

    @property
    def is_single(self) -> bool:
        """True for a block that is one numeric column (or the constant)."""
        return not self.factors and not self.vectors

    def positions(self) -> NDArray[np.intp]:
        """Return the cell and vector column of each coded column, shape (n_columns, len(shape)); read-only."""
        return _positions(self.shape)


@lru_cache(maxsize=64)
def _positions(shape: tuple[int, ...]) -> NDArray[np.intp]:
    found = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1) if shape else np.empty((1, 0))
    found = found.astype(np.intp)
    found.flags.writeable = False
    return found


def make_block(
    degrees: Degrees, factors: Iterable[str], vectors: Iterable[str], sizes: Mapping[str, int], signs: Iterable[str]
) -> Block:
    """Return a block; `sizes` holds levels per factor and width per vector symbol, `signs` the -1/+1 symbols."""
    factors, vectors, signs = tuple(sorted(factors)), tuple(sorted(vectors)), set(signs)
    is_sign = all(symbol in signs for symbol, _ in degrees)
    return Block(
        degrees,
        factors,
        vectors,
        tuple(sizes[name] for name in (*factors, *vectors)),
        always_one=is_sign and not vectors,
        squarable=not is_sign and not factors and not vectors,
    )


def lower_degrees(degrees: Degrees) -> list[Degrees]:
    """Return all divisors of a monomial, itself and the constant included."""
    ranges = [[(symbol, d) for d in range(degree + 1)] for symbol, degree in degrees]
    return [tuple((s, d) for s, d in choice if d > 0) for choice in itertools.product(*ranges)]


def close(blocks: Iterable[Block], sizes: Mapping[str, int], signs: Iterable[str]) -> list[Block]:
    """Add every divisor of every block, and the constant, in the order in which they are met."""
    signs = set(signs)
    found: dict[Block, None] = {make_block((), (), (), sizes, signs): None}
    for block in blocks:
        for degrees in lower_degrees(block.degrees):
            found[make_block(degrees, block.factors, block.vectors, sizes, signs)] = None
    return list(found)


def reduce(blocks: Sequence[Block]) -> list[Block]:
    """Drop blocks whose columns are sums of the columns of a finer block with the same monomial."""
    return [block for block in blocks if finer(block, blocks) is None]


def finer(block: Block, blocks: Iterable[Block]) -> Block | None:
    """Return a block with the same monomial and strictly more factors, or None."""
    for other in blocks:
        same = other.degrees == block.degrees and other.vectors == block.vectors
        if same and set(other.factors) > set(block.factors):
            return other
    return None
