"""Launches files: every line is checked, sources are admitted or refused, and a file becomes what a
scan expands."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import flacheck
from flacheck.errors import MatrixError, UsageError
from flacheck.model import Cut
from flacheck.subjects.inputs.expand import Selection, expand
from flacheck.subjects.inputs.launches import Guess, read, sources, stream, without_refused
from flacheck.subjects.inputs.matrix import Block, Matrix
from flacheck.subjects.inputs.subject import Subject
from tests.planned import plan

SCHEMAS = Path(flacheck.__file__).parent / "tables" / "schemas"
HEAD = "import triton\nimport triton.language as tl\n"
KERNEL = (
    HEAD
    + """
SCALE = tl.constexpr(2.5)
LIMIT: tl.constexpr = -float("inf")
EXP = tl.exp


@triton.jit
def helper(x, KIND: tl.constexpr):
    return tl.where(x > LIMIT, EXP(x), 0.0) if KIND == 'exp' else x


@triton.jit(do_not_specialize=['n'])
def scale(x, y, n, BLOCK: tl.constexpr=64, DTYPE: tl.constexpr=tl.float32):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for j in range(0, tl.cdiv(n, BLOCK)):
        v = tl.load(x + i + j * BLOCK, mask=i < n, other=0.0).to(DTYPE)
        tl.store(y + i, (helper(v, 'exp') * SCALE).to(y.dtype.element_ty), mask=i < n)
"""
)
HEADER = {
    "schema": "flacheck.launches/1",
    "package": None,
    "device": "NVIDIA H100",
    "triton": "3.7.1",
    "torch": "2.13",
}
LAUNCH: dict[str, Any] = {
    "id": "a" * 16,
    "kernel": "program:scale",
    "package": None,
    "qualname": "scale",
    "launch": {
        "args": {
            "x": {"dtype": "bf16", "align": 16},
            "y": {"dtype": "fp32", "align": 4},
            "n": {"int": 256},
        },
        "omitted": ["BLOCK", "DTYPE"],
        "configs": [
            {"kwargs": {"BLOCK": 64}, "num_warps": 2},
            {"kwargs": {"BLOCK": 128}, "num_warps": 4},
        ],
        "keys": ["n"],
    },
    "heuristics": {"DTYPE": {"constexpr": {"dtype": "fp32"}}},
    "options": {"num_stages": 1},
    "grid": [4],
}
PLACE = {"storage": 0, "shape": [2, 2], "strides": [2, 1], "offset": 0}


def source_id(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def launch(text: str = KERNEL, **changes: Any) -> dict[str, Any]:
    return {**LAUNCH, "source": source_id(text), "text": text, **changes}


def write(path: Path, *lines: Any) -> Path:
    file = path / "l.jsonl"
    file.write_text(
        "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    )
    return file


def test_identical_launches_are_one_with_a_count(tmp_path: Path) -> None:
    """A count line and a repeated line of another process both add to the first line."""
    again = {name: value for name, value in launch().items() if name != "text"}
    file = write(
        tmp_path, HEADER, launch(), {"of": "a" * 16, "count": 4}, HEADER, again, {"end": True}
    )
    file_read = read(file)
    assert [(one.kernel, one.count) for one in file_read.launches] == [("program:scale", 6)]
    assert file_read.end == {"end": True}


def test_numbers_that_json_does_not_have_are_words(tmp_path: Path) -> None:
    """A strict reader reads the file; files of earlier recorders have Python's own words."""
    args = {
        "eps": {"float": "inf"},
        "fill": {"constexpr": {"float": "-inf"}},
        "mode": {"constexpr": "inf"},
        "both": {"tuple": [{"float": "inf"}, {"int": 1}]},
        "pair": {"constexpr": {"tuple": [{"float": "inf"}, 1]}},
    }
    configs = [{"kwargs": {"LIMIT": {"float": "-inf"}}, "num_warps": 4}]
    line = launch(launch={"args": args, "configs": configs}, heuristics={})
    file = write(tmp_path, HEADER, line)
    (one,) = read(file).launches
    assert one.launch.args == {
        "eps": {"float": math.inf},
        "fill": {"constexpr": -math.inf},
        "mode": {"constexpr": "inf"},
        "both": {"tuple": [{"float": math.inf}, {"int": 1}]},
        "pair": {"constexpr": {"tuple": [math.inf, 1]}},
    }
    assert one.launch.configs[0]["kwargs"] == {"LIMIT": -math.inf}
    older = {"args": {"eps": {"float": math.inf}, "fill": {"constexpr": -math.inf}}}
    (same,) = read(write(tmp_path, HEADER, launch(launch=older, heuristics={}))).launches
    assert same.launch.args == {name: one.launch.args[name] for name in older["args"]}
    schema = json.loads((SCHEMAS / "launches-1.json").read_text())
    jsonschema.validate(json.loads(json.dumps(line, allow_nan=False)), schema)


