"""Shared by all tests: one BLAS thread, and the real tables of ``../shared/data`` with their public bounds."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpstats.specification.remember import forget


@pytest.fixture(autouse=True)
def _nothing_is_remembered():
    """Let no test see what another one, which may change how things are worked out, left in memory."""
    forget()


@dataclass(frozen=True)
class Table:
    """A real table with its public description."""

    data: pd.DataFrame
    bounds: dict[str, tuple[float, float]]
    levels: dict[str, list[Any]]

    def complete_cases(self, names: list[str]) -> pd.DataFrame:
        """Clipped, complete rows with declared levels: what a non-private reference fit is given."""
        frame = pd.DataFrame(index=self.data.index)
        for name in names:
            if name in self.levels:
                frame[name] = pd.Categorical(self.data[name], categories=self.levels[name])
            else:
                frame[name] = self.data[name].clip(*self.bounds[name])
        return frame.dropna()


def tables_folder() -> Path | None:
    """Return the folder of the real tables: $DPSTATS_DATA, or ../shared/data beside the checkout."""
    named = os.environ.get("DPSTATS_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if (folder / "bounds.json").is_file() else None


@pytest.fixture(scope="session")
def table():
    """Return a loader ``table(name)``; skips where the tables are absent, except in CI, where it fails."""
    folder = tables_folder()
    cache: dict[str, Table] = {}

    def load(name: str) -> Table:
        if folder is None:
            message = "the real tables are not here; set DPSTATS_DATA to their folder"
            if os.environ.get("DPSTATS_CI"):
                pytest.fail(message)
            pytest.skip(message)
        if name not in cache:
            entry = json.loads((folder / "bounds.json").read_text())[name]
            bounds = {column: tuple(pair) for column, pair in entry["bounds"].items()}
            cache[name] = Table(pd.read_csv(folder / entry["file"]), bounds, entry["levels"])
        return cache[name]

    return load
