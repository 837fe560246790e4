"""Columns of the model matrix from formulaic's scoped terms, each a product that blocks can represent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DesignError
from dpstats.specification import polynomials
from dpstats.specification.expressions import Factor, Numeric, Reading, Vector
from dpstats.specification.formula import ParsedFormula
from dpstats.specification.polynomials import Polynomial, Symbol
from dpstats.specification.schema import Schema
from dpstats.specification.symbols import VectorSymbol


@dataclass(frozen=True, slots=True)
class ModelColumn:
    """One column of the model matrix: polynomial x contrast weights x vector columns (zone: public).

    Attributes
    ----------
    name : str
        As statsmodels prints it.
    term : str
        The formula term that it belongs to.
    polynomial : dict
        The numeric part, in raw symbols.
    text : str
        The expression of the numeric part.
    weights : dict of str to ndarray
        Per factor the column's value at each level, shape (L,).
    vectors : tuple of (Symbol, int)
        Columns of vector symbols that enter as factors.
    expanded : dict or None
        The numeric part before a lone product was made one transform; None if it was not.
    """

    name: str
    term: str
    polynomial: Polynomial
    text: str
    weights: Mapping[str, NDArray[np.float64]]
    vectors: tuple[tuple[Symbol, int], ...]
    expanded: Polynomial | None = None


def model_columns(
    parsed: ParsedFormula, specification: Any, vectors: Mapping[str, VectorSymbol], schema: Schema
) -> list[ModelColumn]:
    """Return the columns of the right-hand side in statsmodels' order.

    Parameters
    ----------
    parsed : ParsedFormula
        The formula with the readings of its factors.
    specification : formulaic.ModelSpec
        Learned on public rows.
    vectors : dict of str to VectorSymbol
        Splines and polynomials by their text.
    schema : Schema
        Declarations.
    """
    columns = []
    for structure in specification.structure:
        products = [
            product
            for scoped in structure.scoped_terms
            for product in _scoped_columns(scoped, parsed.readings, specification, vectors, schema)
        ]
        columns += [
            ModelColumn(name, str(structure.term), part.polynomial, part.text, part.weights, part.vectors)
            for name, part in zip(structure.columns, products, strict=True)
        ]
    return columns


def _scoped_columns(
    scoped: Any,
    readings: Mapping[str, Reading],
    specification: Any,
    vectors: Mapping[str, VectorSymbol],
    schema: Schema,
) -> Iterator[ModelColumn]:
    """Yield the columns of one scoped term, the first factor varying fastest, as formulaic orders them."""
    scale = ModelColumn("", "", polynomials.constant(scoped.scale), repr(scoped.scale), {}, ())
    encoded = [_encoded(f, readings[f.factor.expr], specification, vectors, schema) for f in scoped.factors]
    for choice in itertools.product(*reversed(encoded)):
        yield _product([scale, *reversed(choice)])


def _encoded(
    scoped_factor: Any, reading: Reading, specification: Any, vectors: Mapping[str, VectorSymbol], schema: Schema
) -> list[ModelColumn]:
    """Return the encoded columns of one factor, in formulaic's order."""
    one = polynomials.constant(1.0)
    if isinstance(reading, Numeric):
        return [ModelColumn("", "", reading.polynomial, reading.text, {}, ())]
    if isinstance(reading, Vector):
        first = 1 if scoped_factor.reduced else 0
        return [
            ModelColumn("", "", one, "1", {}, ((reading.symbol, j),))
            for j in range(first, vectors[reading.symbol.text].width)
        ]
    matrix = _contrast_matrix(scoped_factor, reading, specification, schema)
    return [ModelColumn("", "", one, "1", {reading.column: matrix[:, j]}, ()) for j in range(matrix.shape[1])]


def _contrast_matrix(scoped_factor: Any, reading: Factor, specification: Any, schema: Schema) -> NDArray[np.float64]:
    """Return the factor's coding matrix with rows in the schema's level order, shape (L, columns)."""
    expression = scoped_factor.factor.expr
    state = specification.encoder_state[expression][1]["contrasts"]
    column = schema[reading.column]
    levels = list(column.levels)  # type: ignore[union-attr]
    if set(state.levels) != set(levels):
        raise DesignError(f"{expression}: its levels {list(state.levels)} differ from the declared levels {levels}")
    matrix = state.get_coding_matrix(reduced_rank=scoped_factor.reduced)
    rows = [list(state.levels).index(level) for level in levels]
    return np.asarray(matrix, dtype=np.float64)[rows]


def _product(parts: Sequence[ModelColumn]) -> ModelColumn:
    polynomial = polynomials.constant(1.0)
    weights: dict[str, NDArray[np.float64]] = {}
    vectors: list[tuple[Symbol, int]] = []
    for part in parts:
        polynomial = polynomials.multiply(polynomial, part.polynomial)
        for factor, values in part.weights.items():
            weights[factor] = weights[factor] * values if factor in weights else values
        vectors += part.vectors
    text = " * ".join(f"({part.text})" for part in parts if part.text != "1") or "1"
    return ModelColumn("", "", polynomial, text, weights, tuple(vectors))
