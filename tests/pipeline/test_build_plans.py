"""The plan of a project's build: kernels, launches, folders of headers, warnings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from flacheck.errors import UsageError
from flacheck.guest.workers.cuda_units import UnitRefused, check_file_name
from flacheck.pipeline import build_units, configured_builds
from flacheck.pipeline.build_units import ResolvedBuild
from flacheck.pipeline.job import Job
from flacheck.source import builds
from flacheck.source.packages import checkouts, source_trees
from flacheck.source.packages.package import Package
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from flacheck.toolchains import wheels
from tests.made_toolkit import toolkit


def project(folder: Path, *commands: str, text: str = "// a unit\n") -> Path:
    """A project whose database has these commands, each of which compiles `a.cu`."""
    root = folder / "project"
    root.mkdir(exist_ok=True)
    (root / "a.cu").write_text(text)
    entries = [{"directory": ".", "command": f"nvcc {each} -c a.cu"} for each in commands]
    (root / "compile_commands.json").write_text(json.dumps(entries))
    return root


def kernels(root: Path) -> list[Any]:
    """The names of a project's kernels, with the macros of each launch."""
    package = Package("project", "1", str(root), "digest", {})
    sources = build_units.sources_of(package, builds.find(root))
    return [(each.kernel.name, [list(one.args) for one in each.launches]) for each in sources]


def test_a_file_with_several_defines_is_one_kernel(tmp_path: Path) -> None:
    """Each set of macros is a launch."""
    root = project(tmp_path, "-DX -O3", "-DY -O3", "-DX -O3")
    assert kernels(root) == [("a.cu", [["X"], ["Y"]])]


def test_a_file_with_several_flags_is_several_kernels(tmp_path: Path) -> None:
    """Their names differ, so that each is a kernel of its own."""
    root = project(tmp_path, "-O3", "-O3 -G -Iinc", "-O2 -O3", "-O3 -O2")
    assert [name for name, _ in kernels(root)] == [
        "a.cu",
        "a.cu (-G -Iinc)",
        "a.cu (-O2)",
        "a.cu (-O2) #4",
    ]


