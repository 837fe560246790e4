"""The examples of the docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
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


PUBLIC = [name for name in dps.__all__ if name != "datasets"]
ERRORS = [name for name in PUBLIC if isinstance(getattr(dps, name), type) and issubclass(getattr(dps, name), Exception)]


@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in ERRORS])
def test_every_public_name_has_an_example(name):
    assert ">>>" in (getattr(dps, name).__doc__ or "")


@pytest.mark.parametrize("name", [name for name in PUBLIC if inspect.isfunction(getattr(dps, name))])
def test_every_public_function_documents_its_arguments_outcome_and_errors(name):
    function = getattr(dps, name)
    sections = inspect.getdoc(function) or ""
    for heading in ("Parameters", "Returns", "Raises", "Examples"):
        assert f"{heading}\n{'-' * len(heading)}" in sections, heading
    parameters = sections.split("Parameters\n")[1].split("Returns\n")[0]
    listed = re.findall(r"^\*?(\w[\w, *]*)(?: : .+)?$", parameters, re.MULTILINE)
    named = {part.strip(" *") for line in listed for part in line.split(",")}
    assert set(inspect.signature(function).parameters) <= named


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_says_what_it_means(name):
    error = getattr(dps, name)
    assert issubclass(error, dps.DPStatsError)
    assert len((error.__doc__ or "").split()) >= 6
