"""Every public name stands on the reference page, and the page names nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import dpstats as dps

PAGE = Path(__file__).parent.parent / "vignettes" / "reference.md"


def test_the_reference_page_has_every_public_name():
    listed = re.findall(r"^\.\. auto(?:function|class|exception):: (\S+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    own = {name for name in listed if not name.startswith("dpstats.")}
    assert own == set(dps.__all__) - {"datasets"}
    baselines = {name.removeprefix("dpstats.mechanisms.") for name in listed if name.startswith("dpstats.mechanisms.")}
    import dpstats.mechanisms

    assert all(callable(getattr(dpstats.mechanisms, name)) for name in baselines)
