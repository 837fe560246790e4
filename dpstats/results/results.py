"""The result of a private fit, with the protocol of a statsmodels result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from dpstats.errors import DataError, NotReleasedError
from dpstats.results.contrast_test import check_alpha
from dpstats.results.not_released import NOT_RELEASED
from dpstats.results.prediction import NEW_ROWS, LinearPredictions, MeanPredictions, predict_rows
from dpstats.results.statsmodels_class import StatsmodelsClass
from dpstats.results.tested import TestedModel
from dpstats.results.tidy import glance, tidy


class DPResults(TestedModel, StatsmodelsClass):
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

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_ols("hours_per_week ~ age + C(sex)", adult, epsilon=1, schema=schema)
    >>> bool((fit.bse > fit.bse_sampling).all())
    True
    >>> hasattr(fit, "resid")
    False
    """

    is_binary = False
    is_classifier = False
    is_perturbed = False
    """True if a perturbed minimiser was released, and `nobs` is the public length of the table."""

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
            raise NotReleasedError(NEW_ROWS)
        return predict_rows(self.design, self.params.to_numpy(), exog)

    def get_prediction(self, exog: Any = None) -> Any:
        """Predict the mean response for new rows, with intervals for the mean and for new observations.

        Parameters
        ----------
        exog : pandas.DataFrame or dict of array-like
            Rows with the regressors' raw columns.

        Returns
        -------
        MeanPredictions
            ``predicted_mean``, ``se_mean``, ``se_obs``, ``conf_int(obs, alpha)`` and ``summary_frame(alpha)``.

        Raises
        ------
        NotReleasedError, DataError
            As for `predict`.
        """
        if exog is None:
            raise NotReleasedError(NEW_ROWS)
        found = LinearPredictions.of(self.design, exog, self._moments, self._space, self._fit)
        return MeanPredictions(found, self.scale)

    def summary(
        self,
        yname: str | None = None,
        xname: Sequence[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
        slim: bool = False,
    ) -> Any:
        """Return a printable table: text, LaTeX, HTML or CSV, as in statsmodels; HTML in notebooks.

        Parameters
        ----------
        yname : str, optional
            What to print for the response's name.
        xname : sequence of str, optional
            What to print for the coefficients' names.
        title : str, optional
            Heading; "NOT PRIVATE" is added where it applies.
        alpha : float
            1 - alpha is the level of the intervals shown.
        slim : bool
            True for a shorter head and no notes but those on privacy and on what is estimated.

        Raises
        ------
        OptionError
            If an argument is out of range.
        """
        from dpstats.results.summary import Naming, summarize

        return summarize(self, check_alpha(alpha), Naming.of(self.model, yname, xname, title), slim=bool(slim))

    def summary2(self, *arguments: Any, **options: Any) -> Any:
        """Return `summary`, of which there is one style only; the arguments are those of `summary`."""
        return self.summary(*arguments, **options)

    def remove_data(self) -> None:
        """Do nothing, as there is no data to remove: a result holds released numbers and public facts."""

    def save(self, fname: Any, remove_data: bool = False) -> None:
        """Pickle the result; `load` reads it.

        Parameters
        ----------
        fname : str, Path or file
            Where to write.
        remove_data : bool
            As in statsmodels, and without effect.
        """
        from statsmodels.iolib.smpickle import save_pickle

        save_pickle(self, fname)

    @classmethod
    def load(cls, fname: Any) -> Any:
        """Read a result that `save` wrote. Unpickling runs code: load files that you trust only.

        Raises
        ------
        DataError
            If the file holds something else.
        """
        from statsmodels.iolib.smpickle import load_pickle

        found = load_pickle(fname)
        if not isinstance(found, cls):
            raise DataError(f"{str(fname)!r} does not hold a {cls.__name__}")
        return found

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
