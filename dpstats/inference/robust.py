"""Heteroskedasticity-consistent standard errors from a second, small release (White 1980; methods, 1.11).

At the released estimate, with l_j = L'A^-1 c_j for each coefficient c_j, the statistic is
H_j = sum_i (l_j'z_i)^2 psi_c(r_i)^2. l_j, the residual's coefficients and the clip c come from the first release, so
they are constants here. A row adds between 0 and U_j, so that replacing it moves H within prod_j [-U_j, U_j]: there is
no factor 2. Covariances of two coefficients come from the same statistic for the sum of their forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpstats.inference.estimates import LeastSquares, ModelSpace
from dpstats.inference.moments import NoisyMoments
from dpstats.specification.blocks import Block
from dpstats.specification.forms import Forms

CLIP = 4.0
LOWEST_RATIO = 0.2
SMALLEST = float(np.finfo(float).tiny ** 0.5)


@dataclass(frozen=True, slots=True)
class ScoreTarget:
    """What the second release measures: functions of the first release and of public facts (zone: released).

    Attributes
    ----------
    forms : Forms
        l_j of each coefficient, and of pairs of them.
    residual : ndarray
        ga, shape (D,): the residual of a coded row.
    clip : float
        c, in units of half the response's range: four residual standard deviations, the estimate's own noise
        included, or the public range of a residual if that is smaller; without noise the latter, so that nothing is
        clipped.
    ranges : ndarray
        U: largest term of one row, one for each form.
    model : ndarray
        m: model-based variance, one for each form.
    row_size : float
        Largest squared norm of a coded regressor row.
    """

    forms: Forms
    residual: NDArray[np.float64]
    clip: float
    ranges: NDArray[np.float64]
    model: NDArray[np.float64]
    row_size: float

    @classmethod
    def of(
        cls,
        leverage: NDArray[np.float64],
        covariance: NDArray[np.float64],
        largest: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        row_size: float,
        residual: NDArray[np.float64],
        clip: float = 1.0,
    ) -> ScoreTarget:
        """Measure each coefficient and each pair.

        Parameters
        ----------
        leverage : ndarray
            Rows l_j, shape (q, D_x).
        covariance : ndarray
            Model-based covariance of the coefficients, shape (q, q).
        largest : callable
            Maps forms, shape (m, D_x), to the largest |l'z| of a row, shape (m,).
        row_size, residual, clip
            As attributes.
        """
        forms = Forms.of(leverage, 1 / np.sqrt(np.maximum(np.diag(covariance), SMALLEST)))
        matrix, combine = forms.matrix, forms.combine
        squared = np.minimum(largest(matrix) ** 2, (matrix**2).sum(axis=1) * row_size)
        model = np.einsum("ij,jk,ik->i", combine, covariance, combine, optimize=True)
        return cls(
            forms, residual, clip, np.maximum(clip**2 * squared, SMALLEST), np.maximum(model, SMALLEST), row_size
        )

    def without_pairs(self) -> ScoreTarget:
        """Return what is measured of single coefficients."""
        m = len(self.forms.single)
        return replace(self, forms=self.forms.without_pairs(), ranges=self.ranges[:m], model=self.model[:m])

    @property
    def weights(self) -> NDArray[np.float64]:
        """Unit in which a form is measured: m, but at least one row's largest term; one for each form."""
        return np.maximum(self.model, self.ranges)

    @property
    def joint_size(self) -> float:
        """Bound on the Euclidean norm of one row's terms, each in units of its weight.

        The sum of squares of non-negative terms is at most their largest times their sum, which is a quadratic form of
        the row.
        """
        scaled = self.forms.matrix / np.sqrt(self.weights)[:, None]
        total = self.clip**2 * self.row_size * float(np.linalg.eigvalsh(scaled.T @ scaled)[-1])
        return min(total, math.sqrt(float((self.ranges / self.weights).max()) * total))


@dataclass(frozen=True, slots=True)
class RobustSampling:
    """The sampling part of a covariance, as squared scores have it (zone: released).

    Attributes
    ----------
    ratios : ndarray
        Robust over model-based variance of each coefficient, shape (q,).
    correlations : ndarray or None
        Robust correlations of the coefficients, shape (q, q); None keeps those of the model.
    """

    ratios: NDArray[np.float64]
    correlations: NDArray[np.float64] | None = None


