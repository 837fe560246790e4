"""Predictors of a classifier: as many columns as coefficients, rows of bounded size, exact weighted products."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from dpstats.errors import BudgetError
from dpstats.mechanisms.hessian import plan_hessian, product_bits
from dpstats.mechanisms.noisy_matrix import plan_matrix
from dpstats.privacy.notions import Budget
from dpstats.records.predictors import Rows, Table, as_table, predictor_rows, sum_squared_losses, sum_weighted_products
from dpstats.records.source import Partition, as_source
from dpstats.specification.coding import code_design
from dpstats.specification.design import build_design
from dpstats.specification.forms import Forms
from dpstats.specification.losses import LOGISTIC
from dpstats.specification.predictors import Ball, build_predictors
from dpstats.specification.schema import Binary, Categorical, Continuous, Schema, TableFacts
from dpstats.specification.view import full_view

SCHEMA = Schema(
    {
        "x": Continuous(2, 10),
        "z": Continuous(-3, 3),
        "g": Categorical(["a", "b", "c"]),
        "h": Categorical(["u", "v", "w", "t"]),
        "k": Binary((False, True)),
        "y": Binary((0, 1)),
    }
)
KINDS = {"x": "number", "z": "number", "g": "object", "h": "object", "k": "bool", "y": "number"}
FORMULAS = [
    "y ~ x",
    "y ~ x + z",
    "y ~ 0 + x",
    "y ~ C(g) + x",
    "y ~ C(g) + C(h) + x",
    "y ~ C(g) * C(h) + k",
    "y ~ x * C(g) + C(h) + k * z",
    "y ~ x:C(g)",
    "y ~ bs(x, df=4) + C(g)",
    "y ~ 0 + C(g) + C(h)",
    "y ~ C(g, Sum) + x",
    "y ~ 1",
    "y ~ x + I(x**2)",
    "y ~ C(g) * C(h) + C(h) * k + C(g) * k",
    "y ~ C(g, Poly) * bs(x, df=3)",
    "y ~ cr(x, df=4) - 1",
    "y ~ np.log(x) + x:z",
]
FEATURES = {"y ~ 0 + x", "y ~ x:C(g)", "y ~ cr(x, df=4) - 1"}


def predictors_of(formula):
    design = build_design(formula, SCHEMA, TableFacts(tuple(SCHEMA.columns), KINDS), binary="dp_logit")
    coding = code_design(design, "laplace")
    return build_predictors(full_view(coding), coding)


def corner_columns(extra=300):
    """All corners of the table's columns, and random, outlying and missing ones."""
    rng = np.random.default_rng(0)
    corners = list(itertools.product((2.0, 10.0), (-3.0, 3.0), "abc", "uvwt", (False, True), (0.0, 1.0)))
    columns = [
        np.array(column, dtype=object if isinstance(column[0], str) else None) for column in zip(*corners, strict=True)
    ]
    more = [
        rng.choice([-1e300, 3.3, 7.7, np.inf, np.nan, 5.0], extra),
        rng.uniform(-4, 4, extra),
        rng.choice(np.array(["a", "b", "c", "?"], dtype=object), extra),
        rng.choice(np.array(["u", "v", "w", "t"], dtype=object), extra),
        rng.choice([False, True], extra),
        rng.choice([0.0, 1.0, 0.5, np.nan], extra),
    ]
    return {name: np.concatenate([a, b]) for name, a, b in zip(SCHEMA.columns, columns, more, strict=True)}


def rows_of(predictors, columns):
    n = len(columns["x"])
    return predictor_rows(Partition(columns, n), predictors)


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_columns_span_the_model_and_no_more(formula):
    predictors = predictors_of(formula)
    design = predictors.view.design
    assert predictors.n_columns == len(design.columns)
    assert (predictors.features is not None) == (formula in FEATURES)
    rng = np.random.default_rng(1)
    n = 400
    frame = pd.DataFrame(
        {
            "x": rng.uniform(2, 10, n),
            "z": rng.uniform(-3, 3, n),
            "g": pd.Categorical(rng.choice(["a", "b", "c"], n), ["a", "b", "c"]),
            "h": pd.Categorical(rng.choice(["u", "v", "w", "t"], n), ["u", "v", "w", "t"]),
            "k": rng.choice([False, True], n),
        }
    )
    coded = predictors.code_public({name: frame[name].to_numpy() for name in design.regressor_variables}, n)
    expected = design.model_matrix(frame[list(design.regressor_variables)], n)
    np.testing.assert_allclose(
        coded @ predictors.view.contrast.T, expected, atol=1e-9 * max(1.0, np.abs(expected).max())
    )
    assert np.linalg.matrix_rank(coded) == predictors.n_columns
    if predictors.view.has_constant:
        np.testing.assert_allclose(coded @ predictors.constant, 1.0, atol=1e-12)


