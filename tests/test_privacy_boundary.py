"""Who may import whom, and that no private value leaves: imports by zone, planted sentinels, pickles, randomness."""

from __future__ import annotations

import ast
import pickle
import traceback
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats as dps

PACKAGE = Path(dps.__file__).parent
MAY_IMPORT = {
    "specification": {"specification", "errors"},
    "privacy": {"specification", "privacy", "errors"},
    "records": {"specification", "privacy", "records", "errors"},
    "release": {"specification", "privacy", "records", "release", "errors"},
    "inference": {"specification", "privacy", "inference", "errors"},
    "results": {"specification", "privacy", "inference", "results", "errors"},
    "audits": {"privacy", "audits", "errors"},
    "datasets": {"specification", "datasets"},
    "mechanisms": {"specification", "privacy", "records", "release", "inference", "mechanisms", "errors"},
    "errors": set(),
}
MODULES = sorted(PACKAGE.rglob("*.py"))
SENTINEL, SENTINEL_TEXT = 31.41592653, "sentinel-level-7c1f"


def room_of(module: Path) -> str:
    parts = module.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def imports_of(module: Path):
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_respect_the_zones(module):
    allowed = MAY_IMPORT.get(room_of(module))
    if allowed is None:
        assert room_of(module) in {"models", "planning", "forecast", "__init__", "__main__"}
        return
    for name in imports_of(module):
        if name.startswith("dpstats."):
            assert name.split(".")[1] in allowed, f"{module.name} imports {name}"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_noise_and_randomness_live_in_release_only(module):
    if room_of(module) in {"release", "models"} or module.name == "monte_carlo.py":
        return
    imported = set(imports_of(module))
    assert "opendp" not in {name.split(".")[0] for name in imported}
    assert not imported & {"random", "secrets", "numpy.random"}
    used = [ast.unparse(node) for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Attribute)]
    assert "np.random" not in used


def test_statsmodels_api_and_opendp_are_not_imported_at_the_start():
    import subprocess
    import sys

    slow = ["opendp", "statsmodels.api", "statsmodels.iolib.summary"]
    code = f"import sys, dpstats; print(sorted(set({slow}) & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def planted() -> tuple[pd.DataFrame, dict]:
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame({"x": rng.uniform(0, 100, n), "g": rng.choice(["a", "b"], n), "y": rng.uniform(0, 10, n)})
    frame["hidden"] = SENTINEL
    frame.loc[3, "x"] = SENTINEL
    frame.loc[5, "y"] = SENTINEL
    frame = frame.astype({"g": object})
    frame.loc[7, "g"] = SENTINEL_TEXT
    frame.index = [SENTINEL_TEXT, *range(1, n)]
    return frame, {"bounds": {"x": (0, 100), "y": (0, 10)}, "levels": {"g": ["a", "b"]}}


def leaks(text: str) -> bool:
    return SENTINEL_TEXT in text or "31.4159" in text


FORMULAS = ["y ~ x + C(g)", "np.log(y + 1) ~ bs(x, df=4) * g", "y ~ I(x > 50) + x:C(g) + I(g == 'a')"]
BUDGETS = [{"epsilon": 1}, {"epsilon": 1, "delta": 1e-6}, {"rho": 0.1}]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("formula", FORMULAS)
def test_planted_values_appear_in_nothing_that_a_fit_shows(formula, budget):
    frame, declared = planted()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = dps.dp_ols(formula, frame, **budget, **declared, infeasible="fit")
        shown = [repr(fit), str(fit.summary()), fit.summary().as_html(), fit.summary().as_latex()]
        shown += [str(fit.params), str(fit.conf_int()), repr(fit.t_test("Intercept = 0")), str(fit.cov_params())]
        shown += [repr(part) for part in vars(fit).values()]
    assert not caught
    assert not any(leaks(text) for text in shown)
    pickled = pickle.dumps(fit)
    assert SENTINEL_TEXT.encode() not in pickled
    assert np.float64(SENTINEL).tobytes() not in pickled
    assert len(pickled) < 50_000


@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [
        ("huber", {"epsilon": 1}),
        (dps.Huber(noise="gaussian"), {"rho": 0.5}),
        ("functional", {"epsilon": 1}),
        (dps.Functional(bounded="trim", scaling="ball"), {"epsilon": 1}),
        ("diff-lr", {"epsilon": 1}),
        ("adassp", {"epsilon": 1, "delta": 1e-6}),
    ],
    ids=repr,
)
@pytest.mark.parametrize("formula", FORMULAS)
def test_planted_values_appear_in_nothing_that_other_mechanisms_show(formula, mechanism, budget):
    frame, declared = planted()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = dps.dp_ols(formula, frame, **budget, **declared, mechanism=mechanism, infeasible="fit")
        shown = [repr(fit), str(fit.summary()), fit.summary().as_html(), fit.summary().as_latex(), str(fit.params)]
        shown += [repr(part) for part in vars(fit).values()]
        if mechanism != "adassp":
            shown += [str(fit.conf_int()), repr(fit.t_test("Intercept = 0")), repr(fit.wald_test("Intercept = 0"))]
    assert not caught
    assert not any(leaks(text) for text in shown)
    pickled = pickle.dumps(fit)
    assert SENTINEL_TEXT.encode() not in pickled
    assert np.float64(SENTINEL).tobytes() not in pickled
    assert len(pickled) < 50_000