@pytest.mark.parametrize(("flags", "standard"), [("[]", "c++20"), ("['-std=c++17']", "c++17")])
def test_an_extension_without_a_standard_gets_that_of_the_installed_torch(
    flags: str, standard: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch adds it to the flags, and a newer torch another one."""
    module = tmp_path / "site" / "torch" / "utils" / "cpp_extension.py"
    module.parent.mkdir(parents=True)
    module.write_text("# c++17 was enough once\ncflags += ['-std=c++20', '-fPIC']\n")
    monkeypatch.setattr(build_units, "torch_folder", lambda: str(tmp_path / "site"))
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.cu").touch()
    (root / "setup.py").write_text(
        "from setuptools import setup\n"
        "from torch.utils.cpp_extension import CUDAExtension\n"
        f"one = CUDAExtension('a', ['a.cu'], extra_compile_args={{'nvcc': {flags}}})\n"
        "setup(ext_modules=[one])\n"
    )
    package = Package("project", "1", str(root), "digest", {})
    (source,) = build_units.sources_of(package, configured_builds.find(root))
    assert [launch.configs[0]["std"] for launch in source.launches] == [standard]


def test_cutlass_of_the_index_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel has its headers in its own folder; its requirements are not installed."""
    calls = []

    def install(requirements: list[str], folder: Path, **more: Any) -> dict[str, Any]:
        calls.append((requirements, more["alone"]))
        for name in ("include/cutlass", "tools/util/include/cutlass"):
            (folder / "cutlass_library" / "source" / name).mkdir(parents=True)
        return {}

    monkeypatch.setattr(wheels, "install", install)
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    root = project(tmp_path, "-O3", text="#include <cutlass/cutlass.h>\n")
    folders = list(build_units.include_folders(builds.find(root), root))
    assert [Path(each).relative_to(tmp_path / "cache").parts[2:] for each in folders] == [
        ("cutlass_library", "source", "include"),
        ("cutlass_library", "source", "tools", "util", "include"),
    ]
    assert calls == [(["nvidia-cutlass"], True)]


@pytest.mark.parametrize("has_submodule", [False, True])
def test_a_submodule_that_is_missing_is_named(has_submodule: bool, tmp_path: Path) -> None:
    """The library's newest release replaces the submodule, and it may fail."""
    root = project(tmp_path, "-Icsrc/cutlass/include", text="#include <cutlass/cutlass.h>\n")
    header = root / "csrc/cutlass/include/cutlass/cutlass.h"
    if has_submodule:
        header.parent.mkdir(parents=True)
        header.touch()
    warnings = list(build_units.replaced_libraries(builds.find(root), root))
    assert len(warnings) == (not has_submodule)
    assert all("csrc/cutlass/include is missing" in warning for warning in warnings)


def test_a_project_with_its_own_cutlass_takes_none_from_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build itself names the folder."""
    monkeypatch.setattr(source_trees, "library_headers", lambda *args, **more: pytest.fail("asked"))
    root = project(tmp_path, "-Ithird/include", text="#include <cutlass/cutlass.h>\n")
    (root / "third" / "include" / "cutlass").mkdir(parents=True)
    (root / "third" / "include" / "cutlass" / "cutlass.h").write_text("")
    assert list(build_units.include_folders(builds.find(root), root)) == []


def test_an_unknown_kernel_is_an_error_before_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The libraries' headers take gigabytes. The hint is a command that lists the units."""
    monkeypatch.setattr(source_trees, "library_headers", lambda *args, **more: pytest.fail("asked"))
    root = project(tmp_path, "-Ithird/include", text="#include <cutlass/cutlass.h>\n")
    selection = Selection(kernels=("zzz",), toolchains=("nvcc==13.0.88",))
    hint = f"no kernel matches 'zzz'; `flacheck scan --package {root} --dry-run` lists the kernels"
    with pytest.raises(UsageError, match=re.escape(hint)):
        ResolvedBuild(Job(Subject(package=str(root)), selection)).expand()


def test_a_folder_outside_of_the_project_is_passed_on(tmp_path: Path) -> None:
    """An existing folder is passed on; the worker checks which files a unit may read."""
    (tmp_path / "lib").mkdir()
    root = project(tmp_path, f"-I{tmp_path / 'lib'}", f"-I{tmp_path / 'gone'}")
    toolkit(tmp_path)
    selection = Selection(toolchains=(str(tmp_path / "cuda-13.9.7"),))
    plan = ResolvedBuild(Job(Subject(package=str(root)), selection)).expand()
    (package,) = plan.packages.values()
    assert package.includes == (str(tmp_path / "lib"),)


def test_a_build_without_units_names_those_that_do_not_exist(tmp_path: Path) -> None:
    """A source distribution may lack the sources that its script names."""
    text = "import setuptools\nsetuptools.Extension('m', ['csrc/gone.cu'])"
    (tmp_path / "setup.py").write_text(text)
    selection = Selection(toolchains=("nvcc==13.0",))
    with pytest.raises(UsageError, match=r"no translation unit was found.*csrc/gone\.cu"):
        ResolvedBuild(Job(Subject(package=str(tmp_path)), selection)).expand()


@pytest.mark.parametrize("name", ["--options-file=x.cu", "-x.cu", "@x.cu"])
def test_a_worker_refuses_a_name_that_is_an_option(name: str) -> None:
    """The file name of a stored unit may come from elsewhere."""
    with pytest.raises(UnitRefused, match="as an option"):
        check_file_name(name)


@pytest.mark.parametrize(
    "text",
    [
        "project = 3\nbuild-system = 3",
        "[project]\nname = 3\nversion = []\ndependencies = 3\n[build-system]\nrequires = 3",
        "[build-system]\nrequires = [3, [], {}]",
        "x = " + "[" * 10_000,
    ],
)
def test_a_malformed_project_file_is_no_crash(tmp_path: Path, text: str) -> None:
    """The values are taken from other places instead."""
    (tmp_path / "pyproject.toml").write_text(text)
    (tmp_path / "setup.py").write_text("x = '\0'\n")
    assert checkouts.cannot_build(tmp_path) is None
    name, version, requires = checkouts.read_metadata(tmp_path)
    assert (type(name), type(version), requires) == (str, str, [])


def test_a_wrong_kernel_costs_no_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The headers of libraries take gigabytes: the names are checked before."""

    def refuse_download(*_: object) -> None:
        pytest.fail("the folders of headers were provided")

    monkeypatch.setattr(build_units, "include_folders", refuse_download)
    root = project(tmp_path, "-O3")
    selection = Selection(kernels=("b.cu",))
    with pytest.raises(UsageError, match=r"no kernel matches 'b\.cu'; did you mean a\.cu"):
        ResolvedBuild(Job(Subject(package=str(root)), selection)).expand()
