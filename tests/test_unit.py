"""A person with several rows: group privacy of each notion, budgets and charges of fits, audits over whole persons."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.special import ndtr
from scipy.stats import beta

import dpstats as dps
from dpstats.mechanisms.ssp import plan_moments
from dpstats.privacy.charge import charge_of
from dpstats.privacy.notions import Budget, gaussian_delta, gaussian_mu
from dpstats.privacy.unit import Protection, growth, protection_of
from dpstats.records.limited import LimitedSource, first_rows
from dpstats.records.moments import sum_atoms
from dpstats.records.source import as_source
from dpstats.specification.design import build_design
from dpstats.specification.rowmap import RowMap
from dpstats.specification.schema import Binary, Categorical, Continuous, Schema

SCHEMA = Schema({"x": Continuous(-1, 1), "g": Categorical(["a", "b", "c"]), "y": Continuous(-1, 1)})
BINARY = Schema({"x": Continuous(-1, 1), "z": Continuous(-1, 1), "y": Binary((0, 1))})
BUDGETS = [Budget(epsilon=1.0), Budget(epsilon=1.0, delta=1e-6), Budget(rho=0.1)]


def table(n=20_000):
    rng = np.random.default_rng(0)
    x, z = rng.uniform(-1, 1, (2, n))
    return {"x": x, "z": z, "g": rng.choice(["a", "b", "c"], n), "y": (rng.random(n) < 0.5 + 0.3 * x).astype(float)}


# -- arithmetic --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [*BUDGETS, Budget(epsilon=1e-9), Budget(epsilon=1e-9, delta=1e-12)], ids=str)
@pytest.mark.parametrize("k", [1, 2, 7, 1000])
def test_rows_and_persons_convert_into_each_other(budget, k):
    protection = protection_of(k)
    row = protection.of_row(budget)
    back = protection.of_unit(row)
    for name in ("epsilon", "delta", "rho"):
        if getattr(budget, name) is not None:
            assert getattr(back, name) == pytest.approx(getattr(budget, name), rel=1e-9)
            assert getattr(back, name) <= getattr(budget, name) * (1 + 1e-12)
    assert str(row) == str(budget), "prints show what was asked for"
    assert protection.of_row(Budget(epsilon=math.inf)) == Budget(epsilon=math.inf)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_steps_of_one_row_add_up_as_stated(k):
    """delta of k steps of (epsilon, delta): d_1 = delta, d_{j+1} = d_j e^epsilon + delta."""
    epsilon, delta = 0.3, 1e-7
    total = 0.0
    for _ in range(k):
        total = total * math.exp(epsilon) + delta
    found = Protection(contributions=k).of_unit(Budget(epsilon=epsilon, delta=delta))
    assert found.delta == pytest.approx(total)
    assert found.epsilon == pytest.approx(k * epsilon)


@pytest.mark.parametrize("k", [2, 5])
def test_gaussian_noise_of_a_group_has_k_times_the_mu(k):
    """Two normals k times as far apart: their exact delta at epsilon is what the person is told."""
    asked = Budget(epsilon=1.0, delta=1e-6)
    row = Protection(contributions=k).of_row(asked)
    mu = k * gaussian_mu(row.epsilon, row.delta)
    exact = ndtr(mu / 2 - 1.0 / mu) - math.e * ndtr(-mu / 2 - 1.0 / mu)
    assert exact <= 1e-6
    assert gaussian_delta(1.0, mu) >= exact
    charge = charge_of(row, "gaussian").of_unit(k)
    assert charge.rho == pytest.approx(mu**2 / 2)
    assert charge.budget == asked


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "3", 10**6])
def test_impossible_contributions_are_refused(wrong):
    with pytest.raises(dps.OptionError, match="contributions must be a whole number from 1"):
        dps.dp_ols("y ~ x", table(10), 1.0, schema=SCHEMA, contributions=wrong)


# -- an audit over persons -------------------------------------------------------------------------------------------


def worst_person(plan, k):
    """Largest privacy loss (pure), or squared mu (Gaussian), between tables that differ in one person's k rows."""
    corners = list(itertools.product((-1.0, 1.0, np.nan), "abc", (-1.0, 1.0)))
    rng = np.random.default_rng(1)
    worst = 0.0
    for trial in range(300):
        chosen = rng.integers(len(corners), size=(2, k))
        if trial % 2 == 0:  # all rows of a person alike: the worst case
            chosen = np.repeat(chosen[:, :1], k, axis=1)
        sums = []
        for side in chosen:
            rows = [corners[i] for i in side]
            data = {
                "x": np.array([row[0] for row in rows]),
                "g": np.array([row[1] for row in rows], dtype=object),
                "y": np.array([row[2] for row in rows]),
            }
            sums.append(sum_atoms(as_source(data), RowMap(plan.coding), plan.atoms, plan.bits))
        change = np.abs(sums[0] - sums[1]) / plan.noise.scales
        worst = max(worst, float(change.sum() if plan.law == "laplace" else (change**2).sum()))
    return worst


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("k", [2, 4])
def test_a_person_loses_no_more_than_was_asked_for(budget, k):
    source = as_source({name: column for name, column in table().items() if name != "z"})
    design = build_design("y ~ x + C(g)", SCHEMA, source.facts)
    careful, careless = (
        plan_moments(design, protection.of_row(budget), 20_000) for protection in (protection_of(k), protection_of(1))
    )
    for plan, fine in ((careful, True), (careless, False)):
        worst = worst_person(plan, k)
        if plan.law == "laplace":
            limit = budget.epsilon
        elif budget.rho is not None:
            limit = 2 * budget.rho
        else:
            limit = gaussian_mu(budget.epsilon, budget.delta) ** 2
        assert (worst <= limit * (1 + 1e-9)) == fine, "the audit catches contributions that are ignored"
    assert worst_person(careful, k) > 0.2 * limit


