"""What a project's build compiles, read without building it."""

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
from tests import mutated_builds

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


def write(folder: Path, *names: str) -> None:
    """Put units into a project."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("// a unit\n")


def script(folder: Path, *lines: str) -> builds.ProjectBuild:
    """The build of a project whose setup.py has these lines, after the usual imports."""
    imports = (
        "import glob, os, sys, torch",
        "from setuptools import setup",
        "from torch.utils.cpp_extension import CUDAExtension, CUDA_HOME, IS_HIP_EXTENSION",
    )
    write(folder, "a.cu", "b.cu")
    (folder / "setup.py").write_text("\n".join((*imports, *lines)))
    return builds.find(folder)


def test_a_setup_script_is_read_without_running_it(tmp_path: Path) -> None:
    """Lists, f-strings, paths and comprehensions are worked out; what is only for AMD is not."""
    sizes = [f"csrc/fwd_hdim{size}_{t}.cu" for size in (64, 128) for t in ("bf16", "e4m3")]
    write(tmp_path, "csrc/api.cpp", *sizes)
    (tmp_path / "setup.py").write_text(SETUP)
    build = builds.find(tmp_path)
    assert build.file == tmp_path / "setup.py"
    api, *kernels = build.units
    assert [unit.file for unit in kernels] == [
        f"csrc/fwd_hdim{size}_{dtype}.cu" for size in (64, 128) for dtype in ("bf16", "e4m3")
    ]
    assert api.file == "csrc/api.cpp" and api.flags == ("-O2",) and api.standard is None
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
    """As torch writes it; a build statement's own variables come before the file's."""
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


def test_a_compilation_database_comes_before_a_script(tmp_path: Path) -> None:
    """What a build says that it compiles is truer than what a script would have it compile."""
    write(tmp_path, "csrc/a.cu", "csrc/b.cu")
    (tmp_path / "setup.py").write_text(SETUP)
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
    """One that names a program, a plug-in or a file to write never reaches a compiler."""
    unit = split_arguments(["-O3", *flag.split("=", 1)], tmp_path, tmp_path)
    assert unit.flags == ("-O3",)
    assert split_arguments([flag], tmp_path, tmp_path).flags == ()


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
    """As for files."""
    unit = split_arguments(["-I", folder], tmp_path, tmp_path)
    assert unit.includes == () and unit.dropped_flags == (f"-I={folder}",)


def test_an_undefined_macro_is_a_name(tmp_path: Path) -> None:
    """Anything else after -U is no flag of the build."""
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


@pytest.mark.parametrize("name", ["setup.py", "build.ninja", "compile_commands.json"])
def test_a_build_file_outside_of_the_project_is_refused(tmp_path: Path, name: str) -> None:
    """Whatever opens it."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / name).symlink_to(tmp_path / "secret")
    with pytest.raises(MatrixError, match=rf"{name}: is a link to a file outside of the project"):
        builds.find(tmp_path / "project")


def test_a_build_file_that_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    """A pipe would be read forever."""
    os.mkfifo(tmp_path / "setup.py")
    with pytest.raises(MatrixError, match="is not a regular file"):
        builds.find(tmp_path)


def test_units_that_do_not_exist_are_named_and_left_out(tmp_path: Path) -> None:
    """Generated files and a source distribution's missing ones are no cells."""
    build = script(tmp_path, "CUDAExtension('m', ['a.cu'] + [f'gone_{n}.cu' for n in range(7)])")
    assert [unit.file for unit in build.units] == ["a.cu"]
    assert build.warnings == (
        "setup.py: 7 of its units do not exist and are left out: "
        "gone_0.cu, gone_1.cu, gone_2.cu, gone_3.cu, gone_4.cu and 2 more",
    )


def test_a_build_whose_units_are_gone_does_not_hide_the_next(tmp_path: Path) -> None:
    """A stale database comes before a script that still holds."""
    entry = {"directory": ".", "command": "nvcc -c gone.cu"}
    (tmp_path / "compile_commands.json").write_text(json.dumps([entry]))
    build = script(tmp_path, "CUDAExtension('m', ['a.cu'])")
    assert build.file == tmp_path / "setup.py"
    assert "compile_commands.json: 1 of its units do not exist" in build.warnings[0]


