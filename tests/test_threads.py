"""A second thread is a help and no need: a program that ends, whose main thread is gone, can start none."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest

from dpstats.specification.threads import both, one_ahead

LATE = """
import sys, threading
import dpstats as dps

def fit():
    threading.main_thread().join()
    names = [f"x{i}" for i in range(30)]
    bounds = {name: (0, 1) for name in (*names, "y")}
    formula = "y ~ " + " + ".join(names) + (" + C(g)" if sys.argv[2] == "text" else "")
    levels = {"g": ["a", "b"]} if sys.argv[2] == "text" else None
    data = sys.argv[1] if sys.argv[2] == "file" else __import__("pandas").read_parquet(sys.argv[1])
    print(dps.dp_ols(formula, data, 1e4, bounds=bounds, levels=levels).nobs > 19_000)

import numpy, pyarrow.dataset, opendp.prelude, pandas, scipy.stats, formulaic, statsmodels.api
threading.Thread(target=fit).start()
"""


@pytest.mark.parametrize("how", ["file", "frame", "text"])
def test_a_fit_that_outlives_the_main_thread(how, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{i}": rng.random(20_000) for i in range(30)})
    frame = frame.assign(y=rng.random(20_000), g=rng.choice(["a", "b"], 20_000))
    frame.to_parquet(tmp_path / "table.parquet")
    done = subprocess.run(
        [sys.executable, "-c", LATE, str(tmp_path / "table.parquet"), how], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == "True", done.stderr


def test_both_results_come_in_order_and_errors_get_out():
    assert both(lambda: "first", lambda: "second") == ("first", "second")
    for functions in [(lambda: 1 / 0, lambda: 1), (lambda: 1, lambda: 1 / 0)]:
        with pytest.raises(ZeroDivisionError):
            both(*functions)


def test_one_batch_is_read_ahead_in_order_and_no_more():
    started = []

    def batches():
        for i in range(6):
            started.append(i)
            yield i

    for i, batch in enumerate(one_ahead(batches())):
        assert batch == i
        assert len(started) <= i + 2
    assert started == list(range(6))
    assert list(one_ahead(iter([]))) == []


@pytest.mark.parametrize("error", [OSError, RuntimeError])
def test_an_error_while_reading_ahead_comes_where_its_batch_would_have_come(error):
    """Also one of the type that a pool raises where no thread can be started."""

    def batches():
        yield 1
        raise error("the disk is gone")

    found = one_ahead(batches())
    assert next(found) == 1
    with pytest.raises(error, match="the disk is gone"):
        next(found)


def test_reading_ahead_ends_with_its_reader():
    found = one_ahead(iter(range(10)))
    next(found)
    found.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("dpstats")]
