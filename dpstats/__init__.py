"""Regression on confidential data: private coefficients, standard errors and intervals, styled like statsmodels."""

from dpstats import datasets
from dpstats.errors import (
    BudgetError,
    DataError,
    DesignError,
    DPStatsError,
    FormulaError,
    NotReleasedError,
    OptionError,
    SchemaError,
)
from dpstats.models.ols import dp_ols
from dpstats.results.results import DPResults
from dpstats.specification.schema import Binary, Categorical, Continuous, Schema

__version__ = "0.1.0.dev0"

__all__ = [
    "Binary",
    "BudgetError",
    "Categorical",
    "Continuous",
    "DPResults",
    "DPStatsError",
    "DataError",
    "DesignError",
    "FormulaError",
    "NotReleasedError",
    "OptionError",
    "Schema",
    "SchemaError",
    "datasets",
    "dp_ols",
]
