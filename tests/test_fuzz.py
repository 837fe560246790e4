"""Random calls on neighbouring tables end alike, and show nothing planted; random rows move sums within the budget.

Ten thousand pairs: most compare exact sums of random, hostile rows (everything private happens before the noise); the
others are whole calls. ``benchmarks/fuzz.py`` makes ten times as many.
"""

from __future__ import annotations

import random

import pytest
from generators import difference, leaks, random_call, sums_difference
from hostile import SENTINEL, SENTINEL_TEXT
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


@pytest.mark.parametrize("form", ["{!r}", "{:.6f}", "{:.8g}", "{:.10e}", "[0.5, {:.9f}]"])
def test_a_planted_value_is_found_in_every_form(form):
    text = form.format(SENTINEL)
    assert leaks(text)
    assert leaks(f"a = {text}, b")
    assert leaks(f"-{text}")


def test_a_planted_value_is_found_within_a_sum_and_a_text():
    assert leaks(repr(12 + SENTINEL))
    assert leaks(f"x{SENTINEL_TEXT}y")
    assert not leaks("1.99314159e-03, 0.31415123, 314")
