"""Real worker processes: exact sums, one draw of noise, nothing left behind, nothing said, and workers that die."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, get_client

import dpstats as dps
from dpstats.records.source import as_source
from dpstats.specification.coercion import to_numbers

SENTINEL = "sentinel-7c1f"
N = 12_000
BOUNDS = {"x": (0, 1), "y": (0, 1)}
LEVELS = {"g": ["a", "b", "c"], "z": [0, 1]}


def frame(start=0, stop=N) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.random(N)
    table = pd.DataFrame(
        {
            "x": x,
            "g": rng.choice(["a", "b", "c"], N),
            "y": (x + rng.random(N)) / 2,
            "z": (rng.random(N) < 0.2 + 0.6 * x).astype(np.int64),
            "person": rng.integers(0, N // 2, N),
        }
    )
    return table.iloc[start:stop].reset_index(drop=True)


def piece(i: int, pieces: int = 6, folder: str = "", mode: str = "") -> pd.DataFrame:
    """One partition, made on a worker; in the middle of one of them something may happen, once or always."""
    size = N // pieces
    if i == 3 and mode == "raise":
        raise ValueError(SENTINEL)
    if i == 3 and mode == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if i == 3 and mode == "wait" and not (Path(folder) / "killed").exists():
        (Path(folder) / "new").write_text(str(os.getpid()))
        (Path(folder) / "new").rename(Path(folder) / "pid")
        time.sleep(60)
    return frame(i * size, (i + 1) * size)


def pieces(folder="", mode="", count=6) -> dd.DataFrame:
    return dd.from_map(piece, range(count), pieces=count, folder=str(folder), mode=mode, meta=frame(0, 1))


@pytest.fixture(scope="module")
def client():
    """Two worker processes on loopback, whose tasks may die with their worker once."""
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1, "distributed.comm.timeouts.connect": "30s"}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def rng():
    return np.random.default_rng(5)


def ols(data, **options):
    return dps.dp_ols("y ~ x + C(g)", data, 2, bounds=BOUNDS, levels=LEVELS, cov_type="HC1", **options)


# -- without a cluster, hence before the first test with one -----------------------------------------------------------


def test_a_frame_works_without_a_cluster():
    """The default scheduler runs partitions in threads; warnings are as they were afterwards."""
    with pytest.raises(ValueError, match="No global client"):
        get_client()
    before = list(warnings.filters)
    fits = [ols(table, rng=rng()) for table in (frame(), dd.from_pandas(frame(), npartitions=5))]
    assert fits[0].params.equals(fits[1].params)
    assert warnings.filters == before


def test_partitions_may_hold_other_types_than_declared_as_long_as_cells_can_be_read():
    def changed(table, column):
        return dd.from_map(lambda i: table.assign(**{column: table[column].astype(object if i else "float64")}), [0, 1])

    expected = as_source(pd.concat([frame(), frame()])).map_reduce(("z",), _ones, lambda a, b: a + b)
    assert as_source(changed(frame(), "z")).map_reduce(("z",), _ones, lambda a, b: a + b) == expected
    dates = dd.from_map(lambda i: frame().assign(x=pd.Timestamp("2020") if i else 0.5), [0, 1], meta=frame(0, 1))
    with pytest.raises(dps.ReleaseError):
        ols(dates)


def _ones(partition):
    return int((to_numbers(partition.columns["z"]) == 1).sum())


def test_a_partition_is_sealed_unless_its_graph_is_shared():
    from dpstats.records.sources.dask import Sealed, _parts

    whole = dd.from_pandas(frame(), npartitions=3)
    for data, sealed in (
        (whole, True),
        (whole[whole.x > 0.5], True),
        (pieces(), True),
        (whole.shuffle("person"), False),
    ):
        parts = _parts(data, ("x",))
        assert all(isinstance(part, Sealed) == sealed for part in parts)
        assert SENTINEL not in repr(parts)
    assert repr(as_source(whole)) == "DaskSource(5 columns)"


# -- with two worker processes -----------------------------------------------------------------------------------------


def test_sums_and_fits_are_those_of_pandas(client):
    whole = frame()
    for data in (pieces(), dd.from_pandas(whole, npartitions=17), pieces().persist(), pieces().shuffle("person")):
        fits = [ols(table, rng=rng()) for table in (whole, data)]
        assert fits[0].params.equals(fits[1].params)
        assert fits[0].bse.equals(fits[1].bse)


def test_bounds_and_levels_are_those_of_pandas(client):
    found = [
        (
            dps.private_bounds(table, ["x", "y"], 1, rng=rng()),
            dps.private_levels(table, ["g", "z"], 1, 1e-6, rng=rng()),
        )
        for table in (frame(), pieces())
    ]
    assert found[0] == found[1]
    assert found[0][1]["g"].levels == ("a", "b", "c")


def test_an_iteration_reads_the_same_partitions_again_and_agrees_to_its_certified_accuracy(client):
    def logit(data):
        return dps.dp_logit("z ~ x + C(g)", data, 2, bounds=BOUNDS, levels=LEVELS, cov_type="HC1", rng=rng())

    fits = [logit(table) for table in (frame(), pieces())]
    assert fits[0].params.to_numpy() == pytest.approx(fits[1].params.to_numpy(), abs=1e-7)
    assert fits[0].bse.to_numpy() == pytest.approx(fits[1].bse.to_numpy(), rel=1e-6)


def test_persons_are_limited_in_the_order_of_the_partitions(client):
    options = {"privacy_unit": "person", "contributions": 1}
    fits = [ols(table, rng=rng(), infeasible="fit", **options) for table in (frame(), pieces())]
    assert fits[0].params.equals(fits[1].params)
    with pytest.raises(dps.DataError, match="no order"):
        ols(pieces().shuffle("person"), **options)


def test_nothing_is_left_on_the_cluster_and_names_say_nothing(client):
    ols(pieces())
    deadline = time.monotonic() + 10
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left, keys = client.run_on_scheduler(
        lambda dask_scheduler: (len(dask_scheduler.tasks), {str(entry[0]) for entry in dask_scheduler.transition_log})
    )
    assert left == 0
    ours = [key for key in keys if key.startswith("dpstats-")]
    assert len(ours) > 12
    assert all(set(key[8:]) <= set("0123456789abcdef-") for key in ours)


def test_what_a_partition_raises_stays_on_its_worker(client, tmp_path):
    relation = {"neighboring_relation": "add_or_remove_one"}
    ledger = dps.Ledger(tmp_path / "budget", epsilon=9, dataset="d", **relation)
    with pytest.raises(dps.ReleaseError) as caught:
        ols(pieces(mode="raise"), ledger=ledger, **relation)
    logs = f"{client.get_worker_logs()} {client.get_scheduler_logs()}"
    assert SENTINEL not in f"{caught.value}{logs}"
    assert caught.value.__context__ is None
    assert len(ledger.history()) == 1
    with pytest.raises(dps.DataError, match="could not be counted") as caught:
        ols(pieces(mode="raise"))
    assert SENTINEL not in f"{caught.value}{client.get_worker_logs()}"
    assert caught.value.__context__ is None


def test_a_fit_survives_a_worker_that_is_killed(client, tmp_path):
    relation = {"neighboring_relation": "add_or_remove_one"}  # the length is private, so that the fit alone reads
    ledger = dps.Ledger(tmp_path / "budget", epsilon=9, dataset="d", **relation)
    victims, workers = [], set(client.run(os.getpid).values())

    def kill():
        deadline = time.monotonic() + 30
        while not (tmp_path / "pid").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        victims.append(int((tmp_path / "pid").read_text()))
        (tmp_path / "killed").touch()
        if victims[-1] in workers:
            os.kill(victims[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    fit = ols(pieces(tmp_path, "wait"), rng=rng(), ledger=None, **relation)
    killer.join()
    assert victims[0] in workers
    assert victims[0] not in client.run(os.getpid).values()
    assert fit.params.equals(ols(frame(), rng=rng(), **relation).params)
    for name in ("killed", "pid"):
        (tmp_path / name).unlink()
    workers.update(client.run(os.getpid).values())
    killer = threading.Thread(target=kill)
    killer.start()
    ols(pieces(tmp_path, "wait"), ledger=ledger, **relation)
    killer.join()
    assert victims[1] in workers
    assert victims[1] not in client.run(os.getpid).values()
    assert len(ledger.history()) == 1


def test_a_fit_whose_workers_keep_dying_is_refused_and_charged_once(client, tmp_path):
    relation = {"neighboring_relation": "add_or_remove_one"}
    ledger = dps.Ledger(tmp_path / "budget", epsilon=9, dataset="d", **relation)
    with pytest.raises(dps.ReleaseError) as caught:
        ols(pieces(mode="die"), ledger=ledger, **relation)
    assert caught.value.__context__ is None
    assert len(ledger.history()) == 1
