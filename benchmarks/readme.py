"""What the README shows: prints the summary of its fit, and writes readme.png beside this script.

    python benchmarks/readme.py

The table is public, so the fit without privacy may be drawn beside the private one.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import statsmodels.formula.api as smf

import dpstats as dps

FORMULA = "hours_per_week ~ age + education_num + C(sex) + C(relationship)"


def main() -> None:
    adult, schema = dps.datasets.load_adult()
    fit = dps.dp_ols(FORMULA, adult, epsilon=1, schema=schema)
    print(fit.summary())
    levels = schema["relationship"].levels
    plain = smf.ols(FORMULA, adult.assign(relationship=pd.Categorical(adult["relationship"], levels))).fit()
    figure, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    dps.coefplot(fit, plain, ax=ax, labels=["private, epsilon = 1", "statsmodels"])
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=130)


if __name__ == "__main__":
    main()
