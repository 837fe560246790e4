"""Results of tests of single contrasts, with the attributes of statsmodels' ``ContrastResults``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import OptionError, shown
from dpstats.inference.moment_test import Contrast
from dpstats.results.tidy import tidy_contrasts


@dataclass(frozen=True, slots=True, repr=False)
class ContrastTest:
    """Tests of contrasts ``R beta = value``, one by one.

    Attributes
    ----------
    contrasts : tuple of Contrast
        In coded units of the response.
    values : ndarray
        Tested values, raw units, shape (m,).
    scale : float
        Half the response's range.
    is_private : bool
        False for simulated noise or none, which every print says.
    """

    contrasts: tuple[Contrast, ...]
    values: NDArray[np.float64]
    scale: float
    is_private: bool = True

    @property
    def effect(self) -> NDArray[np.float64]:
        """Estimated contrasts in raw units, shape (m,)."""
        return np.array([self.scale * contrast.shown for contrast in self.contrasts])

    @property
    def sd(self) -> NDArray[np.float64]:
        """Standard errors, sampling and privacy noise together, shape (m,)."""
        return np.array([self.scale * contrast.sd for contrast in self.contrasts])

    @property
    def tvalue(self) -> NDArray[np.float64]:
        """(effect - value) / sd, shape (m,)."""
        return (self.effect - self.values) / self.sd

    @property
    def statistic(self) -> NDArray[np.float64]:
        """Alias of `tvalue`."""
        return self.tvalue

    @property
    def pvalue(self) -> NDArray[np.float64]:
        """Two-sided p-values, dual to `conf_int`; shape (m,), or () for one contrast as in statsmodels."""
        found = [c.p_value(v / self.scale) for c, v in zip(self.contrasts, self.values, strict=True)]
        return np.squeeze(np.array(found))

    @property
    def c_names(self) -> list[str]:
        """Names of the contrasts: c0, c1, ..."""
        return [f"c{i}" for i in range(len(self.contrasts))]

    def conf_int(self, alpha: float = 0.05) -> NDArray[np.float64]:
        """Return confidence intervals of level 1 - alpha, shape (m, 2), in raw units."""
        level = check_alpha(alpha)
        return self.scale * np.array([contrast.interval(level) for contrast in self.contrasts])

    def summary_frame(self, xname: Sequence[str] | None = None, alpha: float = 0.05) -> pd.DataFrame:
        """Return the tests as a table with statsmodels' column names."""
        from statsmodels.iolib.summary import summary_params_frame

        return summary_params_frame(
            self._parts(alpha), yname="constraints", xname=list(xname or self.c_names), alpha=alpha, use_t=False
        )

    def tidy(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the tests as a table with broom's column names, one row per contrast.

        Columns ``contrast, null_value, estimate, std_error, statistic, p_value, conf_low, conf_high, privacy_error``.
        """
        return tidy_contrasts(self, alpha)

    def summary(self, xname: Sequence[str] | None = None, alpha: float = 0.05, title: str | None = None) -> Any:
        """Return the tests as a printable statsmodels table."""
        from statsmodels.iolib.summary import summary_params

        heading = "Test for Constraints" if title is None else title
        heading = heading if self.is_private else f"{heading} (NOT PRIVATE)".strip()
        return summary_params(
            self._parts(alpha),
            yname="constraints",
            xname=list(xname or self.c_names),
            alpha=alpha,
            use_t=False,
            title=heading or None,
        )

    def __repr__(self) -> str:
        return f"<ContrastTest{'' if self.is_private else ', NOT PRIVATE'}>\n{self.summary()}"

    def _parts(self, alpha: float) -> tuple[Any, ...]:
        return self, self.effect, self.sd, self.statistic, np.atleast_1d(self.pvalue), self.conf_int(alpha)


def check_alpha(alpha: float) -> float:
    """Return alpha if it lies strictly between 0 and 1.

    Raises
    ------
    OptionError
        Otherwise.
    """
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha < 1:
        raise OptionError(f"alpha must lie between 0 and 1, as in alpha=0.05; not {shown(alpha)}")
    return float(alpha)
