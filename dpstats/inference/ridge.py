"""Coefficients of a noisy quadratic objective that is kept bounded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpstats.inference.estimates import ModelSpace, Solution, gram_of
from dpstats.inference.inverse import SINGULAR, SMALLEST
from dpstats.inference.moments import NoisyMoments

TRIMMED = 1e-8
"""Curvature, in units of X'X, up to which the authors of the functional mechanism leave a direction out."""


@dataclass(frozen=True, slots=True)
class Ridge:
    """How a noisy objective is kept bounded (zone: public).

    Attributes
    ----------
    size : float
        Added to the diagonal of X'X in the space of features.
    trim : bool
        Leave out directions in which the curvature is not positive; the solution is that of smallest norm.
    """

    size: float
    trim: bool


def solve_ridge(moments: NoisyMoments, space: ModelSpace, ridge: Ridge) -> Solution:
    """Minimise a noisy quadratic objective, kept bounded by a ridge, by trimming its spectrum, or by both.

    Parameters
    ----------
    moments : NoisyMoments
        Released sums of features.
    space : ModelSpace
        From `ModelSpace.of_features`: as many columns as features, so that its basis only rotates them.
    ridge : Ridge
        What is added to X'X, and whether directions are left out.

    Notes
    -----
    The estimand is the same function of the exact sums: (X'X + lambda I)^-1 X'y. At the estimate X'y - (X'X + lambda I)
    beta is an exactly known linear form of the noise, because lambda is public; so all inference is that of least
    squares with the inverse of the ridged matrix, about that estimand. Where a direction was left out, or the curvature
    is not positive, no interval is bounded. The estimate is printed as the mechanism defines it, without correction.
    """
    gram = gram_of(moments, space)
    curvature, vectors = gram.values + ridge.size, gram.vectors
    positive = curvature > max(TRIMMED, SINGULAR * np.abs(curvature).max())
    kept = positive if ridge.trim else np.abs(curvature) > SMALLEST
    inverse = (vectors[:, kept] / curvature[kept]) @ vectors[:, kept].T
    gamma = inverse @ space.q.T @ moments.matrix[:-1, -1] + space.offset * space.q.T @ space.constant
    return Solution(gamma, gamma, inverse, gram, not positive.all(), trimmed=not kept.all())