# -- black-box audits: whole calls with real noise on two tables that differ in one person ----------------------------

ROWS, RUNS, TRAINING = 4, 1_100, 300


def persons():
    """Two tables of 40 rows which differ in the four rows of one person, as far as bounds allow."""
    one = {"x": np.tile([-1.0, 1.0], 20), "z": np.zeros(40), "y": np.tile([0.0, 0.0, 1.0, 1.0], 10)}
    other = {name: column.copy() for name, column in one.items()}
    for table_, sign in ((one, 1.0), (other, -1.0)):
        table_["x"][:ROWS] = [1.0, -1.0, 1.0, -1.0]
        table_["y"][:ROWS] = [1.0, 0.0, 1.0, 0.0] if sign > 0 else [0.0, 1.0, 0.0, 1.0]
    return one, other


def proportion_bounds(hits, runs):
    """Clopper-Pearson bounds, each wrong once in ten thousand times."""
    return beta.ppf(1e-4, hits, runs - hits + 1) if hits else 0.0, beta.ppf(1 - 1e-4, hits + 1, runs - hits)


def shown_loss(one, other):
    """Lower bound of the privacy loss, from an event that was chosen on other runs than it is counted on."""

    def bound(a, b, cut):
        return math.log(max(proportion_bounds((a > cut).sum(), len(a))[0], 1e-300)) - math.log(
            proportion_bounds((b > cut).sum(), len(b))[1]
        )

    cuts = np.quantile(one[:TRAINING], np.linspace(0.05, 0.95, 19))
    best = max(cuts, key=lambda cut: bound(one[:TRAINING], other[:TRAINING], cut))
    return bound(one[TRAINING:], other[TRAINING:], best)


def log_likelihood_ratio(budget, contributions):
    """Return how much more likely a release of sums is for the first table than for the second."""
    exact = [dps.dp_moments("y ~ x", data, math.inf, schema=BINARY).moments.values for data in persons()]  # noqa: PD011

    def statistic(data):
        moments = dps.dp_moments(
            "y ~ x", data, **budget, schema=BINARY, contributions=contributions, infeasible="fit"
        ).moments
        away = [np.abs(moments.values - values) / np.sqrt(moments.variances / 2) for values in exact]  # noqa: PD011
        power = 1 if moments.law == "laplace" else 2
        return float((away[1] ** power - away[0] ** power).sum())

    return statistic


def test_no_event_tells_a_person_s_tables_apart_by_more_than_epsilon():
    for contributions, fine in ((ROWS, True), (1, False)):
        answer = log_likelihood_ratio({"epsilon": 1.0}, contributions)
        one, other = (np.array([answer(data) for _ in range(RUNS)]) for data in persons())
        assert (shown_loss(one, other) <= 1.0) == fine, "the audit catches contributions that are ignored"


