"""The nouns: what of them travels as JSON, and what a launch may hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flacheck.model import Corpus, Cut, Imported, Kernel, Launch, Origin, Stubbed, Unrecorded
from flacheck.model.kernel import origin_from_json, origin_to_json
from flacheck.model.launch import DTYPES, FormError, LaunchForm, check_options, main_dtype
from flacheck.model.record import Record
from tests import fake
from tests.made_records import failure, record

TENSOR = {"dtype": "bf16", "align": 16}


@pytest.mark.parametrize(
    ("origin", "plain", "how"),
    [
        (Corpus("retention", "fwd"), {"corpus": "retention", "name": "fwd"}, "corpus"),
        (Imported("m", "k"), {"import": "m", "qualname": "k"}, "import"),
        (Imported("m"), {"import": "m"}, "import"),
        (Stubbed("m", "k"), {"module": "m", "qualname": "k"}, "stub"),
        (Cut("x = 1", "k"), {"source": "x = 1", "qualname": "k"}, "cut"),
        (
            Cut("x = 1", "k", made_up=True),
            {"source": "x = 1", "qualname": "k", "made_up": True},
            "cut",
        ),
    ],
)
def test_an_origin_travels_as_workers_and_stores_read_it(
    origin: Origin, plain: dict[str, Any], how: str
) -> None:
    """The form is that of stores in use."""
    assert origin_to_json(origin) == plain
    assert origin_from_json(plain) == origin
    assert origin.how == how


def test_an_origin_of_no_known_kind_is_refused() -> None:
    """A store may have been merged from anywhere."""
    with pytest.raises(ValueError, match="no origin of a kernel"):
        origin_from_json({"path": "/etc/passwd"})


def test_a_kernel_says_what_its_worker_needs() -> None:
    """A package, and torch beside it."""
    kernel = Kernel("m:k", "p==1", "0", Imported("m", "k", made_up=True))
    assert kernel.is_of_package
    assert kernel.is_imported
    assert kernel.is_made_up
    stubbed = replace(kernel, origin=Stubbed("m", "k"))
    assert stubbed.is_of_package
    assert not stubbed.is_imported
    assert not stubbed.is_made_up
    assert not replace(kernel, origin=Corpus("f", "k")).is_of_package
    assert Kernel.from_json(kernel.to_json()) == kernel


def test_a_record_comes_back_from_its_json() -> None:
    """With the key that it was stored by, though nobody knows its source any more."""
    made = failure(options={"num_warps": 8})
    back = Record.from_json(made.to_json())
    assert back == made
    assert back.key == made.key
    assert back.cell.kernel.origin == Unrecorded("stub")


def test_a_stored_key_is_not_taken_to_another_cell() -> None:
    """A cell that differs has a key of its own."""
    cell = record().cell
    other = replace(cell, toolchain="triton==3.9.0")
    assert other.key != cell.key


def test_cells_with_the_same_content_are_one_key() -> None:
    """Neither the shape nor the autotuner's list is part of it."""
    cell = fake.cell("k", num_warps=4)
    assert replace(cell, shape={"T": 8}, configs=({"num_warps": 4},)).key == cell.key
    assert replace(cell, until="ttir").key != cell.key


def test_a_declared_launch_is_filled_in_with_values_of_their_own_type() -> None:
    """A size stays a number."""
    declared = Launch({"x": {"dtype": "{dtype}", "align": 16}, "T": {"int": "{T}"}})
    assert declared.names_dtype
    filled = declared.filled_in({"dtype": "fp16", "T": 64})
    assert filled.args == {"x": {"dtype": "fp16", "align": 16}, "T": {"int": 64}}
    assert not filled.names_dtype
    with pytest.raises(KeyError, match="T"):
        declared.filled_in({"dtype": "fp16"})


@pytest.mark.parametrize(
    ("dtypes", "said"),
    [
        (("fp32", "bf16"), "bf16"),
        (("fp32", "i32"), "fp32"),
        (("fp64", "fp8e5"), "fp8e5"),
        (("i32",), None),
        ((), None),
    ],
)
def test_a_launch_is_in_its_first_short_float(dtypes: tuple[str, ...], said: str | None) -> None:
    """A gate in fp32 does not make a bf16 launch one of fp32."""
    args = {f"a{place}": {"dtype": dtype, "align": 16} for place, dtype in enumerate(dtypes)}
    assert main_dtype({**args, "n": {"int": 3}, "g": None}) == said


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_list_of_dtypes_holds_for_every_launch(dtype: str) -> None:
    """Recorded, declared or written in a matrix."""
    for form in (LaunchForm(), LaunchForm(("T",)), LaunchForm(None)):
        form.check({"args": {"x": {"dtype": dtype, "align": 16}}})


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        ([], "a launch has args"),
        ({"args": {"x": TENSOR}, "grid": [1]}, "'grid' is no part of a launch"),
        ({"args": {"x": {"dtype": "float32"}}}, "unknown dtype 'float32'"),
        ({"args": {"x": {**TENSOR, "align": 3}}}, "align is 1, 2, 4, 8 or 16"),
        ({"args": {"x": {**TENSOR, "file": "f"}}}, "a tensor has dtype and align"),
        ({"args": {"x": {"int": True}}}, "argument x"),
        ({"args": {"x": {"int": "{T}"}}}, "argument x"),
        ({"args": {"x": {"constexpr": {"path": "/"}}}}, "constant x"),
        ({"args": {"x": {"constexpr": {"dtype": "fp99"}}}}, "no dtype of the language"),
        ({"args": {"__class__": TENSOR}}, "no name of an argument"),
        ({"args": {}, "omitted": "BK"}, "omitted is a list"),
        ({"args": {}, "configs": [{"kwargs": {"BK": 1}, "ptxas": "f"}]}, "option 'ptxas'"),
    ],
)
def test_what_is_no_launch_is_refused(launch: Any, said: str) -> None:
    """With the part that is wrong."""
    with pytest.raises(FormError, match=said):
        LaunchForm().check(launch)


def test_a_declared_launch_leaves_only_known_names_open() -> None:
    """Those of its shapes, and the dtype."""
    form = LaunchForm(("dtype", "T"))
    form.check({"args": {"x": {"dtype": "{dtype}", "align": 16}, "T": {"int": "{T}"}}})
    with pytest.raises(FormError, match=r'one of "\{T\}"'):
        form.check({"args": {"S": {"int": "{S}"}}})
    LaunchForm(None).check({"args": {"S": {"int": "{S}"}}})


def test_an_error_leads_to_the_part_that_is_wrong() -> None:
    """A matrix shows its line."""
    with pytest.raises(FormError) as caught:
        LaunchForm().check({"args": {"x": TENSOR, "y": {"dtype": "f"}}})
    assert caught.value.path == ("args", "y")


def test_options_that_could_name_a_file_are_none() -> None:
    """Only what the known releases' compilers take."""
    check_options({"num_warps": 4, "maxnreg": None})
    with pytest.raises(FormError, match="option 'ptx_options' is unknown"):
        check_options({"ptx_options": "-f"})
