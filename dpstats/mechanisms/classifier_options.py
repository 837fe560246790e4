"""Options of the mechanisms of classifiers, as frozen objects that document themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from dpstats.errors import OptionError, shown
from dpstats.mechanisms.option_checks import require_choice, require_number


def _require_split(split: object, parts: tuple[str, ...]) -> None:
    numbers = split if isinstance(split, tuple | list) else ()
    fine = len(numbers) == len(parts) and all(
        not isinstance(part, bool) and isinstance(part, int | float) and 0 < part < 1 for part in numbers
    )
    if not fine or abs(math.fsum(numbers) - 1) > 1e-9:
        raise OptionError(
            f"split must be {len(parts)} shares above 0 that add up to 1, for {', '.join(parts)}; not {shown(split)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Objective perturbation with block noise, and intervals about the unregularised coefficients.

    A random linear term, as large in each direction as one row can move the score, is added to the loss. The minimiser
    is published, then the Hessian at it, with noise; one Newton step takes the ridge out again.

    Parameters
    ----------
    hessian_share : float
        Share of the budget for the Hessian, between 0 and 1.
    noise : {"auto", "laplace", "gaussian"}
        Law of the Hessian's noise. Gaussian noise needs delta or rho; "auto" takes the smaller one.

    Examples
    --------
    >>> Objective(hessian_share=0.3).noise
    'auto'
    """

    hessian_share: float = 0.25
    noise: Literal["auto", "laplace", "gaussian"] = "auto"

    def __post_init__(self) -> None:
        require_choice(self, {"noise": ("auto", "laplace", "gaussian")})
        require_number(self, "hessian_share", 0.0, 0.9)
        if self.hessian_share == 0:
            raise OptionError("hessian_share must be above 0: without a Hessian there is no inference")


@dataclass(frozen=True, slots=True, kw_only=True)
class WKLObjective:
    """Objective perturbation of Wang, Kifer and Lee (2019), with their confidence intervals.

    Parameters
    ----------
    penalty : float, optional
        c of the penalty c ||theta||^2, rows scaled to the unit ball. By default 1 / (n epsilon_1) for the logistic
        loss, the smallest for which the noise is as small as it can be, so that the interval is about the coefficients
        without a penalty as well; for a hinge loss the c that leaves 10 % of epsilon_1 to the determinant. With that,
        and with a fixed c, the interval is about the penalised coefficients, which the summary says.
    debias : bool
        Take the penalty out by one Newton step; intervals are then about the coefficients without it.
    split : tuple of float
        Shares of the budget for minimiser, Hessian and gradient covariance.

    Notes
    -----
    The shares of the paper are not known; .7, .15, .15 did best in simulations. A rho budget is spent by
    epsilon = sqrt(2 rho), as in the paper.

    Examples
    --------
    >>> WKLObjective(penalty=0.001).split
    (0.7, 0.15, 0.15)
    """

    penalty: float | None = None
    debias: bool = False
    split: tuple[float, float, float] = (0.7, 0.15, 0.15)

    def __post_init__(self) -> None:
        _require_penalty(self.penalty, optional=True)
        _require_split(self.split, ("minimiser", "Hessian", "gradient covariance"))
        if not isinstance(self.debias, bool):
            raise OptionError(f"debias must be True or False, not {shown(self.debias)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WKLOutput:
    """Output perturbation of Wang, Kifer and Lee (2019), with their confidence intervals.

    Parameters
    ----------
    penalty : float
        c of the penalty c ||theta||^2, rows scaled to the unit ball; noise is proportional to 1 / (n c), and the
        interval is about the penalised coefficients.
    split : tuple of float
        Shares of the budget for minimiser, Hessian and gradient covariance.

    Examples
    --------
    >>> WKLOutput().penalty
    0.001
    """

    penalty: float = 0.001
    split: tuple[float, float, float] = (0.7, 0.15, 0.15)

    def __post_init__(self) -> None:
        _require_penalty(self.penalty, optional=False)
        _require_split(self.split, ("minimiser", "Hessian", "gradient covariance"))


def _require_penalty(penalty: object, *, optional: bool) -> None:
    if penalty is None and optional:
        return
    number = not isinstance(penalty, bool) and isinstance(penalty, int | float)
    if not number or not 1e-12 <= penalty <= 1e6:  # type: ignore[operator]
        raise OptionError(f"penalty must be a number from 1e-12 to 1e6, not {shown(penalty)}")
