"""Private bounds: grids, sensitivity by brute force, false alarms, accuracy, and calls that buy them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import dpstats as dps
from dpstats.mechanisms.bounds import FINE, plan_bounds, release_bounds
from dpstats.privacy.notions import Budget, zcdp_of_pure
from dpstats.records.bins import count_bins
from dpstats.records.source import as_source
from dpstats.release.noise import SimulatedNoise
from dpstats.specification.bins import (
    CELLS,
    EDGES,
    FALSE_ALARMS,
    FIRST,
    OUTERMOST,
    UNKNOWN,
    Grid,
    bounds_of,
    round_outward,
    second_grid,
    widened,
)
from dpstats.specification.schema import Continuous

N = 60_000
CORNERS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0**-20,
    -(2.0**-20),
    2.0**-21,
    3.7,
    -1e5,
    2.0**40,
    1e300,
    -math.inf,
    math.inf,
    math.nan,
]


def samples(rng, n=N):
    return {
        "normal": rng.normal(3, 2, n),
        "uniform": rng.uniform(-7, 20, n),
        "poisson": rng.poisson(4, n).astype(float),
        "gamma": rng.gamma(2, 3, n),
        "year": rng.integers(1980, 2021, n).astype(float),
        "binary": rng.integers(0, 2, n).astype(float),
    }


# -- grids -------------------------------------------------------------------------------------------------------------


def test_the_first_grid_has_the_stated_bins():
    assert FIRST.n_bins == 124
    assert EDGES[0] == -OUTERMOST
    assert EDGES[-1] == OUTERMOST
    assert 0.0 in EDGES
    np.testing.assert_array_equal(EDGES, -EDGES[::-1])
    assert (np.diff(EDGES) > 0).all()


def test_every_number_is_in_one_bin_and_a_missing_one_in_none():
    values = np.array(CORNERS)
    counts = count_bins(as_source({"x": values}), {"x": FIRST})
    assert counts.sum() == len(CORNERS) - 1
    np.testing.assert_array_equal(FIRST.number(EDGES[:-1]), np.arange(124))
    assert FIRST.number(EDGES[-1:])[0] == 123
    small = Grid(np.linspace(0, 1, CELLS + 1))
    assert list(small.number(np.array([-0.1, 0.0, 1.0, 1.1]))) == [CELLS, 0, CELLS - 1, CELLS]


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_one_record_moves_two_counts_a_column(columns):
    """Sensitivity by brute force: tables of four rows, every pair of corner records."""
    rng = np.random.default_rng(0)
    worst = {1: 0, 2: 0}
    for first, second in itertools.product(CORNERS, repeat=2):
        base = rng.normal(size=(4, columns))
        tables = []
        for record in (first, second):
            rows = base.copy()
            rows[1] = record
            data = {f"c{j}": rows[:, j].copy() for j in range(columns)}
            tables.append(count_bins(as_source(data), {name: FIRST for name in data}))
        change = tables[0] - tables[1]
        worst[1] = max(worst[1], int(np.abs(change).sum()))
        worst[2] = max(worst[2], int((change**2).sum()))
    assert worst == {1: 2 * columns, 2: 2 * columns}


@pytest.mark.parametrize("budget", [Budget(epsilon=1.0), Budget(rho=0.1), Budget(epsilon=1.0, delta=1e-6)], ids=str)
@pytest.mark.parametrize("columns", [1, 3])
def test_both_levels_together_cost_the_share(budget, columns):
    law = "laplace" if budget.rho is None and budget.delta is None else "gaussian"
    plan = plan_bounds([f"c{j}" for j in range(columns)], budget, law, 0.15, 10**7)
    if law == "laplace":
        assert plan.scale / FINE == pytest.approx(4 * columns / 0.15, rel=1e-6)
        assert plan.cost.epsilon == pytest.approx(0.15, rel=1e-6)
        assert plan.cost.epsilon <= 0.15
    elif budget.rho is not None:
        assert plan.scale / FINE == pytest.approx(2 * math.sqrt(columns) / math.sqrt(2 * 0.1 * 0.15), rel=1e-4)
        assert 0.0149 < plan.cost.rho <= 0.015


def test_empty_columns_look_filled_as_rarely_as_stated():
    source = as_source({"x": np.full(2_000, np.nan), "z": np.full(2_000, np.nan)})
    plan = plan_bounds(["x", "z"], Budget(epsilon=1.0), "laplace", 0.15, 10**6)
    noise = SimulatedNoise(np.random.default_rng(1))
    alarms = np.mean([
        any(bounds != UNKNOWN for bounds in release_bounds(plan, source, noise).values()) for _ in range(2_000)
    ])  # fmt: skip
    stated = FALSE_ALARMS[0] / 2
    assert alarms <= stated + 4 * math.sqrt(stated * (1 - stated) / 2_000)


def test_hulls_and_rounding():
    counts = np.zeros(124)
    counts[FIRST.number(np.array([1.5, 3.0]))] = 100
    grid = second_grid(counts, 10.0)
    assert (grid.edges[0], grid.edges[-1]) == (0.5, 8.0)
    cells = np.zeros(CELLS)
    cells[4:12] = 50
    assert bounds_of(True, cells, grid, 10.0) == Continuous(0.9, 3.8)
    assert bounds_of(False, cells, grid, 10.0) is None
    assert bounds_of(True, np.zeros(CELLS), grid, 10.0) == round_outward(0.5, 8.0)
    assert round_outward(-1e-7, 2e9).lower < 0
    assert widened(Continuous(1900, 2069))[1:] == (Continuous(0, 2069), Continuous(-2069, 2069))


def test_bounds_do_not_depend_on_the_order_of_rows_or_columns():
    data = samples(np.random.default_rng(2), 5_000)
    order = np.random.default_rng(3).permutation(5_000)
    names = list(data)
    counts = count_bins(as_source(data), dict.fromkeys(names, FIRST)).reshape(len(names), -1)
    shuffled = {name: column[order] for name, column in data.items()}
    again = count_bins(as_source(shuffled, 100), dict.fromkeys(names[::-1], FIRST)).reshape(len(names), -1)
    np.testing.assert_array_equal(counts, again[::-1])


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_bounds_clip_little_and_leave_some_spread(law):
    """Bar 5.13 at a threshold of about one per cent of the rows."""
    rng = np.random.default_rng(4)
    budget = Budget(epsilon=1.0) if law == "laplace" else Budget(epsilon=1.0, delta=1e-6)
    clipped, spread = {}, {}
    for _ in range(20):
        for name, column in samples(rng).items():
            plan = plan_bounds([name], budget, law, 0.15, N)
            assert plan.thresholds[0] <= 0.011 * N
            found = release_bounds(plan, as_source({name: column}), SimulatedNoise(rng))[name]
            clipped.setdefault(name, []).append(((column < found.lower) | (column > found.upper)).mean())
            spread.setdefault(name, []).append(column.std() / ((found.upper - found.lower) / 2))
    for name in clipped:
        assert np.mean(clipped[name]) <= 0.001, name
        assert np.mean(spread[name]) >= 0.08, name


def test_a_larger_share_finds_no_less():
    rng = np.random.default_rng(5)
    source = as_source({"x": rng.normal(0, 1, N)})
    widths = []
    for share in (0.05, 0.15, 0.6):
        plan = plan_bounds(["x"], Budget(epsilon=1.0), "laplace", share, N)
        found = [release_bounds(plan, source, SimulatedNoise(rng))["x"] for _ in range(20)]
        widths.append(np.mean([bounds.upper - bounds.lower for bounds in found]))
    assert widths[0] <= widths[2] * 1.1
    assert widths[0] > 4


# -- calls -------------------------------------------------------------------------------------------------------------


def regression(n=150_000, seed=6):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(5, 2, n), rng.gamma(2, 3, n)
    return {"x": x, "z": z, "b": rng.random(n) < 0.5, "y": 1 + 0.5 * x - 0.2 * z + rng.normal(0, 1, n)}


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"epsilon": 1, "delta": 1e-6}, {"rho": 0.1}], ids=str)
def test_a_bare_call_works_and_says_what_it_bought(budget):
    fit = dps.dp_ols("y ~ x + z + b", regression(), **budget, rng=np.random.default_rng(12))
    assert fit.declared == "private: x, z, y"
    assert "bounds of x, z, y" in fit.privacy.parts
    text = " ".join(str(fit.summary()).split())
    assert "private: x, z, y" in text
    assert f"Bounds bought for {next(iter(fit.privacy.parts.values()))}: x (" in text
    assert_spent(fit.privacy.spent, fit.privacy.budget)
    assert np.isfinite(fit.conf_int()).all(axis=None)


def assert_spent(spent, asked):
    for name in ("epsilon", "rho"):
        if getattr(asked, name) is not None:
            assert getattr(spent, name) == pytest.approx(getattr(asked, name), rel=1e-3)
            assert getattr(spent, name) <= getattr(asked, name) * (1 + 1e-12)
    assert (spent.delta or 0) <= (asked.delta or 0)


def classes(n=150_000, seed=13):
    data = regression(n, seed)
    chance = 1 / (1 + np.exp(-(0.5 * data["x"] - 0.2 * data["z"] - 1)))
    return data | {"y": (np.random.default_rng(seed).random(n) < chance).astype(int)}


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"epsilon": 1, "delta": 1e-6}, {"rho": 0.1}], ids=str)
@pytest.mark.parametrize("model", [dps.dp_logit, dps.dp_svm], ids=["logit", "svm"])
def test_a_classifier_buys_bounds_too(model, budget):
    rng = np.random.default_rng(14)
    fit = model("y ~ x + z", classes(), levels={"y": [0, 1]}, **budget, rng=rng)
    assert next(iter(fit.privacy.parts)) == "bounds of x, z"
    assert_spent(fit.privacy.spent, fit.privacy.budget)
    text = " ".join(str(fit.summary()).split())
    assert "private: x, z" in text
    assert f"Bounds bought for {next(iter(fit.privacy.parts.values()))}: x (" in text
    declared = model("y ~ x + z", classes(), levels={"y": [0, 1]}, bounds=BOUNDS, **budget, rng=rng)
    assert fit.params.to_numpy() == pytest.approx(declared.params.to_numpy(), abs=0.15)
    assert np.isfinite(fit.conf_int()).all(axis=None)
    fit = model("y ~ x + z", classes(), levels={"y": [0, 1]}, bounds={"x": BOUNDS["x"]}, **budget, rng=rng)
    assert fit.declared == "private: z"


BOUNDS = {"x": (-5, 15), "z": (0, 40)}


@pytest.mark.parametrize("model", [dps.dp_logit, dps.dp_svm], ids=["logit", "svm"])
def test_a_ledger_is_charged_the_bounds_of_a_classifier(model, tmp_path):
    """All of the budget, and no more than it, is taken."""

    def charged(budget, **account):
        ledger = dps.Ledger(tmp_path / f"{'-'.join(budget)}.budget", **account)
        model("y ~ x + z", classes(), levels={"y": [0, 1]}, **budget, ledger=ledger)
        return ledger.spent()

    assert charged({"epsilon": 1.0}, epsilon=1.0).epsilon == pytest.approx(1.0, rel=1e-6)
    assert charged({"rho": 0.1}, rho=0.1).rho == pytest.approx(0.1, rel=1e-6)
    mixed = charged({"epsilon": 1.0, "delta": 1e-6}, rho=1.0)
    assert 0.2 < mixed.rho <= zcdp_of_pure(1.0) * (1 + 1e-6)


@pytest.mark.parametrize("model", [dps.dp_logit, dps.dp_svm], ids=["logit", "svm"])
def test_what_a_classifier_does_not_buy(model, monkeypatch):
    with pytest.raises(dps.SchemaError, match=r"two levels of its outcome: add levels=\{'y': \[failure, success\]\}"):
        model("y ~ x + z", classes(2_000), 1.0)
    with pytest.raises(dps.SchemaError, match="'x', 'z' have no declaration; add bounds="):
        model("y ~ x + z", classes(2_000), 1.0, levels={"y": [0, 1]}, mechanism="wkl-output")
    monkeypatch.setattr("dpstats.mechanisms.bounds.count_bins", None)
    with pytest.raises(dps.InfeasibleError, match=r"no bounds are declared for 'x', 'z', and 2000 rows .* too little"):
        model("y ~ x + z", classes(2_000), 1.0, levels={"y": [0, 1]})


@pytest.mark.parametrize("model", [dps.dp_logit, dps.dp_svm], ids=["logit", "svm"])
@pytest.mark.parametrize("kind", ["missing", "constant", "huge", "tiny"])
def test_no_column_makes_a_classifier_fail(model, kind):
    rng = np.random.default_rng(15)
    n = 60_000
    x = {
        "missing": np.full(n, np.nan),
        "constant": np.full(n, 7.0),
        "huge": rng.normal(0, 1e300, n),
        "tiny": rng.normal(0, 1e-300, n),
    }[kind]
    data = {"x": x, "y": rng.integers(0, 2, n)}
    fit = model("y ~ x + I(x**2)", data, 2.0, levels={"y": [0, 1]}, infeasible="fit", rng=rng)
    assert list(fit.params.index) == ["Intercept", "x", "I(x ** 2)"]
    assert "Bounds bought" in str(fit.summary())


def test_intervals_cover_with_bought_bounds():
    rng = np.random.default_rng(7)
    covered = []
    for seed in range(40):
        fit = dps.dp_ols("y ~ x + z", regression(60_000, seed), 2.0, bounds={"y": (-20, 30)}, rng=rng)
        ends = fit.conf_int().to_numpy()[1:]
        covered.append((ends[:, 0] <= [0.5, -0.2]) & (ends[:, 1] >= [0.5, -0.2]))
    assert np.mean(covered) >= 0.85


def test_declared_columns_are_not_bought():
    fit = dps.dp_ols("y ~ x + z", regression(), 1.0, bounds={"y": (-20, 30), "z": (0, 50)})
    assert fit.declared == "private: x"
    assert fit.release.coding.design.schema["z"] == Continuous(0, 50)
    assert dps.dp_ols("y ~ x", regression(), 1.0, bounds={"y": (-20, 30), "x": (-5, 15)}).declared == "declared"


def test_robust_errors_and_moments_buy_bounds_too(tmp_path):
    fit = dps.dp_ols("y ~ x", regression(), 1.0, cov_type="HC1")
    assert set(fit.privacy.parts) == {"bounds of x, y", "second moments", "HC1 squared scores"}
    assert fit.privacy.spent.epsilon == pytest.approx(1.0, rel=1e-4)
    release = dps.dp_moments("y ~ x + z", regression(), 1.0)
    release.save(tmp_path / "release.json")
    again = dps.load_release(tmp_path / "release.json")
    assert again.remarks == release.remarks
    assert again.fit("y ~ x").declared == "private: x, z, y"


@pytest.mark.parametrize(
    ("formula", "declared", "message"),
    [
        ("y ~ np.log(x)", {}, r"'np.log\(x\)' needs a declared range of 'x'"),
        ("np.log(y + 30) ~ x", {"bounds": {"x": (0, 1)}}, "needs a declared range of 'y'"),
        ("y ~ bs(x, df=4)", {"bounds": {"y": (0, 1)}}, "needs a declared range of 'x'"),
        ("y ~ x + C(t)", {}, "levels="),
        ("y ~ nobody", {"bounds": {"y": (0, 1)}}, "nobody"),
    ],
)
def test_what_cannot_be_bought_is_asked_for(formula, declared, message):
    data = {**regression(2_000), "t": np.array(["u", "v"] * 1_000)}
    with pytest.raises(dps.DPStatsError, match=message):
        dps.dp_ols(formula, data, 1.0, **declared)


def test_powers_and_products_of_undeclared_columns():
    fit = dps.dp_ols("y ~ x * z + I(x**2)", regression(), 5.0)
    assert list(fit.params.index) == ["Intercept", "x", "z", "x:z", "I(x ** 2)"]
    lone = dps.dp_ols("y ~ x:z", regression(), 5.0)
    assert list(lone.params.index) == ["Intercept", "x:z"]


def test_too_few_rows_are_refused_before_anything_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("dpstats.mechanisms.bounds.count_bins", None)
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=3)
    with pytest.raises(dps.InfeasibleError, match=r"no bounds are declared for 'x', 'z', 'y', and 2000 rows .*bounds="):
        dps.dp_ols("y ~ x + z", regression(2_000), 1.0, ledger=ledger)
    assert ledger.history().empty


@pytest.mark.parametrize("kind", ["missing", "constant", "huge", "tiny", "one value far away"])
def test_no_column_makes_the_call_fail(kind):
    """What is found never leads to an error: the budget is spent by then."""
    rng = np.random.default_rng(8)
    n = 60_000
    x = {
        "missing": np.full(n, np.nan),
        "constant": np.full(n, 7.0),
        "huge": rng.normal(0, 1e300, n),
        "tiny": rng.normal(0, 1e-300, n),
        "one value far away": 1e9 + rng.integers(0, 3, n).astype(float),
    }[kind]
    data = {"x": x, "y": rng.normal(size=n)}  # of nothing, something is found at the stated rate of false alarms
    fit = dps.dp_ols("y ~ x + I(x**2) + I(x**3)", data, 2.0, infeasible="fit", rng=rng)
    assert list(fit.params.index) == ["Intercept", "x", "I(x ** 2)", "I(x ** 3)"]
    assert "Bounds bought" in str(fit.summary())
    if kind == "missing":
        assert "of which nothing was found" in " ".join(str(fit.summary()).split())


@pytest.mark.parametrize("formula", ["y ~ 0 + I(x**2) + I(x**2 - 1)", "y ~ 0 + x + I(x + .001)"])
@pytest.mark.parametrize("size", [1.0, 1e9, 1e10])
def test_bounds_with_which_a_formula_is_singular_do_not_make_the_call_fail(formula, size):
    rng = np.random.default_rng(9)
    data = {"x": size * rng.random(N), "y": rng.normal(size=N)}
    fit = dps.dp_ols(formula, data, 10.0, bounds={"y": (-5, 5)}, infeasible="fit")
    assert len(fit.params) == 2
    assert np.isfinite(fit.params).all()


def test_bounds_on_their_own(tmp_path):
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=1)
    schema = dps.private_bounds(regression(), ["x", "z"], 0.5, ledger=ledger)
    assert ledger.spent() == Budget(epsilon=0.5)
    assert ledger.history()["what"].iloc[0] == "bounds of x, z"
    fit = dps.dp_ols("y ~ x + z", regression(), 0.5, schema=schema, bounds={"y": (-20, 30)}, ledger=ledger)
    assert fit.declared == "declared"
    for wrong, message in (("x", "list of column names"), (["b"], "not a numeric column"), (["none"], "not a numeric")):
        with pytest.raises(dps.DPStatsError, match=message):
            dps.private_bounds(regression(500), wrong, 0.5)
