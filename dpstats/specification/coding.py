"""The coding of a design for one kind of noise: blocks, and the matrix L from coded to model columns.

Products and powers are monomials of coded columns, pure powers are Chebyshev polynomials, every factor is a full
one-hot block (or one -1/+1 column if it has two levels), so that a model row is ``L`` times the coded row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.specification import polynomials
from dpstats.specification.blocks import Block, Degrees, close, make_block, reduce
from dpstats.specification.design import Design, is_two_level
from dpstats.specification.grids import n_codes
from dpstats.specification.model_columns import ModelColumn
from dpstats.specification.polynomials import Polynomial, Symbol
from dpstats.specification.remember import remembered
from dpstats.specification.symbols import ScalarSymbol

NoiseKind = Literal["laplace", "gaussian"]
CodedKey = tuple[Degrees, tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]
"""Monomial, cell (factor, level) and vector column (symbol, index) of one coded column."""


@dataclass(frozen=True, slots=True, eq=False)
class Coding:
    """Coded columns of a design (zone: public).

    Attributes
    ----------
    design : Design
        What is coded.
    noise : {"laplace", "gaussian"}
        Two-level factors and vector symbols are coded by what suits the noise.
    blocks : tuple of Block
        Regressor blocks in coded order; the response is one more block, `response_block`.
    response_block : Block
        The response's single column, last in coded order.
    contrast : ndarray
        L, shape (q, D_x): model column j is ``contrast[j] @ z_x`` in raw units.
    constant : ndarray
        e_0, shape (D_x,): ``constant @ z_x`` is 1 for every complete row.
    sign_factors : tuple of str
        Two-level factors coded as one -1/+1 column.
    """

    design: Design
    noise: NoiseKind
    blocks: tuple[Block, ...]
    response_block: Block
    contrast: NDArray[np.float64]
    constant: NDArray[np.float64]
    sign_factors: tuple[str, ...]

    @property
    def signs(self) -> tuple[str, ...]:
        """All coded symbols that are always -1 or +1."""
        numeric = (name for name, symbol in self.design.scalars.items() if symbol.sign)
        return tuple(dict.fromkeys((*numeric, *self.sign_factors)))

    @property
    def all_blocks(self) -> tuple[Block, ...]:
        """Regressor blocks and the response's."""
        return (*self.blocks, self.response_block)

    @property
    def n_columns(self) -> int:
        """D: number of coded columns, the response included."""
        return sum(block.n_columns for block in self.all_blocks)


@remembered
def code_design(design: Design, noise: NoiseKind) -> Coding:
    """Choose blocks and L for a design under one kind of noise."""
    signs = _sign_factors(design, noise)
    scalars = scalars_with_signs(design, signs)
    radii = vector_radii(design, noise)
    coded = [coded_column(column, signs, scalars, radii) for column in design.columns]
    sizes = {name: symbol.width for name, symbol in design.vectors.items()}
    sizes |= {factor: n_codes(design.schema, factor) for column in design.columns for factor in column.weights}
    sign_symbols = [name for name, symbol in scalars.items() if symbol.sign]
    needed = [
        make_block(degrees, dict(cell), dict(vectors), sizes, sign_symbols)
        for keys in coded
        for degrees, cell, vectors in keys
    ]
    blocks = tuple(reduce(close(needed, sizes, sign_symbols)))
    response = make_block(((design.response.symbol.text, 1),), (), (), sizes, sign_symbols)
    columns = CodedColumns(blocks)
    contrast = np.array([columns.combine(keys) for keys in coded])
    constant = columns.combine({((), (), ()): 1.0})
    contrast.flags.writeable = constant.flags.writeable = False
    return Coding(
        design,
        noise,
        blocks,
        response,
        contrast,
        constant,
        signs,
    )


def scalars_with_signs(design: Design, signs: Sequence[str]) -> dict[str, ScalarSymbol]:
    """Return the design's scalar symbols and those that two-level factors are coded by."""
    extra = {name: ScalarSymbol(Symbol(name, (name,)), 0.0, 1.0, sign=True, evaluate=None) for name in signs}
    return {**extra, **design.scalars}


def vector_radii(design: Design, noise: NoiseKind) -> dict[str, float]:
    """Return the radius by which each vector symbol is divided."""
    return {name: v.radius_l1 if noise == "laplace" else v.radius_l2 for name, v in design.vectors.items()}


def _sign_factors(design: Design, noise: NoiseKind) -> tuple[str, ...]:
    """Two-level factors that one -1/+1 column serves better than an indicator block."""
    used = sorted({factor for column in design.columns for factor in column.weights})
    if noise == "gaussian" and len(used) == 1:
        return ()
    crossed = {factor for column in design.columns if len(column.weights) > 1 for factor in column.weights}
    return tuple(factor for factor in used if is_two_level(design.schema, factor) and factor not in crossed)


