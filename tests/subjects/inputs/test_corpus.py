"""The corpus is read without an import, hashed by what a kernel uses, and refused with the line if
malformed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flacheck.errors import Exit, MatrixError
from flacheck.subjects.inputs import corpus
from flacheck.subjects.inputs.expand import Source

FAMILY = """
import triton
import triton.language as tl

SCALE: tl.constexpr = 2
UNUSED = 3
OPERATOR = "addition"
SHAPES = [{"B": 1, "T": 64}, {"B": 2, "T": 128}]
KERNELS = {
    "add": {
        "form": "chunk",
        "launch": {
            "args": {"x": {"dtype": "{dtype}", "align": 16}, "g": None, "T": {"int": "{T}"}, "B": {"constexpr": "{B}"}},
            "omitted": ["BT"],
        },
        "configs": [
            {"kwargs": {"BT": 32}, "num_warps": 4, "num_stages": 2},
            {"kwargs": {"BT": 64}, "num_warps": 8},
        ],
        "keys": ["B"],
    },
    "zero": {
        "form": "fused_recurrent",
        "launch": {"args": {"x": {"dtype": "fp32", "align": 8}, "scale": {"float": 0.5}}, "omitted": []},
        "configs": [{"kwargs": {}, "num_warps": 4}],
        "keys": [],
    },
}


@triton.jit
def doubled(x):
    return x * SCALE


@triton.autotune([triton.Config(**c) for c in KERNELS["add"]["configs"]], KERNELS["add"]["keys"])
@triton.jit
def add(x, g, T, B: tl.constexpr, BT: tl.constexpr):
    o = tl.arange(0, BT)
    tl.store(x + o, doubled(tl.load(x + o, mask=o < T)), mask=o < T)


@triton.jit
def zero(x, scale):
    UNUSED = 0.0
    tl.store(x, UNUSED * scale)
"""


def _load(folder: Path, text: str = FAMILY) -> dict[str, Source]:
    (folder / "sums.py").write_text(text, encoding="utf-8")
    return corpus.load(folder)


def _digests(folder: Path, text: str = FAMILY) -> dict[str, str]:
    return {name: source.kernel.digest for name, source in _load(folder, text).items()}


def _names_changed(before: str, after: str, folder: Path) -> set[str]:
    assert before in FAMILY
    old, new = _digests(folder), _digests(folder, FAMILY.replace(before, after))
    return {name for name in old if old[name] != new[name]}


def test_our_families_are_read_without_importing_a_compiler() -> None:
    """Both families are read without an import of triton or torch."""
    program = (
        "import json, sys; from flacheck.subjects.inputs import corpus; found = corpus.load(); "
        "print(json.dumps([sorted(found), [m for m in ('triton', 'torch') if m in sys.modules]]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    names, modules = json.loads(run.stdout)
    assert modules == []
    for name in (
        "retention.chunk_fwd_o",
        "gated_delta_rule.solve_tril",
        "gated_delta_rule.fused_recurrent_fwd",
    ):
        assert name in names


def of_triton() -> list[Source]:
    """Our kernels that are Triton functions."""
    triton = [source for source in corpus.load().values() if source.kernel.language == "triton"]
    # A property over an empty set of kernels would hold.
    assert {source.kernel.name.partition(".")[0] for source in triton} == {
        "delta_rule",
        "gated_delta_rule",
        "gated_rms_norm",
        "gla",
        "hgrn",
        "lightning_attention",
        "linear_attention",
        "mamba2",
        "retention",
        "rwkv6",
        "rwkv7",
        "simple_gla",
    }
    return triton


def test_our_shapes_hold_the_head_sizes_and_long_sequences_that_break_compilers() -> None:
    """Head sizes 64, 128 and 256, and a sequence of more than 32,768 tokens, for every kernel."""
    for source in of_triton():
        # Norms need no keys: their heads have the values' size.
        assert {64, 128, 256} <= {shape.get("K", shape["V"]) for shape in source.shapes}
        assert max(shape["T"] for shape in source.shapes) > 32_768


def test_our_autotuners_choose_and_their_keys_are_arguments_before_any_omitted_one() -> None:
    """Each has 4 to 8 configurations, and keys that Triton 3.1.0 looks up correctly."""
    for source in of_triton():
        (launch,) = source.launches
        assert 4 <= len(launch.configs) <= 8
        assert set(launch.keys) <= set(launch.args)


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ("o = tl.arange(0, BT)", "o = tl.arange(0, BT) + 0", {"sums.add"}),
        ("return x * SCALE", "return SCALE * x", {"sums.add"}),
        ("constexpr = 2", "constexpr = 4", {"sums.add"}),
        ("tl.store(x, UNUSED * scale)", "tl.store(x, scale)", {"sums.zero"}),
        (
            "import triton.language as tl",
            "from triton import language as tl",
            {"sums.add", "sums.zero"},
        ),
        ("UNUSED = 3", "UNUSED = 4", set()),
        ('"num_warps": 8', '"num_warps": 16', set()),
        ("\n\n\n@triton.jit\ndef zero", "\n\n\nelsewhere = 1\n\n\n@triton.jit\ndef zero", set()),
    ],
    ids=[
        "body",
        "callee",
        "constant",
        "other kernel",
        "import",
        "shadowed name",
        "configuration",
        "moved",
    ],
)
def test_a_digest_changes_exactly_with_the_source_that_the_kernel_uses(
    before: str, after: str, names: set[str], tmp_path: Path
) -> None:
    """The digest covers the kernel, its callees and what these read, but not declarations."""
    assert _names_changed(before, after, tmp_path) == names


def test_a_name_changed_in_place_belongs_to_every_kernel_that_reads_it(tmp_path: Path) -> None:
    """A module-level statement that alters a constant's value counts as its source."""
    assert _names_changed(
        "\n\n\n@triton.jit\ndef doubled", "\nSCALE += 1\n\n\n@triton.jit\ndef doubled", tmp_path
    ) == {"sums.add"}