@pytest.mark.parametrize(
    ("condition", "is_true"),
    [
        ("os.getenv('X', 'FALSE') == 'TRUE'", False),
        ("os.environ.get('X', '1') == '1'", True),
        ("os.environ.get('X')", False),
        ("os.getenv('X') is None", True),
        ("'X' in os.environ", False),
        ("int(os.getenv('X', '2')) >= 2 and not os.getenv('Y')", True),
        ("sys.platform == 'win32' or os.name == 'nt'", False),
        ("torch.cuda.is_available() and CUDA_HOME is not None", True),
        ("torch.version.hip or IS_HIP_EXTENSION", False),
        ("torch.version.cuda is not None", True),
        ("not SKIP and not IS_ROCM", True),
        ("unheard_of_rocm()", False),
        ("Version('12.3') < Version('12.10')", True),
        ("os.path.exists('a.cu') and not os.path.isdir('b.cu')", True),
    ],
)
@pytest.mark.parametrize("form", ["expression", "statement"])
def test_a_condition_is_worked_out(
    tmp_path: Path, condition: str, is_true: bool, form: str
) -> None:
    """From the defaults of variables, comparisons, and the machine that a scan stands for."""
    lines = ["from packaging.version import Version"]
    lines += ["SKIP = os.getenv('SKIP', '0') == '1'", "IS_ROCM = IS_HIP_EXTENSION"]
    if form == "expression":
        lines.append(f"flags = ['-DYES'] if {condition} else ['-DNO']")
    else:
        lines += [f"if {condition}:", "    flags = ['-DYES']", "else:", "    flags = ['-DNO']"]
    lines.append("CUDAExtension('m', ['a.cu'], extra_compile_args={'nvcc': flags})")
    build = script(tmp_path, *lines)
    (unit,) = build.units
    assert ("YES" in unit.defines, "NO" in unit.defines) == (is_true, not is_true)
    assert build.warnings == ()


def test_a_condition_on_the_machine_gives_the_units_of_both_outcomes(tmp_path: Path) -> None:
    """And a warning that names file, line and condition; one that changes nothing gives none."""
    build = script(
        tmp_path,
        "version = ask_the_compiler()",
        "flags = ['-DNEW'] if version >= 12 else []",
        "if version >= 13:",
        "    flags += ['-gencode', 'arch=compute_100,code=sm_100']",
        "CUDAExtension('m', ['a.cu'], extra_compile_args={'nvcc': ['-O3', *flags]})",
    )
    new, old = build.units
    assert "NEW" in new.defines and "NEW" not in old.defines
    assert build.warnings == (
        "setup.py:5: `version >= 12` depends on the machine; the units of both outcomes are listed",
    )


def test_a_condition_holds_alike_wherever_it_stands(tmp_path: Path) -> None:
    """No unit has the one flag of an outcome without the other."""
    build = script(
        tmp_path,
        "flags = ['-DONE'] if probe() else []",
        "if not probe():",
        "    flags.append('-DNONE')",
        "CUDAExtension('m', ['a.cu'], extra_compile_args=flags)",
    )
    defines = [set(unit.defines) & {"ONE", "NONE"} for unit in build.units]
    assert defines == [{"ONE"}, {"NONE"}]


def test_a_guard_that_ends_the_script_is_passed(tmp_path: Path) -> None:
    """flacheck brings the toolkit and CUTLASS that a script looks for."""
    build = script(
        tmp_path,
        "if not os.path.exists('third_party/cutlass'):",
        "    raise RuntimeError('run git submodule update')",
        "if probe():",
        "    sys.exit(1)",
        "CUDAExtension('m', ['a.cu'])",
    )
    assert len(build.units) == 1 and build.warnings == ()


def test_a_build_goes_on_where_a_condition_would_leave_it_early(tmp_path: Path) -> None:
    """However many of them stand before the extension."""
    build = script(
        tmp_path,
        "def flags():",
        "    found = []",
        "    for arch in probe():",
        "        if is_old(arch):",
        "            continue",
        "        found.append(f'-gencode=arch=compute_{arch}')",
        "    return found",
        "def extensions():",
        *[f"    if probe({n}):\n        return []" for n in range(30)],
        "    if not flags():",
        "        return []",
        "    return [CUDAExtension('m', ['a.cu'])]",
        "setup(ext_modules=extensions())",
    )
    assert [unit.file for unit in build.units] == ["a.cu"]


def test_an_extension_that_was_not_reached_is_named(tmp_path: Path) -> None:
    """Where not every outcome was followed."""
    lines = [f"{'    ' * n}if probe({n}) == {n} and not probe({n}):" for n in range(8)]
    build = script(
        tmp_path,
        "CUDAExtension('m', ['a.cu'])",
        *lines,
        f"{'    ' * 8}for n in other():",
        f"{'    ' * 9}if n != 'x':",
        f"{'    ' * 10}pass",
        f"{'    ' * 9}else:",
        *[
            f"{'    ' * (10 + n)}if ask({n}):\n{'    ' * (11 + n)}pass\n{'    ' * (10 + n)}else:"
            for n in range(6)
        ],
        f"{'    ' * 16}CUDAExtension('n', ['b.cu'])",
    )
    assert [unit.file for unit in build.units] == ["a.cu"]
    assert any("not every combination of" in warning for warning in build.warnings)
    last = "no followed outcome of the script's conditions makes this extension"
    assert any(warning.endswith(last) for warning in build.warnings)


def test_a_flag_that_depends_on_the_machine_is_named(tmp_path: Path) -> None:
    """It is left out, with its line; what a scan chooses itself needs no word."""
    build = script(
        tmp_path,
        "flags = ['-DLEVEL=' + probe(), '-gencode', f'arch=compute_{probe()}', '-DLAST']",
        "flags += more_flags()",
        "CUDAExtension('m', ['a.cu'], extra_compile_args={'nvcc': flags})",
    )
    (unit,) = build.units
    assert unit.defines == {"TORCH_EXTENSION_NAME": "m", "LAST": True}
    assert build.warnings == (
        "setup.py:4: `'-DLEVEL=' + probe()` depends on the machine and is left out",
        "setup.py:5: `more_flags()` depends on the machine and is left out",
    )


