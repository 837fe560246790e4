"""Time and peak memory of whole processes beside what a user would run instead; writes speed.md beside this script.

    python benchmarks/speed.py [--diffprivlib PYTHON] [--repeats 7] [--large 10000000]

PYTHON is the interpreter of an environment with diffprivlib, pandas and pyarrow. Each number comes from a process of
its own, unless it says otherwise, that loads the table, runs the call once to warm up and `repeats` times more; shown
are the median time of the call, the peak resident memory of the process, and by how much the calls raised it above what
the loaded table takes. The latter is read from Linux's /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

AGAIN = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
"""A small parent between, because a child's peak memory starts at that of its parent."""


def write_table(folder: Path, n: int, p: int, levels: int = 0) -> Path:
    """Numbers x0, .., a factor g of some levels, an outcome y and a binary one."""
    path = folder / f"{n}-{p}-{levels}.parquet"
    writer, rng = None, np.random.default_rng(0)
    for start in range(0, n, 1_000_000):
        rows = min(1_000_000, n - start)
        x = rng.uniform(-1, 1, (rows, p))
        eta = 0.1 * x.sum(axis=1)
        columns = {f"x{j}": x[:, j] for j in range(p)}
        columns["y"] = np.clip(eta + rng.normal(0, 0.2, rows), -1, 1)
        columns["won"] = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
        if levels:
            columns["g"] = np.char.add("level ", rng.integers(0, levels, rows).astype(str))
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=125_000)
    writer.close()
    return path


def formula_of(outcome: str, p: int, levels: int) -> str:
    return f"{outcome} ~ " + " + ".join([f"x{j}" for j in range(p)] + ["C(g)"] * (levels > 0))


# In the process that is measured --------------------------------------------------------------------------------------


def call_of(how: str, path: str, p: int, levels: int) -> Callable[[], Any]:
    """Load the table, and return the call to be timed."""
    names = [f"x{j}" for j in range(p)]
    if how == "pyarrow, bare read":
        return lambda: [
            batch.num_rows
            for batch in pq.ParquetFile(path, pre_buffer=False).iter_batches(columns=[*names, "y"], use_threads=False)
        ]
    if how.startswith("dp_"):
        return _ours(how, path, p, levels)
    frame = pd.read_parquet(path, columns=[*names, "y", "won", *["g"] * (levels > 0)])
    if how == "X'X":
        x = np.column_stack([frame[name] for name in names])
        return lambda: x.T @ x
    if how.startswith("diffprivlib"):
        return _diffprivlib(how, frame, names)
    import statsmodels.formula.api as smf

    if how == "smf.ols":
        return lambda: smf.ols(formula_of("y", p, levels), frame).fit().conf_int()
    return lambda: smf.logit(formula_of("won", p, levels), frame).fit(disp=0).conf_int()


def _ours(how: str, path: str, p: int, levels: int) -> Callable[[], Any]:
    import dpstats as dps

    columns: dict[str, Any] = {f"x{j}": dps.Continuous(-1, 1) for j in range(p)}
    columns |= {"y": dps.Continuous(-1, 1), "won": dps.Binary()}
    if levels:
        columns["g"] = dps.Categorical([f"level {i}" for i in range(levels)])
    schema = dps.Schema(columns)
    wanted = [name for name in columns if name != ("y" if "logit" in how else "won")]
    data = path if how.endswith("file") else pd.read_parquet(path, columns=wanted)
    if how.endswith("category"):
        data["g"] = data["g"].astype("category")
    options = {"epsilon": 1.0, "schema": schema, "infeasible": "fit"}
    if how.startswith("dp_moments"):
        return lambda: dps.dp_moments(formula_of("y", p, levels), data, **options)
    if how.startswith("dp_ols"):
        return lambda: dps.dp_ols(formula_of("y", p, levels), data, **options).conf_int()
    mechanism = "functional" if "functional" in how else "objective"
    return lambda: dps.dp_logit(formula_of("won", p, levels), data, mechanism=mechanism, **options).conf_int()


def _diffprivlib(how: str, frame: pd.DataFrame, names: list[str]) -> Callable[[], Any]:
    from diffprivlib.models import LinearRegression, LogisticRegression

    x = np.column_stack([frame[name] for name in names])
    if "linear" in how:
        bounds = {"bounds_X": (-1, 1), "bounds_y": (-1, 1)}
        return lambda: LinearRegression(epsilon=1.0, **bounds).fit(x, frame["y"].to_numpy())
    return lambda: LogisticRegression(epsilon=1.0, data_norm=len(names) ** 0.5).fit(x, frame["won"].to_numpy())


