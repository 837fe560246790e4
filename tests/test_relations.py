"""Sensitivities beyond replace-one neighbours and equal rows: a row added or removed, and rows with weights."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from test_sensitivity import (
    DESIGNS,
    EXACT,
    NOISES,
    SIGNED,
    SIGNS,
    SINGLE,
    ascent,
    block_weights,
    changes,
    largest_pair,
    layout,
    random_records,
)

import dpstats as dps
from dpstats.mechanisms.bounds import FINE, plan_bounds
from dpstats.mechanisms.ssp import plan_moments
from dpstats.privacy.notions import Budget, stage_strength
from dpstats.privacy.unit import protection_of
from dpstats.records.bins import count_bins
from dpstats.records.moments import sum_atoms
from dpstats.records.source import as_source
from dpstats.specification.atoms import build_atoms
from dpstats.specification.bins import FIRST
from dpstats.specification.design import build_design
from dpstats.specification.rowmap import RowMap
from dpstats.specification.rules import row_rules
from dpstats.specification.schema import Binary, Categorical, Continuous, Schema
from dpstats.specification.sensitivity import (
    atom_weights,
    count_weight,
    l1_sensitivity,
    l2_sensitivity,
    row_norms,
)

ADD = "add_or_remove_one"


def bound_of(design, atoms, noise, s, relation):
    """Largest allowed weighted change: Delta_1, or the square of Delta_2."""
    norms = row_norms(design.blocks, s, noise)
    count = count_weight(norms, noise, relation, atoms)
    return l1_sensitivity(norms, relation, count) if noise == "laplace" else l2_sensitivity(norms, relation, count) ** 2


# A row added or removed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("text", DESIGNS)
def test_no_record_weighs_more_than_the_bound_and_a_full_one_weighs_as_much(text, noise):
    design = layout(text)
    rng = np.random.default_rng(3)
    for s in block_weights(design, 5):
        w = atom_weights(design.blocks, design.atoms, s, noise, ADD)
        bound = bound_of(design, design.atoms, noise, s, ADD)
        corners = changes(design.sums(design.corners()), 0.0, w, noise).max()
        inside = changes(design.sums(random_records(design, rng, 500, noise)), 0.0, w, noise).max()
        assert max(corners, inside) <= bound * EXACT
        assert corners == pytest.approx(bound, rel=1e-12) or text in SIGNED
        assert corners >= 0.6 * bound


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("text", ["g x y", "1 x z y", "g h y"])
def test_weights_that_are_free_for_replaced_rows_are_not_for_added_ones(text, noise):
    design = layout(text)
    s = np.ones(len(design.blocks))
    w = atom_weights(design.blocks, design.atoms, s, noise, "replace_one")
    found = changes(design.sums(design.corners()), 0.0, w, noise).max()
    norms = row_norms(design.blocks, s, noise)
    bound = l1_sensitivity(norms, ADD, 0.5) if noise == "laplace" else l2_sensitivity(norms, ADD, 0.5) ** 2
    assert found > 1.05 * bound or (noise == "laplace" and text == "1 x z y")


# Weighted rows -------------------------------------------------------------------------------------------------------


def weighted(design, columns, scale, atoms):
    """Statistics of rows times a number in [0, 1]; the count of complete rows is not scaled."""
    return design.__class__(design.blocks, atoms, design.symbols, design.factors).statistics(columns * scale[:, None])


@pytest.mark.parametrize("relation", ["replace_one", ADD])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("text", SINGLE + SIGNED + ("1 v y", "1 x z x:z y"))
def test_scaled_rows_stay_within_the_bound(text, noise, relation):
    design = layout(text)
    atoms = build_atoms(design.blocks, SIGNS, weighted=True)
    rng = np.random.default_rng(4)
    corners = design.code(design.corners())
    corners = corners[rng.permutation(len(corners))[:150]]
    inside = design.code(random_records(design, rng, 100, noise))
    scales = (0.0, 1e-3, 0.3, 0.7, 1.0)
    rows = np.vstack([corners] * len(scales) + [inside])
    scale = np.concatenate([np.repeat(scales, len(corners)), rng.uniform(0, 1, len(inside))])
    sums = np.vstack([weighted(design, rows, scale, atoms), np.zeros(atoms.n_atoms)])  # the last row is incomplete
    for s in block_weights(design, 2):
        w = atom_weights(design.blocks, atoms, s, noise, relation)
        bound = bound_of(design, atoms, noise, s, relation)
        found = largest_pair(sums, w, noise)[0] if relation == "replace_one" else changes(sums, 0.0, w, noise).max()
        assert found <= bound * EXACT
        assert found >= 0.55 * bound


def test_the_count_of_weighted_rows_is_not_the_square_of_a_column_of_ones():
    design = layout("1 x y")
    atoms = build_atoms(design.blocks, SIGNS, weighted=True)
    assert atoms.left[atoms.count] < 0
    assert atoms.index[0, 0] != atoms.count
    assert atoms.rounds_twice
    plain = build_atoms(design.blocks, SIGNS)
    assert plain.index[0, 0] == plain.count
    assert ascent(design, atom_weights(design.blocks, plain, np.ones(3), "laplace"), "laplace") > 0


# Real tables through the real row map, lattice and scales -------------------------------------------------------------

SCHEMA = Schema(
    {
        "y": Continuous(0, 20),
        "x": Continuous(0, 10),
        "z": Continuous(-3, 1),
        "g": Categorical(["a", "b", "c"]),
        "h": Categorical(["u", "v"]),
        "b": Binary(),
        "w": Continuous(0, 7),
    }
)
FORMULAS = (
    "y ~ x",
    "y ~ 0 + x",
    "y ~ x + z + I(x**2) + x:z",
    "y ~ C(g) + x",
    "y ~ C(g) * x + C(h)",
    "y ~ b * x",
    "y ~ 0 + C(g):C(h)",
    "y ~ bs(x, df=5) + C(g)",
)
BUDGETS = {"pure": Budget(epsilon=1.0), "zcdp": Budget(rho=0.1)}


@functools.cache
def plan_of(formula, notion, relation, weights, missing="drop"):
    facts = as_source({name: np.zeros(2, dtype=object) for name in SCHEMA}).facts
    rules = row_rules(missing, weights, None, SCHEMA, facts)
    design = build_design(formula, SCHEMA, facts, rules=rules)
    return plan_moments(design, BUDGETS[notion], 2**30, protection=protection_of(1, relation))


def rows_of(formula, weights):
    """Corner rows, rows with inner weights, and rows that are incomplete in one way or another."""
    used = [name for name in plan_of(formula, "pure", "replace_one", weights).coding.design.variables if name != "w"]
    ends = [(SCHEMA[n].lower, SCHEMA[n].upper) if isinstance(SCHEMA[n], Continuous) else SCHEMA[n].levels for n in used]
    corners = [dict(zip(used, row, strict=True)) for row in itertools.product(*ends)]
    whole = [{**dict.fromkeys(SCHEMA, 0), **row, "w": w} for row in corners for w in (7, 0.01, 1.7, 0)]
    lacking = [{**whole[0], used[-1]: None}, {**whole[0], "w": None}, dict.fromkeys(SCHEMA)]
    return whole, lacking


def sums_of(plan, rows):
    def of(row):
        source = as_source({name: np.array([row[name]], dtype=object) for name in SCHEMA})
        return sum_atoms(source, RowMap(plan.coding), plan.atoms, plan.bits)

    return np.array([of(row) for row in rows], dtype=float)


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("relation", ["replace_one", ADD])
@pytest.mark.parametrize("notion", BUDGETS)
@pytest.mark.parametrize("formula", FORMULAS)
def test_neighbouring_tables_cost_at_most_the_budget_and_nearly_as_much(formula, notion, relation, weights):
    plan = plan_of(formula, notion, relation, weights)
    whole, lacking = rows_of(formula, weights)
    sums = sums_of(plan, [*whole, *lacking])
    cost = 1 / plan.noise.scales if plan.law == "laplace" else 1 / (plan.noise.scales**2 - 9)
    if relation == "replace_one":
        worst = largest_pair(sums, cost, plan.law)[0]
    else:
        worst = changes(sums, 0.0, cost, plan.law).max()
    budget = BUDGETS[notion]
    allowed = budget.epsilon if plan.law == "laplace" else stage_strength(budget, "gaussian") ** 2
    assert 0.8 * allowed <= worst <= allowed


@pytest.mark.parametrize("notion", BUDGETS)
@pytest.mark.parametrize("formula", FORMULAS)
def test_rows_that_count_as_complete_cost_at_most_the_budget(formula, notion):
    plan = plan_of(formula, notion, "replace_one", "w", "none")
    whole, lacking = rows_of(formula, "w")
    sums = sums_of(plan, [*whole, *lacking])
    counts = sums[:, plan.atoms.count]
    assert (counts == counts[0]).all(), "every row counts, so that the count needs no noise"
    assert plan.variances[plan.atoms.count] == 0
    cost = 1 / plan.noise.scales if plan.law == "laplace" else 1 / (plan.noise.scales**2 - 9)
    budget = BUDGETS[notion]
    allowed = budget.epsilon if plan.law == "laplace" else stage_strength(budget, "gaussian") ** 2
    assert largest_pair(sums, cost, plan.law)[0] <= allowed


@pytest.mark.parametrize("law", NOISES)
def test_one_row_moves_the_counts_of_bins_as_stated(law):
    """Bounds: a replaced row moves two counts of each column, an added one moves one."""
    names = ("x", "z")
    rows = [{"x": 3.0, "z": -200.0}, {"x": 0.01, "z": 5.0}, {"x": None, "z": 1e9}]
    counts = [
        count_bins(as_source({n: np.array([row[n]], dtype=object) for n in names}), dict.fromkeys(names, FIRST)) * FINE
        for row in rows
    ]
    budget = Budget(epsilon=1.0) if law == "laplace" else Budget(rho=0.1)
    for relation, pairs in (
        ("replace_one", itertools.combinations(counts, 2)),
        (ADD, [(count, 0 * count) for count in counts]),
    ):
        plan = plan_bounds(names, budget, law, 1.0, None, relation)
        changed = [np.abs(one - other) / plan.scale for one, other in pairs]
        spent = max(2 * c.sum() if law == "laplace" else 2 * (c**2).sum() / 2 for c in changed)
        stated = plan.cost.epsilon if law == "laplace" else plan.cost.rho
        assert spent == pytest.approx(stated, rel=1e-6)
        assert stated <= (budget.epsilon if law == "laplace" else budget.rho) * (1 + 1e-9)


# What is public about the length --------------------------------------------------------------------------------------


def table(n):
    rng = np.random.default_rng(0)
    return {"x": rng.uniform(0, 10, n), "y": rng.uniform(0, 20, n), "id": np.arange(n) // 3}


PRIVATE_LENGTH = ({"neighboring_relation": ADD}, {"privacy_unit": "id", "contributions": 3})


@pytest.mark.parametrize("unit", PRIVATE_LENGTH, ids=["added rows", "persons"])
@pytest.mark.parametrize("n", [0, 1, 2, 5000])
def test_a_private_length_decides_nothing(unit, n):
    fit = dps.dp_ols("y ~ x", table(n), 1.0, schema=SCHEMA, rng=np.random.default_rng(1), **unit)
    reference = dps.dp_ols("y ~ x", table(4000), 1.0, schema=SCHEMA, rng=np.random.default_rng(1), **unit)
    assert list(fit.params.index) == list(reference.params.index)
    np.testing.assert_array_equal(fit.release.moments.variances, reference.release.moments.variances)
    assert "or remove" in str(fit.summary()) or "one person's rows" in str(fit.summary())
    bought = dps.dp_ols("y ~ x", table(n), 1.0, rng=np.random.default_rng(1), **unit)
    assert list(bought.params.index) == ["Intercept", "x"]


@pytest.mark.parametrize("unit", PRIVATE_LENGTH, ids=["added rows", "persons"])
def test_a_forecast_goes_by_the_length_that_is_declared_public(unit):
    with pytest.raises(dps.InfeasibleError, match="with 40 rows"):
        dps.dp_ols("y ~ x", table(5000), 0.01, schema=SCHEMA, n_public=40, **unit)
    with pytest.raises(dps.InfeasibleError, match="40 rows"):
        dps.private_bounds(table(5000), ["x"], 0.1, n_public=40, **unit)
    dps.dp_ols("y ~ x", table(40), 0.01, schema=SCHEMA, **unit)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "many", True])
def test_an_impossible_public_length_is_refused(wrong):
    with pytest.raises(dps.OptionError, match="n_public must be a whole number"):
        dps.dp_ols("y ~ x", table(10), 1.0, schema=SCHEMA, neighboring_relation=ADD, n_public=wrong)


def test_a_public_length_beside_the_table_s_own_is_refused():
    with pytest.raises(dps.OptionError, match="n_public goes with"):
        dps.dp_ols("y ~ x", table(10), 1.0, schema=SCHEMA, n_public=10)
    with pytest.raises(dps.DataError, match="no rows"):
        dps.dp_ols("y ~ x", table(0), 1.0, schema=SCHEMA)


@pytest.mark.parametrize("unit", PRIVATE_LENGTH, ids=["added rows", "persons"])
def test_methods_without_a_proof_say_so(unit):
    for mechanism in ("huber", "functional", "diff-lr", dps.AdaSSP()):
        budget = {"epsilon": 1.0} if isinstance(mechanism, str) else {"rho": 0.5}
        with pytest.raises(dps.OptionError, match=r"replace-one neighbours and a public number of rows"):
            dps.dp_ols("y ~ x", table(100), **budget, schema=SCHEMA, mechanism=mechanism, **unit)
    outcome = {**table(100), "b": np.tile([0, 1], 50)}
    for model in (dps.dp_logit, dps.dp_svm):
        with pytest.raises(dps.OptionError, match=r"replace-one neighbours and a public number of rows"):
            model("b ~ x", outcome, 1.0, schema=SCHEMA, **unit)


def test_an_added_row_costs_less_noise_than_a_replaced_one():
    rng = np.random.default_rng(5)
    added = dps.dp_ols("y ~ x", table(5000), 1.0, schema=SCHEMA, neighboring_relation=ADD, rng=rng)
    replaced = dps.dp_ols("y ~ x", table(5000), 1.0, schema=SCHEMA, rng=rng)
    assert added.bse_privacy["x"] <= replaced.bse_privacy["x"] * 1.1
    gaussian = dps.dp_ols("y ~ x", table(5000), rho=0.1, schema=SCHEMA, neighboring_relation=ADD, rng=rng)
    assert (
        gaussian.bse_privacy["x"] < dps.dp_ols("y ~ x", table(5000), rho=0.1, schema=SCHEMA, rng=rng).bse_privacy["x"]
    )


def test_a_ledger_keeps_to_one_relation(tmp_path):
    ledger = dps.Ledger(tmp_path / "a", epsilon=3, neighboring_relation=ADD)
    dps.dp_ols("y ~ x", table(5000), 1.0, schema=SCHEMA, neighboring_relation=ADD, ledger=ledger)
    with pytest.raises(dps.OptionError, match="does not add up"):
        dps.dp_ols("y ~ x", table(5000), 1.0, schema=SCHEMA, ledger=ledger)
    assert ledger.spent().epsilon == 1.0
    with pytest.raises(dps.BudgetError, match="other terms"):
        dps.Ledger(tmp_path / "a", epsilon=3)
    with pytest.raises(dps.OptionError, match="neighboring_relation must be"):
        dps.Ledger(tmp_path / "b", epsilon=3, neighboring_relation="swap")
