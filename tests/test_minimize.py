"""The certified minimiser: its certificate against exact arithmetic, and tables on which nothing must go wrong."""

from __future__ import annotations

import math
import warnings
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from dpstats.mechanisms.minimum import plan_minimum, release_minimum
from dpstats.records.minimize import Objective, Point, certified_norm, minimize, tolerance
from dpstats.records.predictors import Table, as_table, sum_scores
from dpstats.records.source import as_source
from dpstats.release.noise import NoNoise, RealNoise, SimulatedNoise, real_error
from dpstats.specification.coding import code_design
from dpstats.specification.design import build_design
from dpstats.specification.losses import LOGISTIC, HuberHinge, HuberResidual, QuarticHinge
from dpstats.specification.perturbation import calibrate
from dpstats.specification.predictors import build_predictors
from dpstats.specification.schema import Binary, Continuous, Schema
from dpstats.specification.view import full_view

LOSSES = [LOGISTIC, HuberHinge(0.5), QuarticHinge(0.5), HuberResidual(0.5), HuberResidual(0.02)]
getcontext().prec = 60


def table_of(columns, formula="y ~ x0 + x1", *, regression=False):
    outcome = Continuous(-1, 1) if regression else Binary((0, 1))
    schema = Schema({**{name: Continuous(-1, 1) for name in columns if name != "y"}, "y": outcome})
    source = as_source(columns)
    design = build_design(formula, schema, source.facts, binary="" if regression else "dp_logit")
    coding = code_design(design, "laplace")
    return as_table(source, build_predictors(full_view(coding), coding))


def random_table(rng, n=40, d=2, loss=LOGISTIC):
    columns = {f"x{j}": rng.uniform(-1, 1, n) for j in range(d)}
    if loss.is_regression:
        return table_of({**columns, "y": rng.uniform(-1, 1, n)}, regression=True)
    return table_of({**columns, "y": rng.integers(0, 2, n).astype(float)})


def fractions(values):
    return [Fraction(float(value)) for value in values]


def floats(point):
    return np.array([float(t) for t in point])


def exact_gradient(table, loss, ridge, b, theta):
    """In sixty decimal digits, of the rows as they are on the lattice."""
    rows = table.kept[0]
    theta = [Decimal(t.numerator) / Decimal(t.denominator) for t in theta]
    total = [Decimal(ridge) * t + Decimal(float(e)) for t, e in zip(theta, b, strict=True)]
    for z, u in zip(rows.z.tolist(), rows.u.tolist(), strict=True):
        eta = sum((Decimal(a) * t for a, t in zip(z, theta, strict=True)), Decimal(0))
        margin, h = Decimal(u) * eta, Decimal(getattr(loss, "h", 0.5))
        if loss.is_regression:
            score = min(max((Decimal(u) - eta) / Decimal(loss.threshold), Decimal(-1)), Decimal(1))
        elif loss.is_logistic:
            score = Decimal(u) / (1 + margin.exp())
        elif isinstance(loss, HuberHinge):
            score = Decimal(u) * min(max((1 + h - margin) / (2 * h), Decimal(0)), Decimal(1))
        else:
            s = min(max((1 - margin) / h, Decimal(-1)), Decimal(1))
            score = Decimal(u) * (Decimal("0.5") + s * (3 - s * s) / 4)
        total = [t - Decimal(a) * score for t, a in zip(total, z, strict=True)]
    return math.sqrt(float(sum(t * t for t in total)))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_certificate_exceeds_the_exact_gradient(loss):
    """200 random problems, with parameters from tiny to huge."""
    rng = np.random.default_rng(0)
    for trial in range(200):
        table = random_table(rng, loss=loss)
        theta = rng.normal(0, 10.0 ** rng.uniform(-6, 4), 3)
        ridge, b = 10.0 ** rng.uniform(-4, 2), rng.normal(0, 3, 3)
        objective = Objective(table, loss, Fraction(ridge), fractions(b))
        point = Point(theta, rng.normal(0, 2.0**-60, 3) * theta)
        bound = certified_norm(objective, 0.0, objective.gradient(point))
        exact = exact_gradient(table, loss, ridge, b, point.exact())
        assert exact <= bound, trial
        assert bound <= exact + 1e-9 * (1 + exact)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_point_is_within_the_tolerance_of_the_exact_minimiser(loss):
    rng = np.random.default_rng(1)
    for _ in range(20):
        table = random_table(rng, loss=loss)
        b, tau = rng.normal(0, 3, 3), tolerance(table.predictors.row_size, 40, loss.bound)
        point = minimize(table, loss, 0.8, fractions(b), 2.0**-41, tau)
        assert exact_gradient(table, loss, 0.8, b, point) <= tau


def test_the_rounding_of_the_random_term_enters_the_certificate():
    """Pitfall 12: the certificate is for the real draw of which b is the rounding."""
    table = random_table(np.random.default_rng(2))
    objective = Objective(table, LOGISTIC, Fraction(1), fractions(np.ones(3)))
    gradient = objective.gradient(Point(np.ones(3), np.zeros(3)))
    without, with_error = (certified_norm(objective, error, gradient) for error in (0.0, 1e-3))
    assert with_error == pytest.approx(without + 1e-3, rel=1e-12)
    assert real_error(4) == 2.0**-41 * 2


