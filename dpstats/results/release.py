"""A released moment vector: what was paid for once, and any number of models that it fits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DataError, OptionError
from dpstats.inference.estimates import (
    LeastSquares,
    ModelSpace,
    Solution,
    model_space,
    solve_least_squares,
    with_covariance,
)
from dpstats.inference.moments import NoisyMoments
from dpstats.inference.reconcile import reconcile
from dpstats.privacy.cost import PrivacyCost
from dpstats.privacy.notions import Budget
from dpstats.privacy.unit import Protection
from dpstats.results.bought import bought_remarks
from dpstats.specification.atoms import Atoms, build_atoms
from dpstats.specification.coding import Coding, code_design
from dpstats.specification.design import build_design
from dpstats.specification.identities import find_identities
from dpstats.specification.rules import RowRules, Weights
from dpstats.specification.schema import Binary, Categorical, Column, Continuous, Schema
from dpstats.specification.view import ModelView, embed, facts_of, full_view

if TYPE_CHECKING:
    from dpstats.results.results import DPResults

FORMAT = "dpstats-moments-1"
PROJECTION = "projection of the clipped outcome on the clipped columns, complete cases"


@dataclass(frozen=True, slots=True)
class MomentRelease:
    """Noisy second moments of a formula's coded columns, as `dp_moments` returns them (zone: released).

    Fitting, saving and sending it costs no further budget.

    Attributes
    ----------
    coding : Coding
        The coded columns.
    moments : NoisyMoments
        As released, before reconciliation.
    privacy : PrivacyCost
        What the release cost.
    reconciled : bool
        Whether fits let redundant sums agree first.
    declared : str
        Where bounds and levels came from.
    bought : tuple of str
        Columns whose bounds were bought with a share of the budget.
    rough_bounds : bool
        True if there were so few rows that those bounds may clip one or two per cent of a column.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> release = dps.dp_moments("hours_per_week ~ age + C(sex)", adult, epsilon=1, schema=schema)
    >>> [fit.model.formula for fit in (release.fit(), release.fit("hours_per_week ~ age"))]
    ['hours_per_week ~ age + C(sex)', 'hours_per_week ~ age']
    """

    coding: Coding
    moments: NoisyMoments
    privacy: PrivacyCost
    reconciled: bool = True
    declared: str = "declared"
    bought: tuple[str, ...] = ()
    rough_bounds: bool = False

    @property
    def formula(self) -> str:
        """The formula that was released."""
        return self.coding.design.formula

    @property
    def mechanism(self) -> str:
        """What was released, and with which noise."""
        return f"ssp, {self.coding.noise.capitalize()}"

    @property
    def has_noisy_coefficients(self) -> bool:
        """False: the noise is in the sums that the coefficients solve for."""
        return False

    @property
    def law(self) -> str:
        """Law of the noise, "laplace" or "gaussian"."""
        return self.coding.noise

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader of the summary should know beyond the estimand."""
        return bought_remarks(self.coding.design.schema, self.bought, self.privacy.parts, rough=self.rough_bounds)

    @property
    def estimand(self) -> str:
        """What the coefficients of a fit estimate."""
        return PROJECTION

    def space(self, view: ModelView) -> ModelSpace:
        """Return a model's columns in coded space."""
        return model_space(view, self.coding)

    def solve(self, moments: NoisyMoments, space: ModelSpace) -> Solution:
        """Return the least-squares fit of a model."""
        return solve_least_squares(moments, space)

    def infer(self, moments: NoisyMoments, space: ModelSpace, solution: Solution) -> LeastSquares:
        """Attach the covariance to a solution."""
        return with_covariance(moments, space, solution)

    def retained(self, moments: NoisyMoments, space: ModelSpace, fit: LeastSquares) -> NDArray[np.float64]:
        """Return the share of each coefficient that comes from the data and not from a ridge: all of it, shape (q,)."""
        return np.ones(space.n_params)

    def usable_moments(self) -> NoisyMoments:
        """Return the moments that fits use."""
        if not self.reconciled:
            return self.moments
        return reconcile(
            self.moments, find_identities(self.coding.all_blocks, atoms_of(self.coding), self.coding.signs)
        )

    def fit(self, formula: str | None = None) -> DPResults:
        """Fit the released formula, or another formula in its span, at no further cost.

        Parameters
        ----------
        formula : str, optional
            Same response; regressors whose columns are linear combinations of the released ones.

        Raises
        ------
        FormulaError, SchemaError, DesignError
            If the formula is not well formed or not in the span.
        """
        from dpstats.results.results import DPResults

        view = full_view(self.coding) if formula is None else embed(formula, self.coding)
        return DPResults(self, view)

    def save(self, path: str | Path) -> None:
        """Write the release to a text file (JSON) that holds released numbers and public facts only.

        Robust standard errors belong to one fit and not to the release; pickle the fit to keep them.

        Parameters
        ----------
        path : str or Path
            Where to write; read it with `load_release`.
        """
        design = self.coding.design
        content = {
            "format": FORMAT,
            "formula": design.formula,
            "rules": asdict(design.rules),
            "schema": {name: _column_to_json(column) for name, column in design.schema.columns.items()},
            "noise": self.coding.noise,
            "values": self.moments.values.tolist(),
            "variances": self.moments.variances.tolist(),
            "privacy": asdict(self.privacy),
            "reconciled": self.reconciled,
            "declared": self.declared,
            "bought": list(self.bought),
            "rough_bounds": self.rough_bounds,
        }
        Path(path).write_text(json.dumps(content, indent=1), encoding="utf-8")

    def __repr__(self) -> str:
        state = "" if self.privacy.is_private else ", NOT PRIVATE"
        return f"<MomentRelease: {self.formula!r}, {len(self.moments.values)} sums, {self.privacy.budget}{state}>"


