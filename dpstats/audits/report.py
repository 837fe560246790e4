"""What an audit found, and its printed page."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from dpstats.audits.loss import Counted
from dpstats.privacy.notions import Budget

WIDTH = 78
LIMITS = (
    "A pass is no proof. It speaks of these two tables, of the events that were tried and of so many calls: another "
    "pair of tables, a cleverer event or more calls may show a larger loss, and a loss near the claim needs very many "
    "calls to be told from it. A delta below about 1 / calls cannot be seen at all, nor can time, memory, or what is "
    "written elsewhere. This page counts what so many calls showed, which no budget paid for: made from confidential "
    "tables it is confidential too."
)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """A lower bound of the privacy loss between two neighbouring tables, beside what is claimed.

    Attributes
    ----------
    claimed : Budget
        The claim.
    runs : int
        Calls on each table.
    alpha : float
        The verdict "violates" is wrong with this probability at most.
    event : str
        What was counted.
    counted : Counted
        How often it was seen on each table, in the half of the calls that did not choose it.
    epsilon : float
        Lower bound of epsilon at the claimed delta (0 if there is none) from the event.
    rho : float
        Lower bound of zCDP's rho from the event.
    mu : float or None
        Lower bound of the distance of the two tables' released sums in standard deviations of their Gaussian noise;
        None if the result has no such sums.
    mu_claimed : float or None
        What the claim allows; None for a pure claim.
    errors, alarms : tuple of str
        Errors and warnings that were seen, each once.

    Examples
    --------
    A function that publishes its table violates any claim:

    >>> import dpstats as dps
    >>> report = dps.audit_fit(lambda table: sum(table), [1.0, 0.0], [0.0, 0.0], claimed=0.5, runs=60)
    >>> report.passed
    False
    """

    claimed: Budget
    runs: int
    alpha: float
    event: str
    counted: Counted
    epsilon: float
    rho: float
    mu: float | None
    mu_claimed: float | None
    errors: tuple[str, ...]
    alarms: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if nothing that was seen contradicts the claim."""
        if self.mu is not None and self.mu_claimed is not None and self.mu > self.mu_claimed:
            return False
        if self.claimed.rho is not None:
            return self.rho <= self.claimed.rho
        return self.epsilon <= (self.claimed.epsilon or 0.0)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.passed:
            return f"What was seen is consistent with {self.claimed}."
        return f"What was seen violates {self.claimed}."

    def summary(self) -> str:
        """Return the report as one page of text."""
        share = [hits / self.counted.runs for hits in (self.counted.hits, self.counted.other_hits)]
        rows = [
            ("Claimed", str(self.claimed)),
            ("Calls on each table", f"{self.runs}, of which {self.counted.runs} counted"),
            ("Confidence", f"{1 - self.alpha:.10g}"),
            ("Event", textwrap.shorten(self.event, WIDTH - 28, placeholder=" ...")),
            ("seen on one table", f"{self.counted.hits} of {self.counted.runs} ({share[0]:.1%})"),
            ("seen on the other", f"{self.counted.other_hits} of {self.counted.runs} ({share[1]:.1%})"),
            ("Errors, warnings", f"{len(self.errors)}, {len(self.alarms)} different ones"),
            self._bound(),
        ]
        if self.mu is not None:
            allowed = "" if self.mu_claimed is None else f" (the claim allows {self.mu_claimed:.3g})"
            rows.append(("mu of the sums", f"at least {self.mu:.3g}{allowed}"))
        body = [f"{name + ':':<24}{value}" for name, value in rows]
        notes = textwrap.wrap(LIMITS, WIDTH)
        title = "Audit of a privacy claim".center(WIDTH).rstrip()
        return "\n".join([title, "=" * WIDTH, *body, "-" * WIDTH, self.verdict, "-" * WIDTH, *notes])

    def _bound(self) -> tuple[str, str]:
        if self.claimed.rho is not None:
            return "rho", f"at least {self.rho:.3g} (claimed {self.claimed.rho:g})"
        delta = "" if self.claimed.delta is None else f" at delta = {self.claimed.delta:g}"
        return "epsilon", f"at least {self.epsilon:.3g}{delta} (claimed {self.claimed.epsilon:g})"

    def __str__(self) -> str:
        return self.summary()