def test_values_made_up_for_the_program_are_no_launches(tmp_path: Path) -> None:
    """Lines of guesses are read, and a launch that may depend on one keeps the place."""
    guess = {"guessed": "int64", "at": "program:7", "count": 3}
    file = write(tmp_path, HEADER, guess, launch(guessed="program:7"), {**guess, "count": 1})
    (one,) = read(file).launches
    assert one.guessed == "program:7"
    assert [entry.count for entry in stream(file) if isinstance(entry, Guess)] == [3, 1]
    with pytest.raises(MatrixError, match=r"l\.jsonl:2: Object missing required field `at`"):
        read(write(tmp_path, HEADER, {"guessed": "int64", "count": 1}))


def test_a_trusted_file_may_hold_any_source(tmp_path: Path) -> None:
    """The source of an untrusted file is refused, and the message names the option to use."""
    text = KERNEL + "\nimport os\n"
    file = write(tmp_path, HEADER, launch(text))
    with pytest.raises(UsageError, match=r"l\.jsonl:2: .* import of os.*--trust"):
        without_refused(read(file).launches)
    assert [one.text for one in read(file, trust=True).launches] == [text]
    assert [one.text for one in read(file, ours=True).launches] == [None]


def test_one_configuration_of_each_kernel_and_dtype_can_be_asked(tmp_path: Path) -> None:
    """A program launches a kernel with hundreds of shapes; the first of each dtype, usually
    configured, may do."""
    args = {**LAUNCH["launch"]["args"], "x": {"dtype": "fp16", "align": 16}}
    other = {"launch": {**LAUNCH["launch"], "args": args}, "id": "c" * 16}
    file = write(tmp_path, HEADER, launch(), launch(id="b" * 16, grid=[8]), launch(**other))
    selection = Selection(targets=("sm90",), toolchains=("3.7.1",))
    warnings_seen = [
        (cell.dtype, cell.options["num_warps"])
        for cell in plan(Subject(str(file), configs="usual"), selection).cells
    ]
    assert warnings_seen == [("bf16", 4), ("fp16", 4)]
    assert len(plan(Subject(str(file)), selection).cells) == 4


def test_a_killed_program_leaves_what_it_had(tmp_path: Path) -> None:
    """A file without an end line and with half a last line is read up to that line."""
    file_read = read(write(tmp_path, HEADER, launch(), '{"id": "bb'))
    assert len(file_read.launches) == 1
    assert file_read.end is None


def test_a_file_is_read_as_a_stream(tmp_path: Path) -> None:
    """An entry comes out before a later line is looked at."""
    entries = stream(write(tmp_path, HEADER, launch(), "broken\n"))
    next(entries)
    assert next(entries).kernel == "program:scale"  # type: ignore[union-attr]
    with pytest.raises(MatrixError, match=r"l\.jsonl:3: not JSON"):
        next(entries)


def test_a_file_becomes_sources_with_their_options_as_configurations(tmp_path: Path) -> None:
    """Heuristics are values of the cut-out kernel, and only tuned constants stay omitted."""
    (source,) = sources(
        read(write(tmp_path, HEADER, launch(), launch(id="b" * 16, grid=[8]))).launches
    )
    assert source.kernel.origin == Cut(KERNEL, "scale")
    (entry,) = source.launches
    assert entry.args["DTYPE"] == {"constexpr": {"dtype": "fp32"}}
    assert entry.omitted == ("BLOCK",)
    assert entry.configs[0] == {"num_stages": 1, "kwargs": {"BLOCK": 64}, "num_warps": 2}


def test_a_scan_expands_a_file_without_what_it_recorded(tmp_path: Path) -> None:
    """Each configuration is a cell; the key needs neither the package nor torch."""
    texts = sources(read(write(tmp_path, HEADER, launch())).launches)
    matrix = Matrix("l", "l.jsonl", (Block({"target": ("sm90",)}),))
    cells = list(expand(matrix, texts, Selection(), lambda spec: ["triton==3.7.1"]))
    assert [
        (cell.options["num_warps"], cell.launch.args["BLOCK"]) for cell in cells if cell.launch
    ] == [
        (2, {"constexpr": 64}),
        (4, {"constexpr": 128}),
    ]


