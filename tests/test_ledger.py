"""The ledger: exact sums, no overspending by several processes, crashes, terms, and every fit's charge."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest

import dpstats as dps
from dpstats.privacy.charge import Charge, charge_of
from dpstats.privacy.notions import Budget, rho_of_approximate, zcdp_delta, zcdp_of_pure

SCHEMA = dps.Schema({"x": dps.Continuous(-1, 1), "z": dps.Continuous(-1, 1), "y": dps.Continuous(0, 1)})
BINARY = dps.Schema({"x": dps.Continuous(-1, 1), "z": dps.Continuous(-1, 1), "y": dps.Binary((0, 1))})


def table(n=4_000):
    rng = np.random.default_rng(0)
    x, z = rng.uniform(-1, 1, (2, n))
    return {"x": x, "z": z, "y": (rng.random(n) < 0.5 + 0.3 * x).astype(float)}


def pure(epsilon):
    return charge_of(Budget(epsilon=epsilon), "laplace")


# -- arithmetic --------------------------------------------------------------------------------------------------------


def test_ten_spends_of_a_tenth_fit_and_nothing_more(tmp_path):
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=1.0)
    for _ in range(10):
        ledger.reserve(pure(0.1), "a tenth")
    assert ledger.spent() == Budget(epsilon=1.0)
    assert ledger.remaining() == Budget(epsilon=0.0)
    for least in (1e-15, 1e-18, 0.1):
        with pytest.raises(dps.BudgetExceeded, match=r"epsilon = 0 .* left of epsilon = 1"):
            ledger.reserve(pure(least), "too much")
    assert len(ledger.history()) == 10


def test_costs_round_up_and_totals_down(tmp_path):
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=1.0)
    ledger.reserve(pure(1e-16), "less than a unit")
    assert ledger.spent().epsilon == 1e-15
    third = dps.Ledger(tmp_path / "b.budget", rho=1 / 3)
    assert third.remaining().rho <= 1 / 3
    assert third.affordable(3).rho <= 1 / 9


def test_affordable_budgets_can_be_spent(tmp_path):
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=1.0)
    ledger.reserve(pure(0.3), "first")
    each = ledger.affordable(7).epsilon
    for _ in range(7):
        ledger.reserve(pure(each), "one of seven")
    assert ledger.remaining().epsilon < 1e-14
    with pytest.raises(dps.OptionError, match="k must be a whole number"):
        ledger.affordable(0)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3])
def test_the_total_in_rho_implies_the_terms_and_agrees_with_opendp(epsilon, delta):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    rho = rho_of_approximate(epsilon, delta)
    assert zcdp_delta(rho, epsilon) <= delta
    assert zcdp_delta(rho * 1.001, epsilon) > delta
    simple = (math.sqrt(epsilon + math.log(1 / delta)) - math.sqrt(math.log(1 / delta))) ** 2
    assert rho >= simple * (1 - 1e-9)
    scale = math.sqrt(1 / (2 * rho))
    gaussian = dp.m.make_gaussian(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=scale)
    theirs = dp.c.make_zCDP_to_approxDP(gaussian).map(1.0).epsilon(delta)
    assert theirs <= epsilon * (1 + 1e-6)


# -- the file ----------------------------------------------------------------------------------------------------------


def test_a_ledger_is_reopened_under_its_own_terms_only(tmp_path):
    path = tmp_path / "wages.budget"
    dps.Ledger(path, epsilon=3, delta=1e-6, dataset="wages 2024").reserve(charge_of(Budget(rho=0.05), "gaussian"), "y")
    again = dps.Ledger(str(path), epsilon=3.0, delta=1e-6, dataset="wages 2024")
    assert again.spent() == Budget(rho=0.05)
    for terms in (
        {"epsilon": 3, "dataset": "wages 2024"},
        {"epsilon": 4, "delta": 1e-6, "dataset": "wages 2024"},
        {"epsilon": 3, "delta": 1e-6},
        {"rho": 3, "dataset": "wages 2024"},
    ):
        with pytest.raises(dps.BudgetError, match=r"made under other terms, (epsilon|dataset)=.*; open it with those"):
            dps.Ledger(path, **terms)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({}, "give a privacy budget"),
        ({"epsilon": 1, "rho": 1}, "not both"),
        ({"epsilon": math.inf}, "finite budget"),
        ({"epsilon": 1e5}, "must lie between"),
        ({"epsilon": 1e-17}, "must lie between"),
        ({"epsilon": 1, "dataset": 3}, "dataset must be a text"),
    ],
)
def test_impossible_terms_are_refused(tmp_path, terms, message):
    with pytest.raises(dps.DPStatsError, match=message):
        dps.Ledger(tmp_path / "a.budget", **terms)


def test_a_file_that_is_no_ledger_stops_everything(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are notes " * 1000)
    with pytest.raises(dps.BudgetError, match="cannot be used"):
        dps.Ledger(path, epsilon=1)
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=1)
    (tmp_path / "a.budget").write_bytes(b"broken" * 2_000)
    with pytest.raises(dps.BudgetError, match="cannot be used"):
        dps.dp_ols("y ~ x", Untouchable(table()), 0.1, schema=SCHEMA, ledger=ledger)


def spend_tenths(path: str) -> int:
    ledger = dps.Ledger(path, epsilon=2.0)
    granted = 0
    for _ in range(10):
        try:
            ledger.reserve(pure(0.1), f"process {os.getpid()}")
        except dps.BudgetExceeded:
            continue
        granted += 1
    return granted


def test_six_processes_are_granted_exactly_what_fits(tmp_path):
    path = str(tmp_path / "shared.budget")
    dps.Ledger(path, epsilon=2.0)
    with ProcessPoolExecutor(6, mp_context=get_context("spawn")) as pool:
        granted = list(pool.map(spend_tenths, [path] * 6))
    assert sum(granted) == 20
    assert dps.Ledger(path, epsilon=2.0).remaining() == Budget(epsilon=0.0)


def test_a_killed_process_leaves_its_reservation_spent_and_the_file_sound(tmp_path):
    path = tmp_path / "a.budget"
    dps.Ledger(path, epsilon=1.0)
    code = (
        "import os, signal, dpstats as dps\n"
        "from dpstats.privacy.charge import charge_of\n"
        "from dpstats.privacy.notions import Budget\n"
        f"ledger = dps.Ledger({str(path)!r}, epsilon=1.0)\n"
        "ledger.reserve(charge_of(Budget(epsilon=0.25), 'laplace'), 'killed')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    ledger = dps.Ledger(path, epsilon=1.0)
    assert ledger.spent() == Budget(epsilon=0.25)
    assert list(ledger.history()["state"]) == ["reserved"]
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# -- fits --------------------------------------------------------------------------------------------------------------


class Untouchable(dict):
    """A table that records whether a cell was read."""

    def __init__(self, columns):
        super().__init__({name: Watched(column) for name, column in columns.items()})

    @property
    def was_read(self) -> bool:
        return any(column.was_read for column in self.values())


class Watched(np.ndarray):
    """An array that notices when it is sliced."""

    def __new__(cls, values):
        return np.asarray(values).view(cls)

    def __array_finalize__(self, other):
        self.was_read = False

    def __getitem__(self, key):
        self.was_read = True
        return np.asarray(self)[key]


CALLS = {
    "ssp": lambda d, b, **k: dps.dp_ols("y ~ x + z", d, **b, schema=SCHEMA, infeasible="fit", **k),
    "HC1": lambda d, b, **k: dps.dp_ols("y ~ x", d, **b, schema=SCHEMA, cov_type="HC1", infeasible="fit", **k),
    "moments": lambda d, b, **k: dps.dp_moments("y ~ x + z", d, **b, schema=SCHEMA, infeasible="fit", **k),
    "huber": lambda d, b, **k: dps.dp_ols("y ~ x", d, **b, schema=SCHEMA, mechanism="huber", infeasible="fit", **k),
    "huber, HC1": lambda d, b, **k: dps.dp_ols(
        "y ~ x", d, **b, schema=SCHEMA, mechanism="huber", cov_type="HC1", infeasible="fit", **k
    ),
    "functional": lambda d, b, **k: dps.dp_ols(
        "y ~ x", d, **b, schema=SCHEMA, mechanism="functional", infeasible="fit", **k
    ),
    "adassp": lambda d, b, **k: dps.dp_ols("y ~ x", d, **b, schema=SCHEMA, mechanism="adassp", infeasible="fit", **k),
    "logit": lambda d, b, **k: dps.dp_logit("y ~ x + z", d, **b, schema=BINARY, infeasible="fit", **k),
    "logit, Gaussian": lambda d, b, **k: dps.dp_logit(
        "y ~ x + z", d, **b, schema=BINARY, mechanism=dps.Objective(noise="gaussian"), infeasible="fit", **k
    ),
    "logit, HC0": lambda d, b, **k: dps.dp_logit(
        "y ~ x + z", d, **b, schema=BINARY, cov_type="HC0", infeasible="fit", **k
    ),
    "taylor": lambda d, b, **k: dps.dp_logit(
        "y ~ x", d, **b, schema=BINARY, mechanism="functional", infeasible="fit", **k
    ),
    "wkl": lambda d, b, **k: dps.dp_logit(
        "y ~ x", d, **b, schema=BINARY, mechanism="wkl-objective", infeasible="fit", **k
    ),
    "svm": lambda d, b, **k: dps.dp_svm("y ~ x", d, **b, schema=BINARY, infeasible="fit", **k),
}
BUDGETS = [{"epsilon": 0.5}, {"epsilon": 0.5, "delta": 1e-6}, {"rho": 0.02}]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_a_fit_is_charged_at_least_what_it_spends(tmp_path, name, budget):
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=3, delta=1e-5, dataset="a table")
    try:
        fit = CALLS[name](table(), budget, ledger=ledger)
    except dps.BudgetExceeded:
        raise
    except dps.BudgetError:  # a mechanism that does not take this kind of budget
        assert ledger.spent() == Budget(rho=0.0)
        return
    parts = fit.privacy.parts.values()
    spent = 0.0
    for part in parts:
        if part.rho is not None:
            spent += part.rho
        elif part.delta is None:
            spent += zcdp_of_pure(part.epsilon)
    charged = ledger.spent().rho
    assert spent <= charged * (1 + 1e-9)
    assert charged <= zcdp_of_pure(0.5) + 0.02
    row = ledger.history().iloc[0]
    assert row["state"] == "committed"
    assert row["what"].startswith("y ~ x")
    assert fit.privacy.ledger == "'a table'"


@pytest.mark.parametrize("name", CALLS)
def test_a_ledger_without_delta_counts_epsilon_and_refuses_gaussian_noise(tmp_path, name):
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=1)
    watched = Untouchable(table())
    if name == "adassp":
        with pytest.raises(dps.BudgetError, match="takes pure fits only"):
            CALLS[name](watched, {"epsilon": 0.5, "delta": 1e-6}, ledger=ledger)
    else:
        if name not in {"functional", "taylor"}:
            with pytest.raises(dps.BudgetError, match="takes pure fits only"):
                CALLS[name](watched, {"rho": 0.02}, ledger=ledger)
        assert not watched.was_read
        if name != "logit, Gaussian":
            CALLS[name](table(), {"epsilon": 0.5}, ledger=ledger)
            assert ledger.spent() == Budget(epsilon=0.5)
    assert not watched.was_read


@pytest.mark.parametrize("name", ["ssp", "HC1", "moments", "huber", "functional", "logit", "taylor", "wkl", "svm"])
def test_what_does_not_fit_is_refused_before_a_record_is_read(tmp_path, name):
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=1)
    ledger.reserve(pure(0.75), "before")
    watched = Untouchable(table())
    with pytest.raises(dps.BudgetExceeded, match=r"epsilon = 0.25 .* left of epsilon = 1 .* would cost epsilon = 0.5"):
        CALLS[name](watched, {"epsilon": 0.5}, ledger=ledger)
    assert not watched.was_read
    assert ledger.spent() == Budget(epsilon=0.75)


@pytest.mark.parametrize(
    "wrong",
    [
        {"formula": "y ~ nobody"},
        {"formula": "y ~ x", "epsilon": -1},
        {"formula": "y ~ x", "mechanism": "none"},
        {"formula": "y ~ x", "infeasible": "maybe"},
        {"formula": "y ~ x", "rng": np.random.default_rng(0)},
        {"formula": "y ~ x", "epsilon": math.inf},
        {"formula": "y ~ x + z", "epsilon": 1e-4},
    ],
    ids=str,
)
def test_a_refused_call_costs_nothing(tmp_path, wrong):
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=1)
    arguments = {"epsilon": 0.5, "schema": SCHEMA, "ledger": ledger, **wrong}
    watched = Untouchable(table())
    with pytest.raises(dps.DPStatsError):
        dps.dp_ols(arguments.pop("formula"), watched, **arguments)
    assert not watched.was_read
    assert ledger.history().empty


def test_a_table_that_cannot_be_read_stays_paid_for(tmp_path):
    class Broken(np.ndarray):
        def __getitem__(self, key):
            raise OSError

    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=1)
    columns = table()
    columns["x"] = columns["x"].view(Broken)
    with pytest.raises(dps.ReleaseError):
        dps.dp_ols("y ~ x", columns, 0.5, schema=SCHEMA, ledger=ledger)
    assert ledger.spent() == Budget(epsilon=0.5)
    assert list(ledger.history()["state"]) == ["reserved"]


def test_the_ledger_of_a_block_is_the_default_inside(tmp_path):
    outer, inner = (dps.Ledger(tmp_path / name, epsilon=1) for name in ("outer", "inner"))
    with outer:
        dps.dp_ols("y ~ x", table(), 0.25, schema=SCHEMA)
        with inner:
            dps.dp_logit("y ~ x", table(), 0.5, schema=BINARY)
        dps.dp_ols("y ~ x", table(), 0.25, schema=SCHEMA, ledger=inner)
    dps.dp_ols("y ~ x", table(), 0.25, schema=SCHEMA)
    assert outer.spent() == Budget(epsilon=0.25)
    assert inner.spent() == Budget(epsilon=0.75)
    with outer, pytest.raises(dps.OptionError, match="not private"):
        dps.dp_ols("y ~ x", table(), 0.25, schema=SCHEMA, rng=np.random.default_rng(1))


def test_threads_do_not_go_uncharged(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=1)
    with ledger, ThreadPoolExecutor(1) as pool:
        inside = pool.submit(dps.dp_ols, "y ~ x", table(), 0.25, schema=SCHEMA)
        with pytest.raises(dps.OptionError, match="pass ledger= here"):
            inside.result()
        named = pool.submit(dps.dp_ols, "y ~ x", table(), 0.25, schema=SCHEMA, ledger=ledger)
        assert named.result().privacy.ledger
    assert ledger.spent() == Budget(epsilon=0.25)


def test_blocks_of_two_threads_may_overlap(tmp_path):
    import threading

    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=1)
    first_in, second_in, first_out = (threading.Event() for _ in range(3))
    problems = []

    def first():
        with ledger:
            first_in.set()
            second_in.wait(10)
        first_out.set()

    def second():
        try:
            first_in.wait(10)
            with ledger:
                second_in.set()
                first_out.wait(10)
                dps.dp_ols("y ~ x", table(), 0.25, schema=SCHEMA)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert ledger.spent() == Budget(epsilon=0.25)
    dps.dp_ols("y ~ x", table(), 0.25, schema=SCHEMA)
    assert ledger.spent() == Budget(epsilon=0.25), "no block is left open"


def test_the_caller_s_decimal_context_does_not_change_a_price(tmp_path):
    from decimal import localcontext

    with localcontext() as context:
        context.prec = 1
        ledger = dps.Ledger(tmp_path / "a.budget", epsilon=3)
        for _ in range(2):
            ledger.reserve(pure(1.4), "fits")
        with pytest.raises(dps.BudgetExceeded):
            ledger.reserve(pure(1.4), "does not")
        assert ledger.spent() == Budget(epsilon=2.8)


def test_files_that_are_something_else_are_left_alone(tmp_path):
    people = tmp_path / "people.db"
    with sqlite3.connect(people) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    connection.close()
    before = people.read_bytes()
    with pytest.raises(dps.BudgetError, match="something else"):
        dps.Ledger(people, epsilon=1)
    assert people.read_bytes() == before
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=1)
    ledger.reserve(pure(0.5), "spent")
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("DELETE FROM terms")
    connection.close()
    for epsilon in (1, 300):
        with pytest.raises(dps.BudgetError, match="another version of dpstats"):
            dps.Ledger(ledger.path, epsilon=epsilon)
    ledger.path.write_bytes(b"")
    with pytest.raises(dps.BudgetError, match="something else"):
        dps.Ledger(ledger.path, epsilon=1)
    with pytest.raises(dps.BudgetError, match="something else"):
        ledger.reserve(pure(0.1), "emptied")


def test_a_ledger_is_one_file_wherever_the_process_goes(tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    other = dps.Ledger("here.budget", epsilon=1)
    monkeypatch.chdir(tmp_path)
    ledger = dps.Ledger("here.budget", epsilon=1)
    monkeypatch.chdir(tmp_path / "below")
    ledger.reserve(pure(0.5), "above")
    assert ledger.spent() == Budget(epsilon=0.5)
    assert other.spent() == Budget(epsilon=0.0)
    (tmp_path / "here.budget").unlink()
    with pytest.raises(dps.BudgetError, match="cannot be used"):
        ledger.reserve(pure(0.1), "gone")
    assert not (tmp_path / "here.budget").exists()


def test_a_commit_that_fails_loses_no_result(tmp_path):
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=1)
    number = ledger.reserve(pure(0.5), "\ud800 is no text")
    ledger.path.unlink()
    ledger.commit(number)


@pytest.mark.parametrize("path", ["a\0b", None, "", 3])
def test_impossible_paths_are_refused(path):
    with pytest.raises(dps.OptionError, match="path must name a file"):
        dps.Ledger(path, epsilon=1)


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(dps.BudgetError, match="cannot be made"):
        dps.Ledger(tmp_path / "none" / "a.budget", epsilon=1)
    with pytest.raises(dps.BudgetError, match="cannot be used"):
        dps.Ledger(tmp_path, epsilon=1)


def test_summary_history_and_repr_show_public_facts(tmp_path):
    ledger = dps.Ledger(tmp_path / "a.budget", epsilon=1, dataset="wages")
    fit = dps.dp_ols("y ~ x", table(), 0.25, schema=SCHEMA, ledger=ledger)
    assert "Ledger:" in str(fit.summary())
    assert "'wages'" in str(fit.summary())
    assert repr(ledger) == "<Ledger 'wages': epsilon = 0.25 (pure) of epsilon = 1 (pure) spent>"
    history = ledger.history()
    assert list(history.columns) == ["time", "what", "budget", "cost", "state"]
    assert isinstance(history, pd.DataFrame)
    assert history["cost"].iloc[0] == 0.25
    with pytest.raises(dps.OptionError, match=r"ledger must be a dpstats.Ledger"):
        dps.dp_ols("y ~ x", table(), 0.25, schema=SCHEMA, ledger="a.budget")


def test_a_mixed_charge_counts_both_kinds(tmp_path):
    ledger = dps.Ledger(tmp_path / "a.budget", rho=1.0)
    ledger.reserve(Charge(Budget(epsilon=1.0, delta=1e-6), 0.75, 0.01), "mixed")
    assert ledger.spent().rho == pytest.approx(zcdp_of_pure(0.75) + 0.01)
    assert ledger.spent().rho >= zcdp_of_pure(0.75) + 0.01
