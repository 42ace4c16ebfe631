"""Units under real toolkits: behaviour that only nvcc itself can show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flacheck.guest.engine import confinement
from flacheck.model import Record
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job, RunOptions
from flacheck.pipeline.run import records_of
from flacheck.rules import RULES
from flacheck.store import Store
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject

pytestmark = pytest.mark.network
NEWEST_AND_OLDEST = ("nvcc==13.0.88", "nvcc==13.5.37")


def compile_units(store: Store, subject: Subject, **chosen: tuple[str, ...]) -> list[Record]:
    """The records of a selection under one toolkit, or several."""
    selection = Selection(**{"toolchains": NEWEST_AND_OLDEST[:1], **chosen})  # type: ignore[arg-type]
    plan = planning.plan_job(Job(subject, selection))
    return list(records_of(plan, store, RunOptions(timeout=900)))


def test_the_pipeline_case_fails_in_fp8_alone_and_its_mended_variant_compiles(
    store: Store,
) -> None:
    """The oldest and the newest toolkit compile it without a GPU."""
    file = Path(store.path).parent / "small.yaml"
    file.write_text(
        "version: 1\naxes: {kernel: 'pipeline.*', dtype: [bf16, fp8e4nv], target: sm90a, "
        "shape: {HEAD_DIM: 128}, toolchain: ['nvcc==13.0.88', 'nvcc==13.5.37']}\n"
    )
    records = compile_units(store, Subject(str(file)), toolchains=())
    verdicts = {(r.toolchain, r.kernel, r.dtype): (r.verdict.value, r.code) for r in records}
    assert len(verdicts) == 8
    for (_, kernel, dtype), outcome in verdicts.items():
        fails = (kernel, dtype) == ("pipeline.fwd", "fp8e4nv")
        assert outcome == (("fails", "FC801") if fails else ("compiles", None))


def test_a_hostile_include_shows_nothing_of_the_file(tmp_path: Path, store: Store) -> None:
    """Neither the include at the top nor one that only the device's front end reads shows it."""
    root = tmp_path / "hostile"
    root.mkdir()
    (root / "top.cu").write_text('#include "/etc/passwd"\n__global__ void k() {}\n')
    device = '#ifdef __CUDA_ARCH__\nconst char s[] =\n#include "/etc/passwd"\n;\n#endif\n'
    (root / "device.cu").write_text(device + "__global__ void k() {}\n")
    entries = [{"directory": ".", "command": f"nvcc -c {n}.cu"} for n in ("top", "device")]
    (root / "compile_commands.json").write_text(json.dumps(entries))
    records = compile_units(store, Subject(package=str(root)))
    assert [(r.verdict.value, r.code) for r in records] == [("unknown", "FC812")] * 2
    assert "root:" not in json.dumps([r.to_json() for r in records])


SECRET_READERS = {
    "include": '#include "{secret}"\n',
    "macro": "#define FILE <{secret}>\n#include FILE\n",
    "device": '#ifdef __CUDA_ARCH__\nconst char s[] =\n#include "{secret}"\n;\n#endif\n',
    "probe": '#if __has_include("{secret}")\n#error it is there\n#endif\n',
    "assembly": '__asm__(".include \\"{secret}\\"");\n',
    "function": 'void f() {{ asm volatile(".include \\"{secret}\\""); }}\n',
    "binary": '__asm__("s: .incbin \\"{secret}\\"\\n.error \\"here\\"");\n',
    "link": '#include "link.h"\n',
    "named": '#include "secret.txt"\n',
}


@pytest.mark.skipif(
    not confinement.available_confinement()["landlock"], reason="this kernel has no Landlock"
)
def test_no_way_to_read_a_file_shows_what_it_holds(tmp_path: Path, store: Store) -> None:
    """Whichever of nvcc's programs opens it, also from a folder that the build names: no unit is
    called failing or compiling for a file that is not its project's."""
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = outside / "secret.txt"
    secret.write_text("root hush:hush hushed\n")
    root = tmp_path / "hostile"
    root.mkdir()
    (root / "link.h").symlink_to(secret)
    kernel = "__global__ void k() {}\n"
    for name, text in SECRET_READERS.items():
        (root / f"{name}.cu").write_text(text.format(secret=secret) + kernel)
    entries = [
        {"directory": ".", "command": f"nvcc -I/ -I{outside} -c {name}.cu"}
        for name in SECRET_READERS
    ]
    (root / "compile_commands.json").write_text(json.dumps(entries))
    records = compile_units(store, Subject(package=str(root)), targets=("sm90",))
    verdicts = {record.kernel: (record.verdict.value, record.code) for record in records}
    assert verdicts == {f"{name}.cu": ("unknown", "FC812") for name in SECRET_READERS}
    assert "hush" not in json.dumps([record.to_json() for record in records])


def test_registers_and_spills_are_the_assemblers(store: Store) -> None:
    """A state of 256 floats a thread does not fit into its registers."""
    file = Path(store.path).parent / "large.yaml"
    file.write_text(
        "version: 1\naxes: {kernel: wkv.fwd, dtype: bf16, target: sm80, shape: {HEAD_DIM: 256}}\n"
    )
    (record,) = compile_units(store, Subject(str(file)))
    assert record.resources["registers"] == 255
    assert record.resources["spills"] > 0
    assert [each["name"] for each in record.resources["functions"]] == ["wkv_fwd"]


def test_the_cure_of_a_constraint_before_cpp_20_compiles_the_unit(
    tmp_path: Path, store: Store
) -> None:
    """nvcc names no standard where it finds `requires`; the rule does, and `--option` sets it."""
    root = tmp_path / "constrained"
    root.mkdir()
    (root / "k.cu").write_text(
        "template <class T> requires (sizeof(T) == 4) __global__ void k(T *x) { x[0] = 1; }\n"
        "template __global__ void k<float>(float *);\n"
    )
    entry = {"directory": ".", "command": "nvcc -std=c++17 -c k.cu"}
    (root / "compile_commands.json").write_text(json.dumps([entry]))
    subject = Subject(package=str(root))
    (failing,) = compile_units(store, subject)
    assert (failing.verdict.value, failing.code) == ("fails", "FC821")
    assert "-std=c++20" in RULES["FC821"].remedy
    (repair,) = compile_units(store, subject, options_given=("std=c++20",))
    assert repair.verdict.value == "compiles"
