"""Regression on confidential data: private coefficients, standard errors and intervals, styled like statsmodels."""

from dpstats import datasets
from dpstats.audits.audit import audit_fit
from dpstats.audits.report import AuditReport
from dpstats.errors import (
    BudgetError,
    BudgetExceeded,
    DataError,
    DesignError,
    DPStatsError,
    FormulaError,
    InfeasibleError,
    NotPrivateError,
    NotReleasedError,
    OptionError,
    ReleaseError,
    SchemaError,
)
from dpstats.mechanisms.classifier_options import Objective, WKLObjective, WKLOutput
from dpstats.mechanisms.options import HC0, HC1, SSP, AdaSSP, DiffLR, Functional, Huber
from dpstats.models.bounds import private_bounds
from dpstats.models.compare import compare
from dpstats.models.comparison import Comparison
from dpstats.models.comparison_plot import plot_comparison
from dpstats.models.levels import private_levels
from dpstats.models.logit import dp_logit
from dpstats.models.ols import dp_moments, dp_ols
from dpstats.models.svm import dp_svm
from dpstats.planning import Plan, plan
from dpstats.privacy.ledger import Ledger
from dpstats.results.budget_plot import plot_budget
from dpstats.results.classifier import DPLogitResults, DPSVMResults
from dpstats.results.effect_plot import plot_effect
from dpstats.results.huber import DPHuberResults
from dpstats.results.logit import DPTaylorLogitResults
from dpstats.results.plots import coefplot
from dpstats.results.point import PointResults
from dpstats.results.release import MomentRelease, fit_many, load_release
from dpstats.results.results import DPResults
from dpstats.results.tables import regression_table
from dpstats.specification.schema import Binary, Categorical, Continuous, Schema

__version__ = "0.1.0.dev0"

__all__ = [
    "HC0",
    "HC1",
    "SSP",
    "AdaSSP",
    "AuditReport",
    "Binary",
    "BudgetError",
    "BudgetExceeded",
    "Categorical",
    "Comparison",
    "Continuous",
    "DPHuberResults",
    "DPLogitResults",
    "DPResults",
    "DPSVMResults",
    "DPStatsError",
    "DPTaylorLogitResults",
    "DataError",
    "DesignError",
    "DiffLR",
    "FormulaError",
    "Functional",
    "Huber",
    "InfeasibleError",
    "Ledger",
    "MomentRelease",
    "NotPrivateError",
    "NotReleasedError",
    "Objective",
    "OptionError",
    "Plan",
    "PointResults",
    "ReleaseError",
    "Schema",
    "SchemaError",
    "WKLObjective",
    "WKLOutput",
    "audit_fit",
    "coefplot",
    "compare",
    "datasets",
    "dp_logit",
    "dp_moments",
    "dp_ols",
    "dp_svm",
    "fit_many",
    "load_release",
    "plan",
    "plot_budget",
    "plot_comparison",
    "plot_effect",
    "private_bounds",
    "private_levels",
    "regression_table",
]
