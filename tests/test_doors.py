"""Every argument that takes a text: none reaches a file, a module, an attribute, the environment or a variable."""

from __future__ import annotations

import builtins
import os
import sys
from contextlib import suppress

import numpy as np
import pytest

import dpstats as dps

N = 200
VALUE = "the-value-of-an-environment-variable"
CANARY = "canary_of_doors"


def table(**more):
    rng = np.random.default_rng(0)
    return {
        "x": rng.uniform(0, 1, N),
        "z": rng.uniform(0, 1, N),
        "y": rng.uniform(0, 1, N),
        "b": rng.integers(0, 2, N),
        "g": rng.choice(["a", "b"], N),
        **more,
    }


BOUNDS = {"x": (0, 1), "z": (0, 1), "y": (0, 1)}
DECLARED = {"bounds": BOUNDS, "levels": {"g": ["a", "b"], "b": [0, 1]}}
HOSTILE = [
    "open('canary.txt', 'w')",
    f"__import__('{CANARY}')",
    f"I(__import__('{CANARY}').x)",
    "np.lib.format.open_memmap('canary.npy', mode='w+', shape=3)",
    "np.memmap('canary.npy', mode='w+', shape=3)",
    "np.fromfile('canary.txt')",
    "np.lib.npyio.os.environ['CANARY']",
    "np.os.environ",
    "os.environ['CANARY']",
    "I(os.getenv('CANARY') == x)",
    "x.__class__.__mro__[1].__subclasses__()",
    "I((lambda: x)())",
    "I([v := x][0])",
    "I((v := x))",
    "I(sum(v for v in x))",
    "I({**{}})",
    "I(*[x])",
    "np.log(*[x], **{})",
    "f'{x}'",
    "I(f'{canary()}')",
    "I('{0.__class__}'.format(x))",
    "I('%s' % x)",
    "I('{canary}'.format_map(globals()))",
    "Q('{canary()}')",
    'Q("x" "\'")',
    "Q('''x' + canary() + ''')",
    "Q('x\\' + canary() + \\'')",
    "`x` `z`",
    "`x + `canary()",
    "I(`x` if canary() else `z`)",
    "await canary()",
    "yield x",
    "x; canary()",
    "x\ncanary()",
    "x # ' + canary()",
    "x)+canary(",
    "\\x5f\\x5fimport\\x5f\\x5f('os')",
    "I(\uff43\uff41\uff4e\uff41\uff52\uff59())",
    "I(x.\uff56\uff41\uff4c\uff55\uff45\uff53)",
    "\U0001d4f8\U0001d4f9\U0001d4ee\U0001d4f7('canary.txt', 'w')",
    "canary",
    "@canary",
    "{canary()}",
    "{x: canary()}",
    "[canary()]",
    "$(touch canary.txt)",
    "; touch canary.txt",
    "I(9**9**9**9 * x)",
    "I(x * 10**(10**10))",
    "I(" * 400 + "x" + ")" * 400,
    "x" * 100_000,
    "\x00",
    "\ud800",
    "%(x)s",
    "C(g, contr.treatment.__init__.__globals__)",
    "C(g, levels=canary())",
    "bs(x, knots=[canary()])",
]


@pytest.fixture(autouse=True)
def watch(tmp_path, monkeypatch):
    """Nothing hostile may have happened at the end, and no message may quote what only code could have read."""
    touched: list[str] = []

    class Canary:
        def __call__(self, *args, **options):
            touched.append("called")

        def __getattr__(self, name):
            touched.append(name)
            return self

    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / f"{CANARY}.py").write_text("open('imported.txt', 'w').write('x')\nx = 1\n")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.setenv("CANARY", VALUE)
    monkeypatch.setattr(builtins, "canary", Canary(), raising=False)
    asked: list[object] = []
    read = type(os.environ).__getitem__
    monkeypatch.setattr(type(os.environ), "__getitem__", lambda self, key: (asked.append(key), read(self, key))[1])
    yield
    assert touched == []
    assert "CANARY" not in asked
    assert CANARY not in sys.modules
    assert list((tmp_path / "here").iterdir()) == []


