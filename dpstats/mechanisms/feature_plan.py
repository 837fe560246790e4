"""What the plans of mechanisms over a model's own columns have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.inference.estimates import ModelSpace
from dpstats.specification.atoms import Atoms
from dpstats.specification.features import Features
from dpstats.specification.pairs import Pairs
from dpstats.specification.view import ModelView


class FeaturePlan:
    """A plan over features: the model as the forecast sees it (zone: public)."""

    __slots__ = ()

    features: Features
    pairs: Pairs

    @property
    def view(self) -> ModelView:
        """The formula's columns as combinations of features."""
        return self.features.view

    @property
    def space(self) -> ModelSpace:
        """The formula's columns in the space of features."""
        return ModelSpace.of_features(self.features)

    @property
    def atoms(self) -> Atoms:
        """Which product each released number is."""
        return self.pairs.atoms

    def code_public(self, columns: Mapping[str, Any], n_rows: int) -> NDArray[np.float64]:
        """Return the features of public rows, shape (n_rows, d)."""
        return self.features.code_public(columns, n_rows)
