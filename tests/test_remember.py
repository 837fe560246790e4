"""What is worked out from public facts is remembered: equal facts give the same object, and only those do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpstats as dps
from dpstats.mechanisms.ssp import plan_moments
from dpstats.privacy.notions import Budget
from dpstats.specification.coding import code_design
from dpstats.specification.design import build_design
from dpstats.specification.remember import forget, public_key
from dpstats.specification.rules import RowRules
from dpstats.specification.schema import Binary, Categorical, Continuous, Schema, TableFacts
from dpstats.specification.view import facts_of, full_view

SCHEMA = {"y": Continuous(0, 1), "x": Continuous(0, 1), "g": Categorical(["a", "b"])}


def design(formula="y ~ x + C(g)", columns=None, **options):
    schema = Schema(SCHEMA if columns is None else columns)
    return build_design(formula, schema, facts_of(schema.columns), **options)


def test_equal_facts_give_the_same_design_coding_view_and_plan():
    first, second = design(), design(columns=dict(SCHEMA))
    assert first is second
    assert code_design(first, "laplace") is code_design(second, "laplace")
    assert full_view(code_design(first, "laplace")) is full_view(code_design(second, "laplace"))
    assert plan_moments(first, Budget(epsilon=1.0), 1_000) is plan_moments(second, Budget(epsilon=1.0), 1_000)
    forget()
    assert design() is not first


@pytest.mark.parametrize(
    "other",
    [
        {"formula": "y ~ C(g) + x"},
        {"columns": SCHEMA | {"x": Continuous(0, 2)}},
        {"columns": SCHEMA | {"x": Continuous(-0.0, 1)}},
        {"columns": SCHEMA | {"g": Categorical(["b", "a"])}},
        {"columns": SCHEMA | {"more": Continuous(0, 1)}},
        {"rules": RowRules("none")},
    ],
)
def test_any_other_fact_gives_another_design(other):
    assert design(**other) is not design()


def test_levels_that_are_equal_but_of_other_types_are_other_facts():
    designs = [design(columns=SCHEMA | {"g": Categorical(levels)}) for levels in ([0, 1], [0.0, 1.0], [False, True])]
    designs.append(design(columns=SCHEMA | {"g": Binary()}))
    assert len({id(found) for found in designs}) == 4
    assert [found.exog_names[1] for found in designs[:3]] == ["C(g)[T.1]", "C(g)[T.1.0]", "C(g)[T.True]"]


def test_plans_differ_with_everything_that_they_depend_on():
    found = design()
    plans = [
        plan_moments(found, budget, n, share=share)
        for budget in (Budget(epsilon=1.0), Budget(epsilon=2.0), Budget(rho=1.0))
        for n in (1_000, 1_001)
        for share in (1.0, 0.5)
    ]
    assert len({id(plan) for plan in plans}) == len(plans)
    assert plans[0].cost.epsilon <= 1 < plans[4].cost.epsilon <= 2


def test_what_is_of_a_class_of_the_users_own_is_worked_out_anew():
    class Level(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            return True

    schema = Schema(SCHEMA | {"g": Categorical([Level("a")])})
    assert public_key(schema, facts_of(schema.columns)) is None
    assert public_key(Schema(SCHEMA), TableFacts(("y",), {"y": "number"})) is not None


def test_a_refusal_is_made_each_time():
    for _ in range(2):
        with pytest.raises(dps.DesignError, match="linearly dependent"):
            design("y ~ x + I(2 * x)") and full_view(code_design(design("y ~ x + I(2 * x)"), "laplace"))


def test_what_is_remembered_cannot_be_changed():
    coding = code_design(design(), "laplace")
    for array in (coding.contrast, coding.constant, coding.blocks[0].positions()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


def test_a_second_fit_of_a_formula_draws_noise_of_its_own():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.random(3_000), "y": rng.random(3_000)})
    bounds = {"x": (0, 1), "y": (0, 1)}
    first, second = (dps.dp_ols("y ~ x", frame, 1.0, bounds=bounds) for _ in range(2))
    assert (first.params != second.params).all()


@pytest.mark.slow
def test_a_factor_of_many_levels_can_be_fitted():
    """Public checks, forecast, bias correction and intervals cost no more than seconds with 500 levels."""
    rng = np.random.default_rng(1)
    levels = [f"level {i}" for i in range(500)]
    codes = rng.integers(0, 500, 200_000)
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, 200_000), "g": pd.Categorical.from_codes(codes, levels)})
    frame["y"] = np.clip(0.3 * frame["x"] + rng.normal(0, 0.1, 200_000) + 0.001 * (codes - 250), -1, 1)
    fit = dps.dp_ols("y ~ x + C(g)", frame, 20.0, bounds={"x": (-1, 1), "y": (-1, 1)}, levels={"g": levels}, rng=rng)
    low, high = fit.conf_int().loc["x"]
    assert low < 0.3 < high
    assert high - low < 0.1
    inside = (fit.conf_int()[0] <= 0.001 * np.arange(-1, 500)) & (0.001 * np.arange(-1, 500) <= fit.conf_int()[1])
    assert inside.iloc[1:-1].mean() > 0.9
