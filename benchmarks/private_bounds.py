"""What bought bounds cost beside declared ones, on real tables; writes private_bounds.md beside this script.

    python benchmarks/private_bounds.py [--releases 100]

The same formula is fitted with the same total budget, once with declared bounds and once with nothing declared but the
levels of factors. Errors are distances from non-private least squares in its standard errors.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from designs import load_table

import dpstats as dps

MODELS = [
    ("adult", "hours_per_week ~ age + education_num"),
    ("cpssw8", "earnings ~ age + education"),
    ("fertility_census1980", "work ~ age + C(afam)"),
]
BUDGETS = [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}]


def run(name: str, formula: str, budget: dict[str, float], releases: int) -> dict[str, object]:
    table, schema = load_table(name)
    used = [column for column in table.columns if column in re.findall(r"\w+", formula)]
    table = table[used]
    levels = {k: list(schema[k].levels) for k in used if hasattr(schema[k], "levels")}
    exact = dps.dp_ols(formula, table, math.inf, schema=schema)
    truth, error = exact.params.to_numpy()[1:], exact.bse.to_numpy()[1:]
    rng = np.random.default_rng(1)
    errors: dict[str, list[float]] = {"declared": [], "bought": []}
    covered, bounded = [], []
    for _ in range(releases):
        for kind, declared in (("declared", {"schema": schema}), ("bought", {"levels": levels})):
            fit = dps.dp_ols(formula, table, **budget, **declared, rng=rng)
            errors[kind].append(float(np.linalg.norm((fit.params.to_numpy()[1:] - truth) / error)))
        ends = fit.conf_int().to_numpy()[1:]
        covered.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        bounded.append(np.isfinite(ends).all())
    declared, bought = (float(np.median(errors[kind])) for kind in ("declared", "bought"))
    return {
        "table": name,
        "n": len(table),
        "formula": formula,
        "budget": str(fit.privacy.budget),
        "error, declared": f"{declared:.2f}",
        "error, bought": f"{bought:.2f}",
        "price": f"{bought / declared:.2f}",
        "covered": f"{np.mean(covered):.3f}",
        "bounded": f"{np.mean(bounded):.2f}",
    }


def markdown(table: pd.DataFrame) -> str:
    head = [f"| {' | '.join(map(str, table.columns))} |", f"|{'---|' * len(table.columns)}"]
    return "\n".join(head + [f"| {' | '.join(map(str, row))} |" for row in table.to_numpy()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=100)
    options = parser.parse_args()
    started = time.time()
    rows = [run(*model, budget, options.releases) for model in MODELS for budget in BUDGETS]
    text = "\n".join(
        [
            "# Bought bounds beside declared ones",
            "",
            f"{options.releases} simulated releases each, the same total budget. `error` is the median distance of the "
            "slopes from non-private least squares, in its standard errors; `price` the ratio; `covered` how often 95 "
            "% intervals with bought bounds hold the non-private slopes (which have no sampling error here, so that it "
            f"should exceed .95). Written by private_bounds.py in {(time.time() - started) / 60:.0f} minutes.",
            "",
            markdown(pd.DataFrame(rows)),
            "",
        ]
    )
    print(text)
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