def test_gaussian_noise_tells_a_person_s_tables_apart_by_no_more_than_mu():
    """The log likelihood ratio is normal, and its means differ by mu standard deviations."""
    for contributions, fine in ((ROWS, True), (1, False)):
        answer = log_likelihood_ratio({"rho": 0.5}, contributions)
        one, other = (np.array([answer(data) for _ in range(RUNS)]) for data in persons())
        apart = (one.mean() - other.mean()) / math.sqrt((one.var(ddof=1) + other.var(ddof=1)) / 2)
        error = math.sqrt((2 + apart**2 / 4) / RUNS)
        assert (apart <= math.sqrt(2 * 0.5) + 5 * error) == fine, "the audit catches contributions that are ignored"
        assert apart >= 0.2


# -- fits --------------------------------------------------------------------------------------------------------------

CALLS = {
    "ssp": lambda b, **k: dps.dp_ols("y ~ x", table(), **b, schema=SCHEMA, infeasible="fit", **k),
    "HC1": lambda b, **k: dps.dp_ols("y ~ x", table(), **b, schema=SCHEMA, cov_type="HC1", infeasible="fit", **k),
    "huber": lambda b, **k: dps.dp_ols("y ~ x", table(), **b, schema=SCHEMA, mechanism="huber", infeasible="fit", **k),
    "functional": lambda b, **k: dps.dp_ols(
        "y ~ x", table(), **b, schema=SCHEMA, mechanism="functional", infeasible="fit", **k
    ),
    "adassp": lambda b, **k: dps.dp_ols(
        "y ~ x", table(), **b, schema=SCHEMA, mechanism="adassp", infeasible="fit", **k
    ),
    "logit": lambda b, **k: dps.dp_logit("y ~ x + z", table(), **b, schema=BINARY, infeasible="fit", **k),
    "logit, Gaussian": lambda b, **k: dps.dp_logit(
        "y ~ x", table(), **b, schema=BINARY, mechanism=dps.Objective(noise="gaussian"), infeasible="fit", **k
    ),
    "wkl": lambda b, **k: dps.dp_logit(
        "y ~ x", table(), **b, schema=BINARY, mechanism="wkl-objective", infeasible="fit", **k
    ),
    "svm": lambda b, **k: dps.dp_svm("y ~ x", table(), **b, schema=BINARY, infeasible="fit", **k),
}


@pytest.mark.parametrize("budget", [{"epsilon": 2.0}, {"epsilon": 2.0, "delta": 1e-6}, {"rho": 0.2}], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_every_mechanism_takes_contributions(tmp_path, name, budget):
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=30, delta=1e-5)
    try:
        fit = CALLS[name](budget, contributions=3, ledger=ledger)
    except dps.BudgetExceeded:
        raise
    except dps.BudgetError:  # a mechanism that does not take this kind of budget
        return
    asked, spent = Budget(**budget), fit.privacy.spent
    assert fit.privacy.budget == asked
    for kind in ("epsilon", "rho"):
        if getattr(asked, kind) is not None:
            assert getattr(spent, kind) == pytest.approx(getattr(asked, kind), rel=1e-3)
            assert getattr(spent, kind) <= getattr(asked, kind) * (1 + 1e-9)
    assert (spent.delta or 0.0) <= (asked.delta or 0.0) * (1 + 1e-9)
    text = " ".join(str(fit.summary()).split())
    assert "one person, up to 3 rows" in text
    assert "replace up to 3 of n rows" in text
    parts = sum(part.rho or 0.0 for part in fit.privacy.parts.values())
    assert parts <= ledger.spent().rho * (1 + 1e-9)
    assert "contributions" not in ledger.history()["budget"].iloc[0]


def test_three_rows_a_person_cost_a_third_of_the_budget():
    rng = np.random.default_rng(2)
    wide = dps.dp_ols("y ~ x", table(), 3.0, schema=SCHEMA, contributions=3, rng=rng)
    same = dps.dp_ols("y ~ x", table(), 1.0, schema=SCHEMA, rng=rng)
    assert wide.bse_privacy["x"] == pytest.approx(same.bse_privacy["x"], rel=0.1)
    np.testing.assert_allclose(wide.release.moments.variances, same.release.moments.variances, rtol=1e-6)


