"""Random calls on neighbouring tables end alike, and show nothing planted; random rows move sums within the budget.

Ten thousand pairs: most compare exact sums of random, hostile rows (everything private happens before the noise); the
others are whole calls. ``benchmarks/fuzz.py`` makes ten times as many.
"""

from __future__ import annotations

import random

from generators import difference, random_call, sums_difference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SUMS, CALLS = 9_000, 1_000
SEEDS = st.integers(0, 2**64)


def fuzz(examples):
    return settings(
        max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


@fuzz(SUMS)
@given(SEEDS)
def test_random_rows_move_the_exact_sums_within_the_budget_and_silently(seed):
    wrong, _ = sums_difference(random.Random(seed))
    assert not wrong


@fuzz(CALLS)
@given(SEEDS)
def test_random_calls_on_neighbouring_tables_end_alike(seed):
    wrong, _ = difference(random_call(random.Random(seed)), thorough=seed % 5 == 0)
    assert not wrong