def run_case(how: str, path: str, p: int, levels: int, repeats: int) -> None:
    """Print what each of some calls, joined by " and ", needs; they are made in order, in this process."""
    calls = [call_of(one, path, p, levels) for one in how.split(" and ")]
    print(json.dumps([needs(call, repeats) for call in calls]))


def needs(call: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Return the median time of a call, the peak memory of this process, and by how much the calls raised it."""
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak, VmHWM, starts anew
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": float(np.median(times)), "MiB": whole, "MiB added": resident("VmHWM") - before}


def resident(what: str) -> float:
    """Return MiB of this process: in memory now (VmRSS), or at most so far (VmHWM)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(what))


# Around it ------------------------------------------------------------------------------------------------------------


class Bench:
    """Measures cases, each in a process of its own."""

    def __init__(self, folder: Path, repeats: int, diffprivlib: str | None) -> None:
        self.folder, self.repeats, self.diffprivlib = folder, repeats, diffprivlib
        self.files: dict[tuple[int, int, int], Path] = {}

    def measure(self, how: str, n: int, p: int, levels: int = 0) -> list[dict[str, float]]:
        """Return what each of some calls, joined by " and ", needs in one process."""
        key = (n, p, levels)
        if key not in self.files:
            self.files[key] = write_table(self.folder, n, p, levels)
        python = self.diffprivlib if how.startswith("diffprivlib") else sys.executable
        if python is None:
            return [{"seconds": np.nan, "MiB": np.nan, "MiB added": np.nan}]
        case = [how, str(self.files[key]), str(p), str(levels), str(self.repeats)]
        command = [sys.executable, "-c", AGAIN, python, __file__, "--case", *case]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    def table(self, cases: list[tuple[str, int, int, int]], processes: int = 1) -> pd.DataFrame:
        """Return a row for each call, medians over some processes."""
        rows = []
        for how, n, p, levels in cases:
            runs = [self.measure(how, n, p, levels) for _ in range(processes)]
            for call, *found in zip(how.split(" and "), *runs, strict=True):
                needed = pd.DataFrame(found).median().to_dict()
                rows.append({"call": call, "n": n, "numbers": p, "levels": levels, **needed})
                print(rows[-1], flush=True)
        return pd.DataFrame(rows)


def against(table: pd.DataFrame, baseline: str, column: str) -> pd.Series:
    return float(table.loc[table["call"] == baseline, column].iloc[0]) / table[column]


def further_row(table: pd.DataFrame) -> pd.Series:
    """Nanoseconds that each row adds beyond the next shorter table: what is fixed in a call does not count."""
    cases = table.groupby(["call", "numbers", "levels"])
    return (1e9 * cases["seconds"].diff() / cases["n"].diff()).round(1)


def last(table: pd.DataFrame, **case: int) -> float:
    """Nanoseconds a further row of one case's longest table."""
    chosen = (table[list(case)] == pd.Series(case)).all(axis=1)
    return float(table.loc[chosen, "nanoseconds a further row"].iloc[-1])


def over_one_number(table: pd.DataFrame, column: str) -> pd.Series:
    """Divide each case by that of one number from the same place, in memory or a file, and of the same length."""
    place = table["call"].str.removesuffix(" category")
    keys = list(zip(place, table["n"], strict=True))
    one = {key: value for key, value, numbers in zip(keys, table[column], table["numbers"], strict=True) if numbers}
    return (table[column] / pd.Series([one[key] for key in keys], index=table.index)).round(2)


