"""Reconciliation: spread the disagreement of redundant noisy sums, the best linear unbiased way (methods, 1.6).

With C m = 0 for exact sums, V the noise variances and K = V C' (C V C')^-1, the reconciled sums m - K C m have the
noise (I - K C) eta. They are linear in the original independent noises, so that all inference keeps its form, and no
variance goes up (Gauss-Markov; Aitken 1936). No inequality is imposed: that would destroy the noise law.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpstats.inference.moments import NoisyMoments
from dpstats.specification.identities import Identities


def reconcile(moments: NoisyMoments, identities: Identities) -> NoisyMoments:
    """Return moments whose redundant sums agree.

    Parameters
    ----------
    moments : NoisyMoments
        As released.
    identities : Identities
        What the exact sums satisfy.
    """
    matrix = identities.matrix
    if not len(matrix) or not moments.variances.any():
        return moments
    weighted = moments.variances[:, None] * matrix.T
    gain = np.asarray(np.linalg.solve(matrix @ weighted, weighted.T).T, dtype=np.float64)
    return replace(moments, values=moments.values - gain @ (matrix @ moments.values), gain=gain, identities=matrix)