@pytest.mark.parametrize(
    ("before", "after", "line", "words"),
    [
        (
            '"form": "chunk",',
            '"shape": "chunk",',
            10,
            ["other fields", "form (str)", "keys (list)"],
        ),
        ('"form": "chunk",', '"form": 3,', 11, ["form is not a str"]),
        ('    "zero": {', '    "nought": {', 22, ["no function 'nought'"]),
        ('{"int": "{T}"}', '{"int": "{S}"}', 13, ["argument T: {'int': '{S}'}", '"{T}"']),
        ('"dtype": "fp32"', '"dtype": "float"', 24, ["unknown dtype 'float'", "bf16"]),
        ('"align": 8', '"align": "8"', 24, ["align is 1, 2, 4, 8 or 16"]),
        ('{"float": 0.5}', '{"real": 0.5}', 24, ["argument scale: {'real': 0.5}", "constexpr"]),
        ('"g": None, ', "", 13, ["no value for g"]),
        ('"g": None', '"h": None', 13, ["'h' is not an open parameter", "x, g, T, B, BT"]),
        ('{"constexpr": "{B}"}', '{"int": "{B}"}', 13, ["disagrees with its annotation"]),
        ('"omitted": ["BT"]', '"omitted": ["T"]', 14, ["not the last parameters", "3.1.0"]),
        (
            '{"kwargs": {"BT": 64}, "num_warps": 8}',
            '{"kwargs": {"BK": 64}}',
            18,
            ["does not fit", "BT"],
        ),
        ('"num_warps": 8', '"num_warps": "8"', 18, ["does not fit", "num_stages"]),
        ('"num_warps": 8', '"num_warps": 0', 18, ["does not fit"]),
        ('[{"kwargs": {}, "num_warps": 4}]', "[]", 25, ["no configuration"]),
        ('"keys": ["B"]', '"keys": ["BT"]', 20, ["key 'BT'", "x, g, T, B"]),
        ('{"B": 2, "T": 128}', '{"T": 128}', 8, ["does not fit", "same names"]),
        ('{"B": 2, "T": 128}', '{"B": True, "T": 128}', 8, ["does not fit"]),
        ('OPERATOR = "addition"', "OPERATOR = 1", 7, ["OPERATOR is not a string"]),
        (
            'OPERATOR = "addition"',
            'OPERATOR = str("addition")',
            7,
            ["not a literal", "calls are not allowed"],
        ),
        ('OPERATOR = "addition"', "", None, ["OPERATOR is not set exactly once"]),
        ("UNUSED = 3", "SHAPES = []", 8, ["SHAPES is not set exactly once"]),
        ("UNUSED = 3", "UNUSED = = 3", 6, ["not Python"]),
    ],
)
def test_a_malformed_file_is_refused_with_its_line_and_what_is_allowed(
    before: str, after: str, line: int | None, words: list[str], tmp_path: Path
) -> None:
    """The message has the file, the line, the mistake and the allowed values."""
    assert before in FAMILY
    with pytest.raises(MatrixError) as caught:
        _load(tmp_path, FAMILY.replace(before, after))
    where = f"{tmp_path / 'sums.py'}:{line}: " if line else f"{tmp_path / 'sums.py'}: "
    assert str(caught.value).startswith(where)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert caught.value.exit_code == Exit.USAGE
