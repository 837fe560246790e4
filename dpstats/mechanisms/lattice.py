"""How fine the integer lattice of a release is."""

from __future__ import annotations

import math

from dpstats.errors import BudgetError

MAX_BITS = 20
MIN_BITS = 8
TINY = 1e-100
"""A smaller budget is refused before it overflows anything."""
TOO_SMALL = "the budget is so small that the noise would drown every digit; give a larger epsilon or rho"


def choose_bits(n_rows: int, largest_scale: float) -> int:
    """Return the lattice's bits: at most 20, such that sums and noise fit into 62 bits.

    Parameters
    ----------
    n_rows : int
        Public length of the table.
    largest_scale : float
        Of the noise, in coded units.

    Raises
    ------
    BudgetError
        If fewer than 8 bits are left.
    """
    for_sums = (62 - math.ceil(math.log2(max(n_rows, 2)))) // 2
    for_noise = math.floor((58 - math.log2(largest_scale)) / 2) if math.isfinite(largest_scale) else 0
    bits = min(MAX_BITS, for_sums, for_noise)
    if bits < MIN_BITS:
        raise BudgetError(TOO_SMALL)
    return bits
