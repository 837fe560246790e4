"""Which layer of checks notices which planted fault; writes planted_faults.md beside this script.

    python benchmarks/planted_faults.py [--times 4]

The faults are planted into the code at run time by ``tests/planted.py``; the tests require that each is noticed. With
``--times`` every statistical layer makes so many times as many calls as in the tests.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import pytest
from planted import FAULTS, LAYERS, RUNS

from dpstats.specification.remember import forget


def notices(fault: str, layer: str, times: int) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        FAULTS[fault](patch)
        forget()  # plans that were made without the fault
        return LAYERS[layer](RUNS[layer] * times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()
    started = time.time()
    rows = [f"| fault | {' | '.join(LAYERS)} |", f"|{'---|' * (len(LAYERS) + 1)}"]
    for fault in FAULTS:
        found = [notices(fault, layer, options.times) for layer in LAYERS]
        rows.append(f"| {fault} | {' | '.join('noticed' if seen else '-' for seen in found)} |")
        print(rows[-1], flush=True)
    text = "\n".join(
        [
            "# Planted faults, and the layers that notice them",
            "",
            "Statistical layers work at levels of 1e-9 and 1e-10 and make "
            + ", ".join(f"{runs * options.times} calls ({layer})" for layer, runs in RUNS.items() if runs)
            + " on each table: with more calls smaller faults are noticed. Exact "
            "sensitivity: integer sums of extreme and hostile rows against the scales of the noise. Noise law: "
            "releases minus exact sums. Black box: `dps.audit_fit` on a pure release of epsilon = 1. Direct mu: the "
            "same on a Gaussian release of mu = 1. Ends alike: the same call on neighbouring tables. Written by "
            f"planted_faults.py in {(time.time() - started) / 60:.0f} minutes.",
            "",
            *rows,
            "",
        ]
    )
    print(text)
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
