"""Error of private least squares beside its competitors; writes accuracy_ols.md beside this script.

    python benchmarks/accuracy_ols.py [--replications 100] [--diffprivlib PYTHON]

PYTHON is the interpreter of an environment with diffprivlib 0.6.6 and scikit-learn 1.6; without it that column is
empty. Error is the median over data sets of the L2 error of the slopes, divided by that of least squares. All methods
see the same coded rows; `ssp` runs with simulated noise of its real law.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from competitors import adassp, diff_lr, diffprivlib, functional_mechanism, functional_mechanism_as_stated
from coverage_ols import markdown
from designs import linear, load_table, uniform

from dpstats.inference.diagnostics import kappa
from dpstats.inference.estimates import fit_least_squares, model_space
from dpstats.inference.moment_test import contrasts
from dpstats.mechanisms.ssp import plan_moments, release_moments
from dpstats.privacy.notions import Budget
from dpstats.records.source import as_source
from dpstats.release.noise import SimulatedNoise
from dpstats.specification.coercion import array_of
from dpstats.specification.design import build_design
from dpstats.specification.rowmap import RowMap
from dpstats.specification.schema import TableFacts

DELTA = 1e-6
CELLS = [(2_000, 2), (2_000, 5), (10_000, 5), (10_000, 10), (10_000, 20), (100_000, 10), (100_000, 20)]
BARS = {
    "pure error": (2.4, 6.3, 2.85, 6.8, None, 2.5, 6.5),
    "Gaussian error": (3.3, 5.4, 2.6, 3.65, 5.9, 1.6, 2.2),
    "pure width": (2.5, 7.0, 3.0, 7.6, None, 2.5, 6.4),
    "Gaussian width": (3.3, 5.3, 2.6, 3.8, 6.3, 1.6, 2.15),
}
REAL = {
    "cps1988": "np.log(wage) ~ experience + education + C(ethnicity) + C(smsa) + C(parttime)",
    "adult": "hours_per_week ~ age + education_num + C(sex)",
    "labsup": "hours ~ kids + age + educ + black + hispan",
}


def private(plan, source, rng):
    """Coded coefficients (beta-hat on the coded columns) and interval widths of one release with simulated noise."""
    space = model_space(plan.view.contrast, plan.view.has_constant, plan.coding)
    moments = release_moments(plan, source, SimulatedNoise(rng))
    fit = fit_least_squares(moments, space)
    found = contrasts(moments, space, fit, np.eye(space.n_params))
    return found, kappa(moments, space)


def coded_rows(coding, columns):
    """Complete coded rows and the coded outcome."""
    rows = RowMap(coding).code(columns, len(next(iter(columns.values()))))
    z = rows.columns[rows.complete]
    return z[:, :-1], z[:, -1]


def synthetic(replications: int, python: str | None) -> pd.DataFrame:
    rows = []
    for place, (n, p) in enumerate(CELLS):
        population = linear(f"uniform p={p}", p, uniform, 1 / np.sqrt(3))
        # the outcome's bounds are [-1, 1], as in the bars; a few outcomes are clipped
        schema = population.schema.updated(type(population.schema)({"y": type(population.schema["y"])(-1, 1)}))
        facts = TableFacts(tuple(schema), dict.fromkeys(schema, "number"), n)
        design = build_design(population.formula, schema, facts)
        plans = {
            "pure": plan_moments(design, Budget(1.0), n),
            "Gaussian": plan_moments(design, Budget(1.0, DELTA), n, noise="gaussian"),
        }
        truth = np.array(list(population.truth.values()))
        rng = np.random.default_rng([7, n, p])
        errors: dict[str, list[float]] = {}
        widths: dict[str, list[float]] = {}
        kappas: dict[str, list[float]] = {}
        stored = []
        for _ in range(replications):
            columns = population.draw(rng, n)
            Z, y = coded_rows(plans["pure"].coding, columns)
            exact = np.linalg.lstsq(Z, y, rcond=None)[0]
            residual = y - Z @ exact
            sd = np.sqrt(residual @ residual / (n - p - 1) * np.diag(np.linalg.inv(Z.T @ Z)))[1:]
            errors.setdefault("OLS", []).append(np.linalg.norm(exact[1:] - truth))
            for name, plan in plans.items():
                found, k = private(plan, as_source(columns), rng)
                errors.setdefault(name, []).append(np.linalg.norm([c.shown for c in found[1:]] - truth))
                ends = np.array([c.interval(0.05) for c in found[1:]])
                widths.setdefault(name, []).append(np.median((ends[:, 1] - ends[:, 0]) / (2 * 1.96 * sd)))
                kappas.setdefault(name, []).append(k)
            errors.setdefault("FM", []).append(np.linalg.norm(functional_mechanism(Z, y, 1.0, rng)[1:] - truth))
            stated = functional_mechanism_as_stated(Z, y, 1.0, rng)
            errors.setdefault("FM as stated", []).append(np.linalg.norm(stated[1:] - truth))
            errors.setdefault("Diff-LR", []).append(np.linalg.norm(diff_lr(Z, y, 1.0, rng)[1:] - truth))
            errors.setdefault("AdaSSP", []).append(np.linalg.norm(adassp(Z, y, 1.0, DELTA, rng)[1:] - truth))
            if len(stored) < max(20, replications // 5):
                stored.append((Z, y))
        if python:
            fits = diffprivlib(stored, 1.0, python)
            errors["diffprivlib"] = [np.linalg.norm(beta[1:] - truth) for beta in fits]
        ratio = {name: np.median(values) / np.median(errors["OLS"]) for name, values in errors.items()}
        row = {"n": n, "p": p, "kappa pure": np.median(kappas["pure"]), "kappa Gaussian": np.median(kappas["Gaussian"])}
        row |= {"pure error": ratio["pure"], "Gaussian error": ratio["Gaussian"]}
        row |= {"pure width": np.median(widths["pure"]), "Gaussian width": np.median(widths["Gaussian"])}
        row |= {name: ratio.get(name, np.nan) for name in ("FM", "FM as stated", "Diff-LR", "diffprivlib", "AdaSSP")}
        row["auto"] = plan_moments(design, Budget(1.0, DELTA), n).coding.noise
        limits = {name: limit[place] for name, limit in BARS.items()}
        row["misses"] = ", ".join(k for k, v in limits.items() if v is not None and not row[k] <= v) or "-"
        rows.append(row)
    return pd.DataFrame(rows)


def real_tables(replications: int, python: str | None) -> pd.DataFrame:
    rows = []
    for name, formula in REAL.items():
        data, schema = load_table(name)
        source = as_source(data)
        design = build_design(formula, schema, source.facts)
        for epsilon in (0.1, 1.0, 10.0):
            pure = plan_moments(design, Budget(epsilon), len(data))
            approximate = plan_moments(design, Budget(epsilon, DELTA), len(data))
            columns = {k: array_of(data[k]) for k in design.variables}
            Z, y = coded_rows(pure.coding, columns)
            exact = np.linalg.lstsq(Z, y, rcond=None)[0]
            space = {id(p): model_space(p.view.contrast, p.view.has_constant, p.coding) for p in (pure, approximate)}
            target = {id(p): _raw(p, space[id(p)], source) for p in (pure, approximate)}
            rng = np.random.default_rng([11, len(data), int(10 * epsilon)])

            def relative(beta, exact=exact):
                return np.linalg.norm(beta[1:] - exact[1:]) / np.linalg.norm(exact[1:])

            found: dict[str, list[float]] = {}
            for _ in range(replications):
                for label, plan in (("ssp pure", pure), ("ssp delta", approximate)):
                    contrasts_, _ = private(plan, source, rng)
                    shown = np.array([c.shown for c in contrasts_])
                    goal, slopes = target[id(plan)]
                    scale = slopes  # size of each raw slope's column: errors on the coded scale of the columns
                    found.setdefault(label, []).append(
                        np.linalg.norm((shown - goal)[1:] * scale) / np.linalg.norm(goal[1:] * scale)
                    )
                found.setdefault("FM", []).append(relative(functional_mechanism(Z, y, epsilon, rng)))
                found.setdefault("Diff-LR", []).append(relative(diff_lr(Z, y, epsilon, rng)))
                found.setdefault("AdaSSP", []).append(relative(adassp(Z, y, epsilon, DELTA, rng)))
            if python:
                fits = diffprivlib([(Z, y)] * min(replications, 10), epsilon, python)
                found["diffprivlib"] = [relative(beta) for beta in fits]
            rows.append(
                {"table": name, "n": len(y), "p": Z.shape[1] - 1, "eps": epsilon}
                | {
                    k: np.median(found[k]) if k in found else np.nan
                    for k in ("ssp pure", "ssp delta", "FM", "Diff-LR", "diffprivlib", "AdaSSP")
                }
            )
    return pd.DataFrame(rows)


def _raw(plan, space, source):
    """Exact coefficients in coded units of the outcome, and the half-range of each model column but the constant."""
    from dataclasses import replace

    from dpstats.release.noise import NoNoise

    moments = replace(release_moments(plan, source, NoNoise()), variances=np.zeros(plan.atoms.n_atoms))
    fit = fit_least_squares(moments, space)
    estimates = np.array([c.estimate for c in contrasts(moments, space, fit, np.eye(space.n_params))])
    return estimates, np.linalg.norm(np.delete(plan.view.contrast, 0, axis=1)[1:], axis=1)


def competitors_bars(table: pd.DataFrame) -> pd.DataFrame:
    """Bar 5.9: error of ssp over the competitor's, in cells with kappa at most .5."""
    rows = []
    for _, row in table.iterrows():
        entry = {"n": row["n"], "p": row["p"]}
        for other, ours, limit in (
            ("FM", "pure", 1 / 6),
            ("FM as stated", "pure", 1 / 6),
            ("Diff-LR", "pure", 1 / 2.5),
            ("diffprivlib", "pure", 1 / 1.7),
            ("AdaSSP", "pure" if row["auto"] == "laplace" else "Gaussian", 1 / 1.2),
        ):
            if row[f"kappa {ours}"] <= 0.5 and np.isfinite(row[other]):
                ratio = row[f"{ours} error"] / row[other]
                entry[f"ssp / {other}"] = (
                    f"{ratio:.2f}{'' if ratio <= limit else ' (bar ' + format(limit, '.2f') + ')'}"
                )
            else:
                entry[f"ssp / {other}"] = ""
        rows.append(entry)
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--diffprivlib", default=None)
    options = parser.parse_args()
    table = synthetic(options.replications, options.diffprivlib)
    real = real_tables(max(options.replications // 4, 5), options.diffprivlib)
    text = "\n".join(
        [
            "# Accuracy of dp_ols",
            "",
            f"Uniform columns, R-squared .5, epsilon = 1 (Gaussian: delta = 1e-6), {options.replications} data sets.",
            "Error: median L2 error of the slopes over that of least squares; width: median interval width over that",
            "of least squares. `misses` names the bars that a cell misses; `auto` is the noise that dp_ols chooses at",
            "(1, 1e-6). FM (columns in [-1, 1] as in the authors' code, or `as stated` in the paper), Diff-LR and",
            "AdaSSP are prototypes (competitors.py); diffprivlib 0.6.6 runs in an environment of its own on a part of",
            "the data sets.",
            "",
            markdown(table.round(3)),
            "",
            "## Error of ssp over the competitor's, where kappa is at most .5",
            "",
            "Bars: FM .17, Diff-LR .40, diffprivlib .59, AdaSSP .83 (against the noise that dp_ols chooses).",
            "",
            markdown(competitors_bars(table)),
            "",
            "## Real tables: median relative L2 error of the slopes against least squares, coded units",
            "",
            markdown(real.round(4)),
            "",
        ]
    )
    print(text)
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
