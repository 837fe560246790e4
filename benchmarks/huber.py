"""Coverage, width and error of `dp_ols(mechanism="huber")` beside `ssp`, cell by cell; writes huber.md beside it.

    python benchmarks/huber.py [--replications 400] [--processes 2]

Each cell fits `replications` data sets with simulated noise, both mechanisms on the same rows. Widths and errors are in
units of those of least squares without privacy.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from coverage_ols import markdown
from designs import (
    Population,
    correlated,
    heteroskedastic,
    linear,
    load_table,
    one_factor,
    skewed,
    two_factors,
    uniform,
)
from statsmodels.regression.linear_model import OLS
from statsmodels.robust.norms import HuberT
from statsmodels.robust.robust_linear_model import RLM

import dpstats as dps

DELTA = 1e-6
UNIFORM = 1 / math.sqrt(3)
PROBIT = 1.959964
REAL = {
    "cps1988": "np.log(wage) ~ experience + education + C(ethnicity) + C(smsa) + C(parttime)",
    "adult": "hours_per_week ~ age + education_num + C(sex)",
    "labsup": "hours ~ kids + age + educ + black + hispan",
}


@dataclass(frozen=True)
class Cell:
    """A population, a length, a budget, a type of standard errors."""

    design: str
    n: int
    p: int
    epsilon: float = 1.0
    delta: float | None = None
    cov_type: str = "nonrobust"

    @property
    def population(self) -> Population:
        """Of the design's name; the uniform one with the outcome's bounds of accuracy_ols.py."""
        if self.design == "uniform":
            found = linear("uniform", self.p, uniform, UNIFORM)
            schema = found.schema.updated(dps.Schema({"y": dps.Continuous(-1, 1)}))
            return Population(found.name, found.formula, schema, found.draw, found.truth)
        return {
            "correlated .7": lambda: linear("", self.p, correlated, 0.4),
            "skewed": lambda: linear("", self.p, skewed, 2 * math.sqrt(5 / (36 * 7))),
            "heteroskedastic": lambda: linear("", self.p, uniform, UNIFORM, heteroskedastic, "x0"),
            "20 % missing": lambda: linear("", self.p, uniform, UNIFORM, missing=0.2),
            "one factor": one_factor,
            "two factors": two_factors,
        }[self.design]()


def cells() -> list[Cell]:
    sizes = [(2_000, 2), (2_000, 5), (10_000, 2), (10_000, 5), (10_000, 10), (10_000, 20), (100_000, 10), (100_000, 20)]
    found = [Cell("uniform", n, p, 1.0, delta) for n, p in sizes for delta in (None, DELTA)]
    found += [Cell("uniform", 10_000, 5, epsilon, delta) for epsilon in (0.3, 3.0) for delta in (None, DELTA)]
    for design, p in (("correlated .7", 5), ("skewed", 5), ("20 % missing", 5), ("one factor", 5), ("two factors", 8)):
        found += [Cell(design, 10_000, p, 1.0, delta) for delta in (None, DELTA)]
    for cov_type in ("nonrobust", "HC1"):
        found += [Cell("heteroskedastic", 10_000, 5, 1.0, delta, cov_type) for delta in (None, DELTA)]
    return found


def run(cell: Cell, replications: int) -> dict[str, object]:
    population = cell.population
    rng = np.random.default_rng([17, cell.n, cell.p, len(cell.design)])
    truth = pd.Series(population.truth)
    call = {"schema": population.schema, "infeasible": "fit", "cov_type": cell.cov_type}
    budget = {"epsilon": cell.epsilon, **({} if cell.delta is None else {"delta": cell.delta})}
    rows = []
    for _ in range(replications):
        data = population.draw(rng, cell.n)
        plain = dps.dp_ols(population.formula, data, math.inf, **call)
        row = {"plain error": np.linalg.norm(plain.params[truth.index] - truth)}
        for name in ("huber", "ssp"):
            fit = dps.dp_ols(population.formula, data, **budget, mechanism=name, rng=rng, **call)
            ends = fit.conf_int().loc[truth.index]
            row[f"{name} error"] = np.linalg.norm(fit.params[truth.index] - truth)
            row[f"{name} width"] = np.median((ends[1] - ends[0]) / (2 * PROBIT * plain.bse[truth.index]))
            if name == "huber":
                row["covered"] = ((ends[0] <= truth) & (truth <= ends[1])).to_numpy()
                row["bounded"] = np.isfinite(ends).all(axis=1).mean()
                row["kappa"] = fit.kappa
        rows.append(row)
    covered = np.mean([row["covered"] for row in rows], axis=0)
    median = {name: float(np.median([row[name] for row in rows])) for name in rows[0] if name != "covered"}
    return {
        "design": cell.design,
        "n": cell.n,
        "p": cell.p,
        "eps": cell.epsilon,
        "delta": "-" if cell.delta is None else f"{cell.delta:g}",
        "errors": cell.cov_type,
        "coverage": covered.mean(),
        "worst": covered.min(),
        "bounded": np.mean([row["bounded"] for row in rows]),
        "kappa": median["kappa"],
        "width": median["huber width"],
        "width of ssp": median["ssp width"],
        "error": median["huber error"] / median["plain error"],
        "error of ssp": median["ssp error"] / median["plain error"],
    }


def misses(row: pd.Series) -> str:
    """Name the bars that a cell misses: those of the coverage of ssp (5.2 of the methods)."""
    bounded = row["bounded"] >= 0.99
    low, high = (0.93, 0.97) if bounded and row["width"] < 10 else (0.93, 1.0)
    found = [] if low <= row["coverage"] <= high else ["coverage"]
    return ", ".join(found + ([] if row["worst"] >= 0.9 else ["worst"])) or "-"


def distances() -> pd.DataFrame:
    """Coefficients of the Huber regression less those of least squares, in standard errors, without noise."""
    rows = []
    for table, formula in REAL.items():
        data, schema = load_table(table)
        plain = dps.dp_ols(formula, data, math.inf, schema=schema, cov_type="HC1")
        for threshold in (1.0, 0.5, 0.25, 0.125):
            fit = dps.dp_ols(formula, data, math.inf, schema=schema, mechanism=dps.Huber(threshold=threshold))
            private = dps.dp_ols(
                formula,
                data,
                1.0,
                schema=schema,
                mechanism=dps.Huber(threshold=threshold),
                cov_type="HC1",
                rng=np.random.default_rng(1),
            )
            slopes = [name for name in plain.params.index if name != "Intercept"]
            gap = ((fit.params - plain.params) / plain.bse)[slopes].abs()
            rows.append(
                {
                    "table": table,
                    "n": len(data),
                    "threshold": f"{threshold:g}",
                    "largest distance": gap.max(),
                    "median distance": gap.median(),
                    "private errors": (private.bse / plain.bse)[slopes].median(),
                }
            )
    return pd.DataFrame(rows).round(2)


def speeds() -> pd.DataFrame:
    """Seconds of a call, medians of five, for tables of twenty numbers, and ratios to statsmodels in the same run."""
    rows = []
    for n in (100_000, 1_000_000):
        population = linear("", 20, uniform, UNIFORM)
        data = pd.DataFrame(population.draw(np.random.default_rng(23), n))
        threshold = 0.25 * 2 * population.schema["y"].upper
        calls = {
            "dp_ols huber": lambda d=data, p=population: (
                dps.dp_ols(p.formula, d, 1.0, schema=p.schema, mechanism="huber").bse
            ),
            "dp_ols ssp": lambda d=data, p=population: dps.dp_ols(p.formula, d, 1.0, 1e-6, schema=p.schema).bse,
            "smf.rlm": lambda d=data, p=population, t=threshold: (
                RLM.from_formula(p.formula, d, M=HuberT(t=t)).fit(start_scale=1.0, update_scale=False).bse
            ),
            "smf.ols": lambda d=data, p=population: OLS.from_formula(p.formula, d).fit().bse,
        }
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(5):
            for name, call in calls.items():
                started = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - started)
        median = {name: float(np.median(values)) for name, values in times.items()}
        ours = median["dp_ols huber"]
        ratios = {f"{name} / dp_ols huber": value / ours for name, value in median.items() if name != "dp_ols huber"}
        rows.append({"n": n, "seconds of dp_ols huber": round(ours, 3), **{k: round(v, 2) for k, v in ratios.items()}})
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    started = time.time()
    chosen = sorted(cells(), key=lambda cell: -cell.n * cell.p)
    with ProcessPoolExecutor(options.processes) as pool:
        results = pool.map(run, chosen, [options.replications] * len(chosen))
        table = pd.DataFrame(list(results))
    order = {cell: place for place, cell in enumerate(cells())}
    table = table.iloc[np.argsort([order[cell] for cell in chosen])]
    table["misses"] = table.apply(misses, axis=1)
    minutes = (time.time() - started) / 60
    text = "\n".join(
        [
            "# Huber regression beside ssp",
            "",
            f"{len(table)} cells, {options.replications} data sets each, simulated noise, nominal 95 %. `coverage` is",
            "the average over the slopes, `worst` that of the least covered one; unbounded intervals count as",
            "covering. `width` and `error` are medians over those of least squares without privacy. `misses` names the",
            f"bars that a cell misses. Written by huber.py in {minutes:.0f} minutes.",
            "",
            markdown(table.round(3)),
            "",
            "## What the threshold changes",
            "",
            "Distance of the slopes, without noise, from those of least squares, in robust standard errors, by",
            "threshold (as a share of the outcome's range); and median of the private standard errors at epsilon = 1",
            "over those of least squares without privacy.",
            "",
            markdown(distances()),
            "",
            "## Time",
            "",
            "A call with standard errors, 20 numbers: times that others take in the same run, over its own.",
            "",
            markdown(speeds()),
            "",
        ]
    )
    print(text)
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
