"""The units of a project's build, read without building it."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

import pytest

from flacheck.errors import MatrixError
from flacheck.source import builds
from flacheck.source.builds.arguments import BuildUnit, split_arguments

NINJA = """
ninja_required_version = 1.3
nvcc = /usr/local/cuda/bin/nvcc
cuda_cflags = -DTORCH_EXTENSION_NAME=attn -I{root}/csrc -isystem /usr/include/torch
cuda_post_cflags = -D__CUDA_NO_HALF_OPERATORS__ --expt-relaxed-constexpr -std=c++17 $
  -gencode=arch=compute_90,code=sm_90
rule cuda_compile
  depfile = $out.d
  deps = gcc
  command = $nvcc --generate-dependencies-with-compile --dependency-output $out.d $cuda_cflags -c $in -o $out $cuda_post_cflags

build {root}/build/fwd.o: cuda_compile {root}/csrc/fwd.cu
build {root}/build/bwd.o: cuda_compile {root}/csrc/bwd.cu | {root}/csrc/common.h
  cuda_post_cflags = -DBACKWARD=1
build all: phony {root}/build/fwd.o
default all
"""


def write(folder: Path, *names: str) -> None:
    """Put units into a project."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("// a unit\n")


@pytest.mark.parametrize(
    "words",
    [
        ("-isystem=/opt/include",),
        ("-isystem", "/opt/include"),
        ("-I/opt/include",),
        ("-I=/opt/include",),
    ],
)
def test_an_include_folder_is_read_in_every_form(words: tuple[str, ...], tmp_path: Path) -> None:
    """CMake joins nvcc's option and its folder by an equals sign."""
    assert split_arguments(words, tmp_path, tmp_path).includes == ("/opt/include",)


def test_a_ninja_file_is_read_with_its_variables(tmp_path: Path) -> None:
    """The variables of a build statement come before the file's, in a file as torch writes it."""
    write(tmp_path, "csrc/fwd.cu", "csrc/bwd.cu", "build/x")
    (tmp_path / "build" / "build.ninja").write_text(NINJA.replace("{root}", str(tmp_path)))
    fwd, bwd = builds.find(tmp_path).units
    assert (fwd.file, fwd.standard, fwd.includes) == (
        "csrc/fwd.cu",
        "c++17",
        ("csrc", "/usr/include/torch"),
    )
    assert "--expt-relaxed-constexpr" in fwd.flags
    assert bwd.defines == {"TORCH_EXTENSION_NAME": "attn", "BACKWARD": 1}


def test_a_compilation_database_lists_units(tmp_path: Path) -> None:
    """Commands that compile no C++ file of the project are left out."""
    write(tmp_path, "csrc/a.cu", "csrc/b.cu")
    entries = [
        {"directory": str(tmp_path), "command": "nvcc -DD=64 -c csrc/a.cu -o a.o", "file": "a.cu"},
        {"directory": str(tmp_path / "csrc"), "arguments": ["nvcc", "-I.", "-c", "b.cu"]},
        {"directory": str(tmp_path), "command": "gcc -c main.c"},
    ]
    (tmp_path / "compile_commands.json").write_text(json.dumps(entries))
    assert builds.find(tmp_path).units == (
        BuildUnit("csrc/a.cu", {"D": 64}, dropped_flags=("-c", "-o=a.o")),
        BuildUnit("csrc/b.cu", {}, includes=("csrc",), dropped_flags=("-c",)),
    )


@pytest.mark.parametrize(
    "flag",
    [
        "-Xcompiler=-fplugin=/tmp/evil.so",
        "--options-file=flags.txt",
        "-ccbin=/tmp/evil",
        "-o=/etc/passwd",
        "-Xptxas=--output-file=/etc/passwd",
        "-run",
        "-Xcompiler=-B/tmp",
        "-include=/etc/passwd",
        "-keep",
    ],
)
def test_a_flag_that_is_not_known_to_be_harmless_is_dropped(tmp_path: Path, flag: str) -> None:
    """A flag that names a program, a plug-in or an output file never reaches a compiler."""
    unit = split_arguments(["-O3", *flag.split("=", 1)], tmp_path, tmp_path)
    assert unit.flags == ("-O3",)
    assert split_arguments([flag], tmp_path, tmp_path).flags == ()


@pytest.mark.parametrize("text", ["{}", "[1]", '[{"directory": "."}]', "not json"])
def test_a_malformed_database_is_an_error_with_its_name(tmp_path: Path, text: str) -> None:
    """The error names the file, without a traceback."""
    (tmp_path / "compile_commands.json").write_text(text)
    with pytest.raises(MatrixError, match=r"compile_commands\.json"):
        builds.find(tmp_path)