def refused(call) -> None:
    """Require an error of dpstats, in one short line."""
    with pytest.raises(dps.DPStatsError) as caught:
        call()
    message = str(caught.value)
    assert VALUE not in message
    assert len(message) < 2_000 + 100_000 * ("x" * 1000 in message)
    assert not any(ord(char) < 32 or char == "\x7f" for char in message)


MODELS = {
    "dp_ols": lambda formula: dps.dp_ols(formula, table(), 10.0, **DECLARED),
    "dp_moments": lambda formula: dps.dp_moments(formula, table(), 10.0, **DECLARED),
    "dp_logit": lambda formula: dps.dp_logit(formula.replace("y ~", "b ~"), table(), 10.0, **DECLARED),
    "dp_svm": lambda formula: dps.dp_svm(formula.replace("y ~", "b ~"), table(), 10.0, **DECLARED),
    "plan": lambda formula: dps.plan(formula, N, 10.0, **DECLARED),
}


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("model", MODELS)
def test_formulas_of_every_model(model, hostile):
    refused(lambda: MODELS[model](f"y ~ {hostile}"))


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_offsets_and_weights(hostile):
    refused(lambda: dps.dp_ols("y ~ x", table(), 10.0, **DECLARED, offset=hostile))
    refused(lambda: dps.dp_ols("y ~ x", table(), 10.0, **DECLARED, weights=hostile))
    refused(lambda: dps.dp_moments("y ~ x", table(), 10.0, **DECLARED, offset=f"x + {hostile}"))
    refused(lambda: dps.dp_ols("y ~ x", table(), 10.0, **DECLARED, privacy_unit=hostile))
    refused(lambda: dps.private_bounds(table(), [hostile], 1.0))
    refused(lambda: dps.private_levels(table(), [hostile], 1.0, 1e-3))


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(1)
    return dps.dp_ols("y ~ x + z", table(), 50.0, **DECLARED, infeasible="fit", rng=rng)


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("test", ["t_test", "wald_test", "f_test"])
def test_hypotheses(fitted, test, hostile):
    for text in (hostile, f"x + {hostile} = 0"):
        refused(lambda text=text: getattr(fitted, test)(text))


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_columns_of_any_name(hostile):
    """A column may have a hostile name: quoted it is a column or refused, and bare it is still no code."""
    data, bounds = table(**{hostile: table()["x"]}), {**BOUNDS, hostile: (0, 1)}
    with suppress(dps.DPStatsError):
        fit = dps.dp_ols("y ~ .", {"y": data["y"], hostile: data[hostile]}, 10.0, bounds={"y": (0, 1), hostile: (0, 1)})
        assert len(fit.params) == 2
        str(fit.summary())
        fit.summary().as_html()
        fit.summary().as_latex()
    for formula in (f"y ~ `{hostile}`", f"y ~ Q({hostile!r})", f"y ~ I(2 * Q({hostile!r}))", f"y ~ {hostile}"):
        with suppress(dps.DPStatsError):
            fit = dps.dp_ols(formula, data, 10.0, bounds=bounds, infeasible="fit")
            str(fit.summary())
            fit.predict({"x": [0.5], hostile: [0.5]})
    for options in ({"offset": hostile}, {"weights": hostile}):
        with suppress(dps.DPStatsError):
            dps.dp_ols("y ~ x", data, 10.0, bounds=bounds, infeasible="fit", **options)


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_levels_of_any_name(hostile):
    cells = np.array(["a", hostile] * (N // 2), dtype=object)
    with suppress(dps.DPStatsError):
        fit = dps.dp_ols(
            "y ~ C(g)", table(g=cells), 50.0, bounds=BOUNDS, levels={"g": ["a", hostile]}, infeasible="fit"
        )
        for show in (str, lambda s: s.as_html(), lambda s: s.as_latex()):
            show(fit.summary())
        fit.t_test(np.array([0.0, 1.0]))
    with suppress(dps.DPStatsError):
        dps.dp_ols(f"y ~ I(g == {hostile!r})", table(g=cells), 50.0, bounds=BOUNDS, levels={"g": ["a", hostile]})