def test_a_launch_without_source_has_its_reason(tmp_path: Path) -> None:
    """It is read, and left out of what can be compiled."""
    bare = {**LAUNCH, "source": None, "uncut": "a value of some.Type cannot be written down"}
    file_read = read(write(tmp_path, HEADER, bare))
    assert file_read.launches[0].uncut
    assert sources(file_read.launches) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"launch": {"args": {"x": {"dtype": "fp99"}}}}, "unknown dtype 'fp99'"),
        ({"launch": {"args": {"x": 5}}}, "argument x: 5"),
        ({"launch": {"args": {"x": {"path": "/etc/passwd"}}}}, "one of"),
        ({"launch": {"args": {}, "configs": [{"kwargs": {"B": [1]}}]}}, "constant B"),
        ({"options": {"ir_override": "/tmp/evil.ttgir"}}, "unknown"),
        ({"options": {"extern_libs": {"a": "/tmp/a.bc"}}}, "unknown"),
        ({"grid": [1, 2, 3, 4]}, "grid"),
        ({"grids": [[1]]}, "a grid for each configuration"),
        ({"grids": [[1], [1, 2, 3, 4]]}, "length <= 3 - at `$.grids[1]`"),
        ({"grids": [[1], ["x"]]}, "at `$.grids[1][0]`"),
        ({"tensors": {}}, "at `$.memory.storages`"),
        ({"tensors": [], "storages": []}, "at `$.memory.tensors`"),
        ({"tensors": {"x": PLACE}, "storages": []}, "no storage 0"),
        (
            {"tensors": {"x": {**PLACE, "shape": [2, -1]}}, "storages": [8]},
            "Expected `int` >= 0 - at `$.memory.tensors[...].shape[1]`",
        ),
        ({"tensors": {"x": {**PLACE, "strides": [1, 1, 1]}}, "storages": [8]}, "differ in length"),
        (
            {"tensors": {"x": {**PLACE, "values": [0.5]}}, "storages": [8]},
            "at `$.memory.tensors[...].values[0]`",
        ),
        (
            {"tensors": {"x": {**PLACE, "file": "/etc/passwd"}}, "storages": [8]},
            "unknown field `file`",
        ),
        ({"qualname": "a.b"}, "is not a name"),
        ({"count": 0}, "count"),
        ({"kernel": None}, "at `$.kernel`"),
        ({"source": "0" * 16}, "not the digest"),
        ({"text": None}, "in no line before"),
    ],
)
def test_a_malformed_launch_is_named_with_its_line(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    """Every part of a file is checked."""
    with pytest.raises(MatrixError, match=r"l\.jsonl:2: ") as error:
        read(write(tmp_path, HEADER, {**launch(), **change}))
    assert message in str(error.value)


@pytest.mark.parametrize("first", ["{}\n", '{"schema": "flacheck.launches/2"}\n', "[]\n", ""])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, first: str) -> None:
    """The first line of a launches file names its kind."""
    with pytest.raises(MatrixError):
        read(write(tmp_path, first))


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    """No traceback for a mistyped name."""
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "none.jsonl")


def test_a_refused_source_names_its_file_and_line(tmp_path: Path) -> None:
    """A file of nothing but hostile source is an error, before anything of it runs."""
    hostile = HEAD + "import os\n"
    file = write(tmp_path, HEADER, launch(hostile))
    with pytest.raises(UsageError, match=r"l\.jsonl:2: source line 3: import of os.* is refused"):
        plan(Subject(str(file)), Selection(targets=("sm90",), toolchains=("3.7.1",)))


def test_a_refused_source_leaves_the_others_of_its_file(tmp_path: Path) -> None:
    """The kernel is left out and named, and no line of a file can mark a source as refused."""
    hostile = launch(HEAD + "import os\n", kernel="program:evil", id="b" * 16)
    file = write(tmp_path, HEADER, hostile, launch(refused="so it says"))
    whole = plan(Subject(str(file)), Selection(targets=("sm90",), toolchains=("3.7.1",)))
    assert {cell.kernel.name for cell in whole.cells} == {"program:scale"}
    (warning,) = (text for text in whole.warnings if "refused" in text)
    assert warning.startswith(f"{file}:2: source line 3: import of os")
    assert "program:evil" in warning


DEEP: Any = {"tuple": []}
for _ in range(200):
    DEEP = {"tuple": [DEEP]}


@pytest.mark.parametrize(
    "change",
    [
        {"launch": {"args": {"x": {"dtype": ["bf16"]}}}},
        {"launch": {"args": {"x": {"dtype": {"a": 1}}}}},
        {"launch": {"args": {"x": {"dtype": "bf16", "align": [16]}}}},
        {"launch": {"args": {"x": {"constexpr": {"dtype": ["fp32"]}}}}},
        {"launch": {"args": {"x": {"constexpr": "\ud800"}}}},
        {"launch": {"args": {"x": DEEP}}},
        {"launch": {"args": {"x": {"int": 1 << 4000}}}},
        {"kernel": "a:\udfff"},
        {"text": "# \ud800\n"},
        {"options": {"num_warps": 1 << 4000}},
    ],
)
def test_values_that_nothing_can_be_done_with_are_named(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    """A value that cannot be hashed, written or sent is refused with its line."""
    with pytest.raises(MatrixError, match=r"l\.jsonl:2: "):
        read(write(tmp_path, HEADER, {**launch(), **change}))


def test_a_line_without_end_of_nesting_is_named(tmp_path: Path) -> None:
    """Nesting beyond the parser's limit is refused with its line."""
    with pytest.raises(MatrixError, match=r"l\.jsonl:2: not JSON: it is nested too deeply"):
        read(write(tmp_path, HEADER, "[" * 200_000 + "\n"))
