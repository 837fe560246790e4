"""Blocks of coded columns: which a formula gets, how dropped ones are recovered, and that L Z is the model matrix."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
from formulaic import Formula

from dpstats.errors import DesignError
from dpstats.specification.blocks import close, make_block, reduce
from dpstats.specification.checks import check_columns
from dpstats.specification.coding import code_design
from dpstats.specification.coercion import array_of
from dpstats.specification.design import build_design
from dpstats.specification.grids import as_frame
from dpstats.specification.rowmap import RowMap
from dpstats.specification.schema import Binary, Categorical, Continuous, Schema, TableFacts
from dpstats.specification.sensitivity import l1_sensitivity, row_norms
from dpstats.specification.view import full_view

NOISES = ("laplace", "gaussian")
SCHEMA = Schema(
    {
        "y": Continuous(-5, 20),
        "x": Continuous(0, 10),
        "z": Continuous(-3, 1),
        "w": Continuous(1, 2),
        "year": Continuous(1970, 2020),
        "g": Categorical(["a", "b", "c"]),
        "h": Categorical(["u", "v", "w"]),
        "k": Categorical([10, 2, 33, 4]),
        "t": Categorical(["lo", "hi"]),
        "t2": Categorical([1, 0]),
        "flag": Binary((False, True)),
        "d": Binary(),
    }
)
FACTS = TableFacts(tuple(SCHEMA), {name: "bool" if name == "flag" else "object" for name in SCHEMA})

STATELESS = (
    "1",
    "x + z",
    "0 + x",
    "0 + x + z + w",
    "x + C(g)",
    "x * C(g)",
    "0 + C(g)",
    "0 + C(g):x",
    "C(g) + C(h)",
    "C(g) * C(h)",
    "x * C(g) * C(h)",
    "x * C(g) + z + C(h)",
    "C(g):C(h)",
    "C(k, contr.sum) + x",
    "C(g, contr.helmert) * x",
    "C(k, contr.poly) * C(t)",
    "C(g, contr.treatment('b')) * C(h, contr.sum)",
    "C(k, contr.diff):z",
    "t + x",
    "t * x + g",
    "t * t2",
    "t * t2 * x",
    "0 + t + g",
    "d + x",
    "d * x * g",
    "flag + x",
    "flag * C(g)",
    "C(flag) * x",
    "0 + flag + t",
    "x:z",
    "x * z",
    "x * z * w",
    "x:z + C(g)",
    "x + I(x**2)",
    "I(x**2)",
    "(x + I(x**2) + I(x**3)) * C(g)",
    "x * I(z**2) + I(x * z)",
    "I((x - 5)**2 * z)",
    "year + I(year**2) + I(year**3)",
    "I(year - 1997) + I((year - 1997)**2) + I((year - 1997)**3)",
    "(year + I(year**2) + I(year**3)) * t",
    "np.log(w) + np.sqrt(x)",
    "np.log(w) * C(g) + I(np.log(w)**2)",
    "I(x > 3) + x",
    "I(x > 3):x + z",
)
STATEFUL = (
    "bs(x, df=5)",
    "bs(x, df=6, include_intercept=True) + z",
    "0 + bs(x, df=5, include_intercept=True)",
    "bs(x, df=4) * C(g)",
    "bs(x, df=4) * z",
    "bs(x, df=4):bs(z, df=4)",
    "bs(x, df=4):t + z",
    "0 + cr(x, df=4) + z",
    "0 + cc(x, df=4) + cc(x, df=4):z",
    "poly(x, 3) + z",
    "poly(year, 3) * t",
    "center(x) + scale(z)",
    "center(x):C(g)",
)
RIGHT_HAND_SIDES = STATELESS + STATEFUL


@functools.cache
def design_of(right_hand_side):
    return build_design(f"y ~ {right_hand_side}", SCHEMA, FACTS)


@functools.cache
def code(right_hand_side, noise="laplace"):
    return code_design(design_of(right_hand_side), noise)


def text(block):
    """Name of a block: "1", "x", "x^2 z", "x:g", "v:g"."""
    powers = [name if degree == 1 else f"{name}^{degree}" for name, degree in block.degrees]
    return ":".join(filter(None, [" ".join(powers), *block.factors, *block.vectors])) or "1"


def block_names(right_hand_side, noise="laplace"):
    return {text(block) for block in code(right_hand_side, noise).blocks}


def block_of(name, sizes, signs=()):
    """Block of a name such as "1", "x", "x^2", "x:g"."""
    parts = [] if name == "1" else name.split(":")
    powers = [part.partition("^") for part in parts if part not in sizes]
    degrees = tuple(sorted((symbol, int(degree or 1)) for symbol, _, degree in powers))
    return make_block(degrees, [part for part in parts if part in sizes], [], sizes, signs)


@functools.cache
def public_rows(n=400, seed=5):
    """Random public rows over all declared columns, every corner of every range included."""
    rng = np.random.default_rng(seed)
    values = {}
    for name in SCHEMA:
        column = SCHEMA[name]
        if isinstance(column, Continuous):
            values[name] = rng.uniform(column.lower, column.upper, n)
            values[name][:40] = rng.choice([column.lower, column.upper], 40)
        else:
            values[name] = rng.integers(0, len(column.levels), n)
    return as_frame(SCHEMA, values)


def coded_columns(coding, blocks=None):
    """Coded regressors of the public rows."""
    frame = public_rows()
    row_map = RowMap(coding if blocks is None else replace(coding, blocks=tuple(blocks)), with_response=False)
    return row_map.code({name: array_of(frame[name]) for name in row_map.variables}, len(frame)).columns


def columns_of(blocks, columns):
    """Split coded columns by block name."""
    stops = np.cumsum([block.n_columns for block in blocks])
    return dict(zip(map(text, blocks), np.split(columns, stops[:-1], axis=1), strict=True))


def names_of(block):
    return (*block.factors, *block.vectors)


def membership(fine, coarse):
    """0/1 matrix: which column of the coarse block each column of the fine block belongs to."""
    kept = [names_of(fine).index(name) for name in names_of(coarse)]
    return (fine.positions()[:, None, kept] == coarse.positions()[None]).all(axis=2).astype(float)


# The table of formulas -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    ("right_hand_side", "blocks", "r2", "delta_1"),
    [
        ("x + z", "1 x z", 4, 8),
        ("x + C(g)", "g x", 3, 7),
        ("x * C(g)", "g x:g", 3, 8.5),
        ("C(g) + C(h)", "g h", 3, 8.5),
        ("C(g) * C(h)", "g:h", 2, 3.5),
        ("x * C(g) + z + C(h)", "g x:g h z", 5, 23),
    ],
)
def test_blocks_and_sensitivities_at_unit_weights(right_hand_side, blocks, r2, delta_1, noise):
    coding = code(right_hand_side, noise)
    assert block_names(right_hand_side, noise) == set(blocks.split())
    assert text(coding.response_block) == "y"
    norms = row_norms(coding.all_blocks, np.ones(len(coding.all_blocks)), noise)
    assert norms.r2 == r2
    assert l1_sensitivity(norms) == delta_1


@pytest.mark.parametrize(
    ("right_hand_side", "blocks"),
    [
        ("0 + x", {"1", "x"}),
        ("0 + C(g)", {"g"}),
        ("0 + C(g):x", {"g", "x:g"}),
        ("x + I(x**2)", {"1", "x", "x^2"}),
        ("x + I(x**3)", {"1", "x", "x^2", "x^3"}),
        ("x * z", {"1", "x", "z", "x z"}),
        ("x * I(z**2) + z", {"1", "x", "z", "z^2", "x z", "x z^2"}),
        ("x * C(g) + x * C(h)", {"g", "h", "x:g", "x:h"}),
        ("x * C(g) * C(h)", {"g:h", "x:g:h"}),
        ("(x + I(x**2)) * C(g)", {"g", "x:g", "x^2:g"}),
        ("I(x**2):C(g) + x", {"g", "x:g", "x^2:g"}),
        ("year + I(year**2) + I(year**3)", {"1", "year", "year^2", "year^3"}),
        ("I((x - 5)**2) + x", {"1", "x", "x^2"}),
        ("np.log(w) + I(np.log(w)**2)", {"1", "np.log(w)", "np.log(w)^2"}),
    ],
)
@pytest.mark.parametrize("noise", NOISES)
def test_a_formula_gets_its_divisors_and_loses_coarser_blocks(right_hand_side, blocks, noise):
    assert block_names(right_hand_side, noise) == blocks


@pytest.mark.parametrize(
    ("right_hand_side", "n_blocks"),
    [("x:z", 2), ("I(x**2)", 2), ("x:z + I(x**2)", 3), ("I(x**2) + z", 3), ("x:z + C(g)", 2), ("I(x**2):C(g)", 2)],
)
def test_a_lone_product_is_one_column_with_bounds_of_its_own(right_hand_side, n_blocks):
    coding = code(right_hand_side)
    assert len(coding.blocks) == n_blocks
    assert all(degree == 1 for block in coding.blocks for _, degree in block.degrees)
    assert coded_columns(coding).max() > 0.99


@pytest.mark.parametrize("right_hand_side", ["x:z + x", "x:z + z", "I(x**2) + x", "I(x**2):C(g) + x"])
def test_a_product_beside_one_of_its_divisors_is_a_monomial(right_hand_side):
    symbols = {symbol for block in code(right_hand_side).blocks for symbol, _ in block.degrees}
    assert symbols <= {"x", "z"}


# Closure and reduction -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needed", "closed"),
    [
        ("x", "1 x"),
        ("x^3", "1 x x^2 x^3"),
        ("x:z", "1 x z x:z"),
        ("x:g", "1 g x:g"),
        ("x^2:g h", "1 g h x:g x^2:g"),
        ("x:g:h z", "1 g:h x:g:h z"),
    ],
)
def test_closure_adds_divisors_in_the_same_cells_and_the_constant(needed, closed):
    sizes = {"g": 3, "h": 2}
    found = close([block_of(name, sizes) for name in needed.split()], sizes, [])
    assert set(found) == {block_of(name, sizes) for name in closed.split()}


@pytest.mark.parametrize(
    ("blocks", "kept"),
    [
        ("1 g", "g"),
        ("1 x g", "x g"),
        ("x x:g", "x:g"),
        ("g h g:h", "g:h"),
        ("x:g x:h", "x:g x:h"),
        ("x:g x:h x:g:h x", "x:g:h"),
        ("1 x x:g", "1 x:g"),
        ("x x^2:g", "x x^2:g"),
    ],
)
def test_reduction_drops_blocks_with_a_finer_block_of_the_same_monomial(blocks, kept):
    sizes = {"g": 3, "h": 2}
    assert [block_of(name, sizes) for name in kept.split()] == reduce([block_of(b, sizes) for b in blocks.split()])


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    ("right_hand_side", "dropped"),
    [
        ("x * C(g)", {"1": "g", "x": "x:g"}),
        ("C(g) * C(h)", {"1": "g:h", "g": "g:h", "h": "g:h"}),
        ("x * C(g) * C(h) + z", {"x": "x:g:h", "x:g": "x:g:h", "x:h": "x:g:h", "1": "g:h", "g": "g:h"}),
        ("(x + I(x**2)) * C(g)", {"1": "g", "x": "x:g", "x^2": "x^2:g"}),
        ("bs(x, df=4) * C(g)", {"bs(x, df=4)": "g:bs(x, df=4)", "1": "g"}),
    ],
)
def test_columns_of_a_dropped_block_are_exact_sums_of_the_finer_block(right_hand_side, dropped, noise):
    coding = code(right_hand_side, noise)
    blocks = {text(block): block for block in coding.blocks}
    for name, into in dropped.items():
        fine = blocks[into]
        factors = tuple(factor for factor in fine.factors if factor in name.split(":"))
        coarse = make_block(fine.degrees, factors, fine.vectors, dict(zip(names_of(fine), fine.shape, strict=True)), [])
        assert text(coarse) == name
        columns = columns_of([coarse, fine], coded_columns(coding, [coarse, fine]))
        assert (columns[into] @ membership(fine, coarse) == columns[name]).all()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("right_hand_side", RIGHT_HAND_SIDES)
def test_the_constant_is_a_sum_of_coded_columns(right_hand_side, noise):
    coding = code(right_hand_side, noise)
    assert (coded_columns(coding) @ coding.constant == 1).all()


# Columns -------------------------------------------------------------------------------------------------------------


def test_pure_powers_are_chebyshev_polynomials_of_the_coded_column():
    coding = code("x + I(x**2) + I(x**5)")
    columns = columns_of(coding.blocks, coded_columns(coding))
    z = np.clip((public_rows()["x"].to_numpy() - 5) / 5, -1, 1)
    for degree in range(1, 6):
        column = columns["x" if degree == 1 else f"x^{degree}"][:, 0]
        assert column == pytest.approx(np.cos(degree * np.arccos(z)), abs=1e-12)
    assert len(columns) == 6


def test_chebyshev_coding_is_better_conditioned_than_powers():
    z = np.linspace(-1, 1, 1001)
    coding = code("x + I(x**2) + I(x**3) + I(x**4)")
    chebyshev = coded_columns(coding)
    assert np.linalg.cond(chebyshev) < np.linalg.cond(z[:, None] ** np.arange(5)) / 5


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("right_hand_side", RIGHT_HAND_SIDES)
def test_a_row_uses_one_column_of_a_block_with_an_entry_of_at_most_one(right_hand_side, noise):
    coding = code(right_hand_side, noise)
    columns = coded_columns(coding)
    assert np.abs(columns).max() <= 1
    for block, part in zip(coding.blocks, columns_of(coding.blocks, columns).values(), strict=True):
        if not block.vectors:
            assert ((part != 0).sum(axis=1) <= 1).all()
        if block.always_one:
            assert (np.abs(part).sum(axis=1) == 1).all()


# Two-level factors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right_hand_side", "laplace", "gaussian"),
    [
        ("x + C(t)", {"1", "x", "t"}, {"x", "t[2]"}),
        ("x * C(t)", {"1", "x", "t", "t x"}, {"t[2]", "x:t[2]"}),
        ("C(t)", {"1", "t"}, {"t[2]"}),
        ("C(d) + x", {"1", "d", "x"}, {"x", "d[2]"}),
        ("x + C(t) + C(t2)", {"1", "x", "t", "t2"}, {"1", "x", "t", "t2"}),
        ("x * C(t) + C(g)", {"x", "t", "t x", "g[3]"}, {"x", "t", "t x", "g[3]"}),
        ("C(t) * C(t2)", {"t:t2[2, 2]"}, {"t:t2[2, 2]"}),
        ("C(t) * C(g) + C(t2)", {"g:t[3, 2]", "t2"}, {"g:t[3, 2]", "t2"}),
        ("x:C(t):C(t2) + C(d)", {"t:t2[2, 2]", "x:t:t2[2, 2]", "d"}, {"t:t2[2, 2]", "x:t:t2[2, 2]", "d"}),
        ("d + C(g)", {"d", "g[3]"}, {"d", "g[3]"}),
        ("flag * x + C(g)", {"flag", "x", "flag x", "g[3]"}, {"flag", "x", "flag x", "g[3]"}),
    ],
)
def test_a_two_level_factor_is_one_sign_column_unless_crossed_or_the_only_factor_of_a_gaussian_release(
    right_hand_side, laplace, gaussian
):
    for noise, expected in zip(NOISES, (laplace, gaussian), strict=True):
        blocks = code(right_hand_side, noise).blocks
        assert {text(block) + (str(list(block.shape)) if block.shape else "") for block in blocks} == expected


@pytest.mark.parametrize("right_hand_side", ["x + C(t)", "x + d", "x + flag", "I(x > 3) + x"])
def test_sign_columns_hold_both_signs_and_nothing_else(right_hand_side):
    coding = code(right_hand_side, "laplace")
    columns = columns_of(coding.blocks, coded_columns(coding))
    signs = [name for name in columns if name not in {"1", "x"}]
    assert len(signs) == 1
    assert set(columns[signs[0]].ravel()) == {-1.0, 1.0}
    block = coding.blocks[list(columns).index(signs[0])]
    assert block.always_one
    assert not block.squarable


@pytest.mark.parametrize(
    ("name", "always_one", "squarable"),
    [("1", 1, 0), ("x", 0, 1), ("x^2", 0, 1), ("s", 1, 0), ("g", 1, 0), ("s:g", 1, 0), ("x:g", 0, 0), ("s:x", 0, 1)],
)
def test_only_single_numeric_columns_may_have_extra_squares_and_only_signs_are_always_one(name, always_one, squarable):
    block = block_of(name, {"g": 3}, ["s"])
    assert (block.always_one, block.squarable) == (always_one, squarable)


# The model matrix ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("right_hand_side", RIGHT_HAND_SIDES)
def test_coded_columns_times_l_are_the_model_matrix(right_hand_side, noise):
    coding = code(right_hand_side, noise)
    expected = coding.design.model_matrix(public_rows(), len(public_rows()))
    gap = np.abs(coded_columns(coding) @ coding.contrast.T - expected).max(axis=0)
    assert (gap <= 1e-12 * np.abs(expected).max(axis=0)).all()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("right_hand_side", STATELESS)
def test_model_columns_are_those_of_the_formula_library_by_name(right_hand_side, noise):
    coding = code(right_hand_side, noise)
    reference = Formula(right_hand_side).get_model_matrix(public_rows())
    found = dict(zip(coding.design.exog_names, (coded_columns(coding) @ coding.contrast.T).T, strict=True))
    assert set(found) == set(reference.columns)
    for name, column in found.items():
        size = np.abs(reference[name]).max()
        assert column == pytest.approx(reference[name].to_numpy(dtype=float), rel=0, abs=1e-12 * size)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("right_hand_side", RIGHT_HAND_SIDES)
def test_coded_columns_span_the_model_matrix_with_its_rank(right_hand_side, noise):
    coding = code(right_hand_side, noise)
    q = len(coding.contrast)
    basis, _ = np.linalg.qr(coding.contrast.T)
    columns = coded_columns(coding) @ basis
    expected = coding.design.model_matrix(public_rows(), len(public_rows()))
    scaled = expected / np.linalg.norm(expected, axis=0)
    residual = scaled - columns @ np.linalg.lstsq(columns, scaled, rcond=None)[0]
    assert np.linalg.matrix_rank(columns) == np.linalg.matrix_rank(scaled, tol=1e-12) == q
    assert np.abs(residual).max() < 1e-12


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("right_hand_side", RIGHT_HAND_SIDES)
def test_the_check_passes_and_tells_whether_the_model_spans_the_constant(right_hand_side, noise):
    coding = code(right_hand_side, noise)
    columns = coding.design.model_matrix(public_rows(), len(public_rows()))
    columns /= np.linalg.norm(columns, axis=0)
    ones = np.ones(len(columns))
    off = np.abs(ones - columns @ np.linalg.lstsq(columns, ones, rcond=None)[0]).max()
    found = check_columns(coding, coding.design, coding.contrast)
    assert (found is not None) == (off < 1e-6)
    if found is not None:
        model = coding.design.model_matrix(public_rows(), len(public_rows()))
        np.testing.assert_allclose(model @ found, ones, atol=1e-8)


@pytest.mark.parametrize(
    ("right_hand_side", "terms"),
    [
        ("x + I(2 * x) + z", ("x", r"I\(2 \* x\)")),
        ("bs(x, df=5, include_intercept=True) + x", ("x",)),
        ("d + C(d)", ("d",)),
        ("I(x > 3) + I(x <= 3)", ("Intercept",)),
    ],
)
def test_columns_dependent_whatever_the_data_are_refused_by_name(right_hand_side, terms):
    with pytest.raises(DesignError, match="linearly dependent") as caught:
        full_view(code(right_hand_side))
    for term in terms:
        caught.match(term)


def test_a_wrong_l_is_noticed_before_a_record_is_read():
    coding = code("x * C(g)")
    wrong = coding.contrast.copy()
    wrong[1, 1] += 1e-9
    with pytest.raises(DesignError, match="cannot be coded exactly"):
        check_columns(coding, coding.design, wrong)


# Vector blocks -------------------------------------------------------------------------------------------------------


def norms_of_vector_blocks(right_hand_side, noise):
    """Largest row norm of each block that holds a vector symbol."""
    coding = code(right_hand_side, noise)
    parts = zip(coding.blocks, columns_of(coding.blocks, coded_columns(coding)).values(), strict=True)
    order = 1 if noise == "laplace" else 2
    return {text(b): np.linalg.norm(part, ord=order, axis=1).max() for b, part in parts if b.vectors}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("right_hand_side", [formula for formula in STATEFUL if "(x, " in formula or "poly" in formula])
def test_rows_of_vector_blocks_have_norm_at_most_one(right_hand_side, noise):
    for norm in norms_of_vector_blocks(right_hand_side, noise).values():
        assert norm <= 1


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "right_hand_side",
    ["bs(x, df=6, include_intercept=True) + z", "poly(x, 3)", "bs(x, df=4) * C(g)", "bs(x, df=4) * z"],
)
def test_the_norm_of_one_is_reached_to_a_tenth_of_a_percent(right_hand_side, noise):
    norms = norms_of_vector_blocks(right_hand_side, noise)
    assert norms
    assert min(norms.values()) == pytest.approx(1 / 1.001, rel=1e-3)


@pytest.mark.parametrize("right_hand_side", ["bs(x, df=6, include_intercept=True)", "bs(x, df=4)"])
def test_a_partition_of_unity_has_radius_one(right_hand_side):
    vector = next(iter(code(right_hand_side).design.vectors.values()))
    assert vector.radius_l1 == pytest.approx(1.001)
    assert vector.radius_l2 == pytest.approx(1.001)


@pytest.mark.parametrize("noise", NOISES)
def test_radii_multiply_in_spline_by_spline_columns(noise):
    coding = code("bs(x, df=4):bs(z, df=4)", noise)
    radii = [v.radius_l1 if noise == "laplace" else v.radius_l2 for v in coding.design.vectors.values()]
    scale = coding.contrast[np.abs(coding.contrast) > 0]
    assert sorted(set(scale.round(12))) == sorted({1.0, round(radii[0] * radii[1], 12)})


def test_a_reduced_spline_keeps_all_columns_in_its_block_and_drops_the_first_in_l():
    coding = code("bs(x, df=5, include_intercept=True)")
    block = next(block for block in coding.blocks if block.vectors)
    names = coding.design.exog_names
    unused = [j for j in range(coding.contrast.shape[1]) if not coding.contrast[:, j].any()]
    assert block.n_columns == 5
    assert len(names) == len(coding.contrast) == 1 + 5 - len(unused)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("right_hand_side", ["bs(x, df=5)", "poly(x, 3)"])
def test_a_vector_block_is_neither_always_one_nor_squarable(right_hand_side, noise):
    block = next(block for block in code(right_hand_side, noise).blocks if block.vectors)
    assert not block.always_one
    assert not block.squarable
    assert not block.is_single
