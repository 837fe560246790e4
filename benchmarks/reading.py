"""Read the tables that the benchmarks write, for pages that show them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def read_tables(path: str | Path) -> list[pd.DataFrame]:
    """Return the tables of a Markdown file in order; columns that hold numbers are numbers."""
    found, rows = [], []
    for line in [*Path(path).read_text("utf-8").splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            found.append(pd.DataFrame(rows[2:], columns=rows[0]).apply(_numbers))
            rows = []
    return found


def _numbers(column: pd.Series) -> pd.Series:
    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if numbers.notna().any() else column
