"""Atoms: which products of coded columns are released, which are the same statistic, and what their noise does."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

from dpstats.inference.moments import NoisyMoments
from dpstats.records.moments import sum_atoms
from dpstats.records.source import FrameSource
from dpstats.specification.atoms import STRUCTURAL_ZERO, build_atoms
from dpstats.specification.blocks import make_block
from dpstats.specification.coding import code_design
from dpstats.specification.coercion import array_of
from dpstats.specification.design import build_design
from dpstats.specification.grids import spread_frame
from dpstats.specification.rowmap import RowMap
from dpstats.specification.schema import Binary, Categorical, Continuous, Schema, TableFacts

NOISES = ("laplace", "gaussian")
SCHEMA = Schema(
    {
        "y": Continuous(-5, 20),
        "x": Continuous(0, 10),
        "z": Continuous(-3, 1),
        "g": Categorical(["a", "b", "c"]),
        "h": Categorical(["u", "v", "w"]),
        "t": Categorical(["lo", "hi"]),
        "b": Binary(),
    }
)
FACTS = TableFacts(tuple(SCHEMA), dict.fromkeys(SCHEMA, "object"))
EXACT = (
    "y ~ 1",
    "y ~ x + z",
    "y ~ x + C(g)",
    "y ~ x * C(g)",
    "y ~ C(g) * C(h) + x",
    "y ~ x * C(g) + z * C(h)",
    "y ~ x + C(t) + b",
    "y ~ C(t) * x + C(g)",
    "y ~ b * x * C(g)",
    "y ~ x + I(x**2) + I(x**3)",
    "y ~ (x + I(x**2)) * C(g)",
    "y ~ x:z",
    "y ~ x * z + C(g)",
    "np.exp(y / 20) ~ np.log(x + 1) * C(t)",
    "y ~ bs(x, df=5)",
    "y ~ bs(x, df=4) * C(g)",
    "y ~ bs(x, df=4):C(g) + bs(x, df=4):C(h)",
)
ROUNDED_TWICE = (
    "y ~ x * z",
    "y ~ x * z * C(g)",
    "y ~ x * z * b",
    "y ~ x * I(z**2) + z",
    "y ~ bs(x, df=4) * z",
    "y ~ bs(x, df=4) * bs(z, df=4)",
    "y ~ bs(x, df=4):z",
    "y ~ bs(x, df=4):bs(z, df=4)",
)
FORMULAS = EXACT + ROUNDED_TWICE


@functools.cache
def coded(formula, noise):
    """Coding and atoms of a formula."""
    design = build_design(formula, SCHEMA, FACTS)
    coding = code_design(design, noise)
    signs = [name for name, symbol in design.scalars.items() if symbol.sign] + list(coding.signs)
    return coding, build_atoms(coding.all_blocks, signs)


def labels(blocks):
    """Names of coded columns: "1", "x", "x^2", "g=0", "g=0 h=2", "x g=1", "bs(x, df=4)=3"."""
    found = []
    for block in blocks:
        powers = [name if degree == 1 else f"{name}^{degree}" for name, degree in block.degrees]
        for position in block.positions():
            cell = [f"{name}={k}" for name, k in zip((*block.factors, *block.vectors), position, strict=True)]
            found.append(" ".join(powers + cell) or "1")
    return found


def atom_table(formula, noise="laplace"):
    """Atom of each pair of named columns."""
    coding, atoms = coded(formula, noise)
    names = labels(coding.all_blocks)
    return {(a, b): atoms.index[i, j] for (i, a), (j, b) in itertools.product(enumerate(names), repeat=2)}, atoms


def random_rows(n, seed):
    """Rows with bad cells: missing, undeclared, out of range."""
    rng = np.random.default_rng(seed)
    frame = spread_frame(SCHEMA, list(SCHEMA), n).astype(object)
    for name in SCHEMA:
        hit = rng.random(n) < 0.03
        frame.loc[hit, name] = rng.choice(np.array([None, "elsewhere", np.nan, 1e9], dtype=object), hit.sum())
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


def random_atoms(atoms, seed):
    return np.random.default_rng(seed).normal(size=atoms.n_atoms)


def random_moments(atoms, noise, seed):
    """Random atoms with random variances."""
    variances = np.random.default_rng(50 + seed).uniform(0.5, 2, atoms.n_atoms)
    return NoisyMoments(random_atoms(atoms, seed), variances, noise, atoms.index, atoms.count)


# Structural zeros and aliases ----------------------------------------------------------------------------------------


def test_two_levels_of_one_factor_never_meet():
    atom, _ = atom_table("y ~ x * C(g) + C(h)")
    assert atom["g=0", "g=1"] == atom["g=0", "x g=1"] == atom["x g=0", "x g=2"] == STRUCTURAL_ZERO


def test_levels_of_different_factors_meet():
    atom, _ = atom_table("y ~ x * C(g) + C(h)")
    cells = {atom[f"g={k}", f"h={m}"] for k in range(3) for m in range(3)}
    assert len(cells) == 9
    assert STRUCTURAL_ZERO not in cells


def test_a_cell_meets_only_its_own_margins():
    atom, _ = atom_table("y ~ C(g) * C(h) + x:C(g)")
    assert atom["g=0 h=1", "x g=1"] == STRUCTURAL_ZERO
    assert atom["g=0 h=1", "x g=0"] != STRUCTURAL_ZERO


def test_a_dummy_drops_out_of_its_product_with_a_column_of_its_level():
    sizes = {"g": 3}
    x, g = make_block((("x", 1),), [], [], sizes, []), make_block((), ["g"], [], sizes, [])
    signed = make_block((("x", 1),), ["g"], [], sizes, [])
    atoms = build_atoms([x, g, signed], [])
    name = dict(zip(["x", "g=0", "g=1", "g=2", "x g=0", "x g=1", "x g=2"], range(7), strict=True))
    assert atoms.index[name["g=1"], name["x g=1"]] == atoms.index[name["x"], name["g=1"]]
    assert atoms.index[name["x"], name["x g=1"]] == atoms.index[name["x g=1"], name["x g=1"]]
    assert not atoms.rounds_twice


def test_cell_sums_of_two_signed_blocks_with_the_same_monomial_are_shared():
    atom, _ = atom_table("y ~ x * C(g) + x * C(h)")
    assert atom["g=1", "x h=2"] == atom["x g=1", "h=2"]
    assert atom["g=1", "x h=2"] != atom["g=2", "x h=1"]


def test_square_of_a_dummy_is_its_count():
    atom, atoms = atom_table("y ~ C(g) * C(h)")
    counts = {atom[f"g={k} h={m}", f"g={k} h={m}"] for k in range(3) for m in range(3)}
    assert len(counts) == 9
    assert not counts & {atoms.count, STRUCTURAL_ZERO}


def test_square_of_the_constant_is_the_count():
    atom, atoms = atom_table("y ~ x")
    assert atom["1", "1"] == atoms.count


@pytest.mark.parametrize("formula", ["y ~ x + C(t) + b", "y ~ x * C(t) + x * b + C(g)"])
def test_square_of_a_sign_column_is_the_count(formula):
    atom, atoms = atom_table(formula)
    assert atom["t", "t"] == atom["b", "b"] == atoms.count
    assert atom["t", "b"] not in {atoms.count, STRUCTURAL_ZERO}


def test_a_sign_vanishes_from_a_product_in_which_it_occurs_twice():
    atom, _ = atom_table("y ~ C(t) * x + b")
    assert atom["t", "t x"] == atom["1", "x"]
    assert atom["t x", "t x"] == atom["x", "x"]
    assert atom["t", "x"] == atom["1", "t x"]
    assert atom["b", "t x"] not in {atom["1", "x"], atom["t", "x"]}


def test_square_of_a_signed_sign_column_is_the_count_of_the_level():
    atom, _ = atom_table("y ~ b * C(g)")
    assert atom["b g=1", "b g=1"] == atom["g=1", "g=1"]


def test_a_product_column_is_an_alias_of_the_product():
    atom, _ = atom_table("y ~ x * z")
    assert atom["1", "x z"] == atom["x", "z"]
    assert len({atom["x", "x z"], atom["z", "x z"], atom["x z", "x z"], atom["x", "x"], atom["z", "z"]}) == 5


def test_chebyshev_products_are_not_taken_for_chebyshev_columns():
    atom, _ = atom_table("y ~ x + I(x**2) + I(x**3)")
    assert atom["x", "x"] != atom["1", "x^2"]
    assert atom["x", "x^2"] != atom["1", "x^3"]


# Number of atoms and the count ---------------------------------------------------------------------------------------


def test_signed_design_with_three_levels_has_sixteen_atoms_and_the_count():
    atom, atoms = atom_table("y ~ x * C(g)")
    assert len(set(atom.values()) - {STRUCTURAL_ZERO}) == 16
    assert atoms.n_atoms == 17
    assert atoms.count not in atom.values()


@pytest.mark.parametrize(
    ("formula", "n_products"),
    [("y ~ x + z", 10), ("y ~ x + C(t) + b", 13), ("y ~ x + C(g)", 12), ("y ~ C(g) + C(h)", 22), ("y ~ x * z", 14)],
)
def test_number_of_products(formula, n_products):
    atom, _ = atom_table(formula)
    assert len(set(atom.values()) - {STRUCTURAL_ZERO}) == n_products


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_the_count_is_always_released_once_and_every_atom_has_its_pair(formula, noise):
    _, atoms = coded(formula, noise)
    products = set(atoms.index.ravel()) - {STRUCTURAL_ZERO}
    assert products | {atoms.count} == set(range(atoms.n_atoms))
    extra = atoms.count not in products
    assert [k for k in range(atoms.n_atoms) if atoms.left[k] < 0] == ([atoms.count] if extra else [])
    own = np.arange(atoms.n_atoms - extra)
    assert (atoms.index[atoms.left[own], atoms.right[own]] == own).all()
    assert (atoms.index == atoms.index.T).all()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_an_atom_that_is_a_square_is_computed_from_the_square(formula, noise):
    _, atoms = coded(formula, noise)
    squares = np.unique(atoms.index.diagonal())
    assert (atoms.left[squares] == atoms.right[squares]).all()


# Noise ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_form_of_the_atoms_is_the_bilinear_form_of_their_matrix(formula, noise, seed):
    _, atoms = coded(formula, noise)
    moments = random_moments(atoms, noise, seed)
    alpha, gamma = np.random.default_rng(100 + seed).normal(size=(2, len(atoms.index)))
    eta, noise_matrix = random_atoms(atoms, seed), np.zeros(atoms.index.shape)
    for i, j in np.argwhere(atoms.index != STRUCTURAL_ZERO):
        noise_matrix[i, j] = eta[atoms.index[i, j]]
    h = moments.forms(alpha[None], gamma)[0]
    assert h @ eta == pytest.approx(alpha @ noise_matrix @ gamma, rel=1e-12, abs=1e-12)
    assert (moments.matrix == noise_matrix).all()


@pytest.mark.parametrize("formula", ["y ~ x * C(g) + C(t)", "y ~ x * z", "y ~ bs(x, df=4) * C(t)"])
def test_coefficients_sum_over_ordered_pairs_that_share_the_atom(formula):
    _, atoms = coded(formula, "laplace")
    alpha, gamma = np.random.default_rng(7).normal(size=(2, len(atoms.index)))
    expected = np.zeros(atoms.n_atoms)
    for i, j in itertools.product(range(len(alpha)), repeat=2):
        if atoms.index[i, j] != STRUCTURAL_ZERO:
            expected[atoms.index[i, j]] += alpha[i] * gamma[j]
    found = random_moments(atoms, "laplace", 0).forms(alpha[None], gamma)[0]
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("formula", ["y ~ x * C(g)", "y ~ x * C(t) + b", "y ~ x * z"])
def test_covariance_of_the_noise_counts_shared_atoms(formula):
    _, atoms = coded(formula, "gaussian")
    moments = random_moments(atoms, "gaussian", 3)
    gamma = np.random.default_rng(4).normal(size=len(atoms.index))
    forms = moments.forms(np.eye(len(gamma)), gamma)
    expected = np.zeros(atoms.index.shape)
    for i, j, k, m in itertools.product(range(len(gamma)), repeat=4):
        shared = atoms.index[i, k]
        if shared != STRUCTURAL_ZERO and shared == atoms.index[j, m]:
            expected[i, j] += gamma[k] * gamma[m] * moments.variances[shared]
    assert (forms * moments.variances) @ forms.T == pytest.approx(expected, abs=1e-10)


# Sums over data ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_atom_sums_equal_the_sums_of_all_their_products(formula, noise):
    coding, atoms = coded(formula, noise)
    frame, bits = random_rows(400, seed=11), 20
    rows = RowMap(coding).code({name: array_of(frame[name]) for name in frame}, len(frame))
    z = rows.columns[rows.complete]
    assert 200 < len(z) < 400
    sums = sum_atoms(FrameSource(frame), RowMap(coding), atoms, bits) / 4.0**bits
    expected = np.where(atoms.index == STRUCTURAL_ZERO, 0.0, sums[atoms.index])
    assert z.T @ z == pytest.approx(expected, abs=len(z) * 2.0**-bits)
    assert sums[atoms.count] == len(z)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("formula", [formula for formula in FORMULAS if "bs(" not in formula])
def test_products_that_are_equal_in_every_row_share_an_atom_and_others_do_not(formula, noise):
    coding, atoms = coded(formula, noise)
    frame = spread_frame(SCHEMA, list(SCHEMA), 300)
    z = RowMap(coding).code({name: array_of(frame[name]) for name in frame}, len(frame)).columns
    i, j = np.triu_indices(z.shape[1])
    products = np.round(z[:, i] * z[:, j], 9) + 0.0
    _, same = np.unique(products, axis=1, return_inverse=True)
    atom = atoms.index[i, j]
    assert len(set(zip(same, atom, strict=True))) == len(set(same)) == len(set(atom))
    assert ((products == 0).all(axis=0) == (atom == STRUCTURAL_ZERO)).all()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_flag_tells_whether_an_atom_stands_for_products_that_round_differently(formula, noise):
    coding, atoms = coded(formula, noise)
    frame, bits = spread_frame(SCHEMA, list(SCHEMA), 2000), 6
    z = RowMap(coding).code({name: array_of(frame[name]) for name in frame}, len(frame)).columns
    h = np.rint(z * 2.0**bits)
    i, j = np.triu_indices(len(atoms.index))
    i, j = (side[atoms.index[i, j] != STRUCTURAL_ZERO] for side in (i, j))
    k = atoms.index[i, j]
    differ = (h[:, i] * h[:, j] != h[:, atoms.left[k]] * h[:, atoms.right[k]]).any()
    assert atoms.rounds_twice == differ == (formula in ROUNDED_TWICE)