def coded_column(
    column: ModelColumn, signs: Sequence[str], scalars: Mapping[str, ScalarSymbol], radii: Mapping[str, float]
) -> dict[CodedKey, float]:
    """Expand a model column over coded columns."""
    raw = column.polynomial
    for factor in signs:
        if factor in column.weights:
            first, second = column.weights[factor]
            level = polynomials.single(Symbol(factor, (factor,)))
            raw = polynomials.multiply(raw, polynomials.add(polynomials.constant(first), level, second - first))
    monomials = coded_polynomial(raw, scalars)
    cells = [
        [((factor, level), weight) for level, weight in enumerate(weights) if weight != 0.0]
        for factor, weights in sorted(column.weights.items())
        if factor not in signs
    ]
    vectors = tuple(sorted((symbol.text, j) for symbol, j in column.vectors))
    radius = float(np.prod([radii[name] for name, _ in vectors]))
    keys: dict[CodedKey, float] = {}
    for (degrees, coefficient), *choice in itertools.product(monomials.items(), *cells):
        cell = tuple(pair for pair, _ in choice)
        keys[degrees, cell, vectors] = float(coefficient) * radius * float(np.prod([weight for _, weight in choice]))
    return keys


def coded_polynomial(raw: Polynomial, scalars: Mapping[str, ScalarSymbol]) -> dict[Degrees, Fraction]:
    """Rewrite a polynomial in raw symbols as a sum of Chebyshev monomials of the coded symbols.

    Parameters
    ----------
    raw : dict
        Polynomial in raw symbols.
    scalars : mapping of str to ScalarSymbol
        Bounds; the coded symbol is z = (raw - mid) / half, and z is -1 or +1 for a sign symbol.

    Returns
    -------
    dict of Degrees to Fraction
        Coefficients of the products of T_d(z).
    """
    total: dict[Degrees, Fraction] = {}
    for monomial, coefficient in raw.items():
        series = [list(_power_series(scalars[symbol.text], exponent).items()) for symbol, exponent in monomial]
        for choice in itertools.product(*series):
            degrees = tuple((s.text, d) for (s, _), (d, _) in zip(monomial, choice, strict=True) if d > 0)
            total[degrees] = total.get(degrees, Fraction(0)) + coefficient * math.prod(c for _, c in choice)
    return {degrees: coefficient for degrees, coefficient in total.items() if coefficient}


def _power_series(symbol: ScalarSymbol, exponent: int) -> dict[int, Fraction]:
    """Chebyshev coefficients of (mid + half z)**exponent; a 0/1 symbol equals its powers."""
    exponent = min(exponent, 1) if symbol.sign else exponent
    mid, half = Fraction(symbol.mid), Fraction(symbol.half)
    series: dict[int, Fraction] = {}
    for power in range(exponent + 1):
        weight = math.comb(exponent, power) * mid ** (exponent - power) * half**power
        for degree, share in _chebyshev_of_power(power).items():
            series[degree] = series.get(degree, Fraction(0)) + weight * share
    return series


def _chebyshev_of_power(power: int) -> dict[int, Fraction]:
    """Coefficients of z**power over T_0, T_1, ...: 2^(1 - power) binom(power, k) at degree power - 2k, halved at 0."""
    return {
        degree: Fraction(math.comb(power, (power - degree) // 2), 2 ** (power - (degree > 0)))
        for degree in range(power % 2, power + 1, 2)
    }


@dataclass(frozen=True, slots=True)
class CodedColumns:
    """Positions of coded columns."""

    blocks: Sequence[Block]

    def combine(self, keys: Mapping[CodedKey, float]) -> NDArray[np.float64]:
        """Return the row vector over coded columns that represents a sum of coded keys."""
        row = np.zeros(sum(block.n_columns for block in self.blocks))
        for key, coefficient in keys.items():
            row[self.find(*key)] += coefficient
        return row

    def find(
        self, degrees: Degrees, cell: tuple[tuple[str, int], ...], vectors: tuple[tuple[str, int], ...]
    ) -> NDArray[np.intp]:
        """Return the columns whose sum is one coded key; several where its block was dropped for a finer one."""
        start = 0
        wanted = dict(cell) | dict(vectors)
        for block in self.blocks:
            same = block.degrees == degrees and block.vectors == tuple(name for name, _ in vectors)
            if same and set(block.factors) >= {name for name, _ in cell}:
                names = (*block.factors, *block.vectors)
                keep = np.ones(block.n_columns, dtype=bool)
                for axis, name in enumerate(names):
                    if name in wanted:
                        keep &= block.positions()[:, axis] == wanted[name]
                return start + np.flatnonzero(keep)
            start += block.n_columns
        raise KeyError((degrees, cell, vectors))
