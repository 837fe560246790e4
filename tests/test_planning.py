"""The public forecast: refusals that spend nothing, and plans that agree with simulation and see no data."""

from __future__ import annotations

import numpy as np
import pytest

import dpstats as dps
from dpstats.records.source import FrameSource

BOUNDS = {f"x{j}": (-1, 1) for j in range(5)} | {"y": (-1, 1)}
FORMULA = "y ~ x0 + x1 + x2 + x3 + x4"


UNIFORM = 1 / np.sqrt(3)


def table(n, sd_x=UNIFORM, sd_y=0.25, rsquared=0.5, p=5, seed=0, levels=None):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, p)) * sd_x * np.sqrt(3)
    slope = sd_y * np.sqrt(rsquared / p) / sd_x
    columns = {f"x{j}": column for j, column in enumerate(x.T)}
    columns["y"] = np.clip(x.sum(axis=1) * slope + rng.normal(0, sd_y * np.sqrt(1 - rsquared), n), -1, 1)
    if levels:
        columns["g"] = rng.choice(levels, n)
    return columns


# -- refusals --------------------------------------------------------------------------------------------------------


def test_a_hopeless_call_is_refused_before_a_record_is_read(monkeypatch):
    import pandas as pd

    def looked(*_):
        raise AssertionError("the records were read")

    monkeypatch.setattr(FrameSource, "map_reduce", looked)
    with pytest.raises(dps.InfeasibleError) as caught:
        dps.dp_ols(FORMULA, pd.DataFrame(table(100)), epsilon=0.1, bounds=BOUNDS)
    message = str(caught.value)
    assert all(part in message for part in ("100 rows", "rows, or epsilon =", "fewer columns", "tighter bounds"))
    assert "infeasible='fit'" in message
    assert "Nothing was spent" in message


@pytest.mark.parametrize("budget", [{"epsilon": 0.1}, {"epsilon": 0.1, "delta": 1e-6}, {"rho": 1e-4}], ids=str)
def test_what_the_refusal_asks_for_is_enough(budget):
    with pytest.raises(dps.InfeasibleError) as caught:
        dps.dp_ols(FORMULA, table(100), bounds=BOUNDS, **budget)
    words = str(caught.value).split("takes about ")[1]
    n = int(words.split(" rows")[0].replace(",", ""))
    fit = dps.dp_ols(FORMULA, table(n), bounds=BOUNDS, rng=np.random.default_rng(1), **budget)
    assert fit.snr.drop("Intercept").median() > 1.5
    stronger = float(words.split(" = ")[1].split(",")[0])
    raised = {**budget, ("rho" if "rho" in budget else "epsilon"): stronger}
    assert dps.dp_ols(FORMULA, table(100), bounds=BOUNDS, rng=np.random.default_rng(2), **raised).snr.max() > 1


def test_going_on_anyway_gives_an_honest_result():
    fit = dps.dp_ols(FORMULA, table(100), epsilon=0.1, bounds=BOUNDS, infeasible="fit", rng=np.random.default_rng(3))
    assert np.isinf(fit.conf_int()).any(axis=None)
    assert "weak" in str(fit.summary())


def test_the_threshold_is_where_the_best_slope_has_a_signal_of_two_thirds():
    """kappa about 1.5 on uniform columns, as the specification puts it for numbers alone."""

    def refused(n):
        try:
            dps.dp_ols(FORMULA, table(n), epsilon=1, bounds=BOUNDS, rng=np.random.default_rng(4))
        except dps.InfeasibleError:
            return True
        return False

    assert refused(40)
    assert not refused(400)


def test_the_decision_is_the_same_for_any_data_of_that_length():
    hopeless = [table(100, seed=s) for s in range(3)] + [{k: np.full(100, np.nan) for k in BOUNDS}]
    messages = set()
    for data in hopeless:
        with pytest.raises(dps.InfeasibleError) as caught:
            dps.dp_ols(FORMULA, data, epsilon=0.1, bounds=BOUNDS)
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_an_infinite_budget_is_never_refused():
    assert len(dps.dp_ols("y ~ x0", table(3), epsilon=np.inf, bounds=BOUNDS).params) == 2