def test_a_file_outside_of_the_project_is_no_unit_of_it(tmp_path: Path) -> None:
    """A build may compile other projects' files, too."""
    entry = {"directory": str(tmp_path), "command": "nvcc -c /usr/src/other.cu"}
    (tmp_path / "compile_commands.json").write_text(json.dumps([entry]))
    assert builds.find(tmp_path).units == ()


@pytest.mark.parametrize("name", ["--options-file=x.cu", "@x.cu"])
@pytest.mark.parametrize("before", ["./", "csrc/../", ""])
def test_a_file_whose_name_is_an_option_is_no_unit(tmp_path: Path, name: str, before: str) -> None:
    """An options file holds what no flag may name, so its name never reaches a compiler."""
    write(tmp_path, name, "csrc/a.cu")
    entry = {"directory": ".", "arguments": ["nvcc", "-c", before + name]}
    good = {"directory": ".", "arguments": ["nvcc", "-c", "csrc/a.cu"]}
    (tmp_path / "compile_commands.json").write_text(json.dumps([entry, good]))
    build = builds.find(tmp_path)
    assert [unit.file for unit in build.units] == ["csrc/a.cu"]
    if before or name.startswith("@"):
        assert "names that a compiler reads as options" in build.warnings[0]


@pytest.mark.parametrize("folder", ["./--options-file=x", "--options-file=x", "@x", "csrc/../-x"])
def test_a_folder_whose_name_is_an_option_is_dropped(tmp_path: Path, folder: str) -> None:
    """A folder is dropped as a file with such a name is."""
    unit = split_arguments(["-I", folder], tmp_path, tmp_path)
    assert unit.includes == () and unit.dropped_flags == (f"-I={folder}",)


def test_an_undefined_macro_is_a_name(tmp_path: Path) -> None:
    """Only a name may follow -U, and anything else is dropped."""
    unit = split_arguments(["-UGOOD", "-U", "X -fplugin=y"], tmp_path, tmp_path)
    assert unit.flags == ("-UGOOD",)


def test_a_link_out_of_the_project_is_no_unit(tmp_path: Path) -> None:
    """A compiler's errors would show the file that it leads to."""
    outside = tmp_path / "secret.cu"
    outside.write_text("secret")
    project = tmp_path / "project"
    write(project, "a.cu")
    (project / "link.cu").symlink_to(outside)
    (project / "inner.cu").symlink_to(project / "a.cu")
    names = ("link.cu", "inner.cu", "../secret.cu")
    entries = [{"directory": ".", "command": f"nvcc -c {name}"} for name in names]
    (project / "compile_commands.json").write_text(json.dumps(entries))
    build = builds.find(project)
    assert [unit.file for unit in build.units] == ["inner.cu"]
    assert build.warnings == (
        "compile_commands.json: 1 of its units are outside of the project, or links to files there "
        "and are left out: link.cu",
    )


@pytest.mark.parametrize("name", ["build.ninja", "compile_commands.json"])
def test_a_build_file_outside_of_the_project_is_refused(tmp_path: Path, name: str) -> None:
    """Whatever opens it."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / name).symlink_to(tmp_path / "secret")
    with pytest.raises(MatrixError, match=rf"{name}: is a link to a file outside of the project"):
        builds.find(tmp_path / "project")


def test_a_build_file_that_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    """A pipe would be read forever."""
    os.mkfifo(tmp_path / "build.ninja")
    with pytest.raises(MatrixError, match="is not a regular file"):
        builds.find(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("build.ninja", "a = xx\n" + "a = $a$a$a$a\n" * 40),
        (
            "build.ninja",
            "rule r\n  command = $a\n"
            + "".join(
                f"  {x} = " + f"${y}" * 9 + "\n" for x, y in zip("abcdefghijkl", "bcdefghijklm")
            )
            + "build x.o: r y.cu\n",
        ),
        ("build.ninja", "rule \nbuild x: \nrule\n"),
        ("compile_commands.json", "[" * 100_000),
    ],
)
def test_a_small_build_file_takes_no_long_time(tmp_path: Path, name: str, text: str) -> None:
    """Values are bounded in breadth and size: unbounded, each of these takes minutes at least."""
    (tmp_path / name).write_text(text)
    started = time.process_time()
    with contextlib.suppress(MatrixError):
        builds.find(tmp_path)
    assert time.process_time() - started < 10
