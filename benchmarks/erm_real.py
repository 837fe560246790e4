"""Misclassification and interval widths of `dp_logit` and `dp_svm` on real tables; writes erm_real.md beside itself.

    python benchmarks/erm_real.py [--repeats 10] [--diffprivlib /path/to/python]

Each repeat draws a new split, four fifths for fitting and one for testing, and new noise. `--diffprivlib` names
the interpreter of an environment with diffprivlib, whose logistic regression then sees the same coded rows.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from designs import load_table

import dpstats as dps
from dpstats.specification.coding import code_design
from dpstats.specification.design import build_design
from dpstats.specification.predictors import build_predictors
from dpstats.specification.view import facts_of, full_view

EPSILONS = (0.5, 1.0, 3.0)
DELTA = 1e-6
MODELS = [
    ("Adult", "adult", "income ~ age + education_num + hours_per_week + C(sex)"),
    (
        "Adult, two more factors",
        "adult",
        "income ~ age + education_num + hours_per_week + C(sex) + C(workclass) + C(occupation)",
    ),
    ("Bank", "bank_full", "y ~ age + balance + campaign + C(housing) + C(loan) + C(contact)"),
    (
        "Bank, transformed",
        "bank_full",
        "y ~ age + np.arcsinh(balance / 100) + np.log(campaign) + C(housing) + C(loan) + C(contact)",
    ),
    (
        "KDD Cup 99",
        "kddcup99_10pct",
        "attack ~ logged_in + count + srv_count + same_srv_rate + dst_host_count + C(protocol_type)",
    ),
    (
        "US census 2000",
        "census2000_sf_persons",
        "I(annual_income > 28000) ~ age + hours_per_week + C(gender) + n_autos",
    ),
]
MECHANISMS = {
    "objective": ("objective", False),
    "objective, mixed": ("objective", True),
    "wkl-objective": ("wkl-objective", False),
    "wkl-output, c = .001": ("wkl-output", False),
    "functional": ("functional", False),
}
_DIFFPRIVLIB = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from diffprivlib.models import LogisticRegression
stored = np.load(sys.argv[1])
found = []
for i, epsilon in enumerate(json.loads(sys.argv[2])):
    model = LogisticRegression(
        epsilon=epsilon, data_norm=float(stored["norm"]), fit_intercept=False, max_iter=1000, random_state=i
    )
    model.fit(stored["z"], stored["y"])
    found.append(float(np.mean(model.predict(stored["test"]) != stored["truth"])))
print(json.dumps(found))
"""


