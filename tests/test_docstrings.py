"""The examples of the docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import dpstats as dps

PACKAGE = Path(dps.__file__).parent
MODULES = sorted(
    ".".join(("dpstats", *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in PACKAGE.rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    found = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert found.attempted > 0
    assert found.failed == 0


def test_every_public_function_and_option_has_an_example():
    public = [getattr(dps, name) for name in dps.__all__]
    shown = [item for item in public if callable(item) and item.__module__.split(".")[1] in {"models", "mechanisms"}]
    assert len(shown) >= 9
    assert [item.__name__ for item in shown if ">>>" not in (item.__doc__ or "")] == []
