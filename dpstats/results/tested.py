"""Hypothesis tests of a fitted private model, with the protocol of statsmodels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import null_space

from dpstats.inference.moment_test import contrasts
from dpstats.results.constraints import read_constraints
from dpstats.results.contrast_test import ContrastTest
from dpstats.results.fitted import FittedModel
from dpstats.results.joint_test import JointTest, TermTests, joint_test, term_tests
from dpstats.results.pairwise import PairwiseTests, pairwise_tests


class TestedModel(FittedModel):
    """A fitted model and its tests, one by one and jointly (zone: released)."""

    __test__ = False  # no test case of pytest

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

    def wald_test_terms(self, skip_single: bool = False, *, scalar: bool | None = None) -> TermTests:
        """Test each term of the formula jointly, all coefficients of a term equal to 0.

        Parameters
        ----------
        skip_single : bool
            True leaves out the terms that have one coefficient.
        scalar : bool, optional
            As in statsmodels, and without effect: statistics are always numbers.
        """
        terms = [column.term for column in self.design.columns]
        found = term_tests(self._moments, self._space, self._fit, terms)
        return replace(found, table=found.table[found.table["df_constraint"] > 1]) if skip_single else found

    def slopes_test(self) -> JointTest | None:
        """Test the model against the constant alone, or against 0 without one; None if there is nothing to test."""
        space = self._space
        rows = np.eye(space.n_params)[[c.term != "1" for c in self.design.columns]]
        if space.ones is not None and len(rows) == space.n_params:  # as with 0 + C(g): the constant is a sum of columns
            rows = null_space(np.linalg.solve(space.r, space.ones)[None]).T
        return self.wald_test(rows) if len(rows) else None

    @property
    def fvalue(self) -> float:
        """F of the test of all slopes: chi-squared / m of `slopes_test`; nan if there is nothing to test."""
        found = self.slopes_test()
        return math.nan if found is None else found.fvalue

    @property
    def f_pvalue(self) -> float:
        """The p-value that belongs to `fvalue`."""
        found = self.slopes_test()
        return math.nan if found is None else found.pvalue

    def t_test_pairwise(
        self,
        term_name: str,
        method: str | Sequence[str] = "hs",
        alpha: float = 0.05,
        factor_labels: Sequence[str] | None = None,
    ) -> PairwiseTests:
        """Test all pairs of a factor's levels, with correction for multiple testing.

        Parameters
        ----------
        term_name : str
            The factor's term by itself, such as ``"C(region)"``. Beside an interaction the levels are compared where
            its other part is 0 or at its reference, as in statsmodels.
        method : str or sequence of str
            Corrections of statsmodels' ``multipletests``; Holm-Sidak by default.
        alpha : float
            Level of the intervals (uncorrected) and of the decision.
        factor_labels : sequence of str, optional
            Other names for the levels.

        Returns
        -------
        PairwiseTests
            With ``result_frame`` and ``contrasts`` as in statsmodels.

        Raises
        ------
        OptionError
            If the term is no factor by itself, or another argument is out of range.
        """
        return pairwise_tests(self, term_name, method, alpha, factor_labels)

    def anova(self) -> pd.DataFrame:
        """Return the table of terms that statsmodels' ``anova_lm(fit, typ=3)`` gives, without sums of squares.

        Returns
        -------
        pandas.DataFrame
            One row per term, then ``Residual``: ``df``, ``F`` (chi-squared / df of `wald_test_terms`) and ``PR(>F)``.
            Sums of squares were not released; F and its p-value account for the privacy noise. Under Laplace noise the
            smallest p-value is 0.0001, because the law is simulated.
        """
        found = self.wald_test_terms().table
        table = pd.DataFrame(
            {
                "df": found["df_constraint"].astype(float),
                "F": found["statistic"] / found["df_constraint"],
                "PR(>F)": found["pvalue"],
            }
        )
        table.loc["Residual"] = [self.df_resid, np.nan, np.nan]
        return table
