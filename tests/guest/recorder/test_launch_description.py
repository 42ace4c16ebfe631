"""Arguments of a launch as JSON, and whose kernel it is."""

from __future__ import annotations

import enum
import math
import types
from pathlib import Path
from typing import Any, ClassVar

import pytest

from flacheck.guest.recorder.launch_description import Identities, argument, configuration, constant


class Kind(enum.IntEnum):
    RELU = 3


class Word(str, enum.Enum):
    FAST = "fast"


class constexpr:
    def __init__(self, value: Any) -> None:
        self.value = value


class Symbolic:
    def __index__(self) -> int:
        return 7


class Tensor:
    dtype = "torch.bfloat16"

    def __init__(self, address: int) -> None:
        self._address = address

    def data_ptr(self) -> int:
        return self._address


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (None, None),
        (True, {"bool": True}),
        (5, {"int": 5}),
        (Kind.RELU, {"int": 3}),
        (Symbolic(), {"int": 7}),
        (0.5, {"float": 0.5}),
        (-math.inf, {"float": "-inf"}),
        (constexpr((1.5, math.nan)), {"constexpr": {"tuple": [1.5, {"float": "nan"}]}}),
        ("word", {"constexpr": "word"}),
        (constexpr(Word.FAST), {"constexpr": "fast"}),
        (constexpr(constexpr((1, None))), {"constexpr": {"tuple": [1, None]}}),
        (Tensor(1 << 20), {"dtype": "bf16", "align": 16}),
        (Tensor((1 << 20) + 4), {"dtype": "bf16", "align": 4}),
        ((Tensor(8), 2), {"tuple": [{"dtype": "bf16", "align": 8}, {"int": 2}]}),
        (object(), {"unknown": "builtins.object"}),
    ],
)
def test_an_argument_has_one_form(value: object, form: object) -> None:
    """The description holds the kind of a value, never its content."""
    assert argument(value, {}) == form


def test_a_constant_that_is_a_function_has_its_name_in_the_module() -> None:
    """Two functions of one name get different names in the module."""

    class JITFunction:
        fn = types.SimpleNamespace(__name__="act")

    one, other = JITFunction(), JITFunction()
    assert constant((one, other), {other: "act_2"}) == {
        "tuple": [{"function": "act"}, {"function": "act_2"}]
    }


def test_a_configuration_says_what_is_not_as_triton_would_have_it() -> None:
    """Warps and stages always, other options where they differ from their defaults."""

    class Config:
        def __init__(self, kwargs: dict[str, Any], num_warps: int = 4, **others: Any) -> None:
            self.kwargs, self._options = kwargs, {"num_warps": num_warps, **others}

        def all_kwargs(self) -> dict[str, Any]:
            return {**self.kwargs, **self._options}

    config = Config({"BLOCK": 32}, num_stages=3, maxnreg=None, num_ctas=2)
    assert configuration(config, {}) == {
        "kwargs": {"BLOCK": 32},
        "num_warps": 4,
        "num_stages": 3,
        "num_ctas": 2,
    }


def test_an_option_that_is_unknown_is_left_out() -> None:
    """An absent package would compute it."""

    class Config:
        kwargs: ClassVar[dict[str, Any]] = {}

        def all_kwargs(self) -> dict[str, Any]:
            return {"num_warps": object(), "num_stages": 3}

    assert configuration(Config(), {}) == {"kwargs": {}, "num_stages": 3}


def function_of(file: Path, module: str) -> Any:
    scope: dict[str, Any] = {"__name__": module}
    exec(
        compile("def outer():\n    def kernel(): ...\n    return kernel", str(file), "exec"), scope
    )
    return scope["outer"]()


def test_a_kernel_belongs_to_the_package_that_installed_its_file(tmp_path: Path) -> None:
    """A distribution in a folder around the file lists the file."""
    metadata = tmp_path / "tiny-1.2.dist-info"
    metadata.mkdir()
    (tmp_path / "tiny").mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.2\n")
    (metadata / "RECORD").write_text("tiny/ops.py,,\n")
    identities = Identities({})
    function = function_of(tmp_path / "tiny" / "ops.py", "tiny.ops")
    other = function_of(tmp_path / "mine.py", "mine")
    assert identities.of(function) == ("tiny.ops:outer.kernel", "tiny==1.2")
    assert identities.of(other) == ("mine:outer.kernel", None)


def test_a_folder_may_be_said_to_be_a_package(tmp_path: Path) -> None:
    """A folder in flacheck's cache is described as a package."""
    (tmp_path / "tiny").mkdir()
    kernel = function_of(tmp_path / "tiny" / "ops.py", "tiny.ops")
    assert Identities({str(tmp_path): "tiny==3"}).of(kernel)[1] == "tiny==3"


def test_text_that_a_module_executes_belongs_to_its_package(tmp_path: Path) -> None:
    """Executed text has no file name, so the module names its package."""
    home = tmp_path / "ops.py"
    scope: dict[str, Any] = {"__name__": "tiny.ops", "__file__": str(home)}
    exec(compile("def kernel(): ...", "kernel_dispatcher.py", "exec"), scope)
    identities = Identities({str(tmp_path): "tiny==3"})
    assert identities.of(scope["kernel"]) == ("tiny.ops:kernel", "tiny==3")