@pytest.mark.parametrize("formula", FORMULAS)
def test_every_row_is_within_the_public_norms_exactly(formula):
    predictors = predictors_of(formula)
    rows = rows_of(predictors, corner_columns())
    whole = rows.z * 2.0**20
    assert (whole == np.rint(whole)).all()
    assert predictors.ball.norm(rows.z).max() <= 1.0
    assert (rows.z**2).sum(axis=1).max() <= predictors.row_size
    assert predictors.ball.norm(rows.z).max() >= 0.99
    assert (rows.z[np.isnan(corner_columns()["x"])] == 0).all() or "x" not in predictors.view.design.regressor_variables


def test_a_factor_replaces_the_constant_and_counts_once():
    assert predictors_of("y ~ C(g) + x").row_size == 2.0
    assert predictors_of("y ~ C(g) + C(h) + x").row_size == 3.0
    assert predictors_of("y ~ C(g) + C(h) + x").ball.sizes == (3, 3, 1)


@pytest.mark.parametrize("formula", ["y ~ x + z", "y ~ C(g) + C(h) + x", "y ~ bs(x, df=4) + C(g)"])
def test_the_dual_norm_is_the_largest_product(formula):
    predictors = predictors_of(formula)
    rows = rows_of(predictors, corner_columns()).z
    rng = np.random.default_rng(2)
    for _ in range(50):
        weights = rng.normal(size=predictors.n_columns)
        largest = predictors.ball.dual(weights[None])[0]
        found = np.abs(rows @ weights).max()
        assert found <= largest * (1 + 1e-12)
        assert found >= 0.3 * largest


def test_the_euclidean_ball():
    ball = Ball((), (2.0,), 3)
    assert ball.norm(np.array([[0.0, 2.0, 0.0]]))[0] == 1.0
    assert ball.dual(np.array([[3.0, 0.0, 4.0]]))[0] == 10.0


# -- the Hessian: exact integers, sensitivity by brute force -----------------------------------------------------------


def weighted(predictors, rows, weights, bits):
    """Exact matrices of single rows at given weights, in the units of `sum_weighted_products`."""
    z = np.rint(rows.z * 2.0**bits)
    w = np.rint(np.asarray(weights) * 2.0**bits)
    return np.einsum("n,ni,nj->nij", w, z, z)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_the_weighted_change_of_the_hessian_keeps_its_bound(formula, law):
    predictors = predictors_of(formula)
    budget = Budget(epsilon=1.0) if law == "laplace" else Budget(rho=0.5)
    plan = plan_hessian(predictors, 0.25, law, budget, 1.0, 100_000)
    columns = corner_columns(60)
    rows = rows_of(predictors, columns)
    unique = np.unique(rows.z, axis=0)
    rng = np.random.default_rng(4)
    chosen = unique[rng.permutation(len(unique))[:150]]
    rows = Rows(chosen, np.ones(len(chosen)))
    worst = 0.0
    for first, second in ((1.0, 1.0), (1.0, 0.0), (0.37, 1.0)):
        a = weighted(predictors, rows, np.full(len(chosen), first), plan.bits)[:, plan.left, plan.right]
        b = weighted(predictors, rows, np.full(len(chosen), second), plan.bits)[:, plan.left, plan.right]
        change = np.abs(a[:, None] - b[None, :]) / plan.noise.scales
        size = change.sum(axis=2) if law == "laplace" else (change**2).sum(axis=2) / 2
        worst = max(worst, float(size.max()))
    spent = plan.cost.epsilon if law == "laplace" else plan.cost.rho
    assert worst <= spent * (1 + 1e-12)
    assert spent <= (1.0 if law == "laplace" else 0.5)
    if formula not in FEATURES and "bs(" not in formula and formula != "y ~ 1":
        assert worst >= (0.5 if law == "laplace" else 0.3) * spent, "the bound is not idle"


