"""Which layers reach a kernel, and from which length on, over small packages made up here."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from pathlib import Path

import pytest

from flacheck.source.reach import Reach, find_reaches, first_length

KERNEL = "tiny.ops.chunk:chunk_kernel"
OPS = {
    "tiny/__init__.py": "",
    "tiny/ops/__init__.py": """
        from .chunk import chunk_op
        from .step import step_op
        """,
    "tiny/ops/chunk.py": """
        import torch
        import triton

        @triton.autotune(configs=[], key=["T"])
        @triton.jit(do_not_specialize=["T"])
        def chunk_kernel(x, T):
            inner(x)

        @triton.jit
        def inner(x):
            pass

        def launch(x):
            chunk_kernel[(1,)](x, x.shape[1])

        class Chunk(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                launch(x)

            @staticmethod
            def backward(ctx, dx):
                launch(dx)

        @torch.compiler.disable
        def chunk_op(x):
            return Chunk.apply(x)
        """,
    "tiny/ops/step.py": """
        import triton

        @triton.jit
        def step_kernel(x):
            pass

        @triton.jit
        def unused_kernel(x):
            pass

        def step_op(x):
            step_kernel[(1,)](x)
        """,
}
HEAD = """
import torch.nn as nn
from tiny.ops import chunk_op, step_op

class Layer(nn.Module):
    def __init__(self, mode="chunk", gated=False):
        self.mode = mode
        self.gated = gated

    def forward(self, x):
        batch, q_len, _ = x.shape
"""
BRANCHES = """
if mode == 'step':
    return step_op(x)
elif mode == 'chunk':
    return chunk_op(x)
else:
    raise NotImplementedError(mode)
"""


def package(folder: Path, files: dict[str, str]) -> Path:
    """Write the tiny package with these files besides its operators."""
    for name, text in {**OPS, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def layer(folder: Path, body: str) -> Path:
    """Write the tiny package with one layer whose `forward` has this body."""
    return package(
        folder, {"tiny/layer.py": HEAD + textwrap.indent(textwrap.dedent(body), " " * 8)}
    )


def lengths(folder: Path, kernel: str = KERNEL) -> tuple[int | None, int | None]:
    """The first lengths of the one layer that reaches a kernel."""
    (reach,) = find_reaches(folder, kernel)
    return reach.training, reach.inference


def switched(test: str) -> str:
    """A body that takes `step` while a test holds."""
    return f"mode = 'step' if {test} else self.mode\n{BRANCHES}"


def test_a_switch_on_the_length_is_named_with_its_place(tmp_path: Path) -> None:
    """A layer that takes another kernel up to 64 steps reaches this one from 65, through imports
    and autograd.
    """
    assert find_reaches(layer(tmp_path, switched("q_len <= 64")), KERNEL) == (
        Reach(
            layer="tiny.layer:Layer",
            file="tiny/layer.py",
            line=12,
            condition="mode = 'step' if q_len <= 64 else self.mode",
            training=65,
            inference=65,
            plain=True,
        ),
    )


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("q_len <= 64", (65, 65)),
        ("q_len < 64", (64, 64)),
        ("64 >= x.shape[1]", (65, 65)),
        ("not x.size(1) > 32", (33, 33)),
        ("x.shape[-2] == 1", (2, 2)),
        ("q_len in (1, 2)", (1, 1)),
        ("x.shape[0] <= 64", (1, 1)),
        ("self.heads <= 64", (1, 1)),
        ("not self.training and q_len <= 64", (1, 65)),
        ("(q_len <= 64 and not self.training)", (1, 65)),
        ("self.training or q_len <= 64", (None, 65)),
        ("q_len <= 64 and self.fast", (1, 1)),
        ("q_len <= 64 or self.fast", (65, 65)),
    ],
)
def test_every_form_of_the_comparison_is_understood(
    tmp_path: Path, test: str, expected: tuple[int | None, int | None]
) -> None:
    """Bounds, sides, negations and `self.training` count; what is no length or not known leaves
    both ways open.
    """
    assert lengths(layer(tmp_path, switched(test))) == expected


def test_a_switch_that_is_only_in_inference_may_stand_in_a_branch(tmp_path: Path) -> None:
    """`if self.training` around the switch leaves training on one kernel at every length and never
    on the other.
    """
    body = f"""
        if self.training:
            mode = 'chunk'
        else:
            mode = 'step' if q_len <= 64 else self.mode
        {textwrap.indent(BRANCHES, " " * 8).lstrip()}"""
    layer(tmp_path, body)
    assert lengths(tmp_path) == (1, 65)
    assert lengths(tmp_path, "tiny.ops.step:step_kernel") == (None, 1)


def test_a_switch_may_be_a_statement(tmp_path: Path) -> None:
    """`if q_len <= 64: mode = …` is a switch like a conditional expression."""
    body = f"mode = self.mode\nif q_len <= 64:\n    mode = 'step'\n{BRANCHES}"
    (reach,) = find_reaches(layer(tmp_path, body), KERNEL)
    assert (reach.training, reach.line, reach.condition) == (65, 13, "if q_len <= 64")


def test_a_mode_may_choose_within_an_expression(tmp_path: Path) -> None:
    """`op = a if mode == … else b` uses one of the two once the mode is known."""
    body = """
        mode = 'step' if q_len <= 64 else 'chunk'
        op = chunk_op if mode == 'chunk' else step_op
        return op(x)
        """
    assert lengths(layer(tmp_path, body)) == (65, 65)


def test_a_failing_assertion_keeps_a_layer_from_every_kernel(tmp_path: Path) -> None:
    """A layer that refuses short inputs in training reaches nothing there, not even what its other
    branch names.
    """
    refuse = "if self.training:\n    assert mode == 'chunk', 'only chunk in training'\n"
    body = f"mode = 'step' if q_len <= 64 else self.mode\n{refuse}{BRANCHES}"
    layer(tmp_path, body)
    assert lengths(tmp_path, "tiny.ops.step:step_kernel") == (None, 1)
    assert lengths(tmp_path) == (65, 65)


def test_a_kernel_on_the_short_branch_is_reached_at_once(tmp_path: Path) -> None:
    """The switch is still named: it decides up to where the kernel is reached."""
    layer(tmp_path, switched("q_len <= 64"))
    (reach,) = find_reaches(tmp_path, "tiny.ops.step:step_kernel")
    assert (reach.training, reach.inference, reach.line) == (1, 1, 12)


def test_a_kernel_without_a_switch_before_it_is_always_reached(tmp_path: Path) -> None:
    """No line and no condition are given where nothing decides."""
    (reach,) = find_reaches(layer(tmp_path, "return chunk_op(x)\n"), KERNEL)
    assert (reach.training, reach.inference, reach.line, reach.condition) == (1, 1, None, None)


@pytest.mark.parametrize(
    "kernel",
    [
        "tiny.ops.step:unused_kernel",
        "tiny.ops.chunk:inner",
        "tiny.ops.chunk:missing",
        "other.ops:kernel",
        "tiny",
        "",
    ],
)
def test_what_no_layer_launches_is_never_reached(tmp_path: Path, kernel: str) -> None:
    """Unused and unknown kernels have no reach, nor has a device function that runs within a
    kernel.
    """
    assert find_reaches(layer(tmp_path, switched("q_len <= 64")), kernel) == ()
    assert first_length(()) is None


def test_a_layer_that_holds_another_has_its_lengths(tmp_path: Path) -> None:
    """A block reaches what its inner layer reaches, and points to the inner layer's switch."""
    block = "class Block(Module):\n    def __init__(self):\n        self.inner = Layer()\n"
    layer(tmp_path, switched("q_len <= 64"))
    package(
        tmp_path,
        {"tiny/block.py": f"from tiny.layer import Layer\nfrom torch.nn import Module\n\n{block}"},
    )
    outer, inner = find_reaches(tmp_path, KERNEL)
    assert (outer.layer, outer.file, outer.line, outer.training) == (
        "tiny.block:Block",
        "tiny/layer.py",
        12,
        65,
    )
    assert inner.layer == "tiny.layer:Layer"


def test_constructor_defaults_tell_plain_layers_from_configured_ones(tmp_path: Path) -> None:
    """A branch that only another configuration takes is not plain, and does not lower the first
    length.
    """
    layer(tmp_path, switched("q_len <= 64"))
    gated = (HEAD + "        if self.gated:\n            chunk_op(x)\n").replace(
        "class Layer", "class Gated"
    )
    package(tmp_path, {"tiny/gated.py": gated})
    reaches = find_reaches(tmp_path, KERNEL)
    assert [(each.layer, each.training, each.plain) for each in reaches] == [
        ("tiny.gated:Gated", 1, False),
        ("tiny.layer:Layer", 65, True),
    ]
    assert first_length(reaches) == 65
    assert first_length(reaches[:1]) == 1


def test_a_default_that_a_method_changes_is_not_relied_on(tmp_path: Path) -> None:
    """What another method stores in `self` may be anything later on."""
    body = "if self.gated:\n    chunk_op(x)\n\n"
    layer(tmp_path, body)
    path = tmp_path / "tiny/layer.py"
    path.write_text(path.read_text() + "    def open(self):\n        self.gated = True\n")
    (reach,) = find_reaches(tmp_path, KERNEL)
    assert reach.plain


@pytest.mark.parametrize(
    "body",
    [
        "for _ in range(2):\n    if ready:\n        chunk_op(x)\n    ready = True\n",
        "try:\n    ready = probe()\nexcept ImportError:\n    pass\nif ready:\n    chunk_op(x)\n",
        "if x is None:\n    ready = True\nif ready:\n    chunk_op(x)\n",
        "with torch.no_grad() as ready:\n    if ready:\n        chunk_op(x)\n",
        "ready += 1\nif ready:\n    chunk_op(x)\n",
        "def later():\n    return chunk_op(x)\nreturn later\n",
        "match x:\n    case None:\n        chunk_op(x)\n",
    ],
)
def test_a_value_that_may_have_changed_is_not_known(tmp_path: Path, body: str) -> None:
    """Loops, handlers, branches and `with` leave a variable open, so the kernel behind it stays in
    reach.
    """
    assert lengths(layer(tmp_path, f"mode = self.mode\nready = False\n{body}")) == (1, 1)


def test_a_test_of_a_known_value_closes_a_branch(tmp_path: Path) -> None:
    """A variable that the source sets decides: nothing behind the untaken branch is reached."""
    assert (
        find_reaches(
            layer(tmp_path, "mode = 'step'\nready = False\nif ready:\n    chunk_op(x)\n"), KERNEL
        )
        == ()
    )


@pytest.mark.parametrize(
    "imports",
    [
        "import tiny.ops.chunk\nrun = tiny.ops.chunk.chunk_op\n",
        "import tiny.ops as ops\nrun = ops.chunk_op\n",
        "from tiny.ops import chunk as module\nrun = module.chunk_op\n",
        "from tiny.ops import *\nrun = chunk_op\n",
        "from .ops.chunk import chunk_op as run\n",
        "try:\n    from missing import run\n"
        "except ImportError:\n    from tiny.ops import chunk_op as run\n",
        "if True:\n    def run(x):\n        from tiny.ops import chunk_op\n        chunk_op(x)\n",
        "import functools\nfrom tiny.ops import chunk_op\n"
        "run: object = functools.partial(chunk_op)\n",
    ],
)
def test_names_are_followed_through_every_kind_of_import(tmp_path: Path, imports: str) -> None:
    """Modules, aliases, stars, relative and conditional imports and assigned names all lead to the
    kernel.
    """
    body = "class Layer(nn.Module):\n    def forward(self, x):\n        run(x)\n"
    package(tmp_path, {"tiny/layer.py": f"{imports}import torch.nn as nn\n\n{body}"})
    assert lengths(tmp_path) == (1, 1)


def test_naming_a_layer_as_a_type_does_not_reach_its_kernels(tmp_path: Path) -> None:
    """Annotations are not run."""
    layer(tmp_path, "return chunk_op(x)\n")
    holder = """
        from tiny.layer import Layer

        class Holder(Module):
            def __init__(self, inner: Layer) -> Layer:
                self.inner: Layer = inner
        """
    package(tmp_path, {"tiny/holder.py": holder})
    assert [each.layer for each in find_reaches(tmp_path, KERNEL)] == ["tiny.layer:Layer"]


def test_only_modules_are_layers(tmp_path: Path) -> None:
    """A class with another base is none, though what it uses counts for the layers that use it."""
    plain = """
        from tiny.ops import chunk_op

        class Module(Base):
            run = chunk_op
        """
    package(tmp_path, {"tiny/plain.py": plain})
    assert find_reaches(tmp_path, KERNEL) == ()


@pytest.mark.parametrize(
    "text",
    [
        "class Module(:\n",
        "Module\0",
        "# coding: nonsense\nModule = 1\n",
        "from tiny.broken import Module\nfrom tiny.layer import *\n",
        f"class Broken(Module):\n    x = {'-' * 5000}1\n",
    ],
)
def test_a_malformed_module_is_passed_over(tmp_path: Path, text: str) -> None:
    """What cannot be parsed, or imports itself, reaches nothing and hides nothing."""
    layer(tmp_path, switched("q_len <= 64"))
    package(tmp_path, {"tiny/broken.py": text})
    (tmp_path / "tiny/binary.py").write_bytes(b"\xff\xfeModule")
    assert [each.layer for each in find_reaches(tmp_path, KERNEL)] == ["tiny.layer:Layer"]


def test_a_missing_folder_reaches_nothing(tmp_path: Path) -> None:
    """A folder that is not there is like one without the package."""
    assert find_reaches(tmp_path / "nowhere", KERNEL) == ()


def test_the_modules_of_a_package_are_read_once(tmp_path: Path) -> None:
    """A second kernel of the same package is answered without its files."""
    layer(tmp_path, switched("q_len <= 64"))
    assert first_length(find_reaches(tmp_path, KERNEL)) == 65
    (tmp_path / "tiny/layer.py").unlink()
    assert first_length(find_reaches(str(tmp_path), "tiny.ops.step:step_kernel")) == 1


def test_json_has_every_field(tmp_path: Path) -> None:
    """A reach is a flat JSON object."""
    (reach,) = find_reaches(layer(tmp_path, "return chunk_op(x)\n"), KERNEL)
    assert asdict(reach) == {
        "layer": "tiny.layer:Layer",
        "file": "tiny/layer.py",
        "line": None,
        "condition": None,
        "training": 1,
        "inference": 1,
        "plain": True,
    }
