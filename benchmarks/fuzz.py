"""Random calls on neighbouring tables, ten times as many as in the tests; writes fuzz.md beside this script.

    python benchmarks/fuzz.py [--pairs 100000] [--calls 10000] [--seed 1]

Most pairs compare the exact integer sums of random, hostile rows with the budget; `calls` of them are whole calls, with
everything that they show. The generators are those of ``tests/test_fuzz.py``.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from generators import difference, random_call, sums_difference

HEAD = "| how the pair ended | pairs | differences |\n|---|---|---|"


def call_difference(chance: random.Random) -> tuple[str, str]:
    return difference(random_call(chance), thorough=chance.random() < 0.2)


def count(
    check: Callable[[random.Random], tuple[str, str]], seeds: range
) -> tuple[Counter[str], Counter[str], list[str]]:
    """Return how pairs ended, how many of them differed, and what the first few differences were."""
    endings: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    examples: list[str] = []
    for seed in seeds:
        try:
            found, ending = check(random.Random(seed))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            last = traceback.extract_tb(error.__traceback__)[-1]
            found, ending = f"{type(error).__name__} in {Path(last.filename).name}", "an error that is not dpstats' own"
        endings[ending] += 1
        if found:
            wrong[ending] += 1
            if len(examples) < 20:
                examples.append(f"seed {seed}: {found[:300]}")
                print(examples[-1], flush=True)
    return endings, wrong, examples


def table(endings: Counter[str], wrong: Counter[str]) -> str:
    return "\n".join([HEAD, *(f"| {name} | {number:,} | {wrong[name]} |" for name, number in endings.most_common())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.time()
    first = options.seed * 10**9
    calls = count(call_difference, range(first, first + options.calls))
    sums = count(sums_difference, range(first, first + options.pairs - options.calls))
    total = sum(calls[1].values()) + sum(sums[1].values())
    text = "\n".join(
        [
            "# Random calls on neighbouring tables",
            "",
            f"{options.pairs:,} pairs of tables of 1 to 9 random rows that differ in one row (or by one row), with "
            "cells and containers as hostile as we could think of. "
            f"Differences, planted values that surfaced, and errors that are not dpstats' own: {total}. Written by "
            f"fuzz.py in {(time.time() - started) / 60:.0f} minutes.",
            "",
            "## Whole calls",
            "",
            "Both calls, with simulated noise of one seed, end with the same type, names and shapes or the same error "
            "and words, the same warnings, finite coefficients, and no planted value in messages, variables of "
            "tracebacks, reprs, pickles, logs or summaries.",
            "",
            table(*calls[:2]),
            "",
            "## Exact sums",
            "",
            "The exact integer sums of both tables are made without a warning and differ by a privacy loss within the "
            "budget.",
            "",
            table(*sums[:2]),
            "",
            *(f"- {example}" for example in (*calls[2], *sums[2])),
        ]
    )
    print(text)
    Path(__file__).with_suffix(".md").write_text(text.rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
