"""Pictures: what is drawn are the fit's numbers, what is not private says so, and no record shows."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy.special import expit

import dpstats as dps
from dpstats.privacy.charge import charge_of
from dpstats.privacy.notions import Budget
from dpstats.results.prediction import model_rows

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.text import Annotation, Text  # noqa: E402

FORMULA = "hours_per_week ~ age + education_num + C(sex)"
NAMES = ["C(sex)[T.Male]", "age", "education_num"]


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def adult():
    return dps.datasets.load_adult()


@pytest.fixture(scope="module")
def fit(adult):
    return dps.dp_ols(FORMULA, adult.data, epsilon=1, schema=adult.schema)


@pytest.fixture(scope="module")
def unidentified(adult):
    fit = dps.dp_ols(
        FORMULA, adult.data.head(300), 0.1, schema=adult.schema, infeasible="fit", rng=np.random.default_rng(1)
    )
    assert np.isinf(fit.conf_int()).all(axis=None)
    return fit


@pytest.fixture(scope="module")
def plain(adult):
    return smf.ols(FORMULA, adult.data).fit()


def segments(ax, gid):
    """Left end, right end and height of drawn lines, in order of drawing."""
    found = [line for c in ax.collections if c.get_gid() == gid for line in c.get_segments()]
    return np.array([(line[0][0], line[1][0], line[0][1]) for line in found]).reshape(-1, 3)


def points(ax, gid):
    return np.concatenate([line.get_xydata() for line in ax.lines if line.get_gid() == gid] or [np.zeros((0, 2))])


def texts(ax):
    ax.figure.canvas.draw()
    return [text.get_text() for text in ax.figure.findobj(Text) if text.get_text()]


def row_labels(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts() if text.get_text().strip()]


def says_not_private(ax):
    return any("NOT PRIVATE" in text for text in texts(ax))


# -- coefplot ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_a_coefplot_draws_total_interval_sampling_part_and_estimate(fit, alpha):
    ax = dps.coefplot(fit, alpha=alpha)
    assert row_labels(ax) == NAMES
    assert ax.get_ylim() == (2.5, -0.5)
    total, sampling = segments(ax, "total"), segments(ax, "sampling")
    np.testing.assert_array_equal(total[:, :2], fit.conf_int(alpha).loc[NAMES])
    np.testing.assert_array_equal(total[:, 2], [0, 1, 2])
    z = {0.05: 1.959963985, 0.2: 1.281551566}[alpha]
    for column, sign in ((0, -1), (1, 1)):
        ends = (fit.params + sign * z * fit.bse_sampling).loc[NAMES]
        np.testing.assert_allclose(sampling[:, column], ends, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(points(ax, "estimate")[:, 0], fit.params.loc[NAMES])
    assert legend(ax) == [f"{100 * (1 - alpha):g}% interval", "its sampling part"]
    widths = {c.get_gid(): c.get_linewidths()[0] for c in ax.collections}
    assert widths["sampling"] > 2 * widths["total"]
    assert ax.get_xlabel() == "coefficient"
    assert not says_not_private(ax)


def test_several_fits_lie_beside_each_other_ours_and_statsmodels_mixed(fit, plain, adult):
    narrow = dps.dp_ols("hours_per_week ~ age", adult.data, epsilon=1, schema=adult.schema)
    ax = dps.coefplot(fit, narrow, plain, labels=["first", "second", "third"], intercept=True)
    assert row_labels(ax) == ["Intercept", *NAMES]
    total = segments(ax, "total")
    assert len(total) == 4 + 2 + 4
    np.testing.assert_array_equal(total[:4, :2], fit.conf_int())
    np.testing.assert_array_equal(total[4:6, :2], narrow.conf_int())
    np.testing.assert_array_equal(total[6:, :2], plain.conf_int())
    assert list(np.rint(total[4:6, 2])) == [0, 2]  # Intercept and age
    assert len(set(total[:, 2])) == 10, "no two intervals at one height"
    assert legend(ax)[:3] == ["first", "second", "third (NOT PRIVATE)"]
    assert len({tuple(collection.get_color()[0][:3]) for collection in ax.collections}) == 3
    assert says_not_private(ax)


def test_labels_by_default_tell_the_fits_apart(fit, plain):
    assert legend(dps.coefplot(fit, fit, plain))[:3] == [
        "DP OLS, epsilon = 1 (pure) (1)",
        "DP OLS, epsilon = 1 (pure) (2)",
        "OLS (NOT PRIVATE)",
    ]


def test_statsmodels_fits_of_arrays_and_of_a_logit_can_be_drawn(adult):
    data = adult.data
    arrays = sm.OLS(data["hours_per_week"].to_numpy(), sm.add_constant(data[["age", "education_num"]].to_numpy())).fit()
    ax = dps.coefplot(arrays)
    assert row_labels(ax) == ["x1", "x2"]
    np.testing.assert_array_equal(segments(ax, "total")[:, :2], arrays.conf_int()[1:])
    logit = smf.logit("income_gt50k ~ age", data).fit(disp=0)
    assert row_labels(dps.coefplot(logit, intercept=True)) == ["Intercept", "age"]


@pytest.mark.parametrize("noise", ["none", "simulated"])
def test_a_fit_without_privacy_marks_the_picture(adult, noise):
    options = {"epsilon": math.inf} if noise == "none" else {"epsilon": 1, "rng": np.random.default_rng(0)}
    fit = dps.dp_ols(FORMULA, adult.data, schema=adult.schema, **options)
    assert says_not_private(dps.coefplot(fit))
    assert says_not_private(dps.plot_effect(fit, "age"))
    assert says_not_private(dps.plot_effect(fit, "sex"))


def test_unbounded_intervals_are_arrows_from_edge_to_edge(fit, unidentified):
    ax = dps.coefplot(unidentified, fit)
    bounded = segments(ax, "total")
    np.testing.assert_array_equal(bounded[:, :2], fit.conf_int().loc[NAMES])
    assert len(segments(ax, "sampling")) == 3
    arrows = [text for text in ax.texts if isinstance(text, Annotation) and text.get_gid() == "unbounded"]
    assert [(arrow.xyann[0], arrow.xy[0]) for arrow in arrows] == [(0.0, 1.0)] * 3
    np.testing.assert_allclose([arrow.xy[1] for arrow in arrows], [-0.2, 0.8, 1.8])
    across = arrows[0].xycoords
    for limits in (ax.get_xlim(), (-3.0, 4.0)):  # whatever the limits become
        ax.set_xlim(limits)
        np.testing.assert_allclose(ax.transData.inverted().transform(across.transform([(0, 0), (1, 0)]))[:, 0], limits)
    np.testing.assert_array_equal(points(ax, "unidentified")[:, 0], unidentified.params.loc[NAMES])
    assert "unbounded interval" in legend(ax)


def test_an_unidentified_estimate_does_not_stretch_the_axis(fit, unidentified):
    assert unidentified.params.abs().max() > 50
    low, high = dps.coefplot(unidentified, fit).get_xlim()
    assert -2 < low < 0
    assert fit.conf_int().loc[NAMES].to_numpy().max() < high < 10
    low, high = dps.coefplot(unidentified).get_xlim()
    assert low < unidentified.params.loc[NAMES].min()
    assert unidentified.params.loc[NAMES].max() < high


# -- comparison --------------------------------------------------------------------------------------------------------


def test_a_comparison_is_drawn_with_both_intervals_width_ratio_and_overlap(fit, adult):
    comparison = dps.compare(fit, adult.data)
    ax = dps.plot_comparison(comparison)
    table = comparison.to_frame().loc[NAMES]
    total = segments(ax, "total")
    np.testing.assert_array_equal(total[:3, :2], table[["ci_lower", "ci_upper"]])
    np.testing.assert_array_equal(total[3:, :2], table[["ci_lower_nonprivate", "ci_upper_nonprivate"]])
    half = (segments(ax, "sampling")[:3, 1] - segments(ax, "sampling")[:3, 0]) / 2
    np.testing.assert_allclose(half, 1.959963985 * fit.bse_sampling.loc[NAMES], rtol=1e-6)
    shown = texts(ax)
    for ratio, overlap in zip(table["width_ratio"], table["overlap"], strict=True):
        assert f"{ratio:.2f}, {overlap:.2f}" in shown
    assert "width ratio, overlap" in shown
    assert ax.get_title(loc="left") == "NOT PRIVATE"
    assert legend(ax)[:2] == ["private", "non-private (NOT PRIVATE)"]
    assert row_labels(comparison.plot()) == NAMES
    assert row_labels(dps.plot_comparison(comparison, intercept=True)) == ["Intercept", *NAMES]


# -- budget ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path):
    return dps.Ledger(tmp_path / "adult.budget", epsilon=3, dataset="adult $1$")


def bars(ax):
    return np.array(
        [(bar.get_x(), bar.get_x() + bar.get_width(), bar.get_y() + bar.get_height() / 2) for bar in ax.patches]
    )


def spend(ledger, epsilon, what):
    return ledger.reserve(charge_of(Budget(epsilon=epsilon), "laplace"), what)


def test_a_budget_is_drawn_entry_by_entry_up_to_its_total(ledger, adult):
    dps.dp_ols("hours_per_week ~ age", adult.data, epsilon=0.5, schema=adult.schema, ledger=ledger)
    spend(ledger, 0.25, "interrupted")
    ledger.commit(spend(ledger, 1.0, "y ~ x"))
    ax = dps.plot_budget(ledger)
    assert row_labels(ax) == ["hours_per_week ~ age", "interrupted", "y ~ x", "remaining"]
    np.testing.assert_allclose(bars(ax), [(0, 0.5, 0), (0.5, 0.75, 1), (0.75, 1.75, 2), (1.75, 3, 3)])
    assert [bool(bar.get_hatch()) for bar in ax.patches] == [False, True, False, False]
    assert legend(ax) == ["spent", "reserved, never committed", "remaining"]
    assert ax.get_xlabel() == "epsilon spent, of 3"
    assert {"0.5", "0.25", "1", "1.25"} <= set(texts(ax))
    assert ax.get_title().replace("\\", "") == "adult $1$"


def test_an_account_in_rho_and_an_empty_one_can_be_drawn(tmp_path):
    ax = dps.plot_budget(dps.Ledger(tmp_path / "rho.budget", rho=0.5))
    assert row_labels(ax) == ["remaining"]
    np.testing.assert_allclose(bars(ax), [(0, 0.5, 0)])
    assert ax.get_xlabel() == "rho spent, of 0.5"
    assert ax.get_title() == "rho.budget"


def test_the_oldest_of_many_entries_are_one_bar(ledger):
    for i in range(40):
        ledger.commit(spend(ledger, 0.05, f"y ~ x{i}"))
    ax = dps.plot_budget(ledger)
    assert row_labels(ax) == ["15 older fits", *(f"y ~ x{i}" for i in range(15, 40)), "remaining"]
    np.testing.assert_allclose(bars(ax)[0], (0, 15 * 0.05, 0))
    np.testing.assert_allclose(bars(ax)[-1, :2], (2, 3))


# -- effects -----------------------------------------------------------------------------------------------------------


def band(ax):
    """Grid, lower and upper end of a drawn band."""
    (path,) = next(c for c in ax.collections if c.get_gid() == "band").get_paths()
    outline = pd.DataFrame(path.vertices, columns=["x", "y"]).groupby("x")["y"].agg(["min", "max"])
    return outline.index.to_numpy(), outline["min"].to_numpy(), outline["max"].to_numpy()


def test_an_effect_over_a_range_is_the_fits_prediction_with_its_interval(adult):
    formula = "hours_per_week ~ bs(age, df=4) + C(sex) + education_num"
    fit = dps.dp_ols(formula, adult.data, epsilon=50, schema=adult.schema)
    ax = dps.plot_effect(fit, "age", at={"sex": "Male"}, alpha=0.1, n_points=25)
    ages = np.linspace(adult.schema["age"].lower, adult.schema["age"].upper, 25)
    curve = points(ax, "estimate")
    np.testing.assert_array_equal(curve[:, 0], ages)
    education = adult.schema["education_num"].mid
    new = pd.DataFrame({"age": ages, "sex": "Male", "education_num": education})
    np.testing.assert_allclose(curve[:, 1], fit.predict(new))
    x, lower, upper = band(ax)
    np.testing.assert_array_equal(x, ages)
    ends = fit.t_test(model_rows(fit._view.design, new).matrix).conf_int(0.1)
    np.testing.assert_allclose(lower, ends[:, 0])
    np.testing.assert_allclose(upper, ends[:, 1])
    assert ax.get_xlabel() == f"age\nat sex = Male, education_num = {education:g}"
    assert ax.get_ylabel() == "predicted hours_per_week"
    assert not says_not_private(ax)


def test_an_effect_of_a_category_has_one_row_for_each_level(adult):
    fit = dps.dp_ols("hours_per_week ~ age * C(sex) + C(race)", adult.data, epsilon=50, schema=adult.schema)
    ax = dps.plot_effect(fit, "race")
    levels = list(adult.schema["race"].levels)
    assert row_labels(ax) == levels
    middle = adult.schema["age"].mid
    new = pd.DataFrame({"race": levels, "age": middle, "sex": adult.schema["sex"].levels[0]})
    np.testing.assert_allclose(points(ax, "estimate")[:, 0], fit.predict(new))
    assert ax.get_ylabel() == "race"
    assert f"age = {middle:g}" in ax.get_xlabel()
    assert segments(ax, "sampling").size == 0
    total = segments(ax, "total")
    first = fit.t_test(f"Intercept + {middle} * age").conf_int()[0]  # of the first race and the first sex
    np.testing.assert_allclose(total[0, :2], first)


def test_an_effect_of_a_classifier_is_a_probability_or_a_decision_value(adult):
    arguments = {"epsilon": 8, "schema": adult.schema, "infeasible": "fit"}
    logit = dps.dp_logit("income ~ age + C(sex)", adult.data, **arguments)
    new = pd.DataFrame({"age": np.linspace(17, 90, 7), "sex": "Female"})
    ax = dps.plot_effect(logit, "age", n_points=7, at={"sex": "Female"})
    assert (adult.schema["age"].lower, adult.schema["age"].upper) == (17, 90)
    frame = logit.get_prediction(new).summary_frame()
    np.testing.assert_allclose(points(ax, "estimate")[:, 1], frame["predicted"])
    np.testing.assert_allclose(band(ax)[1], frame["ci_lower"])
    np.testing.assert_allclose(band(ax)[2], frame["ci_upper"])
    assert ax.get_ylabel() == "probability of income = >50K"
    svm = dps.dp_svm("income ~ age + C(sex)", adult.data, **arguments)
    ax = dps.plot_effect(svm, "sex", at={"age": 40})
    expected = svm.predict(pd.DataFrame({"sex": ["Female", "Male"], "age": 40}))
    np.testing.assert_allclose(points(ax, "estimate")[:, 0], expected)
    assert "decision value" in ax.get_xlabel()
    taylor = dps.dp_logit("income ~ age + C(sex)", adult.data, mechanism="functional", **arguments)
    ax = dps.plot_effect(taylor, "age", n_points=7)
    np.testing.assert_allclose(points(ax, "estimate")[:, 1], taylor.predict(new))
    rows = np.column_stack([np.ones(7), np.zeros(7), new["age"]])
    np.testing.assert_allclose(band(ax)[1], expit(taylor.t_test(rows).conf_int()[:, 0]))


def test_an_effect_with_unbounded_intervals_is_hatched_and_still_drawn(unidentified):
    ax = dps.plot_effect(unidentified, "age", n_points=11)
    hatched = [c for c in ax.collections if c.get_gid() == "unbounded"]
    assert len(hatched) == 1
    assert np.isfinite(ax.get_ylim()).all()
    assert not [c for c in ax.collections if c.get_gid() == "band"]
    assert "unbounded interval" in legend(ax)
    drawn = ax.lines[0].get_xydata()
    assert len(drawn) == 11
    assert ax.get_ylim()[0] < drawn[:, 1].min()
    categorical = dps.plot_effect(unidentified, "sex")
    assert sum(text.get_gid() == "unbounded" for text in categorical.texts) == 2


def test_a_band_bounded_in_part_is_drawn_where_it_is_bounded(adult):
    """Every stretch of the range is either in the band or hatched."""
    formula, rng = "hours_per_week ~ bs(age, df=5) + C(sex)", np.random.default_rng(3)
    fit = dps.dp_ols(formula, adult.data, 0.5, schema=adult.schema, infeasible="fit", rng=rng)
    ax = dps.plot_effect(fit, "age")
    stretches = {c.get_gid(): [path.vertices[:, 0] for path in c.get_paths()] for c in ax.collections}
    assert set(stretches) == {"band", "unbounded"}
    ages = np.linspace(17, 90, 100)
    middles = (ages[1:] + ages[:-1]) / 2
    pieces = [*stretches["band"], *stretches["unbounded"]]
    covered = [sum(x.min() < middle < x.max() for x in pieces) for middle in middles]
    assert covered == [1] * 99


# -- axes, names, errors -----------------------------------------------------------------------------------------------


def test_every_picture_is_drawn_on_the_axes_given_and_on_new_ones_otherwise(fit, ledger, adult):
    comparison = dps.compare(fit, adult.data)
    for draw in (
        lambda **ax: dps.coefplot(fit, **ax),
        lambda **ax: dps.plot_comparison(comparison, **ax),
        lambda **ax: comparison.plot(**ax),
        lambda **ax: dps.plot_budget(ledger, **ax),
        lambda **ax: dps.plot_effect(fit, "age", **ax),
        lambda **ax: dps.plot_effect(fit, "sex", **ax),
        lambda **ax: dps.plan("y ~ x", 1_000, 1, bounds={"x": (0, 1), "y": (0, 1)}).plot(**ax),
    ):
        figure, (left, right) = plt.subplots(1, 2)
        before = plt.get_fignums()
        assert draw(ax=right) is right
        assert plt.get_fignums() == before
        assert not left.lines
        new = draw()
        assert new.figure is not figure
        assert len(plt.get_fignums()) == len(before) + 1
        for wrong in (figure, 1, "ax"):
            with pytest.raises(dps.OptionError, match=r"ax must be matplotlib Axes, as in fig, ax = plt.subplots\(\)"):
                draw(ax=wrong)
        plt.close("all")


def test_names_with_dollars_are_no_formulas_and_long_ones_are_cut_in_the_middle():
    levels = ["none", "$0_{-$}", "a very long name of a level that would leave no room for the picture itself"]
    rng = np.random.default_rng(0)
    data = {"g": rng.choice(levels, 4_000).astype(object), "y": rng.uniform(0, 1, 4_000)}
    fit = dps.dp_ols("y ~ C(g)", data, 5, bounds={"y": (0, 1)}, levels={"g": levels})
    ax = dps.coefplot(fit)
    ax.figure.canvas.draw()  # a formula that cannot be read would raise here
    first, second = row_labels(ax)
    assert first.replace("\\", "") == "C(g)[T.$0_{-$}]"
    assert second.startswith("C(g)[T.a very long")
    assert second.endswith("the picture itself]")
    assert len(second) <= 54
    figure = ax.figure.get_window_extent()
    assert all(label.get_window_extent().x0 >= figure.x0 for label in ax.get_yticklabels())


def ink(ax):
    """All texts that are drawn, with their boxes."""
    axes = ((ax.xaxis, ax.get_xlim()), (ax.yaxis, sorted(ax.get_ylim())))
    ticks = [t.label1 for axis, (low, high) in axes for t in axis.get_major_ticks() if not low <= t.get_loc() <= high]
    for text in ax.figure.findobj(Text):
        if text.get_text().strip() and text.get_visible() and text not in ticks and text.get_gid() != "unbounded":
            yield text, text.get_window_extent()


def test_nothing_is_cut_off_or_overlaps(fit, plain, unidentified, adult, ledger):
    spend(ledger, 0.3, "y ~ x")
    drawn = [
        dps.coefplot(fit),
        dps.coefplot(fit, plain, unidentified),
        dps.plot_comparison(dps.compare(fit, adult.data)),
    ]
    drawn += [dps.plot_effect(fit, "age"), dps.plot_effect(fit, "sex"), dps.plot_effect(unidentified, "age")]
    huge = {"x": np.arange(300.0), "g": np.array(["a", "b"] * 150, dtype=object), "y": 1e6 * np.arange(300.0)}
    bounds = {"x": (0, 300), "y": (0, 3e8)}
    drawn += [dps.plot_effect(dps.dp_ols("y ~ x + C(g)", huge, math.inf, bounds=bounds, levels={"g": ["a", "b"]}), "g")]
    for ax in [*drawn, dps.plot_budget(ledger)]:
        ax.figure.canvas.draw()
        page = ax.figure.get_window_extent().padded(1)
        assert all(page.x0 <= box.x0 and box.x1 <= page.x1 for _, box in ink(ax))
        assert all(page.y0 <= box.y0 and box.y1 <= page.y1 for _, box in ink(ax))
        for (one, box), (other, beside) in itertools.combinations(ink(ax), 2):
            assert not box.padded(-1).overlaps(beside.padded(-1)), (one, other)


def test_wrong_arguments_are_named_with_what_to_write(fit, adult, ledger):
    point = dps.dp_ols("hours_per_week ~ age", adult.data, 1, 1e-6, schema=adult.schema, mechanism="adassp")
    only = dps.dp_ols("hours_per_week ~ 1", adult.data, 1, schema=adult.schema)
    for draw, message in (
        (lambda: dps.coefplot(), r"coefplot\(fit\)"),
        (lambda: dps.coefplot([fit]), r"fit 1 must be a result .*coefplot\(fit1, fit2\)"),
        (lambda: dps.coefplot(fit, adult.data), "fit 2 must be a result .* not DataFrame"),
        (lambda: dps.coefplot(point), "fit 1 has no intervals to draw.*mechanism='ssp'"),
        (lambda: dps.coefplot(only), "intercept=True"),
        (lambda: dps.coefplot(fit, labels="one"), "labels must be a list with one text for each of the 1 fits"),
        (lambda: dps.coefplot(fit, labels=["one", "two"]), "labels must be a list"),
        (lambda: dps.coefplot(fit, alpha=95), "alpha must lie between 0 and 1"),
        (lambda: dps.plot_comparison(fit), r"dps.compare\(fit, data\)"),
        (lambda: dps.plot_comparison(dps.compare(only, adult.data)), "intercept=True"),
        (lambda: dps.plot_budget("adult.budget"), "ledger must be a dpstats.Ledger"),
        (lambda: dps.plot_effect(adult.data, "age"), "fit must be a result of dp_ols, dp_logit or dp_svm"),
        (lambda: dps.plot_effect(point, "age"), "no intervals to draw.*mechanism='ssp'"),
        (lambda: dps.plot_effect(fit, "C(sex)"), "column must be a raw column .*'age', 'education_num', 'sex'"),
        (lambda: dps.plot_effect(fit, "hours_per_week"), "column must be a raw column"),
        (lambda: dps.plot_effect(only, "age"), r"right-hand side \(none\)"),
        (lambda: dps.plot_effect(fit, "age", n_points=1), "n_points must be a whole number of at least 2"),
        (lambda: dps.plot_effect(fit, "age", n_points=True), "n_points"),
        (lambda: dps.plot_effect(fit, "age", at=["sex"]), "at must be a dict"),
        (lambda: dps.plot_effect(fit, "age", at={"age": 3}), "at may name the other columns .*'education_num', 'sex'"),
        (lambda: dps.plot_effect(fit, "age", at={"sex": "male"}), "at holds a value that is missing or not a declared"),
        (lambda: dps.plot_effect(fit, "age", alpha=0), "alpha must lie between 0 and 1"),
    ):
        with pytest.raises(dps.OptionError, match=message):
            draw()
    assert not plt.get_fignums(), "a refused call draws nothing"


def test_without_matplotlib_every_picture_says_what_to_install(tmp_path):
    """In an interpreter of its own, where matplotlib cannot be imported."""
    code = f"""
