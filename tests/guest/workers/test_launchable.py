"""The binary of a compile and its launch, from the installed release and from every older form."""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flacheck.guest.workers.launchable import describe_binary, without_debug
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job, RunOptions
from flacheck.pipeline.run import records_of
from flacheck.store import Store
from flacheck.store.binaries import Binaries
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject


def _elf(kind: int = 1, **sections: bytes) -> bytes:
    """Return an ELF binary of sections, whose names stand in its last one."""
    names = b"\0" + b"".join(f".{name}\0".encode() for name in (*sections, "shstrtab"))
    contents = [*sections.values(), names]
    header = struct.pack(
        "<5s35xQ10x3H",
        b"\x7fELF\x02",
        64 + len(b"".join(contents)),
        64,
        len(contents),
        len(sections),
    )
    body, table = b"", b""
    for name, content in zip((*sections, "shstrtab"), contents):
        place = names.index(f".{name}\0".encode())
        table += struct.pack("<IIQQQQ24x", place, kind, 0, 0, 64 + len(body), len(content))
        body += content
    return header + body + table


ELF = _elf(text=b"code", nv_debug_ptx_txt=b"ptx", debug_line=b"lines")
LINES = _elf(debug_line=b"lines")


def _binary(parameters: int, signature: Any, constants: Any, **metadata: Any) -> Any:
    fields = {"name": "kernel", "num_warps": 4, "shared": 0, **metadata}
    declarations = ",".join(f".param .u64 kernel_param_{n}" for n in range(parameters))
    asm = {"cubin": ELF, "ptx": f".visible .entry kernel(\n{declarations}\n)\n"}
    function = SimpleNamespace(arg_names=["x", "n", "scale", "BLOCK"])
    source = SimpleNamespace(fn=function, signature=signature, constants=constants)
    return SimpleNamespace(metadata=SimpleNamespace(**fields), asm=asm, src=source)


ARGUMENTS = {"x": None, "n": -5, "scale": float("inf"), "BLOCK": 64}


@pytest.mark.parametrize(
    ("signature", "constants"),
    [
        ({0: "*bf16", 1: "i32", 2: "fp32", 3: "i32"}, {3: 64}),
        ({"x": "*bf16", "n": "i32", "scale": "fp32", "BLOCK": "i32"}, {"BLOCK": 64}),
        ({"x": "*bf16", "n": "i32", "scale": "fp32", "BLOCK": "constexpr"}, {(3,): 64}),
    ],
)
def test_every_form_of_a_signature_gives_the_parameters(signature: Any, constants: Any) -> None:
    """Up to 3.1 a signature has indices, up to 3.2 its constants are apart, later they are marked."""
    description = describe_binary(_binary(3, signature, constants), ARGUMENTS, 32)
    assert description["parameters"] == [
        {"type": "pointer", "tensor": "x"},
        {"type": "i32", "value": "-5"},
        {"type": "fp32", "value": "inf"},
    ]
    assert description["scratch"] == []
    assert description["threads"] == 128
    assert description["unlaunchable"] is None


def test_a_binary_is_kept_without_what_only_debuggers_read() -> None:
    """Zeros stand for the text of the PTX and the lines, so that no place in the binary changes."""
    description = describe_binary(_binary(0, {}, {}), {}, 32)
    code = zlib.decompress(base64.b64decode(description["code"]))
    assert code == _elf(text=b"code", nv_debug_ptx_txt=bytes(3), debug_line=bytes(5))
    assert description["digest"] == hashlib.sha256(code).hexdigest()


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(b"binary" * 20, id="no ELF"),
        pytest.param(LINES[:50], id="cut in its header"),
        pytest.param(LINES[:-1], id="cut in its table"),
        pytest.param(LINES[:60] + bytes(4) + LINES[64:], id="without a number of sections"),
        pytest.param(LINES.replace(struct.pack("<Q", 5), struct.pack("<Q", 999)), id="too long"),
        pytest.param(_elf(8, debug_line=b"lines"), id="a section without bytes"),
    ],
)
def test_an_odd_binary_stays_as_it_is(code: bytes) -> None:
    """Nothing is cut, appended or refused."""
    assert without_debug(code) == code


def test_the_assembly_shows_how_many_scratch_pointers_follow() -> None:
    """There is none before 3.3, one up to 3.4, two later; other numbers are not launched."""
    signature = {"x": "*bf16", "BLOCK": "constexpr"}
    sizes = {"global_scratch_size": 256, "global_scratch_align": 128}
    scratch = []
    for count in (1, 2, 3, 4):
        description = describe_binary(_binary(count, signature, {}, **sizes), ARGUMENTS, 32)
        scratch.append((description["scratch"], description["unlaunchable"] is None))
    assert scratch == [
        ([], True),
        ([[256, 128]], True),
        ([[256, 128], [0, 1]], True),
        ([], False),
    ]


def test_clusters_and_tuples_are_described() -> None:
    """From 3.6.0 on a cluster is a number of blocks; a tuple's tensors have their index."""
    signature = {"x": ("*bf16", "i64"), "BLOCK": "constexpr"}
    arguments = {**ARGUMENTS, "x": (None, 7)}
    description = describe_binary(_binary(2, signature, {}, num_ctas=2), arguments, 32)
    assert description["parameters"][0] == {"type": "pointer", "tensor": "x[0]"}
    assert description["cluster"] == [2, 1, 1]
    older = _binary(2, signature, {}, cluster_dims=(1, 2, 1))
    assert describe_binary(older, arguments, 32)["cluster"] == [1, 2, 1]


@pytest.mark.slow
def test_a_compile_keeps_its_binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored cell without a binary is compiled again, and one with a binary is not."""
    selection = Selection(kernels=("retention.chunk_fwd_o",), dtypes=("bf16",), targets=("sm90",))
    plan = planning.plan_job(Job(Subject("quick"), selection))
    (cell,) = plan.cells
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    key = cell.key
    with Store.open(tmp_path / "store") as store:
        (plain,) = records_of(plan, store, RunOptions(jobs=1))
        assert not Binaries().has(key)
        (first,) = records_of(plan, store, RunOptions(jobs=1, binaries=True))
        (second,) = records_of(plan, store, RunOptions(jobs=1, binaries=True))
    assert (plain.key, first.key, second.key) == (key, key, key)
    assert (first.cached, second.cached) == (False, True)
    binary = Binaries().read(key)
    assert binary is not None
    code = zlib.decompress(base64.b64decode(binary["code"]))
    assert hashlib.sha256(code).hexdigest() == binary["digest"]
    assert code.startswith(b"\x7fELF")
    assert (binary["entry"], binary["threads"]) == ("chunk_fwd_o", 128)
