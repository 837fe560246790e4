"""The result of a private fit, with the protocol of a statsmodels result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import null_space

from dpstats.errors import NotReleasedError
from dpstats.inference.moment_test import contrasts
from dpstats.results.constraints import read_constraints
from dpstats.results.contrast_test import ContrastTest, check_alpha
from dpstats.results.fitted import FittedModel
from dpstats.results.joint_test import JointTest, TermTests, joint_test, term_tests
from dpstats.results.not_released import NOT_RELEASED
from dpstats.results.prediction import predict_rows
from dpstats.results.statsmodels_class import StatsmodelsClass
from dpstats.results.tidy import glance, tidy


class DPResults(FittedModel, StatsmodelsClass):
    """A fitted private linear model.

    Everything here is computed from one released vector of noisy moments, from public facts and from the known law of
    the noise. It holds no reference to the data and can be pickled.

    Attributes
    ----------
    model : ModelInfo
        ``endog_names``, ``exog_names`` and ``formula``.
    mechanism : str
        What was released, and with which noise.
    privacy : PrivacyCost
        What was spent, on what, under which neighbouring relation.
    declared : str
        Where bounds and levels came from.
    release : MomentRelease, ObjectiveRelease or PerturbedRelease
        The released sums; from a MomentRelease `refit` fits other formulas at no cost.

    Notes
    -----
    The estimand of the default mechanism is the least-squares projection of the response, clipped to its bounds, on the
    model columns formed from clipped columns, over complete rows; `estimand` says what it is.
    """

    is_binary = False
    is_classifier = False

    @property
    def model_name(self) -> str:
        """As the summary prints it."""
        return "DP OLS" if self.design.rules.weights is None else "DP WLS"

    @property
    def estimand(self) -> str:
        """What the coefficients, and the intervals about them, estimate."""
        return self.design.rules.describe(self.release.estimand)

    @property
    def outweighed(self) -> list[str]:
        """Coefficients of which a ridge makes up more than the data do; empty without a ridge."""
        retained = self.release.retained(self._moments, self._space, self._fit)
        return [name for name, share in zip(self.model.exog_names, retained, strict=True) if not share >= 0.5]

    @property
    def shares_release(self) -> bool:
        """True if another formula's release was fitted, whose cost is shared."""
        return self.model.formula != self.release.formula

    def t_test(self, r_matrix: Any) -> ContrastTest:
        """Test linear contrasts of the coefficients one by one.

        Parameters
        ----------
        r_matrix : str, list of str, array of shape (m, q), or tuple (array, values)
            Constraints as in statsmodels: ``"x1 = x2"``, ``"C(g)[T.b] = 0.5"``.

        Returns
        -------
        ContrastTest
            ``effect``, ``sd``, ``tvalue``, ``pvalue``, ``conf_int(alpha)``, ``summary_frame()``.

        Raises
        ------
        OptionError
            If the constraints cannot be read.
        """
        read = read_constraints(r_matrix, self.model.exog_names)
        found = contrasts(self._moments, self._space, self._fit, read.matrix)
        return ContrastTest(tuple(found), read.tested, self._space.half, self.privacy.is_private)

    def wald_test(self, r_matrix: Any, *, use_f: bool | None = None, scalar: bool | None = None) -> JointTest:
        """Test linear hypotheses jointly.

        Parameters
        ----------
        r_matrix : str, list of str, array of shape (m, q), or tuple (array, values)
            Constraints as in statsmodels.
        use_f : bool, optional
            True prints chi-squared / m, as `f_test` does.
        scalar : bool, optional
            As in statsmodels, and without effect: ``statistic`` is always a number.

        Returns
        -------
        JointTest
            ``statistic`` (chi-squared), ``pvalue``, ``df_denom``.

        Raises
        ------
        OptionError
            If the constraints cannot be read, or are linearly dependent.

        Notes
        -----
        A score test under the known law of the noise; under Laplace noise the p-value comes from 10,000 draws of it.
        """
        found = joint_test(self._moments, self._space, self._fit, read_constraints(r_matrix, self.model.exog_names))
        return replace(found, distribution="F") if use_f else found

    def f_test(self, r_matrix: Any) -> JointTest:
        """Test linear hypotheses jointly; the same test as `wald_test`, with ``fvalue`` = chi-squared / m."""
        return self.wald_test(r_matrix, use_f=True)

    def wald_test_terms(self) -> TermTests:
        """Test each term of the formula jointly, all coefficients of a term equal to 0."""
        terms = [column.term for column in self.design.columns]
        return term_tests(self._moments, self._space, self._fit, terms)

    def slopes_test(self) -> JointTest | None:
        """Test the model against the constant alone, or against 0 without one; None if there is nothing to test."""
        space = self._space
        rows = np.eye(space.n_params)[[c.term != "1" for c in self.design.columns]]
        if space.has_constant and len(rows) == space.n_params:  # as with 0 + C(g): the constant is a sum of columns
            rows = null_space(np.linalg.solve(space.r, space.q.T @ space.constant)[None]).T
        return self.wald_test(rows) if len(rows) else None

    def refit(self, formula: str) -> DPResults:
        """Fit another formula from the same release, at no further cost.

        Parameters
        ----------
        formula : str
            Same response; regressors in the span of the released columns. Standard errors are nonrobust: robust ones
            would need a release of their own.

        Raises
        ------
        FormulaError, SchemaError, DesignError
            If the formula is not well formed or not in the span.
        """
        refitted: DPResults = self.release.fit(formula)
        return refitted

    def predict(self, exog: Any = None) -> pd.Series:
        """Predict the response for new rows.

        Parameters
        ----------
        exog : pandas.DataFrame or dict of array-like
            Rows with the regressors' raw columns; the response is not needed.

        Returns
        -------
        pandas.Series
            In the response's unit (of the transformed response, if it is transformed). Values outside their bounds are
            clipped, as in the fit; rows with a missing entry or an undeclared level give nan.

        Raises
        ------
        NotReleasedError
            Without `exog`: predictions for the confidential rows are not released.
        DataError
            If a column is missing.
        """
        if exog is None:
            raise NotReleasedError(
                "predictions for the confidential rows were not released; pass new rows, predict(new_data)"
            )
        return predict_rows(self.design, self.params.to_numpy(), exog)

    def summary(self, alpha: float = 0.05) -> Any:
        """Return a printable table: text, LaTeX, HTML or CSV, as in statsmodels.

        Parameters
        ----------
        alpha : float
            1 - alpha is the level of the intervals shown.
        """
        from dpstats.results.summary import summarize

        return summarize(self, check_alpha(alpha))

    def tidy(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the coefficients as a table with broom's column names.

        Parameters
        ----------
        alpha : float
            1 - alpha is the level of the intervals.

        Returns
        -------
        pandas.DataFrame
            One row per coefficient: ``term, estimate, std_error, statistic, p_value, conf_low, conf_high``, and
            ``privacy_error``, the part of ``std_error`` that is privacy noise.

        Raises
        ------
        OptionError
            If alpha is not between 0 and 1.

        Examples
        --------
        >>> import dpstats as dps
        >>> adult, schema = dps.datasets.load_adult()
        >>> fit = dps.dp_ols("hours_per_week ~ age", adult, epsilon=1, schema=schema)
        >>> fit.tidy()["term"].tolist()
        ['Intercept', 'age']
        """
        return tidy(self, alpha)

    def glance(self) -> pd.DataFrame:
        """Return one row about the whole fit, with broom's column names.

        Returns
        -------
        pandas.DataFrame
            ``r_squared, adj_r_squared, sigma`` (of linear models only), ``statistic, p_value, df`` (all slopes jointly:
            chi-squared / df), ``df_residual, nobs``, and ``nobs_error``, the standard deviation of the noise in
            ``nobs``; then the guarantee in ``epsilon, delta, rho`` (nan where another notion was used, epsilon inf
            where nothing is protected), ``private`` and ``mechanism``.

        Examples
        --------
        >>> import dpstats as dps
        >>> adult, schema = dps.datasets.load_adult()
        >>> fits = [dps.dp_ols("hours_per_week ~ age", adult, epsilon=size, schema=schema) for size in (1, 2)]
        >>> pd.concat([fit.glance() for fit in fits])["epsilon"].tolist()
        [1.0, 2.0]
        """
        return glance(self)

    @property
    def default_model_infos(self) -> dict[str, Callable[[Any], str]]:
        """Rows that statsmodels' ``summary_col`` prints below our coefficients, if it is given no ``info_dict``."""
        from dpstats.results import table_columns

        return {
            "Observations": table_columns.observations,
            "Privacy": table_columns.guarantee,
            "Mechanism": lambda results: str(results.mechanism),
        }

    def __repr__(self) -> str:
        state = "" if self.privacy.is_private else ", NOT PRIVATE"
        return f"<{type(self).__name__}: {self.model.formula!r}, {self.privacy.budget}{state}>"

    def __getattr__(self, name: str) -> Any:
        if name in NOT_RELEASED:
            raise NotReleasedError(f"{name} was not released: {NOT_RELEASED[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