@pytest.mark.parametrize("wrong", ["go", None, True])
def test_an_unknown_choice_is_refused(wrong):
    with pytest.raises(dps.OptionError, match="'refuse' or 'fit'"):
        dps.dp_ols("y ~ x0", table(1_000), epsilon=1, bounds=BOUNDS, infeasible=wrong)


# -- plans -----------------------------------------------------------------------------------------------------------

CELLS = {
    "uniform, pure": (FORMULA, 10_000, {"epsilon": 1.0}, {"sd_x": 1 / np.sqrt(3)}),
    "uniform, delta": (FORMULA, 10_000, {"epsilon": 1.0, "delta": 1e-6}, {"sd_x": 1 / np.sqrt(3)}),
    "narrow columns": (FORMULA, 40_000, {"rho": 0.05}, {"sd_x": 0.3}),
    "few rows": ("y ~ x0 + x1", 2_000, {"epsilon": 1.0}, {"sd_x": 1 / np.sqrt(3)}),
    "weak signal": (FORMULA, 20_000, {"epsilon": 1.0}, {"sd_x": 0.5, "rsquared": 0.1}),
    "a factor": ("y ~ x0 + x1 + C(g)", 10_000, {"epsilon": 1.0}, {"sd_x": 1 / np.sqrt(3), "rsquared": 0.3}),
}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["ssp", "huber"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_plan_agrees_with_simulation_within_a_fifth(cell, mechanism):
    formula, n, budget, guesses = CELLS[cell]
    factor = "C(g)" in formula
    levels = {"g": list("abcd")} if factor else {}
    p = formula.count("x")
    planned = dps.plan(formula, n, bounds=BOUNDS, levels=levels, mechanism=mechanism, **budget, **guesses)
    ratios = []
    for seed in range(12):
        data = table(n, p=p, seed=seed, levels=levels.get("g"), **guesses)
        options = {"bounds": BOUNDS, "levels": levels, "mechanism": mechanism}
        private = dps.dp_ols(formula, data, rng=np.random.default_rng(seed), **budget, **options).conf_int()
        exact = dps.dp_ols(formula, data, epsilon=np.inf, **options).conf_int()
        ratios.append((private[1] - private[0]) / (exact[1] - exact[0]))
    simulated = np.median(ratios, axis=0)
    np.testing.assert_allclose(planned.table["width"], simulated, rtol=0.2)


def test_width_falls_with_rows_and_budget_and_tighter_bounds():
    widths = [dps.plan(FORMULA, n, epsilon=1, bounds=BOUNDS).width for n in (5_000, 20_000, 80_000, 320_000)]
    assert (np.diff(widths) < 0).all()
    widths = [dps.plan(FORMULA, 50_000, epsilon=e, bounds=BOUNDS).width for e in (0.5, 1, 2, 4)]
    assert (np.diff(widths) < 0).all()
    planned = dps.plan(FORMULA, 50_000, epsilon=1, bounds=BOUNDS)
    assert (planned.tighter < planned.width).all()
    assert planned.tighter.idxmin() == "y"


def test_n_and_budget_for_a_wanted_width_give_that_width():
    planned = dps.plan(FORMULA, 20_000, epsilon=1, bounds=BOUNDS)
    n = planned.n_for(1.5)
    assert dps.plan(FORMULA, n, epsilon=1, bounds=BOUNDS).width == pytest.approx(1.5, rel=0.05)
    budget = planned.budget_for(1.5)
    assert dps.plan(FORMULA, 20_000, epsilon=budget.epsilon, bounds=BOUNDS).width == pytest.approx(1.5, rel=0.1)
    approximate = dps.plan(FORMULA, 20_000, epsilon=1, delta=1e-6, bounds=BOUNDS).budget_for(2.0)
    assert approximate.delta == 1e-6
    for wrong in (1, 0.5, -2):
        with pytest.raises(dps.OptionError, match="above 1"):
            planned.n_for(wrong)


def test_a_plan_of_a_huber_regression_needs_fewer_rows():
    huber, ssp = (dps.plan(FORMULA, 20_000, epsilon=1, bounds=BOUNDS, mechanism=m) for m in ("huber", "ssp"))
    assert "huber, block + Laplace" in str(huber)
    assert huber.width < ssp.width
    assert 3 * huber.n_for(1.5) < ssp.n_for(1.5)
    wide = dps.plan(FORMULA, 20_000, epsilon=1, bounds=BOUNDS, mechanism=dps.Huber(threshold=1.0))
    assert wide.width > huber.width


def test_a_plan_prints_its_guesses_and_advice():
    text = str(dps.plan(FORMULA, 20_000, epsilon=1, bounds=BOUNDS))
    for part in ("n = 20,000", "epsilon = 1 (pure)", "ssp, Laplace", "R-squared 0.5", "half as wide", "x0"):
        assert part in text


def test_a_plan_needs_no_data_and_reads_none(monkeypatch):
    import dpstats.records.source as source

    def looked(*_):
        raise AssertionError("a source was made")

    monkeypatch.setattr(source, "as_source", looked)
    monkeypatch.setattr(FrameSource, "map_reduce", looked)
    assert dps.plan(FORMULA, 1_000, epsilon=1, bounds=BOUNDS).width > 1


@pytest.mark.parametrize("n", [0, -1, 2.5, "many", True])
def test_n_is_a_number_of_rows(n):
    with pytest.raises(dps.OptionError, match="n must be the number of rows"):
        dps.plan(FORMULA, n, epsilon=1, bounds=BOUNDS)


def test_a_plan_of_an_undeclared_column_says_what_to_write():
    with pytest.raises(dps.SchemaError, match=r"column 'z' .* add bounds=\{'z': \(lowest, highest\)\}"):
        dps.plan("y ~ z", 1_000, epsilon=1, bounds=BOUNDS)
    with pytest.raises(dps.SchemaError, match=r"columns 'y', 'z' have no declaration; add bounds=\{'y': .*'z': "):
        dps.plan("y ~ 0 + z", 1_000, epsilon=1)


def test_a_plan_can_be_drawn():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    ax = dps.plan(FORMULA, 2_000, epsilon=1, bounds=BOUNDS).plot()
    assert len(ax.patches) == 6
    assert ax.get_xlabel()
    pyplot.close("all")


def test_a_plan_without_any_bounded_interval_can_be_drawn():
    plt = pytest.importorskip("matplotlib.pyplot")
    p = dps.plan(FORMULA, 200, 0.1, bounds=BOUNDS)
    assert np.isinf(p.table["width"]).all()
    assert "unbounded" in str(p)
    ax = p.plot()
    ax.figure.canvas.draw()
    assert [label.get_text() for label in ax.get_yticklabels()] == list(p.table.index)
    inside = ax.get_window_extent()
    assert all(inside.y0 <= text.get_window_extent().y0 <= inside.y1 for text in ax.texts)
    plt.close(ax.figure)


def test_a_plan_knows_whether_sums_are_reconciled():
    """Reconciliation halves the noise of the second factor's contrasts; a plan without it must not promise that."""
    levels = {"g": ["a", "b", "c"], "h": ["u", "v", "w"]}
    widths = [
        dps.plan("y ~ C(g) + C(h)", 20_000, 1, bounds={"y": (-1, 1)}, levels=levels, mechanism=dps.SSP(reconcile=flag))
        .table["width"]
        .loc["C(h)[T.v]"]
        for flag in (True, False)
    ]
    assert widths[0] < 0.8 * widths[1]
