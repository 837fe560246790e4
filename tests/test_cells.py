"""Factors of many levels are counted cell by cell, to the same integers as if they were multiplied out."""

from __future__ import annotations

import numpy as np
import pytest

import dpstats as dps
from dpstats.mechanisms.ssp import plan_moments
from dpstats.privacy.notions import Budget
from dpstats.records import moments, rows
from dpstats.records.moments import sum_atoms
from dpstats.records.source import as_source
from dpstats.specification import rowmap
from dpstats.specification.design import build_design
from dpstats.specification.rowmap import RowMap, is_wide
from dpstats.specification.rules import row_rules

SCHEMA = dps.Schema(
    {
        "x": dps.Continuous(-1, 1),
        "z": dps.Continuous(0, 3),
        "y": dps.Continuous(-1, 1),
        "w": dps.Continuous(0, 2),
        "g": dps.Categorical([f"level {i}" for i in range(40)]),
        "h": dps.Categorical(list("abcdef")),
        "k": dps.Categorical([f"k{i}" for i in range(20)]),
        "b": dps.Binary(),
    }
)
FORMULAS = (
    "y ~ x + C(g)",
    "y ~ x * C(g) + z",
    "y ~ C(g) + C(k) + I(x**2)",
    "y ~ C(g) * C(h) + bs(x, df=4)",
    "y ~ C(h) * C(k) + x:C(g)",
    "y ~ 0 + C(g):b",
    "y ~ C(g)",
    "y ~ x * C(g) + x * C(k)",
    "y ~ x:z:C(g) + x:z:C(k) + x:C(k)",
)


def table(n=20_000):
    rng = np.random.default_rng(0)
    data = {name: rng.uniform(-1.2, 3.2, n) for name in "xzyw"}
    data["g"] = rng.choice([*SCHEMA["g"].levels, "elsewhere"], n).astype(object)
    data["h"] = rng.choice([*"abcdef"], n)
    data["k"] = rng.choice(SCHEMA["k"].levels, n).astype(object)
    data["b"] = rng.integers(0, 2, n)
    data["x"][::50] = np.nan
    data["k"][::31] = None
    return data


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("missing", ["drop", "none"])
@pytest.mark.parametrize("budget", [Budget(epsilon=1.0), Budget(rho=0.1)], ids=str)
@pytest.mark.parametrize("formula", FORMULAS)
def test_counting_by_cell_gives_the_same_integers(formula, budget, missing, weights, monkeypatch):
    source = as_source(table())
    design = build_design(formula, SCHEMA, source.facts, rules=row_rules(missing, weights, None, SCHEMA, source.facts))
    plan = plan_moments(design, budget, 20_000)
    row_map = RowMap(plan.coding)
    assert any(map(is_wide, row_map.blocks))
    counted = sum_atoms(source, row_map, plan.atoms, plan.bits)
    for module in (moments, rows, rowmap):
        monkeypatch.setattr(module, "is_wide", lambda block: False)
    multiplied = sum_atoms(source, row_map, plan.atoms, plan.bits)
    assert (counted == multiplied).all()
    assert (sum_atoms(as_source(table(), 333), row_map, plan.atoms, plan.bits) == counted).all()
    empty = as_source({name: column[:0] for name, column in table().items()})
    assert (sum_atoms(empty, row_map, plan.atoms, plan.bits) == 0).all()
