"""Block weights: how the noise is shared among the sums, from public guesses of the size of slopes.

Weights decide accuracy only; any positive weights are private.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize

from dpstats.specification.blocks import Block
from dpstats.specification.sensitivity import NoiseKind, row_norms

SLOPES = 0.15
"""B: public guess of the squared length of the slope vector in coded units."""
INTERCEPT = 0.05
"""B0: public guess of the squared intercept in coded units."""


def default_weights(blocks: Sequence[Block], noise: NoiseKind) -> NDArray[np.float64]:
    """Return s_b for each block, the response last.

    Regressors get weight 1. The response's weight balances the noise of X'y against that of X'X; without factors the
    constant's is optimised too.

    Parameters
    ----------
    blocks : sequence of Block
        Coded blocks in order, the response's last.
    noise : {"laplace", "gaussian"}
        Laplace noise counts weights in L1, Gaussian noise in L2.

    Returns
    -------
    ndarray
        Shape (number of blocks,).
    """
    regressors = list(blocks[:-1])
    n_numeric = sum(not _is_constant(block) for block in regressors)
    weights = np.ones(len(blocks))
    if n_numeric and all(block.is_single for block in regressors):
        s_constant, weights[-1] = _optimal(n_numeric, noise, _balanced(regressors, noise))
        weights[:-1] = [s_constant if _is_constant(block) else 1.0 for block in regressors]
    else:
        weights[-1] = _balanced(regressors, noise)
    return weights


def _is_constant(block: Block) -> bool:
    return block.is_single and not block.degrees


def _balanced(regressors: Sequence[Block], noise: NoiseKind) -> float:
    """Solve r + 2 B r^3 = 2 S_F + S_N (Laplace) or r + 2 B r^2 = R2 with r = s_y^2 (Gaussian)."""
    norms = row_norms(regressors, np.ones(len(regressors)), noise)
    if noise == "laplace":
        size = 2 * norms.s_f + norms.s_n
        return float(brentq(lambda r: r + 2 * SLOPES * r**3 - size, 0.0, size))
    return float(np.sqrt(brentq(lambda r: r + 2 * SLOPES * r**2 - norms.r2, 0.0, norms.r2)))


def _optimal(n_numeric: int, noise: NoiseKind, start: float) -> tuple[float, float]:
    """Minimise the predicted variance of intercept and slopes over the weights of constant and response."""

    def objective(logs: NDArray[np.float64]) -> float:
        return float(np.log(_predicted_variance(float(np.exp(logs[0])), float(np.exp(logs[1])), n_numeric, noise)))

    found = minimize(objective, np.log([1.0, start]), method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-8})
    return float(np.exp(found.x[0])), float(np.exp(found.x[1]))


def _predicted_variance(s_0: float, s_y: float, p: int, noise: NoiseKind) -> float:
    if noise == "laplace":
        size = (s_0 + p + s_y) ** 2 / 2

        def variance(weight: float) -> float:
            return 2 * (size / weight) ** 2

        square, constant, response = 0.5, s_0, s_y
    else:
        size = s_0**2 + p + s_y**2

        def variance(weight: float) -> float:
            return size**2 / weight

        square, constant, response = (1 + size + s_0**2) / 2, s_0**2, s_y**2
    slopes = variance(response) + INTERCEPT * variance(constant)
    slopes += (p - 1) * SLOPES / p * variance(1.0) + SLOPES / p * variance(square)
    return 3 * p * slopes + variance(constant * response) + SLOPES * variance(constant)