def test_the_released_distance_is_twice_the_radius():
    """Pitfall 12: two neighbours' points may lie on opposite sides of one exact minimiser."""
    table = random_table(np.random.default_rng(3))
    predictors = table.predictors
    perturbation = calibrate(LOGISTIC, predictors.row_size, 1.0)
    plan = plan_minimum(predictors, LOGISTIC, predictors.ball, perturbation, 0.01, 40)
    radius = plan.tau / perturbation.ridge
    assert plan.noise.distances[0] == pytest.approx(2 * radius * 2.0**plan.bits + 1)
    assert plan.noise.distances[0] / plan.noise.scales[0] <= 0.01
    assert plan.epsilon_exact + plan.epsilon_output <= 1.01
    assert math.sqrt(plan.output_variance) < 1e-4


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("ridge", [1e-6, 1.0, 50.0])
def test_the_minimiser_is_that_of_a_general_optimiser(loss, ridge):
    rng = np.random.default_rng(4)
    table = random_table(rng, 500, loss=loss)
    rows, b = table.kept[0], rng.normal(0, 1, 3)
    ours = floats(minimize(table, loss, ridge, fractions(b), 0.0, tolerance(3.0, 500, loss.bound)))

    def objective(theta):
        gradient = -(loss.residual(rows.z @ theta, rows.u) @ rows.z) + ridge * theta + b
        return gradient

    norm = np.linalg.norm(objective(ours))
    assert norm < 1e-7
    if ridge >= 1:
        found = scipy_minimize(
            lambda t: (objective(t) ** 2).sum(), ours + 0.01, method="Nelder-Mead", options={"xatol": 1e-9}
        )
        np.testing.assert_allclose(ours, found.x, atol=1e-4)


