"""Nominal 95 % intervals cover: four cells, 400 data sets each, simulated noise through the real private path."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import planned

from dpstats.inference.estimates import fit_least_squares
from dpstats.inference.moment_test import contrasts
from dpstats.mechanisms.ssp import release_moments
from dpstats.records.source import as_source
from dpstats.release.noise import SimulatedNoise
from dpstats.specification.schema import Categorical, Continuous

REPLICATIONS, N = 400, 10_000
LEVELS = ("a", "b", "c", "d")
EFFECTS = np.array([0.0, 0.1, -0.1, 0.05])
SD = 0.3
SLOPES = {"uniform": np.full(5, SD * np.sqrt(0.5 * 3 / 5)), "factor": np.array([0.15, -0.1])}
"""Uniform: sd(y) = .3 and R-squared .5. Factor: two numbers and four levels, five coefficients beside the intercept."""


def draw(design, rng):
    """Return one data set with y well inside its bounds, so that the target is the true coefficient."""
    slopes = SLOPES[design]
    x = rng.uniform(-1, 1, (N, len(slopes)))
    data = {f"x{j}": column for j, column in enumerate(x.T)}
    mean = x @ slopes
    if design == "factor":
        level = rng.integers(0, len(LEVELS), N)
        data["g"] = np.array(LEVELS)[level]
        mean = mean + EFFECTS[level]
    data["y"] = mean + rng.normal(0, SD * np.sqrt(0.5), N)
    return data


def case_for(design, budget, data):
    schema = {name: Continuous(-1, 1) for name in data if name != "g"} | {"y": Continuous(-2.5, 2.5)}
    terms = [name for name in data if name not in {"g", "y"}]
    if design == "factor":
        schema["g"], terms = Categorical(LEVELS), [*terms, "C(g)"]
    return planned("y ~ " + " + ".join(terms), data, schema, **budget)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}], ids=["pure", "delta"])
@pytest.mark.parametrize("design", ["uniform", "factor"])
def test_intervals_cover_the_true_coefficients(design, budget):
    rng = np.random.default_rng(20)
    case = case_for(design, budget, draw(design, rng))
    truth = dict(zip((f"x{j}" for j in range(5)), SLOPES[design], strict=False))
    truth |= {f"C(g)[T.{level}]": effect for level, effect in zip(LEVELS, EFFECTS, strict=True)}
    wanted = [i for i, name in enumerate(case.names) if name != "Intercept"]
    target = np.array([truth[case.names[i]] for i in wanted]) / case.space.half
    rows = np.eye(len(case.names))[wanted]
    covered, bounded = [], []
    for _ in range(REPLICATIONS):
        moments = release_moments(case.plan, as_source(draw(design, rng)), SimulatedNoise(rng))
        found = contrasts(moments, case.space, fit_least_squares(moments, case.space), rows)
        ends = np.array([contrast.interval(0.05) for contrast in found])
        covered.append((ends[:, 0] <= target) & (target <= ends[:, 1]))
        bounded.append(np.isfinite(ends).all())
    assert np.mean(bounded) > 0.99
    assert 0.93 <= np.mean(covered) <= 0.97
    assert np.mean(covered, axis=0).min() >= 0.90
