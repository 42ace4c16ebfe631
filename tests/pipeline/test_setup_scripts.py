"""The extensions of a `setup.py`, which runs in the sandbox with stand-ins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flacheck.errors import MatrixError
from flacheck.pipeline import build_sandbox, configured_builds, setup_scripts
from flacheck.source.builds import ProjectBuild
from tests.escaping import expected

WHOLE = """
import os
from pathlib import Path
import a_build_requirement
from setuptools import find_packages, setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
from wheel.bdist_wheel import bdist_wheel

this_dir = os.path.dirname(os.path.abspath(__file__))
sources = ["csrc/api.cpp"] + [f"csrc/fwd_{size}.cu" for size in (64, 128)]


class CachedWheel(bdist_wheel):
    def run(self):
        super().run()


setup(
    name="attention",
    packages=find_packages(),
    ext_modules=[
        CUDAExtension(
            name="attention.cuda",
            sources=sources,
            extra_compile_args={
                "cxx": ["-O2", "-fopenmp"],
                "nvcc": ["-O3", "-std=c++20", "-U__CUDA_NO_HALF_OPERATORS__", "-DSPLIT=4"]
                + ["-gencode", "arch=compute_90a,code=sm_90a"],
            },
            include_dirs=[Path(this_dir) / "csrc", "/opt/cutlass/include"],
            define_macros=[("WITH_FP8", None), ("LEVEL", "2")],
        )
    ],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=True), "bdist_wheel": CachedWheel},
)
"""
IMPORTS = (
    "import os, subprocess, sys, torch",
    "from setuptools import setup",
    "from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension",
)
ONE = "setup(ext_modules=[CUDAExtension('m', ['a.cu'])])"
confined = pytest.mark.skipif("other processes" not in expected(), reason="no Landlock here")


@pytest.fixture
def one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run scripts for one machine instead of three, which takes a third of the time."""
    monkeypatch.setattr(setup_scripts, "MACHINES", setup_scripts.MACHINES[:1])


def script(folder: Path, *lines: str) -> ProjectBuild:
    """Return the build of a project whose setup.py has these lines after the usual imports."""
    folder.mkdir(exist_ok=True)
    for name in ("a.cu", "b.cu"):
        (folder / name).touch()
    (folder / "setup.py").write_text("\n".join((*IMPORTS, *lines)))
    return configured_builds.find(folder)


@pytest.mark.usefixtures("one_machine")
def test_an_extension_gives_its_sources_as_units(tmp_path: Path) -> None:
    """Macros, flags and folders are the extension's; torch's defines come before its flags."""
    (tmp_path / "csrc").mkdir()
    for name in ("api.cpp", "fwd_64.cu", "fwd_128.cu"):
        (tmp_path / "csrc" / name).touch()
    (tmp_path / "setup.py").write_text(WHOLE)
    build = configured_builds.find(tmp_path)
    assert (build.file, build.warnings) == (tmp_path / "setup.py", ())
    api, kernel, other = build.units
    assert [api.file, kernel.file, other.file] == [
        *("csrc/api.cpp", "csrc/fwd_128.cu", "csrc/fwd_64.cu")
    ]
    assert api.flags == ("-O2",) and api.standard is None and api.of_torch
    assert kernel.defines == {
        "WITH_FP8": True,
        "LEVEL": 2,
        "TORCH_EXTENSION_NAME": "cuda",
        "SPLIT": 4,
    }
    assert kernel.standard == "c++20"
    assert kernel.includes == ("csrc", "/opt/cutlass/include")
    assert kernel.flags.index("-D__CUDA_NO_HALF_OPERATORS__") < kernel.flags.index(
        "-U__CUDA_NO_HALF_OPERATORS__"
    )


