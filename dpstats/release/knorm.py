"""Max-norm noise on integer vectors: probability proportional to exp(-a max_j |v_j|), exactly (methods, 1.14).

For statistics whose changes fill a cube [-K, K]^m, a = epsilon / K is epsilon-DP, and a coordinate's standard deviation
is about half of joint Laplace noise's or less once m is 5 or more.

Exactness. Let G be a sum of m + 1 independent geometric variables P(k) = (1 - e^-a) e^(-ak), so that its weight at g is
binom(g + m, m) e^(-ag). Accept it with probability prod_{i=1..m} (2g + 1) / (2g + 2i): the accepted weight is
proportional to (2g + 1)^m e^(-ag). A uniform point of {-g..g}^m then has probability proportional to
sum_{g >= max|v|} e^(-ag), which is proportional to e^(-a max|v|). A geometric variable is a discrete Laplace variable,
which OpenDP draws exactly, given that it is not negative; acceptance and uniform draws compare big integers.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


def max_norm_sd(reach: float, epsilon: float, size: int) -> float:
    """Return a coordinate's standard deviation for changes in [-reach, reach]^size."""
    return reach / epsilon * math.sqrt((size + 1) * (size + 2) / 3)


def draw_max_norm(size: int, scale: float, geometric: Callable[[], int]) -> NDArray[np.int64]:
    """Draw one integer vector with probability proportional to exp(-max|v| / scale).

    Parameters
    ----------
    size : int
        m, length of the vector.
    scale : float
        1 / a, in lattice units.
    geometric : callable
        Exact draws of P(k) proportional to exp(-k / scale), k >= 0.
    """
    while True:
        radius = sum(geometric() for _ in range(size + 1))
        bound = math.prod(2 * radius + 2 * i for i in range(1, size + 1))
        if secrets.randbelow(bound) < (2 * radius + 1) ** size:
            return np.array([secrets.randbelow(2 * radius + 1) - radius for _ in range(size)], dtype=np.int64)


def geometric_from(laplace: Callable[[list[int]], list[int]], batch: int) -> Callable[[], int]:
    """Return geometric draws: discrete Laplace draws around 0 that are not negative."""
    waiting: list[int] = []

    def one() -> int:
        while not waiting:
            waiting.extend(value for value in laplace([0] * batch) if value >= 0)
        return waiting.pop()

    return one


def simulate_max_norm(size: int, scale: float, generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw the continuous twin, rounded, for studies: NOT PRIVATE."""
    return np.rint(generator.gamma(size + 1) * scale * generator.uniform(-1, 1, size)).astype(np.int64)
