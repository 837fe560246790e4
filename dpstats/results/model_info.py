"""The part of a statsmodels model that table libraries look at: names and formula."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Names of a fitted model (zone: public).

    Attributes
    ----------
    formula : str
        As written.
    endog_names : str
        The response.
    exog_names : list of str
        The coefficients, in order.
    """

    formula: str
    endog_names: str
    exog_names: list[str]