@pytest.mark.parametrize("mechanism", ["functional", "objective", "wkl-objective", "wkl-output"])
@pytest.mark.parametrize("model", ["dp_logit", "dp_svm"])
def test_planted_values_appear_in_nothing_that_a_classifier_shows(model, mechanism):
    if (model, mechanism) == ("dp_svm", "functional"):
        return
    frame, declared = planted()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = getattr(dps, model)("g ~ x", frame, 1.0, **declared, mechanism=mechanism, infeasible="fit")
        shown = [repr(fit), str(fit.summary()), str(fit.conf_int()), *(repr(part) for part in vars(fit).values())]
        shown += [fit.summary().as_html(), fit.summary().as_latex(), repr(fit.wald_test_terms())]
    assert not caught
    assert not any(leaks(text) for text in shown)
    pickled = pickle.dumps(fit)
    assert np.float64(SENTINEL).tobytes() not in pickled
    assert len(pickled) < 50_000


def renderings(fit):
    """Everything that tables, pictures, tests and predictions say of a fit, as text."""
    import matplotlib.pyplot as plt
    from matplotlib.text import Text
    from statsmodels.iolib.summary2 import summary_col

    new = {"x": [10.0, 90.0], "g": ["a", "b"]}
    yield from (dps.regression_table([fit], format=kind) for kind in ("text", "latex", "html", "markdown"))
    yield from (str(fit.summary(slim=True)), fit.summary()._repr_html_(), str(summary_col([fit])))
    yield from (fit.tidy().to_csv(), fit.glance().to_csv(), fit.anova().to_csv(), repr(fit.wald_test_terms()))
    yield from (fit.get_prediction(new).summary_frame().to_csv(), fit.predict(new).to_csv())
    if "C(g)" in fit.model.exog_names[1]:
        yield repr(fit.t_test_pairwise("C(g)"))
    for ax in (dps.coefplot(fit, intercept=True), dps.plot_effect(fit, "x")):
        yield " ".join(text.get_text() for text in ax.figure.findobj(Text))
        plt.close(ax.figure)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("formula", FORMULAS)