HOSTILE = {
    "separated": lambda x: (x > 0).astype(float),
    "one class": lambda x: np.ones_like(x),
    "all missing": lambda x: np.full_like(x, np.nan),
    "random": lambda x: np.random.default_rng(5).integers(0, 2, len(x)).astype(float),
}


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 1e4, math.inf])
def test_every_table_ends_silently(kind, loss, epsilon):
    x = np.random.default_rng(6).uniform(-1, 1, 2_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = table_of({"x0": x, "x1": np.zeros_like(x), "y": HOSTILE[kind](x)})
        predictors = table.predictors
        finite = math.isfinite(epsilon)
        perturbation = calibrate(loss, predictors.row_size, epsilon if finite else 1e6)
        plan = plan_minimum(predictors, loss, predictors.ball, perturbation, epsilon / 100 if finite else 1.0, 2_000)
        theta = release_minimum(plan, table, RealNoise() if finite else NoNoise())
    assert np.isfinite(theta).all()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_one_row_moves_the_minimiser_by_at_most_twice_its_size_over_the_ridge(loss):
    """The sensitivity of output perturbation, over tables with one row replaced by an extreme one."""
    rng = np.random.default_rng(11)
    worst = 0.0
    for trial in range(60):
        n, ridge = int(rng.integers(1, 30)), 10.0 ** rng.uniform(-1, 2)
        columns = {name: rng.choice([-1.0, 0.3, 1.0], n) for name in ("x0", "x1")} | {"y": rng.integers(0, 2, n) * 1.0}
        points = []
        for side in (1.0, -1.0):
            columns["x0"][0], columns["x1"][0], columns["y"][0] = 1.0, 1.0, float(side > 0)
            table = table_of({name: column.copy() for name, column in columns.items()})
            points.append(floats(minimize(table, loss, ridge, [Fraction(0)] * 3, 0.0, tolerance(3.0, n, loss.bound))))
        moved = float(np.linalg.norm(points[0] - points[1])) * ridge / (2 * math.sqrt(3.0))
        assert moved <= 1.0 + 1e-6, trial
        worst = max(worst, moved)
    assert worst > 0.45, "the bound is not idle"


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(("distance", "ridge"), [(1e-4, 1e-3), (2e-4, 0.02), (1e-5, 1e-6)])
def test_nearly_collinear_and_separated_rows_are_no_obstacle(loss, distance, ridge):
    """The parameter becomes so large that float64 alone could not resolve it."""
    rng = np.random.default_rng(12)
    n = 30_000
    x, sign = rng.uniform(-0.9, 0.9, n), rng.choice([-1.0, 1.0], n)
    table = table_of({"x0": x, "x1": x + distance * sign, "y": (sign > 0).astype(float)})
    tau = tolerance(3.0, n, loss.bound)
    point = minimize(table, loss, ridge, [Fraction(0)] * 3, 0.0, tau)
    objective = Objective(table, loss, Fraction(ridge), [Fraction(0)] * 3)
    high = floats(point)
    low = floats([t - Fraction(h) for t, h in zip(point, high.tolist(), strict=True)])
    assert certified_norm(objective, 0.0, objective.gradient(Point(high, low))) <= tau


def test_scores_add_up_exactly_whatever_the_order():
    """A table sorted by outcome, over many blocks: float additions would drift."""
    n = 200_000
    columns = {"x0": np.zeros(n), "x1": np.full(n, 0.3), "y": np.repeat([0.0, 1.0], n // 2)}
    theta = np.array([0.1, 0.2, 0.3])
    sums = []
    for order in (np.arange(n), np.random.default_rng(13).permutation(n)):
        table = table_of({name: column[order] for name, column in columns.items()})
        sums.append(sum_scores(table, LOGISTIC, theta, np.zeros(3)))
    assert list(sums[0].upper) == list(sums[1].upper)
    assert all(isinstance(value, int) for value in sums[0].upper)
    np.testing.assert_allclose(sums[0].lower, sums[1].lower, atol=1e-12)
    rows = table.kept[0]
    p = LOGISTIC.residual(rows.z[:1] @ theta, np.array([1.0]))[0]
    intercept = float(Fraction(sums[0].upper[0], 2**40) + Fraction(sums[0].lower[0]))
    assert intercept == pytest.approx((n // 2) * (2 * p - 1), abs=n * 2.0**-49)


def test_a_point_keeps_what_a_float_would_drop():
    point = Point(np.array([1e6]), np.array([0.0]))
    for _ in range(1_000):
        point = point.moved(np.array([1e-13]))
    assert float(point.exact()[0] - 10**6) == pytest.approx(1e-10, rel=1e-9)


def test_an_interruption_shows_no_private_frame():
    import sys

    from dpstats.release.release import read_closed

    def interrupted():
        secret = 31.41592653  # noqa: F841
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        read_closed(interrupted)
    frames = []
    trace = caught.value.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert "interrupted" not in frames
    assert caught.value.__context__ is None
    assert sys.exc_info()[0] is None


def test_incomplete_rows_change_nothing():
    x = np.random.default_rng(7).uniform(-1, 1, 1_000)
    y = (x > 0.2).astype(float)
    more = np.concatenate([x, [np.nan, 0.5, np.nan]]), np.concatenate([y, [1.0, np.nan, 0.0]])
    b, points = fractions([0.3, -0.2, 0.1]), []
    for first, outcome in ((x, y), more):
        table = table_of({"x0": first, "x1": first**2, "y": outcome})
        points.append(floats(minimize(table, LOGISTIC, 1.0, b, 0.0, tolerance(3.0, 1_000, 0.25))))
    np.testing.assert_allclose(points[0], points[1], atol=1e-9)


def test_a_table_that_is_read_again_gives_the_same_minimiser():
    table = random_table(np.random.default_rng(8), 3_000)
    again = Table(table.source, table.predictors, None)
    points = [
        floats(minimize(t, LOGISTIC, 1.0, fractions(np.zeros(3)), 0.0, tolerance(3.0, 3_000, 0.25)))
        for t in (table, again)
    ]
    np.testing.assert_allclose(points[0], points[1], atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("first", ["alike", "separated", "missing"])
def test_a_long_table_is_started_from_its_first_rows(loss, first):
    """Forty blocks of rows, of which the first eight may look like nothing that follows."""
    rng = np.random.default_rng(10)
    x = rng.uniform(-1, 1, 2_000)
    y = (rng.random(2_000) < 0.4).astype(float)
    head = x[:500]
    if first == "separated":
        y[:500] = head > 0
    elif first == "missing":
        x[:500] = np.nan
    columns = {"x0": x, "x1": np.abs(x), "y": y}
    schema = Schema({"x0": Continuous(-1, 1), "x1": Continuous(-1, 1), "y": Binary((0, 1))})
    points = []
    for rows in (50, 16_384):
        source = as_source(columns, rows)
        coding = code_design(build_design("y ~ x0 + x1", schema, source.facts, binary="dp_logit"), "laplace")
        table = as_table(source, build_predictors(full_view(coding), coding))
        assert (table.head(8) is None) == (rows > 50)
        points.append(
            floats(minimize(table, loss, 1e-3, fractions([0.1, 0.2, -0.1]), 0.0, tolerance(3.0, 2_000, loss.bound)))
        )
    np.testing.assert_allclose(points[0], points[1], atol=1e-4)


def test_the_spread_of_the_minimiser_is_that_of_the_noise():
    """Without data the minimiser is -b / lam, with the variance that the ball states."""
    columns = {"x0": np.full(50, np.nan), "x1": np.zeros(50), "y": np.zeros(50)}
    table = table_of(columns)
    predictors = table.predictors
    perturbation = calibrate(LOGISTIC, predictors.row_size, 1.0)
    plan = plan_minimum(predictors, LOGISTIC, predictors.ball, perturbation, 0.01, 50)
    noise = SimulatedNoise(np.random.default_rng(9))
    draws = np.array([release_minimum(plan, table, noise) for _ in range(3_000)]) * perturbation.ridge
    stated = predictors.ball.variances(perturbation.gamma)
    np.testing.assert_allclose(draws.var(axis=0), stated, rtol=0.1)
