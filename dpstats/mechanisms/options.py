"""Options of mechanisms and covariance types, as frozen objects that document themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpstats.errors import OptionError, shown


@dataclass(frozen=True, slots=True)
class SSP:
    """Least squares from one noisy release of all second moments.

    Parameters
    ----------
    noise : {"auto", "laplace", "gaussian"}
        Law of the noise. A pure budget allows Laplace, rho allows Gaussian, (epsilon, delta) allows both, and "auto"
        takes the one with the smaller forecast.
    reconcile : bool
        Let sums that must agree (the cells of two factors) agree before anything is estimated. Free, and never worse.

    Examples
    --------
    >>> SSP(noise="gaussian").reconcile
    True
    """

    noise: Literal["auto", "laplace", "gaussian"] = "auto"
    reconcile: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.noise, str) or self.noise not in ("auto", "laplace", "gaussian"):
            raise OptionError(f"noise must be 'auto', 'laplace' or 'gaussian', not {shown(self.noise)}")


def as_ssp(mechanism: str | SSP) -> SSP:
    """Return the options that a mechanism argument stands for.

    Raises
    ------
    OptionError
        If it is neither a known name nor an options object.
    """
    if isinstance(mechanism, SSP):
        return mechanism
    if not isinstance(mechanism, str) or mechanism not in ("auto", "ssp"):
        raise OptionError(f"mechanism must be one of 'auto', 'ssp' or dps.SSP(...), not {shown(mechanism)}")
    return SSP()


@dataclass(frozen=True, slots=True)
class HC0:
    """Heteroskedasticity-consistent standard errors, bought with a share of the budget.

    Parameters
    ----------
    share : float
        Share of the budget, of epsilon or of mu^2 and rho, between 0 and 1.

    Examples
    --------
    >>> HC0().share
    0.1
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        if isinstance(self.share, bool) or not isinstance(self.share, int | float) or not 0 < self.share < 1:
            raise OptionError(
                f"share must lie between 0 and 1, as in {type(self).__name__}(share=0.1); not {shown(self.share)}"
            )


@dataclass(frozen=True, slots=True)
class HC1(HC0):
    """`HC0` times n / (n - q), as in statsmodels.

    Examples
    --------
    >>> HC1(share=0.2).share
    0.2
    """
