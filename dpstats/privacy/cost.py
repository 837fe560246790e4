"""What a fit spent, as it is printed on the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dpstats.privacy.notions import Budget, compose
from dpstats.privacy.unit import Protection


@dataclass(frozen=True, slots=True, repr=False)
class PrivacyCost:
    """The privacy that a release cost, part by part (zone: public).

    Attributes
    ----------
    budget : Budget
        What was asked for.
    parts : dict of str to Budget
        The spend of each release: epsilon of Laplace noise, rho = mu^2 / 2 of Gaussian noise.
    protection : Protection
        Neighbouring relation and privacy unit.
    noise : {"real", "simulated", "none"}
        Only ``"real"`` noise is private.
    ledger : str
        Name of the ledger that was charged; empty for none.
    """

    budget: Budget
    parts: dict[str, Budget]
    protection: Protection = field(default_factory=Protection)
    noise: Literal["real", "simulated", "none"] = "real"
    ledger: str = ""

    @property
    def spent(self) -> Budget:
        """What was spent in all, recomputed from the noise scales that were used; never above `budget`.

        An (epsilon, delta) budget that was spent on Laplace noise has no delta here.
        """
        return compose(self.budget, self.parts.values())

    @property
    def is_private(self) -> bool:
        """True if the noise was drawn from the operating system's generator at a finite budget."""
        return self.noise == "real"

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {part}" for name, part in self.parts.items())
        state = "" if self.is_private else f"NOT PRIVATE ({self.noise} noise), "
        return (
            f"<PrivacyCost: {state}budget {self.budget}; {parts}; {self.protection.relation}, {self.protection.unit}>"
        )