def test_units_of_every_machine_are_listed(tmp_path: Path) -> None:
    """A script may compile by the GPU and by the version of nvcc; a warning names the GPU."""
    build = script(
        tmp_path,
        "text = subprocess.check_output([CUDA_HOME + '/bin/nvcc', '-V'], text=True)",
        "release = text.split('release ')[1].split(',')[0]",
        "flags = ['-DRELEASE=' + release] if release != torch.version.cuda else []",
        "if release == '12.4': flags.append('-DOLD')",
        "gpu = torch.cuda.get_device_capability()",
        "sources = ['a.cu'] if gpu < (10, 0) else ['a.cu', 'b.cu']",
        "setup(ext_modules=[CUDAExtension('m', sources, extra_compile_args=flags)])",
    )
    units = [(unit.file, "OLD" in unit.defines, "RELEASE" in unit.defines) for unit in build.units]
    assert sorted(units) == [
        ("a.cu", False, False),
        ("a.cu", True, False),
        ("b.cu", False, False),
    ]
    assert build.warnings == (
        "setup.py: on a B200 with CUDA 12.8 it compiles other units or flags (b.cu); those of all "
        "machines are listed",
        "setup.py: on an A100 with CUDA 12.4 it compiles other units or flags (a.cu); those of all "
        "machines are listed",
    )


@pytest.mark.usefixtures("one_machine")
@pytest.mark.parametrize(
    "guard",
    [
        "if not os.path.exists('third_party/cutlass'): raise RuntimeError('no submodule')",
        "assert os.path.exists('third_party/cutlass')",
        "if not os.path.exists('third_party/cutlass'): sys.exit(1)",
    ],
)
def test_a_guard_does_not_end_the_script(guard: str, tmp_path: Path) -> None:
    """flacheck brings the toolkit and CUTLASS that a script looks for."""
    build = script(tmp_path, guard, ONE)
    assert len(build.units) == 1 and build.warnings == ()


@pytest.mark.usefixtures("one_machine")
def test_a_handler_gets_the_error_that_it_expects(tmp_path: Path) -> None:
    """An optional package that is missing, and an error raised in a `try`, reach the handler."""
    build = script(
        tmp_path,
        "macros = []",
        "try: import missing_package",
        "except ImportError: macros.append(('MISSING', None))",
        "try: raise ValueError",
        "except ValueError: macros.append(('RAISED', None))",
        "setup(ext_modules=[CUDAExtension('m', ['a.cu'], define_macros=macros)])",
    )
    assert {"MISSING", "RAISED"} <= set(build.units[0].defines)


def test_an_error_on_one_machine_leaves_the_others(tmp_path: Path) -> None:
    """A script may download a toolkit unless it finds one, and the sandbox has no network."""
    build = script(
        tmp_path,
        "text = subprocess.check_output([CUDA_HOME + '/bin/nvcc', '-V'], text=True)",
        "if 'release 12.8' not in text: missing_download()",
        ONE,
    )
    assert [unit.file for unit in build.units] == ["a.cu"]
    assert "ends with an error (NameError" in build.warnings[0]
    assert "on a B200 with CUDA 12.8" in build.warnings[1]


@pytest.mark.usefixtures("one_machine")
def test_only_extensions_that_are_set_up_are_units(tmp_path: Path) -> None:
    """The folders of `setup` itself belong to each extension, as in setuptools."""
    build = script(
        tmp_path,
        "CUDAExtension('n', ['b.cu'])",
        "one, two = (CUDAExtension(n, ['a.cu'], define_macros=[(n, None)]) for n in 'xy')",
        "one.include_dirs.append('inc')",
        "setup(ext_modules=[one, two], include_dirs='common')",
    )
    units = [
        (unit.file, unit.defines["TORCH_EXTENSION_NAME"], unit.includes) for unit in build.units
    ]
    assert units == [("a.cu", "x", ("inc", "common")), ("a.cu", "y", ("common",))]