def test_a_refusal_speaks_of_the_person_s_budget():
    with pytest.raises(dps.InfeasibleError, match=r"epsilon = 1 \(pure\).* or epsilon = "):
        dps.dp_ols(
            "y ~ x", {name: column[:300] for name, column in table().items()}, 1.0, schema=SCHEMA, contributions=50
        )


def test_a_saved_release_keeps_its_unit(tmp_path):
    release = dps.dp_moments("y ~ x", table(), 1.0, schema=SCHEMA, contributions=2)
    release.save(tmp_path / "a.json")
    again = dps.load_release(tmp_path / "a.json")
    assert again.privacy == release.privacy
    assert again.privacy.protection.contributions == 2


# -- a column that tells persons apart --------------------------------------------------------------------------------


def visits(n=3000, seed=0):
    """Persons with one to nine visits, in no order."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n // 3), rng.integers(1, 10, n // 3))
    order = rng.permutation(len(who))
    return {"x": rng.uniform(-1, 1, len(who)), "y": rng.uniform(-1, 1, len(who)), "person": who[order]}


@pytest.mark.parametrize("k", [1, 2, 5, 100])
@pytest.mark.parametrize("as_text", [False, True])
def test_the_first_rows_of_each_person_are_used(k, as_text):
    frame = pd.DataFrame(visits())
    if as_text:
        frame["person"] = frame["person"].map("id {}".format)
    kept = frame.groupby("person").head(k)
    for rows in (500, 16_384):
        source = LimitedSource(as_source(frame, rows), "person", k)
        read = source.map_reduce(("x",), lambda part: part.columns["x"].tolist(), lambda a, b: a + b)
        assert read == kept["x"].tolist()
    fit = dps.dp_ols("y ~ x", frame, math.inf, schema=SCHEMA, privacy_unit="person", contributions=k)
    theirs = smf.ols("y ~ x", kept).fit()
    assert fit.nobs == len(kept)
    np.testing.assert_allclose(fit.params, theirs.params, atol=1e-5)


@pytest.mark.parametrize(
    "column",
    [
        np.array([1, 1, 2, 1, 2, 3]),
        np.array([1.0, 1.0, 2.0, 1.0, 2.0, 3.0]),
        np.array(["a", "a", "b", "a", "b", "c"]),
        np.array([2**60, 2**60, 2**60 + 1, 2**60, 2**60 + 1, 7]),
        pd.array([1, 1, 2, 1, 2, 3], dtype="Int64"),
        pd.Categorical(["a", "a", "b", "a", "b", "c"]),
        pd.array(["a", "a", "b", "a", "b", "c"], dtype="string"),
        np.array(["a", "a", 1, "a", True, 1.5], dtype=object),
    ],
    ids=lambda c: str(c.dtype),
)
def test_persons_are_told_apart_in_any_kind_of_column(column):
    assert first_rows(column, 1, {}).tolist() == [True, False, True, False, False, True]
    assert first_rows(column, 2, {}).tolist() == [True, True, True, False, True, True]
    seen = {}
    parts = [first_rows(column[:2], 2, seen), first_rows(column[2:], 2, seen)]
    assert np.concatenate(parts).tolist() == [True, True, True, False, True, True]


def test_a_row_that_names_nobody_is_not_used():
    class Hostile:
        def __hash__(self):
            raise RuntimeError("ran code of a cell")

        __eq__ = __hash__

    cells = [None, float("nan"), pd.NA, Hostile(), [1], "a", Decimal("sNaN"), Decimal("NaN")]
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    assert first_rows(column, 1, {}).tolist() == [cell == "a" if isinstance(cell, str) else False for cell in cells]


@pytest.mark.parametrize("other", [Decimal(7), Decimal(1), 7.0, np.int64(7), Fraction(7), "7", 2**61, None])
def test_whose_rows_are_used_does_not_depend_on_the_cells_of_others(other):
    own = [np.int64(9)] * 3 + [np.int64(2**61)] * 3
    column = np.empty(len(own) + 1, dtype=object)
    column[:] = [other, *own]
    expected = [True, True, False] * 2
    if other == 2**61 and other is not None:
        expected[3:] = [True, False, False]
    assert first_rows(column, 2, {}).tolist()[1:] == expected
    seen = {}
    parts = [first_rows(column[i : i + 1], 2, seen)[0] for i in range(len(column))]
    assert [bool(part) for part in parts][1:] == expected


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("budget", [Budget(epsilon=1.0), Budget(rho=0.1)], ids=str)
def test_a_person_with_any_number_of_rows_costs_no_more_than_was_asked_for(relation, budget):
    """Neighbours differ in all rows of one person, wherever they stand and however many there are."""
    k = 3
    protection = protection_of(k, relation, "person")
    base = {"x": np.tile([-1.0, 1.0], 50), "y": np.tile([1.0, 0.5], 50), "person": np.arange(100) // 2}
    source = as_source(base)
    plan = plan_moments(
        build_design("y ~ x", SCHEMA, source.facts), protection.of_row(budget), 2**30, protection=protection
    )
    rng = np.random.default_rng(2)
    careless = 0.0

    def sums(rows, limit=True):
        frame = pd.DataFrame(base)
        if rows is not None:
            at = rng.integers(0, 101)
            frame = pd.concat([frame.iloc[:at], rows.assign(person=777), frame.iloc[at:]], ignore_index=True)
        table = as_source(frame)
        return sum_atoms(
            LimitedSource(table, "person", k) if limit else table, RowMap(plan.coding), plan.atoms, plan.bits
        )

    def person():
        size = int(rng.integers(1, 30))
        same = rng.random() < 0.5
        x, y = (rng.choice([-1.0, 1.0, np.nan, 0.3], 1 if same else size, p=[0.4, 0.4, 0.05, 0.15]) for _ in range(2))
        return pd.DataFrame({"x": np.broadcast_to(x, size), "y": np.broadcast_to(y, size)})

    def loss(one, other):
        change = np.abs(one - other) / plan.noise.scales
        return float(change.sum() if plan.law == "laplace" else (change**2).sum() / 2)

    limit = budget.epsilon if plan.law == "laplace" else budget.rho
    worst = 0.0
    for _ in range(150):
        rows, others = person(), None if relation == "add_or_remove_one" else person()
        worst = max(worst, loss(sums(rows), sums(others)))
        careless = max(careless, loss(sums(rows, limit=False), sums(others, limit=False)))
    assert 0.3 * limit <= worst <= limit * (1 + 1e-9)
    assert careless > limit, "the audit catches rows that are not limited"


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("nobody", "is not a column of data"),
        (3, "privacy_unit must be the name of a column"),
        ("", "privacy_unit must"),
    ],
)
def test_a_wrong_column_of_persons_is_refused(column, message):
    with pytest.raises(dps.DPStatsError, match=message):
        dps.dp_ols("y ~ x", visits(), 1.0, schema=SCHEMA, privacy_unit=column)


def test_dates_tell_no_persons_apart():
    data = {**visits(30), "person": pd.date_range("2020-01-01", periods=len(visits(30)["x"])).to_numpy()}
    with pytest.raises(dps.SchemaError, match="must hold numbers or texts"):
        dps.dp_ols("y ~ x", data, 1.0, schema=SCHEMA, privacy_unit="person")


def test_bounds_are_bought_from_the_rows_that_are_used():
    one = {"x": np.r_[np.full(40_000, 500.0), np.random.default_rng(0).uniform(0, 1, 4000)]}
    one["person"] = np.r_[np.zeros(40_000), np.arange(1, 4001)]
    rng = np.random.default_rng(1)  # at their stated rate, draws take noise for data
    found = dps.private_bounds(one, ["x"], 2.0, privacy_unit="person", n_public=4000, rng=rng)
    assert found["x"].upper < 5, "one person's forty thousand rows decide nothing"


OF_NOTHING = [
    "y ~ bs(x, df=4)",
    "y ~ poly(x, 2) + C(g)",
    "y ~ center(x) * C(g)",
    "y ~ np.exp(x)",
    "y ~ C(h)",
    "y ~ x * C(h)",
]


@pytest.mark.parametrize("formula", OF_NOTHING)
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC1"])
def test_a_partition_of_which_nothing_is_read_ends_like_any_other(formula, cov_type):
    """One person whose rows fill a whole partition, and an empty table of private length."""
    levels = [f"level {i}" for i in range(20)]
    schema = Schema({**SCHEMA.columns, "h": Categorical(levels)})
    n = 2**17
    rng = np.random.default_rng(3)
    data = {"x": rng.uniform(-1, 1, 2 * n), "y": rng.uniform(-1, 1, 2 * n), "g": np.resize(["a", "b", "c"], 2 * n)}
    data |= {"h": np.resize(levels, 2 * n), "person": np.r_[np.arange(n), np.zeros(n, dtype=int)]}
    names = ("x", "y", "g" if "g" in formula else "h")
    assert len(list(as_source(data).partitions(names))) == 2
    fit = dps.dp_ols(formula, data, 5.0, schema=schema, privacy_unit="person", cov_type=cov_type)
    assert abs(fit.nobs - n) < 100
    nothing = {name: column[:0] for name, column in data.items()}
    for unit in ({"privacy_unit": "person"}, {"neighboring_relation": "add_or_remove_one"}):
        empty = dps.dp_ols(formula, nothing, 5.0, schema=schema, cov_type=cov_type, infeasible="fit", **unit)
        assert list(empty.params.index) == list(fit.params.index)


def test_growth_is_rounded_up_and_never_overflows():
    for epsilon, k in ((1e-13, 10_000), (1e-3, 7), (1.0, 5), (30.0, 20)):
        exact = sum(Decimal(epsilon * j).exp() for j in range(k))
        assert exact <= Decimal(growth(epsilon, k)) <= exact * Decimal(1 + 1e-8)
    assert growth(5000.0, 1) == 1.0
    assert growth(5000.0, 2) == math.inf
    for call in (
        lambda: dps.dp_ols("y ~ x", table(), 2000.0, 1e-7, schema=SCHEMA, contributions=2),
        lambda: dps.private_levels(table(), ["g"], 1000.0, 1e-7, contributions=2),
    ):
        with pytest.raises(dps.BudgetError, match="no delta for each of 2 rows"):
            call()
    with pytest.raises(dps.OptionError, match="n_public must be a whole number"):
        dps.dp_ols("y ~ x", table(), 1.0, schema=SCHEMA, neighboring_relation="add_or_remove_one", n_public=10**400)


def test_a_ledger_keeps_to_one_unit(tmp_path):
    data = {**table(), "person": np.arange(len(table()["x"]))}
    persons = dps.Ledger(tmp_path / "persons", epsilon=9, privacy_unit="person")
    three = dps.Ledger(tmp_path / "three", epsilon=9, contributions=3)
    rows = dps.Ledger(tmp_path / "rows", epsilon=9)

    def fit(ledger, **unit):
        return dps.dp_ols("y ~ x", data, 1.0, schema=SCHEMA, ledger=ledger, **unit)

    for ledger, unit in (
        (persons, {"privacy_unit": "person"}),
        (persons, {"privacy_unit": "person", "contributions": 4}),
        (three, {"contributions": 3}),
        (three, {"contributions": 5}),
        (rows, {}),
        (rows, {"contributions": 2}),
    ):
        fit(ledger, **unit)
    for ledger, unit, name in (
        (persons, {}, "privacy_unit='person'"),
        (persons, {"contributions": 9}, "privacy_unit='person'"),
        (rows, {"privacy_unit": "person"}, "privacy_unit=''"),
        (three, {"contributions": 2}, "contributions=3"),
        (three, {}, "contributions=3"),
    ):
        spent = ledger.spent()
        with pytest.raises(dps.OptionError, match=f"is kept with {name}"):
            fit(ledger, **unit)
        assert ledger.spent() == spent
    with pytest.raises(dps.BudgetError, match="privacy_unit='person'; open it with those"):
        dps.Ledger(tmp_path / "persons", epsilon=9)
    with pytest.raises(dps.BudgetError, match="contributions=3"):
        dps.Ledger(tmp_path / "three", epsilon=9, contributions=2)


@pytest.mark.parametrize("unit", [{"privacy_unit": "person"}, {"neighboring_relation": "add_or_remove_one"}])
def test_a_refused_call_does_not_show_a_private_length(unit):
    data = {**{name: column[:3141] for name, column in table().items()}, "person": np.arange(3141)}
    with pytest.raises(dps.DPStatsError) as caught:
        dps.dp_ols("y ~ x + nothing", data, 1.0, schema=SCHEMA, **unit)
    frames = [frame.frame.f_locals for frame in caught.traceback if "dpstats" in str(frame.path)]
    assert len(frames) > 2
    assert "3141" not in repr(frames) + str(caught.value)
