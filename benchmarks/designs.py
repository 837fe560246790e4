"""Populations with a known truth, and real tables resampled: what the studies of this folder draw their data from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from dpstats.specification.design import Design, build_design
from dpstats.specification.schema import Categorical, Continuous, Schema, TableFacts

Columns = dict[str, np.ndarray]
SD, RSQUARED = 0.3, 0.5


@dataclass(frozen=True)
class Population:
    """A formula, its public schema, a sampler, and the true coefficients of the slopes."""

    name: str
    formula: str
    schema: Schema
    draw: Callable[[np.random.Generator, int], Columns]
    truth: dict[str, float]
    affected: str | None = None
    extra: dict[str, object] = field(default_factory=dict)

    def design(self) -> Design:
        kinds = {
            name: "number" if isinstance(column, Continuous) else "object"
            for name, column in self.schema.columns.items()
        }
        return build_design(self.formula, self.schema, TableFacts(tuple(self.schema), kinds))


def linear(name, p, draw_x, sd_x, noise=None, affected=None, missing=0.0):
    """y = x'beta + error with equal slopes, R-squared one half, x in [-1, 1]."""
    slope = SD * np.sqrt(RSQUARED / p) / sd_x
    sd_error = SD * np.sqrt(1 - RSQUARED)

    def draw(rng, n):
        x = draw_x(rng, n, p)
        error = rng.normal(0, sd_error, n) if noise is None else noise(rng, x) * sd_error
        columns = {f"x{j}": column for j, column in enumerate(x.T)}
        columns["y"] = x @ np.full(p, slope) + error
        if missing:
            columns["x0"] = np.where(rng.random(n) < missing, np.nan, columns["x0"])
        return columns

    names = [f"x{j}" for j in range(p)]
    # wide enough for every outcome that occurs, so that the target is the true coefficient
    bound = max(1.0, round(p * slope + 5.2 * sd_error * (2.2 if noise else 1.0), 1))
    schema = Schema({**{x: Continuous(-1, 1) for x in names}, "y": Continuous(-bound, bound)})
    return Population(name, f"y ~ {' + '.join(names)}", schema, draw, dict.fromkeys(names, slope), affected)


def uniform(rng, n, p):
    return rng.uniform(-1, 1, (n, p))


def correlated(rng, n, p, r=0.7):
    z = np.sqrt(r) * rng.normal(size=(n, 1)) + np.sqrt(1 - r) * rng.normal(size=(n, p))
    return np.clip(0.4 * z, -1, 1)


def skewed(rng, n, p):
    return 2 * rng.beta(1, 5, (n, p)) - 1


def heteroskedastic(rng, x):
    """Errors whose spread grows with |x0|, with variance one on average."""
    return rng.normal(size=len(x)) * np.sqrt(0.2 + 2.4 * x[:, 0] ** 2)


def one_factor():
    effects = dict(zip("abcd", (0.0, 0.1, -0.1, 0.05), strict=True))

    def draw(rng, n):
        x = rng.uniform(-1, 1, (n, 2))
        g = rng.choice(list(effects), n)
        y = 0.15 * x[:, 0] - 0.1 * x[:, 1] + np.vectorize(effects.get)(g) + rng.normal(0, 0.2, n)
        return {"x0": x[:, 0], "x1": x[:, 1], "g": g, "y": y}

    schema = {
        "x0": Continuous(-1, 1),
        "x1": Continuous(-1, 1),
        "g": Categorical(list(effects)),
        "y": Continuous(-1.5, 1.5),
    }
    truth = {"x0": 0.15, "x1": -0.1} | {f"C(g)[T.{k}]": v for k, v in effects.items() if k != "a"}
    return Population("one factor", "y ~ x0 + x1 + C(g)", Schema(schema), draw, truth)


def two_factors(missing=0.0):
    """Two factors of three levels, a number whose slope differs by the first, and another number."""
    g_effect, h_effect = {"a": 0.0, "b": 0.1, "c": -0.1}, {"u": 0.0, "v": 0.08, "w": -0.05}
    slopes = {"a": 0.2, "b": 0.3, "c": 0.2}

    def draw(rng, n):
        x, z = rng.uniform(-1, 1, (2, n))
        g, h = rng.choice(list(g_effect), n), rng.choice(list(h_effect), n).astype(object)
        mean = np.vectorize(g_effect.get)(g) + np.vectorize(h_effect.get)(h) + x * np.vectorize(slopes.get)(g) - 0.1 * z
        y = mean + rng.normal(0, 0.2, n)
        if missing:
            h[rng.random(n) < missing] = None
        return {"x": x, "z": z, "g": g, "h": h, "y": y}

    schema = {
        "x": Continuous(-1, 1),
        "z": Continuous(-1, 1),
        "g": Categorical(list(g_effect)),
        "h": Categorical(list(h_effect)),
        "y": Continuous(-1.6, 1.6),
    }
    truth = {f"C(g)[T.{k}]": v for k, v in g_effect.items() if k != "a"}
    truth |= {f"C(h)[T.{k}]": v for k, v in h_effect.items() if k != "u"}
    truth |= {"x": 0.2, "z": -0.1, "x:C(g)[T.b]": 0.1, "x:C(g)[T.c]": 0.0}
    name = f"two factors{', 20 % missing' if missing else ''}"
    return Population(name, "y ~ x * C(g) + z + C(h)", Schema(schema), draw, truth)


def tables_folder() -> Path:
    """The folder of the real tables: $DPSTATS_DATA, or ../shared/data beside the checkout."""
    folder = Path(os.environ.get("DPSTATS_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not (folder / "bounds.json").is_file():
        raise SystemExit("the real tables are not here; set DPSTATS_DATA to their folder")
    return folder


def load_table(name: str) -> tuple[pd.DataFrame, Schema]:
    """A real table and its public schema."""
    entry = json.loads((tables_folder() / "bounds.json").read_text())[name]
    columns = {column: Continuous(*pair) for column, pair in entry["bounds"].items()}
    columns |= {column: Categorical(levels) for column, levels in entry["levels"].items()}
    return pd.read_csv(tables_folder() / entry["file"]), Schema(columns)


def resampled(name: str, table: str, formula: str) -> Population:
    """A real table as a population: rows drawn with replacement; the truth is the projection on the whole table."""
    import dpstats as dps

    data, schema = load_table(table)
    exact = dps.dp_ols(formula, data, epsilon=float("inf"), schema=schema)
    names = exact.model.exog_names
    used = [column for column in data.columns if column in exact._view.design.variables]
    arrays = {column: data[column].to_numpy() for column in used}

    def draw(rng, n):
        rows = rng.integers(0, len(data), n)
        return {column: array[rows] for column, array in arrays.items()}

    truth = {k: float(exact.params[k]) for k in names if k != "Intercept"}
    return Population(name, formula, Schema({k: schema[k] for k in used}), draw, truth, extra={"rows": len(data)})
