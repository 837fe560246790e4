"""Private levels: frequent values are found, one person's own value shows with probability delta at most."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpstats as dps
from dpstats.mechanisms.levels import plan_levels, tail
from dpstats.privacy.notions import Budget
from dpstats.records.levels import count_levels
from dpstats.records.source import as_source

RELATIONS = ("replace_one", "add_or_remove_one")


def counts_of(data, *names):
    found = count_levels(as_source(data), names)
    return [dict(zip(levels, counts.tolist(), strict=True)) for levels, counts in zip(*_parts(found), strict=True)]


def _parts(found):
    return found.levels, found.counts


def test_the_levels_of_a_real_table_are_found():
    adult, schema = dps.datasets.load_adult()
    found = dps.private_levels(adult, ["sex", "race", "education_num"], epsilon=1, delta=1e-6)
    assert found["sex"].levels == ("Female", "Male")
    assert set(found["race"].levels) <= set(schema["race"].levels)
    assert found["education_num"].levels == tuple(sorted(found["education_num"].levels))
    fit = dps.dp_ols("hours_per_week ~ C(sex)", adult, 1, schema=found, bounds={"hours_per_week": (1, 99)})
    assert list(fit.params.index) == ["Intercept", "C(sex)[T.Male]"]


def test_without_noise_all_values_are_shown():
    data = {"g": np.array(["b", "a", None, "a", 3, 2.5, float("nan")], dtype=object)}
    assert dps.private_levels(data, ["g"], epsilon=math.inf)["g"].levels == ("a", "b", 2.5, 3)


@pytest.mark.parametrize(
    ("column", "levels"),
    [
        (np.array([True, False, True]), {True: 2, False: 1}),
        (np.array([2.0, 1.0, 2.0, -0.0, 2.5, np.nan, np.inf]), {2: 2, 1: 1, 0: 1, 2.5: 1}),
        (pd.array([1, None, 1], dtype="Int64"), {1: 2}),
        (pd.Categorical(["u", "v", None, "u"], categories=["v", "u", "w"]), {"u": 2, "v": 1}),
        (np.array([True, 1, 1.0, np.int64(1), "1", "\x00", b"x", 2**60, [1]], dtype=object), {1: 4, "1": 1}),
    ],
    ids=["bool", "float", "masked", "category", "object"],
)
def test_equal_values_are_one_level_in_one_spelling(column, levels):
    (found,) = counts_of({"g": column}, "g")
    assert found == levels
    assert {key: type(key) for key in found} == {key: type(key) for key in levels}
    if isinstance(column, np.ndarray):
        (turned,) = counts_of({"g": column[::-1]}, "g")
        assert {key: type(key) for key in turned} == {key: type(key) for key in found}


NUMBERS = [1, True, 1.0, np.int64(1), np.float32(1), Decimal(1), Decimal("1.0"), Fraction(1), np.bool_(True)]
CELLS = [
    *NUMBERS,
    *(2, np.int64(2**61), 2**61, 2.0**61, Decimal(2) ** 61, np.uint8(2), Decimal("0.1"), 0.1, Fraction(1, 10), -0.0),
    *("1", "a", np.str_("a"), "", " ", "\x00", None, float("nan"), math.inf, Decimal("NaN"), Decimal("sNaN")),
    *(Decimal("1e400"), Fraction(1, 3), pd.NA, [1], b"a", 1j),
]


@pytest.mark.parametrize("partition_rows", [1, 3, 1000])
def test_one_row_moves_one_count_by_one_whatever_its_cell_is(partition_rows):
    rng = np.random.default_rng(0)

    def counts(cells):
        column = np.empty(len(cells), dtype=object)
        column[:] = cells
        return count_levels(as_source({"g": column}, partition_rows), ("g",))

    for _ in range(150):
        chosen = [CELLS[i] for i in rng.integers(len(CELLS), size=8)]
        at = int(rng.integers(8))
        (levels, totals), (fewer, parts) = (
            (found.levels[0], found.counts[0]) for found in (counts(chosen), counts(chosen[:at] + chosen[at + 1 :]))
        )
        whole, rest = dict(zip(levels, totals.tolist(), strict=True)), dict(zip(fewer, parts.tolist(), strict=True))
        gap = [whole[level] - rest.get(level, 0) for level in whole]
        assert set(rest) <= set(whole)
        assert sorted(gap) in ([0] * len(gap), [0] * (len(gap) - 1) + [1])
        assert {type(level) for level in whole} <= {str, int, float}


def test_a_decimal_before_its_equals_hides_nothing():
    column = np.array([Decimal(1), *[1] * 5000, *[2] * 5000], dtype=object)
    assert dps.private_levels({"g": column}, ["g"], 1.0, 1e-6)["g"].levels == (1, 2)


def test_an_interruption_shows_no_count(monkeypatch):
    from dpstats.release import noise

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(noise, "_measurement", interrupted)
    data = {"g": np.array(["a secret level"] * 3141 + ["b"] * 3000, dtype=object)}
    with pytest.raises(KeyboardInterrupt) as caught:
        dps.private_levels(data, ["g"], 1.0, 1e-6)
    frames = [frame.frame.f_locals for frame in caught.traceback if "dpstats" in str(frame.path)]
    assert frames
    assert "a secret level" not in repr([{k: v for k, v in f.items() if k != "data"} for f in frames])
    assert not any(isinstance(v, np.ndarray) for f in frames for v in f.values())


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("size", [1, 3])
def test_scale_and_threshold_cost_what_is_stated(relation, epsilon, size):
    """Exhaust the outcomes of one column: which of its values are shown, on neighbouring tables."""
    budget = Budget(epsilon=epsilon, delta=1e-3)
    plan = plan_levels(list("abc"[:size]), budget, None, relation)
    assert plan.cost.epsilon <= epsilon
    assert plan.cost.delta <= budget.delta

    def shown(count):
        if count == 0:
            return 0.0
        t = plan.threshold - count
        return tail(t, plan.scale) if t >= 1 else 1 - tail(1 - t, plan.scale)

    def distribution(table):
        chances = [shown(count) for count in table]
        outcomes = itertools.product((0, 1), repeat=len(table))
        return np.array([np.prod([c if bit else 1 - c for c, bit in zip(chances, o, strict=True)]) for o in outcomes])

    t = plan.threshold
    bases = [(0, 1, 5), (1, 0, t), (t, t - 1, 1), (1, 1, 1), (0, t, t + 3), (1, t, 0)]
    worst = 0.0
    for base in bases:
        for i, j in itertools.permutations(range(3), 2):
            other = list(base)
            if base[i] == 0:
                continue
            other[i] -= 1
            if relation == "replace_one":
                other[j] += 1
            for one, two in ((base, other), (other, base)):
                p, q = distribution(one), distribution(two)
                worst = max(worst, float(np.maximum(p - math.exp(plan.cost.epsilon / size) * q, 0.0).sum()))
    assert worst <= plan.cost.delta / size
    assert worst > 0.3 * plan.cost.delta / size, "the bound is not idle"


def test_a_value_that_occurs_once_shows_with_probability_delta_at_most():
    plan = plan_levels(["g"], Budget(epsilon=2.0, delta=0.02), None, "replace_one")
    rows = 51_000  # a column whose values all occur once
    data = {"g": np.array([f"person {i}" for i in range(rows)], dtype=object)}
    found = dps.private_levels(data, ["g"], 2.0, 0.02)
    share = len(found["g"].levels) / rows if "g" in found else 0.0
    expected = tail(plan.threshold - 1, plan.scale)
    assert abs(share - expected) <= 6.5 * math.sqrt(expected / rows)
    assert expected <= 0.02


def test_too_few_rows_or_no_delta_are_refused_before_reading():
    data = {"g": np.array(["a", "b"] * 20, dtype=object)}
    with pytest.raises(dps.InfeasibleError, match="only values of some"):
        dps.private_levels(data, ["g"], 0.1, 1e-6)
    with pytest.raises(dps.BudgetError, match="needs a delta"):
        dps.private_levels(data, ["g"], 1.0)
    with pytest.raises(dps.SchemaError, match="'h' is not a column"):
        dps.private_levels(data, ["h"], 1.0, 1e-6)
    with pytest.raises(dps.OptionError, match="list of column names"):
        dps.private_levels(data, "g", 1.0, 1e-6)


def test_a_column_of_which_nothing_is_found_is_left_out():
    data = {"g": np.array([f"person {i}" for i in range(5000)], dtype=object), "h": np.array(["a"] * 5000)}
    found = dps.private_levels(data, ["g", "h"], 1.0, 1e-9)
    assert list(found.columns) == ["h"]


def test_a_person_with_several_rows_counts_as_one():
    few = {
        "g": np.array(["rare"] * 40 + ["common"] * 4000, dtype=object),
        "id": np.r_[np.zeros(40), np.arange(1, 4001)],
    }
    found = dps.private_levels(few, ["g"], 5.0, 1e-6, privacy_unit="id", n_public=4000)
    assert found["g"].levels == ("common",)
    careless = dps.private_levels(few, ["g"], 5.0, 1e-6)
    assert careless["g"].levels == ("common", "rare")


def test_a_ledger_pays_delta_from_what_was_set_aside(tmp_path):
    adult, _ = dps.datasets.load_adult()
    ledger = dps.Ledger(tmp_path / "a", epsilon=3, delta=1e-6, levels_delta=4e-7)
    plain = dps.Ledger(tmp_path / "b", epsilon=3, delta=6e-7)
    assert ledger.remaining().rho == pytest.approx(plain.remaining().rho, rel=1e-9)
    dps.private_levels(adult, ["sex"], 0.2, 4e-7, ledger=ledger)
    dps.dp_ols("hours_per_week ~ age", adult, 0.2, ledger=ledger, bounds={"age": (17, 90), "hours_per_week": (1, 99)})
    assert ledger.spent().rho == pytest.approx(2 * 0.2 * math.tanh(0.1), rel=1e-6)
    with pytest.raises(dps.BudgetExceeded, match="left of levels_delta"):
        dps.private_levels(adult, ["sex"], 0.2, 4e-7, ledger=ledger)
    with pytest.raises(dps.BudgetError, match="set nothing aside"):
        dps.private_levels(adult, ["sex"], 0.2, 4e-7, ledger=plain)
    with pytest.raises(dps.BudgetError, match="other terms"):
        dps.Ledger(tmp_path / "a", epsilon=3, delta=1e-6, levels_delta=3e-7)
    for wrong in (1e-6, -1e-9, "x", True):
        with pytest.raises(dps.OptionError, match="levels_delta"):
            dps.Ledger(tmp_path / "c", epsilon=3, delta=1e-6, levels_delta=wrong)