def load_release(path: str | Path) -> MomentRelease:
    """Read a release that `MomentRelease.save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    MomentRelease

    Raises
    ------
    DataError
        If the file is not such a release.

    Notes
    -----
    The budget and the noise are believed as the file states them; take a release from a source that you trust.

    Examples
    --------
    >>> import tempfile, dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> release = dps.dp_moments("hours_per_week ~ age", adult, epsilon=1, schema=schema)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(f"{folder}/hours.json")
    ...     again = dps.load_release(f"{folder}/hours.json")
    >>> bool((again.fit().params == release.fit().params).all())
    True
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {str(path)!r}: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"{str(path)!r} is not a saved dpstats release")
    try:
        return _read_release(content)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(f"{str(path)!r} is damaged: {error!r}") from None


def _read_release(content: dict[str, Any]) -> MomentRelease:
    schema = Schema({name: _column_from_json(column) for name, column in content["schema"].items()})
    rules = _rules_from_json(content["rules"])
    design = build_design(content["formula"], schema, facts_of(schema.columns), rules=rules)
    coding = code_design(design, content["noise"])
    atoms = atoms_of(coding)
    values, variances = np.array(content["values"], dtype=float), np.array(content["variances"], dtype=float)
    if values.shape != (atoms.n_atoms,) or variances.shape != values.shape:
        raise ValueError(f"{len(values)} sums where the formula has {atoms.n_atoms}")
    if not (np.isfinite(values).all() and np.isfinite(variances).all() and (variances >= 0).all()):
        raise ValueError("sums and variances must be finite, variances not negative")
    if content["noise"] not in ("laplace", "gaussian"):
        raise ValueError(f"unknown noise {content['noise']!r}")
    moments = NoisyMoments(values, variances, content["noise"], atoms.index, atoms.count)
    return MomentRelease(
        coding,
        moments,
        _cost_from_json(content["privacy"]),
        bool(content["reconciled"]),
        str(content["declared"]),
        tuple(str(name) for name in content.get("bought", [])),
        bool(content.get("rough_bounds", False)),
    )


def fit_many(release: MomentRelease, formulas: Sequence[str]) -> list[DPResults]:
    """Fit several formulas from one release, at no further cost.

    Parameters
    ----------
    release : MomentRelease
        From `dp_moments`.
    formulas : sequence of str
        Each in the span of the released columns.

    Returns
    -------
    list of DPResults
        In the order of the formulas.

    Raises
    ------
    OptionError
        If `formulas` is one text.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> release = dps.dp_moments("hours_per_week ~ age + C(sex)", adult, epsilon=1, schema=schema)
    >>> [len(fit.params) for fit in dps.fit_many(release, ["hours_per_week ~ age", "hours_per_week ~ age + C(sex)"])]
    [2, 3]
    """
    if isinstance(formulas, str):
        raise OptionError(f"formulas must be a list of formulas; for one, write release.fit({formulas!r})")
    return [release.fit(formula) for formula in formulas]


def _column_to_json(column: Column) -> dict[str, Any]:
    if isinstance(column, Continuous):
        return {"lower": column.lower, "upper": column.upper}
    return {"binary" if isinstance(column, Binary) else "levels": list(column.levels)}


def _column_from_json(content: dict[str, Any]) -> Column:
    if "lower" in content:
        return Continuous(content["lower"], content["upper"])
    return Categorical(content["levels"]) if "levels" in content else Binary(tuple(content["binary"]))


def atoms_of(coding: Coding) -> Atoms:
    """Return the sums that are released of a coding."""
    return build_atoms(coding.all_blocks, coding.signs, weighted=coding.design.rules.weights is not None)


def _rules_from_json(content: dict[str, Any]) -> RowRules:
    weights = content["weights"]
    if weights is not None:
        weights = Weights(weights["column"], Continuous(**weights["bounds"]))
    return RowRules(content["missing"], weights, content["offset"])


def _cost_from_json(content: dict[str, Any]) -> PrivacyCost:
    return PrivacyCost(
        Budget(**content["budget"]),
        {name: Budget(**part) for name, part in content["parts"].items()},
        Protection(**content["protection"]),
        content["noise"],
        str(content.get("ledger", "")),
    )