import sys
sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = None
import dpstats as dps
adult, schema = dps.datasets.load_adult()
fit = dps.dp_ols("hours_per_week ~ age", adult, 1, schema=schema)
ledger = dps.Ledger({str(tmp_path / "a.budget")!r}, epsilon=1)
for draw in (
    lambda: dps.coefplot(fit),
    lambda: dps.plot_comparison(dps.compare(fit, adult)),
    lambda: dps.plot_budget(ledger),
    lambda: dps.plot_effect(fit, "age"),
    lambda: dps.plan("y ~ x", 1_000, 1, bounds={{"x": (0, 1), "y": (0, 1)}}).plot(),
):
    try:
        draw()
    except ImportError as error:
        print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = ["coefplot", "plot_comparison", "plot_budget", "plot_effect", "plot"]
    assert found.stdout.splitlines() == [f"{name}() needs matplotlib: pip install 'dpstats[plot]'" for name in names]


def test_planted_values_appear_in_no_text_of_a_picture_drawn_from_a_release(tmp_path):
    sentinel, level = 31.41592653, "sentinel-level-7c1f"
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": rng.uniform(0, 100, 400), "g": rng.choice(["a", "b"], 400), "y": rng.uniform(0, 10, 400)}
    )
    frame.loc[3, "x"], frame.loc[5, "y"] = sentinel, sentinel
    frame = frame.astype({"g": object})
    frame.loc[7, "g"] = level
    frame.index = [level, *range(1, 400)]
    declared = {"bounds": {"x": (0, 100), "y": (0, 10)}, "levels": {"g": ["a", "b"]}}
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=100)
    drawn = [dps.plot_budget(ledger)]
    for formula in ("y ~ x + C(g)", "np.log(y + 1) ~ bs(x, df=4) + g"):
        fit = dps.dp_ols(formula, frame, 20, **declared, infeasible="fit", ledger=ledger)
        drawn += [dps.coefplot(fit, intercept=True), dps.plot_effect(fit, "x"), dps.plot_effect(fit, "g")]
    drawn += [dps.plot_budget(ledger)]
    shown = [text for ax in drawn for text in texts(ax)]
    assert "C(g)[T.b]" in shown
    assert not any(level in text or "31.4159" in text for text in shown)


def test_an_effect_with_an_offset_holds_the_offset_fixed():
    rng = np.random.default_rng(0)
    data = {"x": rng.uniform(0, 1, 3000), "o": rng.uniform(1, 3, 3000)}
    data["y"] = data["x"] + data["o"] + rng.normal(0, 0.1, 3000)
    fit = dps.dp_ols("y ~ x", data, 5, bounds={"x": (0, 1), "o": (1, 3), "y": (0, 5)}, offset="o")
    heights = {}
    for held in (1.0, 3.0):
        ax = dps.plot_effect(fit, "x", at={"o": held})
        line = next(line for line in ax.lines if line.get_gid() == "estimate")
        heights[held] = line.get_ydata()
        assert f"o = {held:g}" in ax.get_xlabel()
    np.testing.assert_allclose(heights[3.0] - heights[1.0], 2.0)
