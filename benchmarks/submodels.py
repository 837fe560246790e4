"""Five nested models from one release: coverage of each, and what separate fits would cost; writes submodels.md.

python benchmarks/submodels.py [--replications 400]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from coverage_ols import markdown

from dpstats.inference.estimates import fit_least_squares, model_space
from dpstats.inference.moment_test import contrasts
from dpstats.inference.reconcile import reconcile
from dpstats.mechanisms.ssp import plan_moments, release_moments
from dpstats.privacy.notions import Budget
from dpstats.records.source import as_source
from dpstats.release.noise import NoNoise, SimulatedNoise
from dpstats.specification.design import build_design
from dpstats.specification.identities import find_identities
from dpstats.specification.schema import Categorical, Continuous, Schema, TableFacts
from dpstats.specification.view import embed

N = 20_000
MODELS = ["y ~ x1", "y ~ x1 + x2", "y ~ x1 + x2 + C(g)", "y ~ x1 * x2 + C(g)", "y ~ x1 * x2 + C(g) + x3"]
SCHEMA = Schema(
    {f"x{j}": Continuous(-1, 1) for j in (1, 2, 3)} | {"g": Categorical(list("abc")), "y": Continuous(-1.5, 1.5)}
)


def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Correlated regressors, so that the coefficients differ from model to model."""
    x1 = rng.uniform(-1, 1, n)
    x2 = 0.5 * x1 + 0.5 * rng.uniform(-1, 1, n)
    x3 = 0.3 * x2 + 0.7 * rng.uniform(-1, 1, n)
    g = np.array(list("abc"))[np.clip(np.floor(1.5 * (x1 + 1) * rng.random(n) + rng.random(n)), 0, 2).astype(int)]
    y = 0.2 * x1 - 0.1 * x2 + 0.1 * x1 * x2 + 0.1 * (g == "b") + 0.05 * x3 + rng.normal(0, 0.2, n)
    return {"x1": x1, "x2": x2, "x3": x3, "g": g, "y": y}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=400)
    options = parser.parse_args()
    kinds = {"x1": "number", "x2": "number", "x3": "number", "g": "text", "y": "number"}
    design = build_design(MODELS[-1], SCHEMA, TableFacts(tuple(kinds), kinds))
    rows = []
    for label, budget in {"pure": Budget(1.0), "delta": Budget(1.0, 1e-6)}.items():
        plan = plan_moments(design, budget, N)
        identities = find_identities(plan.coding.all_blocks, plan.atoms, plan.coding.signs)
        views = [embed(formula, plan.coding) for formula in MODELS]
        spaces = [model_space(view, plan.coding) for view in views]
        truths = [estimates(plan, space, as_source(draw(np.random.default_rng(0), 4_000_000))) for space in spaces]
        rng = np.random.default_rng(1)
        covered: list[list[np.ndarray]] = [[] for _ in MODELS]
        for _ in range(options.replications):
            moments = reconcile(release_moments(plan, as_source(draw(rng, N)), SimulatedNoise(rng)), identities)
            for space, truth, record in zip(spaces, truths, covered, strict=True):
                fit = fit_least_squares(moments, space)
                found = contrasts(moments, space, fit, np.eye(space.n_params))
                ends = np.array([c.interval(0.05) for c in found])
                record.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        for formula, view, record in zip(MODELS, views, covered, strict=True):
            slopes = np.array([name != "Intercept" for name in view.design.exog_names])
            alone = plan_moments(build_design(formula, SCHEMA, TableFacts(tuple(kinds), kinds)), budget, N)
            share = np.array(record)[:, slopes]
            rows.append(
                {
                    "notion": label,
                    "model": formula,
                    "coverage": round(float(share.mean()), 3),
                    "worst coefficient": round(float(share.mean(axis=0).min()), 3),
                    "spent from one release": str(plan.cost) if label == "pure" else str(budget),
                    "spent by separate fits": f"{len(MODELS)} x {budget}" if formula == MODELS[-1] else "",
                    "xy noise / a fit of its own": round(noise_ratio(plan, alone), 2),
                }
            )
    text = "\n".join(
        [
            "# Sub-models from one release",
            "",
            f"n = {N:,}, {options.replications} data sets, nominal 95 %; truth: the same projection on 4,000,000 rows. "
            "The last column is the standard deviation of the noise in X'y over that of a release of the model alone "
            "at the same budget: what a smaller model pays for being one of five.",
            "",
            markdown(pd.DataFrame(rows)),
            "",
        ]
    )
    print(text)
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


def estimates(plan, space, source) -> np.ndarray:
    from dataclasses import replace

    moments = replace(release_moments(plan, source, NoNoise()), variances=np.zeros(plan.atoms.n_atoms))
    fit = fit_least_squares(moments, space)
    return np.array([c.estimate for c in contrasts(moments, space, fit, np.eye(space.n_params))])


def noise_ratio(joint, alone) -> float:
    def cross(plan):
        return float(np.sqrt(np.mean(plan.variances[plan.atoms.index[:-1, -1]])))

    return cross(joint) / cross(alone)


if __name__ == "__main__":
    main()
