"""What a project's build compiles, read without building it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flacheck.errors import MatrixError
from flacheck.source import builds
from flacheck.source.builds.arguments import BuildUnit, taken_apart

SETUP = """
import os
from pathlib import Path
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

this_dir = os.path.dirname(os.path.abspath(__file__))
HIP_BUILD = False
cc_flag = []
if HIP_BUILD:
    cc_flag.append("-DONLY_AMD")
else:
    cc_flag.append("-gencode")
    cc_flag.append("arch=compute_90a,code=sm_90a")
DTYPES = ["bf16", "e4m3"]
sources = ["csrc/api.cpp"] + [f"csrc/fwd_hdim{d}_{t}.cu" for d in (64, 128) for t in DTYPES]


def threads(args):
    return args + ["--threads", "4"]


setup(
    ext_modules=[
        CUDAExtension(
            name="attention.cuda",
            sources=sources,
            extra_compile_args={
                "cxx": ["-O2", "-fopenmp"],
                "nvcc": threads(["-O3", "-std=c++20", "-U__CUDA_NO_HALF_OPERATORS__", "-DSPLIT=4"] + cc_flag),
            },
            include_dirs=[Path(this_dir) / "csrc", "/opt/cutlass/include"],
            define_macros=[("WITH_FP8", None), ("LEVEL", "2")],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
"""
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


def test_a_setup_script_is_read_without_running_it(tmp_path: Path) -> None:
    """Lists, f-strings, paths and comprehensions are worked out; what is only for AMD is not."""
    (tmp_path / "setup.py").write_text(SETUP)
    build = builds.find(tmp_path)
    assert build.file == tmp_path / "setup.py"
    api, *kernels = build.units
    assert [unit.file for unit in kernels] == [
        f"csrc/fwd_hdim{size}_{dtype}.cu" for size in (64, 128) for dtype in ("bf16", "e4m3")
    ]
    assert api.file == "csrc/api.cpp" and api.flags == ("-O2",) and api.standard == "c++17"
    first = kernels[0]
    assert first.defines == {
        "WITH_FP8": True,
        "LEVEL": 2,
        "TORCH_EXTENSION_NAME": "cuda",
        "SPLIT": 4,
    }
    assert first.standard == "c++20" and first.of_torch
    assert first.includes == ("csrc", "/opt/cutlass/include")
    # torch's own come first, so that the project has the last word.
    assert first.flags.index("-D__CUDA_NO_HALF_OPERATORS__") < first.flags.index(
        "-U__CUDA_NO_HALF_OPERATORS__"
    )


def test_a_ninja_file_is_read_with_its_variables(tmp_path: Path) -> None:
    """As torch writes it; a build statement's own variables come before the file's."""
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "build.ninja").write_text(NINJA.replace("{root}", str(tmp_path)))
    fwd, bwd = builds.find(tmp_path).units
    assert (fwd.file, fwd.standard, fwd.includes) == (
        "csrc/fwd.cu",
        "c++17",
        ("csrc", "/usr/include/torch"),
    )
    assert "--expt-relaxed-constexpr" in fwd.flags
    assert bwd.defines == {"TORCH_EXTENSION_NAME": "attn", "BACKWARD": 1}


def test_a_compilation_database_comes_before_a_script(tmp_path: Path) -> None:
    """What a build says that it compiles is truer than what a script would have it compile."""
    (tmp_path / "setup.py").write_text(SETUP)
    entries = [
        {"directory": str(tmp_path), "command": "nvcc -DD=64 -c csrc/a.cu -o a.o", "file": "a.cu"},
        {"directory": str(tmp_path / "csrc"), "arguments": ["nvcc", "-I.", "-c", "b.cu"]},
        {"directory": str(tmp_path), "command": "gcc -c main.c"},
    ]
    (tmp_path / "compile_commands.json").write_text(json.dumps(entries))
    assert builds.find(tmp_path).units == (
        BuildUnit("csrc/a.cu", {"D": 64}, dropped=("-c", "-o=a.o")),
        BuildUnit("csrc/b.cu", {}, includes=("csrc",), dropped=("-c",)),
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
    """One that names a program, a plug-in or a file to write never reaches a compiler."""
    unit = taken_apart(["-O3", *flag.split("=", 1)], tmp_path, tmp_path)
    assert unit.flags == ("-O3",)
    assert taken_apart([flag], tmp_path, tmp_path).flags == ()


@pytest.mark.parametrize("text", ["{}", "[1]", '[{"directory": "."}]', "not json"])
def test_a_malformed_database_is_an_error_with_its_name(tmp_path: Path, text: str) -> None:
    """No traceback, and the file's name."""
    (tmp_path / "compile_commands.json").write_text(text)
    with pytest.raises(MatrixError, match=r"compile_commands\.json"):
        builds.find(tmp_path)


def test_a_file_outside_of_the_project_is_no_unit_of_it(tmp_path: Path) -> None:
    """A build may compile other projects' files, too."""
    entry = {"directory": str(tmp_path), "command": "nvcc -c /usr/src/other.cu"}
    (tmp_path / "compile_commands.json").write_text(json.dumps([entry]))
    assert builds.find(tmp_path).units == ()


def test_a_script_that_is_no_python_is_an_error(tmp_path: Path) -> None:
    """With the file's name."""
    (tmp_path / "setup.py").write_text("def (:\n")
    with pytest.raises(MatrixError, match=r"setup\.py"):
        builds.find(tmp_path)