def test_planted_values_appear_in_no_rendering(formula, budget):
    frame, declared = planted()
    options = {"weights": "w", "offset": "o", "privacy_unit": "id", "contributions": 2}
    frame = frame.assign(w=1.0, o=0.5, id=np.arange(len(frame)) // 2).astype({"id": object})
    frame.iloc[9, frame.columns.get_indexer(["w", "o"])] = SENTINEL
    frame.iloc[11, frame.columns.get_loc("id")] = SENTINEL_TEXT
    declared = {**declared, "bounds": {**declared["bounds"], "w": (0, 40), "o": (0, 40)}}
    fit = dps.dp_ols(formula, frame, **budget, **declared, **options)
    del options["offset"]
    plain = dps.dp_ols(formula, frame, **budget, **declared, **options)
    assert not any(leaks(text) for text in renderings(plain))
    assert not any(leaks(text) for text in (str(fit.summary()), dps.regression_table([fit]), fit.tidy().to_csv()))
    for found in (fit, plain):
        pickled = pickle.dumps(found)
        assert SENTINEL_TEXT.encode() not in pickled
        assert np.float64(SENTINEL).tobytes() not in pickled


HOPELESS = {"x": np.nan, "y": np.inf, "g": None}
"""A table in which nothing can be read: every call on it must end as it does on a table of plain rows."""


@pytest.mark.parametrize(
    "mechanism", ["ssp", "huber", "functional", "diff-lr", "adassp", dps.Functional(bounded="trim")], ids=repr
)
@pytest.mark.parametrize("rows", ["plain", "unreadable", "constant"])
def test_every_mechanism_ends_alike_whatever_the_rows_are(mechanism, rows):
    n = 2_000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(0, 100, n), "g": rng.choice(["a", "b"], n), "y": rng.uniform(0, 10, n)})
    frame = frame.astype({"g": object})
    if rows == "unreadable":
        for name, cell in HOPELESS.items():
            frame[name] = pd.Series([cell] * n, dtype=frame[name].dtype)
    elif rows == "constant":
        frame[["x", "y"]] = 50.0, 5.0
    declared = {"bounds": {"x": (0, 100), "y": (0, 10)}, "levels": {"g": ["a", "b"]}}
    budget = {"epsilon": 5.0, "delta": 1e-6} if mechanism in ("adassp", "ssp") else {"epsilon": 5.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = dps.dp_ols("y ~ x + C(g)", frame, **budget, **declared, mechanism=mechanism)
        assert np.isfinite(fit.params).all()
        assert list(fit.params.index) == ["Intercept", "C(g)[T.b]", "x"]
        fit.summary()
        if mechanism != "adassp":
            assert not fit.conf_int().isna().any().any()
            assert np.isfinite(fit.bse).all() or np.isinf(fit.conf_int()).all(axis=None)


@pytest.mark.parametrize(
    ("formula", "change"),
    [
        ("y ~ hidden", {}),
        ("y ~ x + C(undeclared)", {}),
        ("y ~ np.log(x)", {}),
        ("y ~ x.mean()", {}),
        ("y ~ C(g)", {"levels": {"g": []}}),
        ("y ~ x", {"bounds": {"x": (5, 1), "y": (0, 10)}}),
        ("y ~ x +", {}),
    ],
)
def test_planted_values_appear_in_no_traceback(formula, change):
    frame, declared = planted()
    with pytest.raises(dps.DPStatsError) as caught:
        dps.dp_ols(formula, frame, epsilon=1, **{**declared, **change})
    trace = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    inside = [frame_ for frame_ in trace.stack if "dpstats" in frame_.filename and "test_" not in frame_.filename]
    assert inside
    assert not any(leaks(text) for frame_ in inside for text in (frame_.locals or {}).values())
    assert not leaks("".join(trace.format_exception_only()))


WRONG_ARGUMENTS = {
    "epsilon": lambda frame: dps.dp_ols("y ~ x", frame, -1.0),
    "contributions": lambda frame: dps.dp_moments("y ~ x", frame, 1.0, contributions=0),
    "cov_type": lambda frame: dps.dp_logit("g ~ x", frame, 1.0, cov_type="HC7"),
    "loss": lambda frame: dps.dp_svm("g ~ x", frame, 1.0, loss="none"),
    "delta": lambda frame: dps.private_levels(frame, ["g"], 1.0),
    "n_public": lambda frame: dps.private_bounds(frame, ["x"], 1.0, n_public=3),
    "a table of the wrong kind": lambda frame: dps.dp_ols("y ~ x", [frame], 1.0),
    "columns of unequal length": lambda frame: dps.dp_ols("y ~ x", {"x": list(frame["x"]), "y": [1]}, 1.0),
    "fit": lambda frame: dps.compare("fit", frame),
}


@pytest.mark.parametrize("wrong", WRONG_ARGUMENTS)
def test_planted_values_appear_in_no_traceback_of_an_argument_that_is_refused(wrong):
    frame, _ = planted()
    frame = frame.iloc[3:8]
    with pytest.raises(dps.DPStatsError) as caught:
        WRONG_ARGUMENTS[wrong](frame)
    trace = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    inside = [frame_ for frame_ in trace.stack if str(PACKAGE) in frame_.filename]
    assert inside
    assert not any(leaks(text) for frame_ in inside for text in (frame_.locals or {}).values())
    assert trace.__context__ is None or trace.__suppress_context__


def test_private_objects_show_shapes_only():
    from dpstats.records.moments import MomentSums
    from dpstats.records.source import Partition, as_source
    from dpstats.specification.rowmap import CodedRows

    frame, _ = planted()
    shown = [
        repr(as_source(frame)),
        repr(Partition({"x": frame["x"].array}, len(frame))),
        repr(MomentSums(np.full((2, 2), 31_415_926), 400)),
        repr(CodedRows(np.full((3, 2), SENTINEL), np.ones(3, dtype=bool))),
    ]
    assert not any(leaks(text) or "31415926" in text for text in shown)


def test_a_refused_call_reads_nothing(monkeypatch):
    from dpstats.records.source import FrameSource

    def fail(*_):
        raise AssertionError("the records were read")

    monkeypatch.setattr(FrameSource, "map_reduce", fail)
    frame, declared = planted()
    for formula in ("y ~ hidden", "y ~ np.log(x)", "y ~ x + I(2 * x)", "y ~ x.mean()"):
        with pytest.raises(dps.DPStatsError):
            dps.dp_ols(formula, frame, epsilon=1, **declared)
    with pytest.raises(dps.BudgetError):
        dps.dp_ols("y ~ x", frame, epsilon=1e-30, **declared)


def test_a_result_holds_no_reference_to_the_data():
    import gc

    frame, declared = planted()
    fit = dps.dp_ols("y ~ x + C(g)", frame, epsilon=1, **declared)
    reachable, queue = set(), [fit]
    while queue:
        thing = queue.pop()
        if id(thing) in reachable or isinstance(thing, type) or callable(thing) or type(thing).__name__ == "module":
            continue
        reachable.add(id(thing))
        queue += gc.get_referents(thing)
    assert id(frame) not in reachable
    assert not any(id(frame[name].array) in reachable for name in frame)