def split(table: pd.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    order = rng.permutation(len(table))
    cut = len(table) * 4 // 5
    return table.iloc[order[:cut]], table.iloc[order[cut:]]


def outcomes(table: pd.DataFrame, formula: str, schema: dps.Schema) -> np.ndarray:
    """True where a row has the last level of the outcome."""
    name = formula.split(" ~ ")[0]
    if name.startswith("I("):
        return np.asarray(table.eval(name[2:-1]))
    column = schema[name]
    last = column.levels[-1] if hasattr(column, "levels") else 1
    return np.asarray(table[name] == last)


def misclassified(fit, test: pd.DataFrame, truth: np.ndarray) -> float:
    linear = fit.predict(test, which="linear").to_numpy()
    known = ~np.isnan(linear)
    return float(np.mean((linear[known] > 0) != truth[known]))


def coded(table: pd.DataFrame, formula: str, schema: dps.Schema) -> tuple[np.ndarray, float]:
    design = build_design(formula, schema, facts_of(schema.columns), binary="dp_logit")
    coding = code_design(design, "laplace")
    predictors = build_predictors(full_view(coding), coding)
    columns = {name: table[name].to_numpy() for name in design.regressor_variables}
    return predictors.code_public(columns, len(table)), math.sqrt(predictors.row_size)


def diffprivlib(python: str, train: pd.DataFrame, test: pd.DataFrame, formula: str, schema: dps.Schema) -> list[float]:
    """Misclassification of diffprivlib's LogisticRegression (Chaudhuri et al. 2011) at each epsilon."""
    z, norm = coded(train, formula, schema)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        truth = (outcomes(rows, formula, schema) for rows in (train, test))
        y, expected = truth
        np.savez(path, z=z, y=y, norm=norm * (1 + 1e-9), test=coded(test, formula, schema)[0], truth=expected)
        script = Path(folder) / "fit.py"
        script.write_text(_DIFFPRIVLIB)
        arguments = [python, str(script), str(path), json.dumps(EPSILONS)]
        return json.loads(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)


def run(name: str, source: str, formula: str, repeats: int, python: str | None) -> list[dict[str, object]]:
    table, schema = load_table(source)
    outcome = formula.split(" ~ ")[0]
    if outcome in schema and not hasattr(schema[outcome], "levels"):
        schema = dps.Schema({**schema.columns, outcome: dps.Binary((0, 1))})
    used = [column for column in table.columns if column in formula]
    table = table[used].dropna()
    rng = np.random.default_rng(1)
    kept: dict[tuple[str, float, str], list[tuple[float, float, float]]] = {}
    for _ in range(repeats):
        train, test = split(table, rng)
        truth = outcomes(test, formula, schema)
        floor = min(truth.mean(), 1 - truth.mean())
        kept.setdefault(("-", math.inf, "always the larger class"), []).append((floor, math.nan, math.nan))
        for model, fit_model in (("logit", dps.dp_logit), ("svm", dps.dp_svm)):
            plain = fit_model(formula, train, math.inf, schema=schema)
            ends = plain.conf_int().to_numpy()
            known = np.isfinite(ends).all(axis=1)
            width = ends[:, 1] - ends[:, 0]
            kept.setdefault((model, math.inf, "non-private"), []).append(
                (misclassified(plain, test, truth), 1.0 if known.any() else math.nan, float(known.mean()))
            )
            for epsilon in EPSILONS:
                for label, (mechanism, mixed) in MECHANISMS.items():
                    if model == "svm" and mechanism == "functional":
                        continue
                    fit = fit_model(
                        formula,
                        train,
                        epsilon,
                        DELTA if mixed else None,
                        schema=schema,
                        mechanism=mechanism,
                        infeasible="fit",
                        rng=rng,
                    )
                    error = misclassified(fit, test, truth)
                    if mechanism == "functional":
                        kept.setdefault((model, epsilon, label), []).append((error, math.nan, math.nan))
                        continue
                    ours = fit.conf_int().to_numpy()
                    ratios = (ours[:, 1] - ours[:, 0])[known] / width[known]
                    ratio = float(np.median(ratios)) if known.any() else math.nan
                    bounded = float(np.isfinite(ours).all(axis=1).mean())
                    kept.setdefault((model, epsilon, label), []).append((error, ratio, bounded))
        if python is not None:
            found = diffprivlib(python, train, test, formula, schema)
            for epsilon, error in zip(EPSILONS, found, strict=True):
                kept.setdefault(("logit", epsilon, "diffprivlib"), []).append((error, math.nan, math.nan))
    rows = []
    for (model, epsilon, label), found in kept.items():
        errors, ratios, bounded = np.array(found).T
        rows.append(
            {
                "table": name,
                "n": len(table) * 4 // 5,
                "coefficients": len(plain.params),
                "model": model,
                "eps": epsilon,
                "mechanism": label,
                "misclassified": f"{errors.mean():.4f}",
                "width": "-" if np.isnan(ratios).all() else f"{np.median(ratios):.2f}",
                "bounded": "-" if np.isnan(bounded).all() else f"{bounded.mean():.2f}",
            }
        )
    order = {"-": 0, "logit": 1, "svm": 2}
    return sorted(rows, key=lambda row: (order[row["model"]], -row["eps"] if math.isinf(row["eps"]) else row["eps"]))


def markdown(table: pd.DataFrame) -> str:
    head = [f"| {' | '.join(map(str, table.columns))} |", f"|{'---|' * len(table.columns)}"]
    return "\n".join(head + [f"| {' | '.join(map(str, row))} |" for row in table.to_numpy()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--diffprivlib", default=None)
    options = parser.parse_args()
    started = time.time()
    rows = [row for model in MODELS for row in run(*model, options.repeats, options.diffprivlib)]
    text = "\n".join(
        [
            "# dp_logit and dp_svm on real tables",
            "",
            f"Complete rows, four fifths to fit, {options.repeats} splits, simulated noise. `misclassified` is the "
            "mean share of test rows on the wrong side of 0; `width` the median interval width over the non-private "
            "one's, where that is bounded, and `bounded` the share of bounded intervals. Mixed budgets have delta = "
            f"{DELTA:g}. Intervals of wkl-output are about penalised coefficients. A level without rows of an outcome, "
            "as in Adult with two more factors, leaves no coefficient a bounded interval, with noise or without. "
            "Records of the KDD table are connections, not people. Written by erm_real.py in "
            f"{(time.time() - started) / 60:.0f} minutes.",
            "",
            markdown(pd.DataFrame(rows)),
            "",
        ]
    )
    print(text)
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
