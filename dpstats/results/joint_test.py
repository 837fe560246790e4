"""Results of joint tests, with the attributes of statsmodels' Wald test results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from dpstats.errors import OptionError
from dpstats.inference.diagnostics import WEAK_JOINT_TEST, kappa
from dpstats.inference.estimates import LeastSquares, ModelSpace
from dpstats.inference.joint_test import score_test
from dpstats.inference.moments import NoisyMoments
from dpstats.results.constraints import Constraints


@dataclass(frozen=True, slots=True, repr=False)
class JointTest:
    """A joint test of m linear hypotheses.

    Attributes
    ----------
    statistic : float
        Chi-squared with m degrees of freedom, up to the law of the noise.
    pvalue : float
        Under the known law of the noise.
    df_num : int
        m, number of hypotheses.
    weak : bool
        True if the noise in X'X is so large that the test is approximate.
    is_floor : bool
        True if `pvalue` is the smallest that the simulated law can give, and the true one may be smaller.
    distribution : {"chi2", "F"}
        How the test prints itself: `f_test` shows chi-squared / m.
    """

    statistic: float
    pvalue: float
    df_num: int
    weak: bool
    is_floor: bool = False
    distribution: Literal["chi2", "F"] = "chi2"

    @property
    def df_denom(self) -> int:
        """Degrees of freedom of the chi-squared law, as statsmodels calls them in `wald_test`."""
        return self.df_num

    @property
    def fvalue(self) -> float:
        """Chi-squared / m."""
        return self.statistic / self.df_num

    def summary(self) -> str:
        """Return the test in one line."""
        note = "; weak moments: joint test approximate" if self.weak else ""
        shown = f"<={self.pvalue:.1g}" if self.is_floor else f"={self.pvalue:.4g}"
        size = f"F={self.fvalue:.4g}" if self.distribution == "F" else f"statistic={self.statistic:.4g}"
        return f"<Wald test ({self.distribution}): {size}, p-value{shown}, df={self.df_num}{note}>"

    def __repr__(self) -> str:
        return self.summary()


@dataclass(frozen=True, slots=True, repr=False)
class TermTests:
    """Joint tests, one per term of the formula.

    Attributes
    ----------
    table : pandas.DataFrame
        Indexed by term; columns ``statistic``, ``pvalue`` and ``df_constraint`` as in statsmodels.
    floored : tuple of str
        Terms whose p-value is the smallest that the simulated law can give; the true one may be smaller.
    """

    table: pd.DataFrame
    floored: tuple[str, ...] = ()

    def summary_frame(self) -> pd.DataFrame:
        """Return the table with statsmodels' column names."""
        return self.table.rename(columns={"statistic": "chi2", "pvalue": "P>chi2", "df_constraint": "df constraint"})

    def __repr__(self) -> str:
        frame = self.summary_frame()
        shown = [f"<={p:.1g}" if term in self.floored else f"{p:.4g}" for term, p in frame["P>chi2"].items()]
        return f"<TermTests>\n{frame.assign(**{'P>chi2': shown})}"


def joint_test(moments: NoisyMoments, space: ModelSpace, fit: LeastSquares, constraints: Constraints) -> JointTest:
    """Run a joint test.

    Raises
    ------
    OptionError
        If the constraints are linearly dependent.
    """
    rows = constraints.matrix
    if np.linalg.matrix_rank(rows) < len(rows):
        raise OptionError("the constraints are linearly dependent; leave out those that follow from the others")
    found = score_test(moments, space, fit, rows, constraints.tested / space.half)
    weak = kappa(moments, space) > WEAK_JOINT_TEST
    return JointTest(found.statistic, found.pvalue, found.df, weak, found.is_floor)


def term_tests(moments: NoisyMoments, space: ModelSpace, fit: LeastSquares, terms: Sequence[str]) -> TermTests:
    """Test for each term whether all its coefficients are 0."""
    names = dict.fromkeys(terms)
    rows = {name: np.eye(len(terms))[[term == name for term in terms]] for name in names}
    tests = {name: joint_test(moments, space, fit, Constraints(r, np.zeros(len(r)))) for name, r in rows.items()}
    table = pd.DataFrame(
        {
            "statistic": [test.statistic for test in tests.values()],
            "pvalue": [test.pvalue for test in tests.values()],
            "df_constraint": [test.df_num for test in tests.values()],
        },
        index=["Intercept" if name == "1" else name for name in names],
    )
    return TermTests(
        table, tuple(term for term, test in zip(table.index, tests.values(), strict=True) if test.is_floor)
    )