def score_target(
    moments: NoisyMoments, space: ModelSpace, fit: LeastSquares, blocks: Sequence[Block], row_size: float
) -> ScoreTarget:
    """Fix what the second release measures, for every coefficient of the model.

    Parameters
    ----------
    moments, space, fit
        The first release and its fit.
    blocks : sequence of Block
        Coded regressor blocks.
    row_size : float
        Largest squared norm of a coded regressor row, lattice rounding included.
    """
    uncertain = fit.sigma2 + max(float(np.trace(fit.gram.positive_part @ fit.covariance)), 0.0) / max(
        moments.n_complete, 1.0
    )
    reach = float(largest_products(np.abs(fit.residual[None, :-1]), blocks)[0]) + 1.0
    clip = min(CLIP * math.sqrt(uncertain), reach) if moments.variances.any() else reach
    return ScoreTarget.of(
        *leverage_and_covariance(space, fit),
        lambda forms: largest_products(np.abs(forms), blocks),
        row_size,
        fit.residual,
        clip,
    )


def leverage_and_covariance(space: ModelSpace, fit: LeastSquares) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return l_j of each coefficient, shape (q, D_x), and their model-based sampling covariance, shape (q, q)."""
    back = np.linalg.inv(space.r)
    leverage = np.linalg.solve(space.r, (space.q @ fit.inverse).T)
    return np.asarray(leverage, dtype=np.float64), np.asarray(back @ fit.sampling @ back.T)


def largest_products(sizes: NDArray[np.float64], blocks: Sequence[Block]) -> NDArray[np.float64]:
    """Return the largest |l'z| over complete rows: per block the largest column, or the norm of a vector block.

    Parameters
    ----------
    sizes : ndarray
        |l|, shape (m, D_x).
    blocks : sequence of Block
        Coded regressor blocks, in order.
    """
    total = np.zeros(len(sizes))
    start = 0
    for block in blocks:
        part = sizes[:, start : start + block.n_columns]
        total += np.sqrt((part**2).sum(axis=1)) if block.vectors else part.max(axis=1)
        start += block.n_columns
    return total


def robust_sampling(
    target: ScoreTarget, released: NDArray[np.float64], sd: NDArray[np.float64], correction: float
) -> RobustSampling:
    """Return what squared scores say of the coefficients' sampling covariance.

    Parameters
    ----------
    target : ScoreTarget
        What was measured: coefficients one by one and perhaps in pairs.
    released : ndarray
        Noisy H, one for each form.
    sd : ndarray
        Standard deviation of its noise, one for each form.
    correction : float
        1 for HC0, n / (n - q) for HC1.

    Notes
    -----
    The noisy variance is shrunk towards the model's by w = (m/2)^2 / ((m/2)^2 + sd^2). It is at least two standard
    deviations of its noise, or a fifth of the model's if that is less.
    """
    m = len(target.forms.single)
    model, noise = target.model[:m], sd[:m]
    trust = (model / 2) ** 2 / ((model / 2) ** 2 + noise**2)
    ratios = 1 + trust * (correction * released[:m] / model - 1)
    lowest = np.minimum(LOWEST_RATIO, 2 * noise / model)
    return RobustSampling(np.maximum(ratios, lowest), _correlations(target.forms, released))


def _correlations(forms: Forms, released: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the correlations in the noisy squares of forms and of their pairs, made positive semidefinite."""
    if not len(forms.pairs):
        return None
    m = len(forms.single)
    own = forms.scales**2 * released[:m]
    products, (j, k) = np.diag(own), forms.pairs.T
    products[j, k] = products[k, j] = (released[m:] - own[j] - own[k]) / 2
    values, vectors = np.linalg.eigh(products)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    sizes = np.sqrt(np.diag(positive))
    pairs = np.outer(sizes, sizes)
    correlations: NDArray[np.float64] = np.divide(positive, pairs, out=np.zeros_like(positive), where=pairs > 0)
    np.fill_diagonal(correlations, 1.0)
    return correlations


def with_robust_sampling(fit: LeastSquares, space: ModelSpace, robust: RobustSampling) -> LeastSquares:
    """Return the fit with the sampling part of its covariance replaced by a robust one."""
    back = np.linalg.inv(space.r)
    model = back @ fit.sampling @ back.T
    if robust.correlations is None:
        stretch = np.sqrt(robust.ratios)
        beta = model * np.outer(stretch, stretch)
    else:
        sizes = np.sqrt(np.maximum(np.diag(model), 0.0) * robust.ratios)
        beta = robust.correlations * np.outer(sizes, sizes)
    sampling = space.r @ beta @ space.r.T
    return replace(fit, sampling=sampling, covariance=fit.covariance - fit.sampling + sampling)