@pytest.mark.parametrize("formula", ["y ~ x + z", "y ~ C(g) + C(h) + x", "y ~ bs(x, df=4)", "y ~ 1", "y ~ 0 + x"])
@pytest.mark.parametrize("budget", [Budget(epsilon=1.0), Budget(rho=0.5)], ids=str)
def test_the_frobenius_change_of_a_matrix_keeps_its_bound(formula, budget):
    predictors = predictors_of(formula)
    plan = plan_matrix(predictors, budget, 100_000)
    chosen = np.unique(rows_of(predictors, corner_columns(60)).z, axis=0)[:200]
    rows = Rows(chosen, np.ones(len(chosen)))
    reach = plan.noise.distances[0] if budget.rho is None else plan.noise.distances.max()
    worst = 0.0
    for first, second in ((1.0, 1.0), (1.0, 0.0)):
        a = weighted(predictors, rows, np.full(len(chosen), first), plan.bits)
        b = weighted(predictors, rows, np.full(len(chosen), second), plan.bits)
        worst = max(worst, float(np.linalg.norm(a[:, None] - b[None], axis=(2, 3)).max()))
    assert worst <= reach
    assert worst >= 0.5 * reach


@pytest.mark.parametrize("n", [10, 10**5, 2**20, 10**8, 2**31])
def test_sums_of_products_fit_into_62_bits(n):
    bits = product_bits(n, 1.0)
    assert n * 8**bits <= 2**62
    assert bits >= 8 or n > 2**31
    assert 1e9 * 8.0 ** product_bits(n, 1e9) <= 2**57
    with pytest.raises(BudgetError, match="so small"):
        product_bits(n, 1e15)


def table(n=3_000, seed=5, partition_rows=16_384):
    rng = np.random.default_rng(seed)
    columns = {
        "x": rng.uniform(2, 10, n),
        "z": rng.uniform(-3, 3, n),
        "g": rng.choice(np.array(["a", "b", "c"], dtype=object), n),
        "h": rng.choice(np.array(["u", "v", "w", "t"], dtype=object), n),
        "k": rng.choice([False, True], n),
        "y": rng.choice([0.0, 1.0], n),
    }
    return as_source(columns, partition_rows)


@pytest.mark.parametrize("formula", ["y ~ C(g) + C(h) + x * z", "y ~ bs(x, df=4)"])
def test_products_and_squares_are_the_same_integers_for_any_partition(formula):
    predictors = predictors_of(formula)
    theta = np.random.default_rng(6).normal(size=predictors.n_columns)
    found = []
    for rows in (16_384, 100, 7):
        source = table(partition_rows=rows)
        for kept in (as_table(source, predictors), Table(source, predictors, None)):
            leverage = np.random.default_rng(7).normal(size=(3, predictors.n_columns))
            forms = Forms.of(leverage, paired=True)
            ranges = predictors.ball.dual(forms.matrix) ** 2
            products = sum_weighted_products(kept, lambda eta, u: 4 * LOGISTIC.curvature(eta, u), theta, 13)
            squares = sum_squared_losses(kept, LOGISTIC, theta, forms, ranges, 2**20)
            found.append((products, squares))
    for products, squares in found[1:]:
        np.testing.assert_array_equal(products, found[0][0])
        np.testing.assert_array_equal(squares, found[0][1])
    assert (squares >= 0).all()
    assert (squares <= 3_000 * 2**20).all()


def test_weighted_products_are_those_of_the_rows():
    predictors = predictors_of("y ~ C(g) + x")
    kept = as_table(table(), predictors)
    theta = np.array([0.3, -0.2, 0.5, 0.7])
    rows = kept.kept[0]
    weights = LOGISTIC.curvature(rows.z @ theta, rows.u) * 4
    exact = (rows.z * weights[:, None]).T @ rows.z
    found = sum_weighted_products(kept, lambda eta, u: 4 * LOGISTIC.curvature(eta, u), theta, 14) / 8.0**14
    np.testing.assert_allclose(found, exact, atol=0.05)
    assert "Rows(" in repr(rows)
    assert repr(kept) == "Table()"


def test_an_outcome_whose_bounds_leave_0_to_1_a_little_is_coded_within_the_radius():
    """Found in review: it was clipped to its own bounds only, and moved a row further than the noise allowed for."""
    schema = Schema({"x": Continuous(-1, 1), "y": Continuous(-0.0009, 1.0009)})
    facts = TableFacts(("x", "y"), {"x": "number", "y": "number"})
    coding = code_design(build_design("y ~ x", schema, facts, binary="dp_logit"), "laplace")
    columns = {"x": np.array([-1.0, 0.0, 1.0, 9.0]), "y": np.array([-9.0, -0.0009, 1.0009, 9.0])}
    (rows,) = as_table(as_source(columns), build_predictors(full_view(coding), coding)).kept
    np.testing.assert_array_equal(rows.u, [-1.0, -1.0, 1.0, 1.0])
