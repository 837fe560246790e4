"""A model seen in released coded columns: the formula of the release itself, or any formula in its span."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DesignError
from dpstats.specification.checks import check_columns
from dpstats.specification.coding import (
    CodedColumns,
    Coding,
    coded_column,
    scalars_with_signs,
    vector_radii,
)
from dpstats.specification.design import Design, build_design
from dpstats.specification.model_columns import ModelColumn
from dpstats.specification.remember import remembered
from dpstats.specification.schema import Categorical, Column, Continuous, TableFacts


@dataclass(frozen=True, slots=True)
class ModelView:
    """A model's columns as linear maps of released coded columns (zone: public).

    Attributes
    ----------
    design : Design
        The model.
    contrast : ndarray
        L, shape (q, D_x).
    ones : ndarray or None
        Coefficients of the model columns that add up to 1 in every row, shape (q,); None if there are none.
    """

    design: Design
    contrast: NDArray[np.float64]
    ones: NDArray[np.float64] | None

    @property
    def has_constant(self) -> bool:
        """Whether the constant is in the span of the model's columns."""
        return self.ones is not None


@remembered
def full_view(coding: Coding) -> ModelView:
    """Return the view of the formula that was released, checked on public rows.

    Raises
    ------
    DesignError
        If its columns cannot be coded exactly, or are linearly dependent whatever the data.
    """
    return ModelView(coding.design, coding.contrast, check_columns(coding, coding.design, coding.contrast))


def embed(formula: str, coding: Coding) -> ModelView:
    """Return the view of another formula with the same response in the columns of a release.

    Raises
    ------
    FormulaError, SchemaError
        If the formula is not well formed over the release's columns.
    DesignError
        If it has another response, or a column outside the released span.
    """
    released = coding.design
    design = build_design(formula, released.schema, facts_of(released.schema.columns), rules=released.rules)
    if design.response.symbol != released.response.symbol:
        raise DesignError(f"{formula!r}: the release is about {released.endog_name!r}, not {design.endog_name!r}")
    contrast = np.array([_embed_column(column, coding) for column in design.columns])
    return ModelView(design, contrast, check_columns(coding, design, contrast))


def _embed_column(column: ModelColumn, coding: Coding) -> NDArray[np.float64]:
    design = coding.design
    scalars, radii = scalars_with_signs(design, coding.sign_factors), vector_radii(design, coding.noise)
    columns = CodedColumns(coding.blocks)
    candidates = [column] if column.expanded is None else [replace(column, polynomial=column.expanded), column]
    for candidate in candidates:
        try:
            return columns.combine(coded_column(candidate, coding.sign_factors, scalars, radii))
        except KeyError:
            continue
    raise DesignError(
        f"{column.name!r} is not in the span of the columns released for {design.formula!r}; a formula for this "
        "release may use its terms, parts of its interactions and lower powers"
    )


def facts_of(columns: Mapping[str, Column]) -> TableFacts:
    """Return the facts of a table that has the declared columns and nothing else."""
    kinds = {
        name: "number" if isinstance(c, Continuous) else "category" if isinstance(c, Categorical) else "bool"
        for name, c in columns.items()
    }
    return TableFacts(tuple(columns), kinds)
