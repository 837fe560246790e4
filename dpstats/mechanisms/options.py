"""Options of mechanisms and covariance types, as frozen objects that document themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar, cast

from dpstats.errors import OptionError, shown
from dpstats.mechanisms.classifier_options import Objective, WKLObjective, WKLOutput
from dpstats.mechanisms.option_checks import require_choice, require_instance, require_number


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
        require_choice(self, {"noise": ("auto", "laplace", "gaussian")})


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoisyObjective:
    """What `Functional` and `DiffLR` share; described there."""

    sensitivity: Literal["tight", "paper", "code"] = "tight"
    scaling: Literal["box", "ball"] = "box"
    entries: Literal["triangle", "full"] = "triangle"
    bounded: Literal["regularize+trim", "regularize", "trim", "repeat"] = "regularize+trim"
    multiple: float = 4.0

    _choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "sensitivity": ("tight", "paper"),
        "scaling": ("box", "ball"),
        "entries": ("triangle", "full"),
        "bounded": ("regularize+trim", "regularize", "trim", "repeat"),
    }

    def __post_init__(self) -> None:
        require_choice(self, self._choices)
        require_number(self, "multiple", 0.0, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Functional(_NoisyObjective):
    """The functional mechanism: Laplace noise on the coefficients of the objective (Zhang et al. 2012).

    Parameters
    ----------
    sensitivity : {"tight", "paper", "code"}
        ``"tight"`` is proved in `dpstats.specification.objectives`; ``"paper"`` is the published one, 2 (d + 1)^2 for
        least squares and d^2 / 4 + 3 d for the logistic loss; ``"code"`` that of the authors' program, without the
        constant term.
    scaling : {"box", "ball"}
        Columns in [-1, 1], as in the authors' code, or ||x|| <= 1, as in the text of their paper ([0, 1 / sqrt(d)]
        beside an intercept).
    entries : {"triangle", "full"}
        Noise on the upper triangle of X'X, copied, or on all ordered pairs, averaged (as in the authors' code).
    bounded : {"regularize+trim", "regularize", "trim", "repeat"}
        How the noisy objective is kept bounded: a ridge, dropping directions of non-positive curvature, both, or
        drawing noise again until it is bounded. Each draw of ``"repeat"`` uses half of epsilon; its loop has no cap,
        and how long it takes can betray how many draws were rejected, so use it only where no one can see the time.
    multiple : float
        The ridge, as a multiple of the standard deviation of the noise in an entry of X'X: 4 in the paper, 5 in the
        authors' code.

    Notes
    -----
    The authors' program is ``Functional(sensitivity="code", entries="full", multiple=5)``, the text of their paper
    ``Functional(sensitivity="paper", scaling="ball")``.

    Examples
    --------
    >>> Functional().bounded
    'regularize+trim'
    """

    _choices: ClassVar[dict[str, tuple[str, ...]]] = {
        **_NoisyObjective._choices,
        "sensitivity": ("tight", "paper", "code"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLR(_NoisyObjective):
    """Diff-LR: the functional mechanism with separate budgets for X'X and X'y (Zheng and Zou 2016).

    Parameters
    ----------
    split : {"optimal", "proportional", "paper"}
        ``"optimal"`` minimises the expected excess risk, what the ridge biases and damps included; ``"proportional"``
        gives both parts the same noise scale and equals the functional mechanism without its constant; ``"paper"``
        gives X'X the stated `share`.
    share : float, optional
        epsilon_1 / epsilon of the split ``"paper"``, at least 1/2; .75 by default. The paper leaves it open.
    signal : float, optional
        Public guess of the norm of the coefficients on coded columns, for the split ``"optimal"``; .75 by default. A
        guess two and a half times too large or too small costs up to 30 % of the expected excess risk.
    sensitivity : {"tight", "paper"}
        ``"tight"`` is proved jointly for both parts in `dpstats.specification.objectives`; ``"paper"`` composes the
        published 2 d^2 and 4 d.
    scaling : {"box", "ball"}
        Columns in [-1, 1], as in the authors' code, or ||x|| <= 1, as in the text of the functional mechanism's paper.
    entries : {"triangle", "full"}
        Noise on the upper triangle of X'X, copied, or on all ordered pairs, averaged.
    bounded : {"regularize+trim", "regularize", "trim", "repeat"}
        How the noisy objective is kept bounded: a ridge, dropping directions of non-positive curvature, both, or
        drawing noise again until it is bounded. Each draw of ``"repeat"`` uses half of epsilon; its loop has no cap,
        and how long it takes can betray how many draws were rejected, so use it only where no one can see the time.
    multiple : float
        The ridge, as a multiple of the standard deviation of the noise in an entry of X'X.

    Examples
    --------
    >>> DiffLR(split="paper", share=0.7).share
    0.7
    """

    split: Literal["optimal", "proportional", "paper"] = "optimal"
    share: float | None = None
    signal: float | None = None

    _choices: ClassVar[dict[str, tuple[str, ...]]] = {
        **_NoisyObjective._choices,
        "split": ("optimal", "proportional", "paper"),
    }

    def __post_init__(self) -> None:
        _NoisyObjective.__post_init__(self)
        for name, split, low, high in (("share", "paper", 0.5, 1.0), ("signal", "optimal", 0.0, math.inf)):
            if getattr(self, name) is not None:
                require_number(self, name, low, high)
                if self.split != split:
                    raise OptionError(f"{name} belongs to split={split!r}, not to split={self.split!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaSSP:
    """Adaptive sufficient statistics perturbation: noisy moments with a ridge that adapts to them (Wang 2018).

    Point estimates only: the ridge is chosen from released numbers and biases towards 0, so no interval is offered.
    Needs delta or rho.

    Parameters
    ----------
    scaling : {"box", "ball"}
        Columns in [-1, 1], or ||x|| <= 1.

    Examples
    --------
    >>> AdaSSP().scaling
    'box'
    """

    scaling: Literal["box", "ball"] = "box"

    def __post_init__(self) -> None:
        require_choice(self, {"scaling": ("box", "ball")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Huber:
    """Huber's robust regression by objective perturbation, with intervals about its coefficients (Huber 1964).

    Residuals count as they are up to a public threshold and no further, so that one row can move the fit by a known
    amount, and noise is needed for as many numbers as there are coefficients, not for all of X'X: far less noise than
    that of ``"ssp"``, for one model. As long as no residual exceeds the threshold the coefficients are those of least
    squares.

    Parameters
    ----------
    threshold : float
        As a share of the response's range, from .01 to 1. Noise is proportional to it. Where residuals beyond it are
        skewed and their spread depends on the columns, slopes differ from those of least squares.
    hessian_share : float, optional
        Share of the budget for the Hessian, from .01 to below .9. By default the smallest one from .15 to .28 at which
        the public forecast expects a kappa of .5 or less: a small share gives precise coefficients, a large one
        intervals that are bounded where there are few rows.
    noise : {"auto", "laplace", "gaussian"}
        Law of the noise on the Hessian and on the squared residuals. Gaussian noise needs delta or rho; "auto" takes
        the smaller one.

    Examples
    --------
    >>> Huber(threshold=0.5).noise
    'auto'
    """

    threshold: float = 0.25
    hessian_share: float | None = None
    noise: Literal["auto", "laplace", "gaussian"] = "auto"

    def __post_init__(self) -> None:
        require_choice(self, {"noise": ("auto", "laplace", "gaussian")})
        require_number(self, "threshold", 0.01, 1.0, closed=True, what="a share of the outcome's range, ")
        if self.hessian_share is not None:
            require_number(self, "hessian_share", 0.01, 0.9)


Mechanism = SSP | Huber | Functional | DiffLR | AdaSSP
Classifier = Objective | WKLObjective | WKLOutput

LEAST_SQUARES_MECHANISMS: dict[str, Mechanism] = {
    "auto": SSP(),
    "ssp": SSP(),
    "huber": Huber(),
    "functional": Functional(),
    "diff-lr": DiffLR(),
    "adassp": AdaSSP(),
}
CLASSIFIERS: dict[str, Classifier] = {
    "auto": Objective(),
    "objective": Objective(),
    "wkl-objective": WKLObjective(),
    "wkl-output": WKLOutput(),
}
LOGIT_MECHANISMS: dict[str, Classifier | Functional] = {**CLASSIFIERS, "functional": Functional()}
MOMENT_MECHANISMS: dict[str, SSP] = {"auto": SSP(), "ssp": SSP()}

Options = TypeVar("Options")


def as_mechanism(mechanism: object, known: Mapping[str, Options]) -> Options:
    """Return the options that a mechanism argument stands for.

    Parameters
    ----------
    mechanism : str or options object
        As the user wrote it.
    known : mapping of str to options
        What the model offers.

    Raises
    ------
    OptionError
        If it is neither a known name nor an options object of a known mechanism.
    """
    if isinstance(mechanism, tuple({type(options) for options in known.values()})):
        return cast("Options", mechanism)
    if isinstance(mechanism, str) and mechanism in known:
        return known[mechanism]
    require_instance("mechanism", mechanism, tuple(type(options) for options in known.values()))
    classes = sorted({f"dps.{type(options).__name__}(...)" for options in known.values()})
    names = ", ".join(map(repr, known))
    raise OptionError(f"mechanism must be one of {names} or {', '.join(classes)}, not {shown(mechanism)}")


@dataclass(frozen=True, slots=True)
class HC0:
    """Heteroskedasticity-consistent standard errors, bought with a share of the budget.

    Parameters
    ----------
    share : float
        Share of the budget, of epsilon or of mu^2 and rho, between 0 and 1.

    Notes
    -----
    The whole covariance of up to 100 coefficients is measured where its noise is little: with many rows and few
    coefficients for the budget, and always without noise. Elsewhere the variance of each coefficient is measured;
    contrasts of several, joint tests and predictions then keep the correlations of the model, and the summary says so.
    A contrast that is a coefficient, as after a change of the reference level, has a robust standard error.

    Examples
    --------
    >>> HC0().share
    0.1
    """

    share: float = 0.1

    @property
    def name(self) -> str:
        """As in statsmodels."""
        return type(self).__name__

    def __post_init__(self) -> None:
        if isinstance(self.share, bool) or not isinstance(self.share, int | float) or not 0 < self.share < 1:
            raise OptionError(
                f"share must lie between 0 and 1, as in {type(self).__name__}(share=0.1); not {shown(self.share)}"
            )


@dataclass(frozen=True, slots=True)
class HC1(HC0):
    """`HC0` times n / (n - q), as in statsmodels' OLS and R's sandwich; statsmodels' Logit has no such factor.

    Examples
    --------
    >>> HC1(share=0.2).share
    0.2
    """
