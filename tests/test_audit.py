"""Black-box audits of every mechanism and notion with real noise, the audit itself, and faults that must be noticed.

False alarms: some thirty audits at level 1e-8 each, so that all together are rarer than one in a million runs.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from planted import CAUGHT_BY, FAULTS, LAYERS, RUNS

import dpstats as dps
from dpstats.audits.loss import Counted, claimed_mu, distance_bound, epsilon_of, lower_probability, rho_of
from dpstats.audits.outcomes import observe
from dpstats.privacy.notions import Budget

LEVEL = 1e-8
CALLS = 80
"""On each table: enough to see an epsilon of 0.5 or a rho of 0.1, so that smaller claims could fail."""
N = 24
SCHEMA = dps.Schema(
    {
        "x": dps.Continuous(-1, 1),
        "z": dps.Continuous(-1, 1),
        "y": dps.Continuous(-1, 1),
        "g": dps.Categorical(["a", "b", "c"]),
        "b": dps.Binary((0, 1)),
        "w": dps.Continuous(0, 5),
    }
)
PURE, APPROXIMATE, ZCDP = {"epsilon": 0.3}, {"epsilon": 0.3, "delta": 1e-6}, {"rho": 0.02}


def table(*rows):
    """Plain rows, and some more: each a dict of what differs from a row of ones."""
    plain = {
        "x": np.resize([-1.0, 1.0], N - 1),
        "z": np.resize([1.0, 1.0, -1.0], N - 1),
        "y": np.resize([-1.0, 1.0, 0.0, 1.0], N - 1),
        "g": np.resize(np.array(list("abc"), dtype=object), N - 1),
        "b": np.resize([0.0, 1.0, 1.0], N - 1),
        "w": np.resize([5.0, 0.0, 1.0], N - 1),
    }
    usual = {"x": 1.0, "z": 1.0, "y": 1.0, "g": "a", "b": 1.0, "w": 5.0}
    more = [{**usual, **row} for row in rows]
    return {
        name: np.concatenate([column, np.array([row[name] for row in more], dtype=column.dtype)])
        for name, column in plain.items()
    }


HUGE, MISSING = 1e300, math.nan
OPPOSITE = table({}), table({"y": -1.0, "b": 0.0})
BEYOND = table({"x": HUGE, "y": math.inf}), table({"x": MISSING, "g": None})
WEIGHTED = table({"w": HUGE}), table({"y": -1.0, "w": HUGE})
ADDED = table({}), table()
LABEL = table({"x": 1.0, "b": 1.0}), table({"x": 1.0, "b": 0.0})
GONE = table({"x": HUGE, "b": 1.0}), table({"x": MISSING, "b": 0.5})


def fit(model, formula, **options):
    return lambda budget: (
        lambda data: model(
            formula, data, **budget, schema=SCHEMA, infeasible=options.get("infeasible", "fit"), **options
        )
    )


def ols(formula="y ~ x", **options):
    return fit(dps.dp_ols, formula, **options)


def logit(**options):
    return fit(dps.dp_logit, "b ~ x", **options)


AUDITS = {
    "ssp": (ols(), PURE, OPPOSITE),
    "ssp, a row beyond its bounds": (ols("y ~ x + C(g)"), PURE, BEYOND),
    "ssp, zCDP": (ols(), ZCDP, BEYOND),
    "ssp, (epsilon, delta)": (ols(mechanism=dps.SSP(noise="gaussian")), APPROXIMATE, BEYOND),
    "moments": (fit(dps.dp_moments, "y ~ x + z"), PURE, BEYOND),
    "moments, zCDP": (fit(dps.dp_moments, "y ~ x + z"), ZCDP, OPPOSITE),
    "spline": (ols("y ~ bs(x, df=4)"), PURE, BEYOND),
    "HC1": (ols(cov_type="HC1"), PURE, OPPOSITE),
    "HC0, zCDP": (ols(cov_type=dps.HC0(share=0.5)), ZCDP, OPPOSITE),
    "complete columns": (ols(missing="none"), PURE, BEYOND),
    "weights": (ols(weights="w"), PURE, WEIGHTED),
    "a row added": (ols(neighboring_relation="add_or_remove_one"), PURE, ADDED),
    "a row added, zCDP": (ols(neighboring_relation="add_or_remove_one"), ZCDP, ADDED),
    "huber": (ols(mechanism="huber"), PURE, OPPOSITE),
    "huber, a row beyond its bounds": (ols("y ~ x + C(g)", mechanism="huber"), PURE, BEYOND),
    "huber, zCDP": (ols(mechanism="huber"), ZCDP, OPPOSITE),
    "huber, (epsilon, delta), HC1": (ols(mechanism="huber", cov_type="HC1"), APPROXIMATE, BEYOND),
    "functional": (ols(mechanism="functional"), PURE, OPPOSITE),
    "diff-lr": (ols(mechanism="diff-lr"), PURE, BEYOND),
    "adassp": (ols(mechanism="adassp"), ZCDP, OPPOSITE),
    "adassp, (epsilon, delta)": (ols(mechanism="adassp"), APPROXIMATE, BEYOND),
    "Taylor logit": (logit(mechanism="functional"), PURE, LABEL),
    "logit": (logit(), PURE, LABEL),
    "logit, a row that goes": (logit(), PURE, GONE),
    "logit, zCDP": (logit(), ZCDP, LABEL),
    "logit, (epsilon, delta), HC1": (logit(cov_type="HC1"), APPROXIMATE, LABEL),
    "svm": (fit(dps.dp_svm, "b ~ x"), PURE, LABEL),
    "wkl-objective": (logit(mechanism="wkl-objective"), PURE, LABEL),
    "wkl-output": (logit(mechanism="wkl-output"), PURE, LABEL),
}


@pytest.mark.parametrize("name", AUDITS)
def test_nothing_that_a_result_shows_contradicts_the_claim(name):
    make, claimed, (one, other) = AUDITS[name]
    report = dps.audit_fit(make(claimed), one, other, claimed, runs=CALLS, alpha=LEVEL)
    assert report.passed, str(report)
    assert report.errors == report.alarms == (), "no call raises or warns"


def bounds_of(budget, **options):
    return lambda data: dps.private_bounds(data, ["x"], **budget, **options)


def test_bounds_show_no_more_of_a_row_than_is_claimed():
    many = np.concatenate([np.full(30, 0.5), [1.0]])
    one, other = {"x": np.append(many, 1e9)}, {"x": many}
    added = {"neighboring_relation": "add_or_remove_one"}
    for budget in (PURE, ZCDP):
        report = dps.audit_fit(bounds_of(budget, **added), one, other, budget, runs=CALLS, alpha=LEVEL)
        assert report.passed, str(report)


def test_levels_show_no_more_of_a_row_than_is_claimed():
    claimed = {"epsilon": 1.0, "delta": 0.05}
    common = np.array(["a", "b"] * 100, dtype=object)
    one, other = ({"g": np.append(common, cell)} for cell in ("only one has this", "a"))
    report = dps.audit_fit(
        lambda data: dps.private_levels(data, ["g"], **claimed), one, other, claimed, runs=CALLS, alpha=LEVEL
    )
    assert report.passed, str(report)


# -- the audit notices what it should ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cost", "claimed"),
    [({"epsilon": 30.0}, 0.3), ({"rho": 20.0}, ZCDP), ({"epsilon": 30.0}, APPROXIMATE)],
    ids=str,
)
def test_a_release_that_costs_more_than_is_claimed_is_noticed(cost, claimed):
    one, other = BEYOND
    report = dps.audit_fit(
        lambda data: dps.dp_ols("y ~ x", data, **cost, schema=SCHEMA, infeasible="fit"), one, other, claimed, runs=150
    )
    assert not report.passed
    assert "violates" in report.verdict


def test_a_fixed_seed_is_noticed():
    def seeded(data):
        return dps.dp_ols("y ~ x", data, 1.0, schema=SCHEMA, infeasible="fit", rng=np.random.default_rng(0))

    assert not dps.audit_fit(seeded, *OPPOSITE, claimed=1.0, runs=60).passed


def raises(data):
    if data["x"][-1] > 1:
        raise ValueError(f"{data['x'][-1]} is too large")


def warns(data):
    if data["x"][-1] > 1:
        warnings.warn("clipped", stacklevel=1)


def fails_now_and_then(data, rng=np.random.default_rng(4)):  # noqa: B008
    if rng.random() < (0.9 if data["x"][-1] > 1 else 0.1):
        raise RuntimeError


SHOWS = {
    "an error": raises,
    "a warning": warns,
    "an error, at random": fails_now_and_then,
    "words": lambda data: "above" if data["x"][-1] > 1 else "below",
    "the length of a text": lambda data: "1" * int(data["x"][-1] > 1),
    "a number": lambda data: {"deep": [{"inside": data["x"][-1]}]},
    "whether a number is finite": lambda data: math.nan if data["x"][-1] > 1 else 0.0,
    "the shape": lambda data: np.zeros(1 + (data["x"][-1] > 1)),
    "the type": lambda data: (0,) if data["x"][-1] > 1 else {0},
}


@pytest.mark.parametrize("show", SHOWS)
def test_whatever_is_shown_is_looked_at(show):
    report = dps.audit_fit(SHOWS[show], {"x": [2.0]}, {"x": [0.0]}, 0.5, runs=200)
    assert not report.passed, str(report)


@pytest.mark.parametrize("claimed", [1.0, {"epsilon": 0.7, "delta": 0.05}, {"rho": math.tanh(0.5)}], ids=str)
def test_a_true_claim_is_hardly_ever_contradicted(claimed):
    """Randomised response of epsilon = 1 attains each of these claims or nearly so."""
    rng = np.random.default_rng(5)
    keep = math.e / (1 + math.e)

    def respond(data):
        return float(data if rng.random() < keep else 1 - data)

    wrong = sum(not dps.audit_fit(respond, 0, 1, claimed, runs=60, alpha=0.1).passed for _ in range(100))
    assert wrong <= 24, "ten are expected at most; 24 have a chance of 1e-5"


def test_a_trained_score_finds_what_no_single_number_shows():
    rng = np.random.default_rng(6)

    def twice(data):
        shared = rng.normal(0, 100)
        return np.array([shared, shared + data + rng.normal(0, 0.1)])

    report = dps.audit_fit(twice, 0.0, 1.0, 1.0, runs=120)
    assert not report.passed
    assert "linear score" in report.event


def test_a_statistic_of_the_user_is_all_that_is_looked_at():
    report = dps.audit_fit(lambda data: np.array([data, 7.0]), 0.0, 1.0, 1.0, runs=60, statistic=lambda r: r[1])
    assert report.passed
    assert not dps.audit_fit(
        lambda data: np.array([data, 7.0]), 0.0, 1.0, 1.0, runs=60, statistic=lambda r: r[0]
    ).passed


# -- its arithmetic ----------------------------------------------------------------------------------------------------


def test_proportions_are_bounded_as_by_clopper_and_pearson():
    from scipy.stats import binom

    for hits, runs, alpha in ((3, 10, 0.05), (50, 100, 1e-6), (1, 400, 0.01)):
        p = lower_probability(hits, runs, alpha)
        assert binom.sf(hits - 1, runs, p) == pytest.approx(alpha, rel=1e-6)
    assert lower_probability(0, 10, 0.05) == 0.0
    assert Counted(10, 0, 10).probabilities(0.1) == pytest.approx((0.05**0.1, 1 - 0.05**0.1))


def test_losses_of_known_laws():
    keep = math.e / (1 + math.e)
    assert epsilon_of(keep, 1 - keep) == pytest.approx(1.0)
    assert epsilon_of(keep, 1 - keep, 0.1) == pytest.approx(math.log((keep - 0.1) / (1 - keep)))
    assert epsilon_of(0.2, 0.3) == 0.0
    assert rho_of(keep, 1 - keep) == pytest.approx(math.tanh(0.5), rel=1e-3)
    from scipy.special import ndtr

    for mu in (0.1, 1.0, 3.0):  # no event of a Gaussian pair shows more than its rho
        found = [rho_of(ndtr(mu - t), ndtr(-t)) for t in np.linspace(-3, 6, 61)]
        assert 0.5 * mu**2 / 2 < max(found) <= mu**2 / 2
    assert rho_of(0.5, 0.0) == math.inf
    assert claimed_mu(Budget(rho=2.0)) == 2.0
    assert claimed_mu(Budget(epsilon=1.0)) is None


@pytest.mark.parametrize("mu", [0.0, 0.5, 2.0, 60.0])
def test_the_distance_of_normal_means_is_rarely_overstated(mu):
    rng = np.random.default_rng(7)
    found = np.array([distance_bound(rng.normal(mu, 1, 40), rng.normal(0, 1, 30), 0.1) for _ in range(400)])
    assert (found > mu).mean() <= 0.1 + 5 * math.sqrt(0.09 / 400)
    if mu >= 2:
        assert np.median(found) > 0.7 * mu


def test_the_direct_bound_of_gaussian_sums_is_near_the_truth():
    claimed = {"rho": 0.5}
    report = dps.audit_fit(
        lambda data: dps.dp_moments("y ~ x", data, **claimed, schema=SCHEMA, infeasible="fit"),
        *BEYOND,
        claimed=claimed,
        runs=100,
        alpha=1e-6,
    )
    assert report.passed
    assert report.mu_claimed == 1.0
    assert report.mu is not None
    tight = dps.audit_fit(
        lambda data: dps.dp_moments("y ~ x", data, rho=4.5, schema=SCHEMA, infeasible="fit"),
        *BEYOND,
        claimed=claimed,
        runs=250,
        alpha=1e-6,
    )
    assert 1.0 < tight.mu <= 3.0


def test_the_page_says_what_was_seen_and_what_cannot_be():
    report = dps.audit_fit(lambda data: data, 0.0, 0.0, APPROXIMATE, runs=40)
    page = str(report)
    assert page == report.summary()
    for words in ("epsilon = 0.3, delta = 1e-06", "consistent with", "A pass is no proof", "40, of which 20 counted"):
        assert words in page
    assert max(map(len, page.splitlines())) <= 90
    assert report.epsilon == 0.0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"claimed": math.inf}, dps.BudgetError, "finite"),
        ({"claimed": {"eps": 1}}, dps.BudgetError, "keywords of a fit"),
        ({"claimed": {"delta": 1e-6}}, dps.BudgetError, "delta needs an epsilon"),
        ({"claimed": "1"}, dps.BudgetError, "must be a number"),
        ({"runs": 10}, dps.OptionError, "runs must be"),
        ({"runs": True}, dps.OptionError, "runs must be"),
        ({"alpha": 0}, dps.OptionError, "alpha must"),
        ({"statistic": 3}, dps.OptionError, "statistic must be a function"),
        ({"fit_function": None}, dps.OptionError, "fit_function must be a function"),
    ],
    ids=str,
)
def test_arguments_are_checked_before_anything_is_called(change, error, message):
    def never(data):
        raise AssertionError

    arguments = {"fit_function": never, "data": 0, "neighbour": 1, "claimed": 1.0, **change}
    with pytest.raises(error, match=message):
        dps.audit_fit(**arguments)


def test_the_budget_of_a_result_is_a_claim():
    fitted = dps.dp_ols("y ~ x", OPPOSITE[0], 2.0, schema=SCHEMA, infeasible="fit")
    report = dps.audit_fit(lambda data: 1.0, 0, 1, fitted.privacy.budget, runs=40)
    assert report.claimed == Budget(epsilon=2.0)


def test_an_outcome_keeps_every_number_of_a_fit():
    outcome = observe(AUDITS["ssp"][0](PURE), OPPOSITE[0])
    for place in (".params", ".bse", ".conf_int", ".nobs", ".held.release.moments.values", "text"):
        assert place in outcome.numbers
    assert "DP OLS" in outcome.endings[2]


# -- planted faults ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [name for name in FAULTS if name != "none"])
def test_a_planted_fault_is_noticed(fault, monkeypatch):
    FAULTS[fault](monkeypatch)
    for layer in CAUGHT_BY[fault]:
        assert LAYERS[layer](RUNS[layer]), f"{layer} on {fault}"


@pytest.mark.parametrize("layer", LAYERS)
def test_the_code_as_it_is_alarms_nobody(layer):
    assert not LAYERS[layer](RUNS[layer] // 2)
