"""The README's code runs as it stands, and its measurements are those of the benchmarks."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def test_the_code_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 2
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)  # noqa: S102
    plt.close("all")
    printed = capsys.readouterr().out
    for part in ("DP OLS Regression Results", "Privacy unit", "NOT PRIVATE", "epsilon = 2.5 (pure)"):
        assert part in printed


def test_the_summary_of_the_readme_has_the_layout_of_today(capsys):
    from dpstats.__main__ import main

    main()
    today = capsys.readouterr().out.splitlines()
    (shown,) = re.findall(r"^```text\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    words = [re.sub(r"[-+<=]*\d[\d.e]*", "#", line).split() for line in (*shown.splitlines(), "|", *today)]
    at = words.index(["|"])
    assert words[:at] == words[at + 1 :]


@pytest.fixture
def reading(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import reading

    yield reading
    sys.modules.pop("reading")


def test_the_accuracies_of_the_readme_are_measured(reading):
    (shown,) = (table for table in reading.read_tables(ROOT / "README.md") if "diffprivlib" in table.columns)
    measured = reading.read_tables(ROOT / "benchmarks" / "accuracy_ols.md")[0].set_index(["n", "p"])
    names = {
        "dpstats": "pure error",
        "dpstats, δ": "Gaussian error",
        "dpstats, huber": "huber error",
        "functional mechanism": "FM",
        "AdaSSP, δ": "AdaSSP",
    }
    assert len(shown) >= 4
    for _, row in shown.iterrows():
        n = int(str(row["n"]).replace(",", ""))
        for column in ("dpstats", "dpstats, δ", "dpstats, huber", "functional mechanism", "AdaSSP, δ", "diffprivlib"):
            found = measured.loc[(n, int(row["p"])), names.get(column, column)]
            assert float(str(row[column]).replace(",", "")) == pytest.approx(found, rel=0.05, abs=0.06)