def shown(table: pd.DataFrame) -> str:
    from coverage_ols import markdown  # not at the top: the environment of diffprivlib has no dpstats

    whole = {name: table[name].round().astype("Int64") for name in ("MiB", "MiB added") if name in table}
    return markdown(table.assign(seconds=table["seconds"].round(3), **whole).astype(object).fillna("-"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", nargs=5)
    parser.add_argument("--diffprivlib", default=None)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--large", type=int, default=10_000_000)
    options = parser.parse_args()
    if options.case:
        how, path, p, levels, repeats = options.case
        run_case(how, path, int(p), int(levels), int(repeats))
        return
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.repeats, options.diffprivlib)
        million = 1_000_000
        linear = bench.table(
            [(how, million, 20, 0) for how in ("dp_ols", "smf.ols", "diffprivlib linear", "X'X", "dp_ols file")]
        )
        linear["times faster than smf.ols"] = against(linear, "smf.ols", "seconds").round(1)
        linear["share of its memory"] = (1 / against(linear, "smf.ols", "MiB")).round(2)
        linear["share of what it adds"] = (1 / against(linear, "smf.ols", "MiB added")).round(2)
        ours, theirs = (linear.set_index("call").loc[call] for call in ("dp_ols", "smf.ols"))
        loaded = (ours["MiB"] - ours["MiB added"]) / theirs["MiB"]
        together = bench.table([("dp_ols and smf.ols", million, 20, 0)]).drop(columns="MiB")
        together["times faster than smf.ols"] = against(together, "smf.ols", "seconds").round(1)
        together["share of what it adds"] = (1 / against(together, "smf.ols", "MiB added")).round(2)
        calls = ("dp_logit objective", "dp_logit functional", "smf.logit", "diffprivlib logistic")
        logistic = bench.table([(how, million, 20, 0) for how in calls])
        logistic["times faster than smf.logit"] = against(logistic, "smf.logit", "seconds").round(1)
        growth = bench.table(
            [
                (how, n, 12, 0)
                for n in (10_000, 100_000, million, options.large)
                for how in ("pyarrow, bare read", "dp_ols file")
            ]
        )
        growth["nanoseconds a further row"] = further_row(growth)
        lengths = (million, 4 * million)
        widths = bench.table([("dp_moments", n, p, 0) for p in (5, 20, 60) for n in lengths])
        widths["nanoseconds a further row"] = further_row(widths)
        beside = bench.table([("dp_moments", n, 20, levels) for levels in (0, 5, 50, 200, 1000) for n in lengths])
        beside["nanoseconds a further row"] = further_row(beside)
        number = (last(widths, numbers=20) - last(widths, numbers=5)) / 15
        extra = beside["nanoseconds a further row"] - last(beside, levels=0)
        beside["as many numbers"] = (extra / number).where(beside["levels"] > 0).round(1)
        kinds = ("dp_moments", "dp_moments file")
        alone = bench.table(
            [(how, n, 1, 0) for how in kinds for n in (*lengths, options.large)]
            + [(how, n, 0, 1000) for how in ("dp_moments category", *kinds) for n in (*lengths, options.large)],
            processes=5,
        )
        alone["nanoseconds a further row"] = further_row(alone)
        alone["over one number, a row"] = over_one_number(alone, "nanoseconds a further row")
        alone["over one number, the call"] = over_one_number(alone, "seconds")
    parts = [
        "# Time and memory of whole processes",
        f"Medians of {options.repeats} calls; peak memory of the process that loads the table and makes them, and what "
        f"the calls add to it; {os.cpu_count()} cores. Written by speed.py.",
        "## Least squares\n\nBars: three times faster than `smf.ols` in the same process, and a quarter of its peak "
        "memory. Both calls in one process:",
        shown(together),
        "Each in a process of its own. With the libraries and the loaded table, the process of `dp_ols` holds "
        f"{loaded:.2f} of the peak of that of `smf.ols` before its call.",
        shown(linear),
        "## Logistic regression\n\nBars: objective 1.5 times, functional ten times faster than `smf.logit`.",
        shown(logistic),
        "## From a Parquet file\n\nBars: at most 1.5 times a bare read, below 400 MiB; a further row costs the same "
        "within 15 %.",
        shown(growth),
        "## Columns",
        shown(widths),
        "## A factor of text beside 20 numbers\n\nBar: one of 1,000 levels costs no more than two numbers. What it "
        "adds to a row, in numbers that would add as much. The noise of each sum is drawn once, whatever the number of "
        "rows.",
        shown(beside),
        "## A factor instead of a number\n\nThe same bar, read as `y ~ C(g)` with 1,000 levels for `y ~ x`: as "
        "categories, as text, and as text in a Parquet file; medians over five processes. A call also draws noise for "
        "each of its 2,000 sums.",
        shown(alone),
    ]
    text = "\n\n".join(parts) + "\n"
    print(text)
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
