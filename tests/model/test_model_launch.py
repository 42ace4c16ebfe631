"""Launches: their form and their limits."""

from __future__ import annotations

from typing import Any

import pytest

from flacheck.model import Launch
from flacheck.model.launch import DTYPES, FormError, LaunchForm, check_options, main_dtype

TENSOR = {"dtype": "bf16", "align": 16}


def test_a_declared_launch_is_filled_in_with_values_of_their_own_type() -> None:
    """A filled-in size is a number."""
    template = Launch({"x": {"dtype": "{dtype}", "align": 16}, "T": {"int": "{T}"}})
    assert template.names_dtype
    launch = template.filled_in({"dtype": "fp16", "T": 64})
    assert launch.args == {"x": {"dtype": "fp16", "align": 16}, "T": {"int": 64}}
    assert not launch.names_dtype
    with pytest.raises(KeyError, match="T"):
        template.filled_in({"dtype": "fp16"})


@pytest.mark.parametrize(
    ("dtypes", "main"),
    [
        (("fp32", "bf16"), "bf16"),
        (("fp32", "i32"), "fp32"),
        (("fp64", "fp8e5"), "fp8e5"),
        (("i32",), None),
        ((), None),
    ],
)
def test_a_launch_is_in_its_first_short_float(dtypes: tuple[str, ...], main: str | None) -> None:
    """The first short float is the launch's dtype."""
    args = {f"a{place}": {"dtype": dtype, "align": 16} for place, dtype in enumerate(dtypes)}
    assert main_dtype({**args, "n": {"int": 3}, "g": None}) == main


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_list_of_dtypes_holds_for_every_launch(dtype: str) -> None:
    """Recorded, declared and written launches accept the same dtypes."""
    for form in (LaunchForm(), LaunchForm(("T",)), LaunchForm(None)):
        form.check({"args": {"x": {"dtype": dtype, "align": 16}}})
        with pytest.raises(FormError, match="unknown dtype"):
            form.check({"args": {"x": {"dtype": f"{dtype}x", "align": 16}}})


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ([], "a launch has args"),
        ({"args": {"x": TENSOR}, "grid": [1]}, "'grid' is not part of a launch"),
        ({"args": {"x": {"dtype": "float32"}}}, "unknown dtype 'float32'"),
        ({"args": {"x": {**TENSOR, "align": 3}}}, "align is 1, 2, 4, 8 or 16"),
        ({"args": {"x": {**TENSOR, "file": "f"}}}, "a tensor has dtype and align"),
        ({"args": {"x": {"int": True}}}, "argument x"),
        ({"args": {"x": {"int": "{T}"}}}, "argument x"),
        ({"args": {"x": {"constexpr": {"path": "/"}}}}, "constant x"),
        ({"args": {"x": {"constexpr": {"dtype": "fp99"}}}}, "not a dtype of the language"),
        ({"args": {"__class__": TENSOR}}, "not the name of an argument"),
        ({"args": {}, "omitted": "BK"}, "omitted is a list"),
        ({"args": {}, "configs": [{"kwargs": {"BK": 1}, "ptxas": "f"}]}, "option 'ptxas'"),
    ],
)
def test_what_is_no_launch_is_refused(launch: Any, message: str) -> None:
    """The error names the wrong part."""
    with pytest.raises(FormError, match=message):
        LaunchForm().check(launch)


def test_a_declared_launch_leaves_only_known_names_open() -> None:
    """Only shapes and the dtype may be placeholders."""
    form = LaunchForm(("dtype", "T"))
    form.check({"args": {"x": {"dtype": "{dtype}", "align": 16}, "T": {"int": "{T}"}}})
    with pytest.raises(FormError, match=r'one of "\{T\}"'):
        form.check({"args": {"S": {"int": "{S}"}}})
    LaunchForm(None).check({"args": {"S": {"int": "{S}"}}})


def test_an_error_leads_to_the_part_that_is_wrong() -> None:
    """The error has the path of the wrong part."""
    with pytest.raises(FormError) as caught:
        LaunchForm().check({"args": {"x": TENSOR, "y": {"dtype": "f"}}})
    assert caught.value.path == ("args", "y")


def test_options_that_could_name_a_file_are_none() -> None:
    """An option that could name a file is an error."""
    check_options({"num_warps": 4, "maxnreg": None})
    with pytest.raises(FormError, match="option 'ptx_options' is unknown"):
        check_options({"ptx_options": "-f"})


def test_the_option_that_names_a_gpu_may_only_be_unset() -> None:
    """The option `arch` must be None."""
    check_options({"arch": None})
    with pytest.raises(FormError, match="option 'arch' is unknown"):
        check_options({"arch": "sm_90a"})


@pytest.mark.parametrize("value", ["four", {"unknown": "a.B"}])
def test_a_number_of_warps_is_a_number(value: object) -> None:
    """The number of warps must be an integer."""
    with pytest.raises(FormError, match=r"option num_warps: .*; it is a number"):
        check_options({"num_warps": value})


def test_the_dtype_of_a_launch_is_also_that_of_its_descriptors_and_tuples() -> None:
    """Descriptors and tuples have a dtype too."""
    fields = {"align": 16, "shape": [64], "strides": [1], "block": [64]}
    descriptor = {"descriptor": {"dtype": "bf16", **fields}}
    pair = {"tuple": [{"int": 4}, {"dtype": "fp16", "align": 16}]}
    assert Launch({"x": descriptor}).dtype == "bf16"
    assert Launch({"x": pair}).dtype == "fp16"
    assert Launch({"n": {"int": 4}, "x": {"dtype": "fp32", "align": 16}}).dtype == "fp32"
