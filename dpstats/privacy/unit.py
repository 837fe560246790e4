"""What is protected: the neighbouring relation and the privacy unit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Protection:
    """Neighbouring relation and privacy unit (zone: public).

    Attributes
    ----------
    relation : str
        Which tables count as neighbours.
    unit : str
        Whose data differ between neighbours.
    """

    relation: str = "replace one of n rows"
    unit: str = "one row"