@pytest.mark.usefixtures("one_machine")
def test_an_error_keeps_the_extensions_made_before(tmp_path: Path) -> None:
    """A warning names the error and its line."""
    build = script(tmp_path, "CUDAExtension('m', ['a.cu', 'gone.cu'])", "1 / 0")
    assert [unit.file for unit in build.units] == ["a.cu"]
    assert build.warnings == (
        "setup.py:5: the script ends with an error (ZeroDivisionError: division by zero); units "
        "made before are listed",
        "setup.py: 1 of its units do not exist and are left out: gone.cu",
    )


@pytest.mark.parametrize("text", ["def (:", "x = '\0'"])
def test_a_script_that_is_not_python_is_a_warning(text: str, tmp_path: Path) -> None:
    """The script lists no unit."""
    build = script(tmp_path, text)
    assert build.units == () and "Error" in build.warnings[0]


@pytest.mark.usefixtures("one_machine")
@pytest.mark.parametrize(
    "arguments",
    [
        "extra_compile_args=3, define_macros=[[], ()], include_dirs=3, name=[]",
        "extra_compile_args={'nvcc': 3, 'cxx': None}, define_macros=torch.no_such.thing",
        "extra_compile_args={1: ['-O3']}, include_dirs=[1, None, torch.x], undef_macros='X'",
    ],
)
def test_an_argument_of_another_kind_is_left_out(arguments: str, tmp_path: Path) -> None:
    """The unit stays."""
    build = script(tmp_path, f"setup(ext_modules=[CUDAExtension(sources=['a.cu'], {arguments})])")
    assert [unit.file for unit in build.units] == ["a.cu"]


@confined
@pytest.mark.usefixtures("one_machine")
def test_a_file_that_the_sandbox_denies_is_empty(tmp_path: Path) -> None:
    """A script reads its README one folder up, and writes a module of its package."""
    (tmp_path / "README.md").write_text("secret")
    build = script(
        tmp_path / "project",
        "text = open('../README.md').read()",
        "open('written.py', 'w').write('x')",
        "setup(ext_modules=[CUDAExtension('m', ['a.cu'], define_macros=[('TEXT', '<' + text)])])",
    )
    assert build.units[0].defines["TEXT"] == "<"
    assert not (tmp_path / "project" / "written.py").exists()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("os.symlink('/dev/zero', os.environ['HOME'] + '/answer.json')", "is a link"),
        ("open(os.environ['HOME'] + '/answer.json', 'w').write('{}')", "missing required field"),
        ("os.kill(os.getpid(), 9)", "SIGKILL ended it"),
        ("while True: pass", "it ran out of time"),
    ],
)
def test_a_hostile_script_is_a_warning(
    line: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """flacheck reads its answer bounded, through no link, and checks it."""
    monkeypatch.setattr(build_sandbox, "_SECONDS", 3.0)
    build = script(tmp_path, line, ONE)
    assert build.units == ()
    assert reason in build.warnings[0]


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_script_that_cannot_be_read_is_an_error(kind: str, tmp_path: Path) -> None:
    """A link out of the project and a pipe are not opened."""
    root = tmp_path / "project"
    root.mkdir()
    if kind == "pipe":
        os.mkfifo(root / "setup.py")
    else:
        (tmp_path / "secret").write_text("secret")
        (root / "setup.py").symlink_to(tmp_path / "secret")
    with pytest.raises(MatrixError, match=r"setup\.py"):
        configured_builds.find(root)


@pytest.mark.usefixtures("one_machine")
def test_a_record_of_a_build_comes_before_the_script(tmp_path: Path) -> None:
    """A record whose units are gone does not hide the script."""
    command = '[{"directory": ".", "command": "nvcc -c %s.cu"}]'
    (tmp_path / "compile_commands.json").write_text(command % "b")
    assert [unit.file for unit in script(tmp_path, ONE).units] == ["b.cu"]
    (tmp_path / "compile_commands.json").write_text(command % "gone")
    build = configured_builds.find(tmp_path)
    assert build.file == tmp_path / "setup.py"
    assert "compile_commands.json: 1 of its units do not exist" in build.warnings[0]