@pytest.mark.parametrize(
    "change",
    [
        "extra['nvcc'] = flags",
        "extra['nvcc'] = []\nextra['nvcc'] += flags",
        "extra['nvcc'] = []\nextra['nvcc'].extend(flags)",
        "extra['nvcc'] = []\nfor flag in flags:\n    extra['nvcc'].append(flag)",
        "extra.update(nvcc=flags)",
        "extra.update({'nvcc': flags})",
        "extra = {**extra, 'nvcc': flags}",
        "extra.setdefault('nvcc', []).extend(flags)",
        "own = []\nextra['nvcc'] = own\nown += flags",
    ],
)
def test_flags_that_are_put_into_a_dictionary_count(tmp_path: Path, change: str) -> None:
    """However they get there, a later change of the same list included."""
    build = script(
        tmp_path,
        "flags = ['-O3', '-std=c++20', '-DIN']",
        "extra = {'cxx': ['-O2']}",
        change,
        "CUDAExtension('m', ['a.cu'], extra_compile_args=extra)",
    )
    (unit,) = build.units
    assert unit.standard == "c++20" and "IN" in unit.defines and "-O3" in unit.flags


def test_names_of_different_functions_are_different_names(tmp_path: Path) -> None:
    """A function's `sources` are no other's."""
    build = script(
        tmp_path,
        "def first():",
        "    sources = ['a.cu']",
        "    return [CUDAExtension('m', sources)]",
        "def second(sources, flags=('-DTWO',)):",
        "    sources = [name.replace('.cpp', '.cu') for name in sources]",
        "    return CUDAExtension('n', sources, extra_compile_args=list(flags))",
        "def never_called():",
        "    return CUDAExtension('o', ['c.cu'])",
        "setup(ext_modules=first() + [second(['b.cpp'])])",
    )
    assert [unit.file for unit in build.units] == ["a.cu", "b.cu"]
    assert ["TWO" in unit.defines for unit in build.units] == [False, True]


def test_one_file_in_two_extensions_is_two_units(tmp_path: Path) -> None:
    """Each with its own macros."""
    build = script(
        tmp_path,
        "for suffix in ['cpu', 'cuda']:",
        "    macros = [('WITH_CUDA', None)] if suffix == 'cuda' else []",
        "    CUDAExtension(f'm_{suffix}', ['a.cu'], define_macros=macros)",
    )
    assert ["WITH_CUDA" in unit.defines for unit in build.units] == [False, True]


@pytest.mark.parametrize(
    "arguments",
    [
        "extra_compile_args={'nvcc': f()}",
        "extra_compile_args={f(): ['-O3']}",
        "extra_compile_args={[]: 1}",
        "extra_compile_args={**f()}",
        "extra_compile_args={'nvcc': 3}",
        "define_macros=[[]]",
        "define_macros=[()]",
        "define_macros=f()",
        "include_dirs=3",
        "name=[]",
    ],
)
def test_an_argument_of_another_kind_is_no_crash(tmp_path: Path, arguments: str) -> None:
    """The unit stays, without what nobody can read."""
    assert len(script(tmp_path, f"CUDAExtension(sources=['a.cu'], {arguments})").units) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("setup.py", "a = [1]\n" + "a += a\n" * 60 + "CUDAExtension('m', ['a.cu'] + a)"),
        ("setup.py", "a = 'x'\n" + "a = a + a\n" * 60 + "CUDAExtension('m', [a])"),
        ("setup.py", "def f(n):\n" + "    f(n)\n" * 9 + "f(1)"),
        ("setup.py", "while True:\n    pass"),
        ("setup.py", "x = [[[1 for a in r] for b in r] for r in [range(9999)] * 9999]"),
        ("setup.py", "import glob\nglob.glob('" + "**/*a*" * 40 + "')"),
        (
            "setup.py",
            "a = []\n" + "a = [a, a]\n" * 40 + "b = []\n" + "b = [b, b]\n" * 40 + "a == b",
        ),
        ("setup.py", "x = " + "+".join("f()" * 1 for _ in range(200))),
        ("setup.py", "x = '%099999999d' % 1\ny = '{:99999999}'.format(1)\nz = f'{1:99999999}'"),
        ("setup.py", "x = 9 ** 9 ** 9\ny = 1 << 999999999"),
        ("setup.py", "\n".join(f"if f{n}():\n    x{n} = 1" for n in range(300))),
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


def test_changed_build_files_are_read_or_refused(tmp_path: Path) -> None:
    """No other error, and none takes two seconds; `python -m tests.soak` reads a thousand."""
    outcomes = mutated_builds.read_all(tmp_path / "project", 300, seed=24)
    assert [each for each in outcomes if each not in ("read", "refused")] == []
    assert outcomes["read"] > 150
