"""Where pins come from: tricky files of every kind, each pin with its file and line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flacheck.errors import UsageError
from flacheck.gate import sources
from flacheck.gate.pinned import Installation
from flacheck.gate.sources import poetry, requirement


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def said(installations: list[Installation]) -> dict[str, list[str]]:
    """What each installation is held to, `FILE:LINE REQUIREMENT`."""
    return {
        found.name: [f"{pin.where} {pin.said}" for pin in found.pins] for found in installations
    }


def no_warning(text: str) -> None:
    raise AssertionError(text)


def read(*files: Path) -> dict[str, list[str]]:
    return said(sources.of_files(files, no_warning))


def test_requirements_as_pip_reads_them() -> None:
    """Comments, options, hashes, continuation lines, markers, extras, odd names, CRLF."""
    text = r"""# torch==1.0
--index-url https://example.com/simple
-e .
./local/triton-thing
git+https://example.com/torch.git#egg=other
numpy==1.26  # triton==2.0
Torch[opt-einsum] >=2.6 , <2.9 ; python_version >= "3.8"  # why
triton==3.1.0 ; sys_platform == "win32"
triton==3.0.0 ; python_version < "3.0"
triton \
  >=3.2 \
  --hash=sha256:aa \
  --hash=sha256:bb
triton!=3.3.0
"""
    crlf = text.replace("\n", "\r\n")
    assert read(write("crlf.txt", "\ufeff" + crlf)) == {
        "crlf.txt": [
            "crlf.txt:7 torch>=2.6,<2.9",
            "crlf.txt:10 triton>=3.2",
            "crlf.txt:14 triton!=3.3.0",
        ]
    }


def test_includes_are_relative_to_the_file_that_includes() -> None:
    """Requirements and constraints, however the option is written; a circle is followed once."""
    write("a/base.txt", "torch>=2.6\n-c ../b/limits.txt\n")
    write("b/limits.txt", "triton<3.9\n--constraint=more.txt\n--requirement ../r.txt\n")
    write("b/more.txt", "triton>=3.2\n")
    assert read(write("r.txt", "-ra/base.txt\ntriton!=3.3.0\n")) == {
        "r.txt": [
            "a/base.txt:1 torch>=2.6",
            "b/limits.txt:1 triton<3.9",
            "b/more.txt:1 triton>=3.2",
            "r.txt:2 triton!=3.3.0",
        ]
    }


def test_a_wheel_is_an_exact_pin_and_another_address_any_release() -> None:
    """By name or by path; the second is said."""
    warnings: list[str] = []
    text = (
        "torch @ https://example.com/torch-2.7.1%2Bcu126-cp311-cp311-linux_x86_64.whl\n"
        "./wheels/triton-3.3.1-cp311-cp311-linux_x86_64.whl\n"
        "triton @ git+https://example.com/triton\n"
    )
    found = said(sources.of_files([write("r.txt", text)], warnings.append))
    assert found == {
        "r.txt": ["r.txt:1 torch==2.7.1+cu126", "r.txt:2 triton==3.3.1", "r.txt:3 triton"]
    }
    assert warnings == [
        "r.txt:3: the address of triton names no version and flacheck does not fetch it:"
        " every release is assumed"
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("numpy\ntriton==\n", "r.txt:2: 'triton==' is no requirement"),
        ("numpy\n\ntri ton\n", "r.txt:3: 'tri ton' is no requirement"),
        ("a\nb \\\n >>1\n", "r.txt:2: "),
        ("# x\n-r missing.txt\n", "r.txt:2: missing.txt is included and is not there"),
        ("numpy\n\xff", "r.txt:2: is not UTF-8"),
    ],
)
def test_a_bad_line_is_an_error_with_file_and_line(text: str, where: str) -> None:
    """Whatever it is that the line pins."""
    path = Path("r.txt")
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError) as caught:
        sources.of_files([path], no_warning)
    assert str(caught.value).startswith(where)


PROJECT = """
[build-system]
requires = ["torch==1.0"]

[project]
name = "My.Project"
dependencies = [
    "numpy",
    "triton>=3.2",  # for the kernels
]
[project.optional-dependencies]
cu-12 = ['torch (>=2.6)']
all = ["my_project[CU_12]", "rich"]
docs = ["sphinx"]

[dependency-groups]
lint = ["ruff"]
Test_GPU = ["pytest", "triton<3.9"]
dev = [{include-group = "test-gpu"}, {include-group = "lint"}]
"""


def test_extras_and_groups_are_installations_of_their_own() -> None:
    """Beside the project's own pins; extras of the project and included groups are followed."""
    base, torch, group = (
        "pyproject.toml:9 triton>=3.2",
        "pyproject.toml:12 torch>=2.6",
        "pyproject.toml:18 triton<3.9",
    )
    assert read(write("pyproject.toml", PROJECT)) == {
        "pyproject.toml": [base],
        "pyproject.toml (extra cu-12)": [base, torch],
        "pyproject.toml (extra all)": [base, torch],
        "pyproject.toml (group Test_GPU)": [base, group],
        "pyproject.toml (group dev)": [base, group],
    }


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[project\n", "pyproject.toml:1: not valid TOML"),
        (
            '[project]\ndependencies = "triton"\n',
            "pyproject.toml:2: project.dependencies must be a list",
        ),
        (
            '[project]\ndependencies = [\n"a",\n"triton>>3"]\n',
            "pyproject.toml:4: 'triton>>3' is no requirement",
        ),
        ("[project]\ndependencies = [\n3]\n", "pyproject.toml:2: a requirement is a text"),
        (
            '[dependency-groups]\na = [{include-group = "b"}]\n',
            "pyproject.toml:2: there is no dependency group 'b'",
        ),
        (
            '[dependency-groups]\na = [{include-group = "b"}]\nb = [{include-group = "a"}]\n',
            "pyproject.toml:3: dependency groups include each other: a → b → a",
        ),
        (
            '[tool.poetry.dependencies]\ntriton = "^x"\n',
            "pyproject.toml:2: '^x' is no version constraint",
        ),
        (
            '[tool.poetry.dependencies]\ntriton = {version = "3", markers = "no"}\n',
            "pyproject.toml:2: 'no' is no environ",
        ),
        (
            '[tool.poetry]\ndependencies = "triton"\n',
            "pyproject.toml:2: tool.poetry.dependencies must be a table",
        ),
    ],
)
def test_a_bad_pyproject_is_an_error_with_file_and_line(text: str, where: str) -> None:
    """Syntax, kinds, requirements, circles."""
    with pytest.raises(UsageError) as caught:
        sources.of_files([write("pyproject.toml", text)], no_warning)
    assert str(caught.value).startswith(where)


def test_poetrys_tables() -> None:
    """Strings, tables, several constraints, optional dependencies, both kinds of groups."""
    minor = sys.version_info.minor
    text = f"""
[tool.poetry.dependencies]
python = "^3.9"
triton = {{version = "^3.2", markers = "sys_platform == 'linux'"}}
torch = [
    {{version = "~2.6", python = "<3.{minor}"}},
    {{version = "~2.7", python = ">=3.{minor}"}},
    {{version = "2.5.0", platform = "darwin"}},
]
[tool.poetry.dev-dependencies]
triton = "3.4.*"
[tool.poetry.group.gpu.dependencies]
triton = {{version = "3.3.0 || >=3.5,<3.6", optional = true}}
"""
    base = ["pyproject.toml:4 triton>=3.2,<4", "pyproject.toml:7 torch>=2.7,<2.8"]
    assert read(write("pyproject.toml", text)) == {
        "pyproject.toml": base,
        "pyproject.toml (group dev)": [*base, "pyproject.toml:11 triton==3.4.*"],
        "pyproject.toml (group gpu)": [*base, "pyproject.toml:13 triton==3.3.0 || >=3.5,<3.6"],
    }


@pytest.mark.parametrize(
    ("constraint", "specifier"),
    [
        ("^1.2.3", ">=1.2.3,<2"),
        ("^0.2.3", ">=0.2.3,<0.3"),
        ("^0.0.3", ">=0.0.3,<0.0.4"),
        ("^0.0", ">=0.0,<0.1"),
        ("^0", ">=0,<1"),
        ("~1.2.3", ">=1.2.3,<1.3"),
        ("~1.2", ">=1.2,<1.3"),
        ("~1", ">=1,<2"),
        ("~=3.8.0", "~=3.8.0"),
        ("3.4", "==3.4"),
        ("=3.4", "==3.4"),
        ("3.*", "==3.*"),
        ("*", ""),
        (">= 3.2 <3.9, != 3.3.0", ">=3.2,<3.9,!=3.3.0"),
        ("^2.6 || ~3.1", ">=2.6,<3 || >=3.1,<3.2"),
    ],
)
def test_poetrys_constraints_as_pep_440(constraint: str, specifier: str) -> None:
    """As Poetry's documentation explains them."""
    assert poetry.pep440(constraint, "x") == specifier


LOCK = """version = 1

[[package]]
name = "torch"
version = "2.6.0"
source = { registry = "https://example.com" }
resolution-markers = ["python_version < '3'"]

[[package]]
name = "torch"
version = "2.7.1+cu126"
dependencies = [
    { name = "triton", version = "3.3.1", marker = "sys_platform == 'linux'" },
]

[[package]]
name = "torch"
version = "2.8.0"
dependencies = [
    { name = "triton", version = "3.4.0" },
]

[[package]]
name = "triton"
version = "3.3.1"

[[package]]
name = "triton"
version = "3.4.0"

[[package]]
name = "triton"
version = "3.5.0"
"""


def test_a_lock_that_forks_is_several_installations() -> None:
    """Each torch with the Triton that it was locked with; forks for other machines are left out."""
    assert read(write("uv.lock", LOCK)) == {
        "uv.lock (torch==2.7.1+cu126)": [
            "uv.lock:11 torch==2.7.1+cu126",
            "uv.lock:25 triton==3.3.1",
        ],
        "uv.lock (torch==2.8.0)": ["uv.lock:18 torch==2.8.0", "uv.lock:29 triton==3.4.0"],
        "uv.lock (triton==3.5.0)": ["uv.lock:33 triton==3.5.0"],
    }


def test_a_plain_lock_is_one_installation() -> None:
    """One torch, one Triton."""
    package = '[[package]]\nname = "{}"\nversion = "{}"\n\n'
    text = package.format("triton", "3.4.0") + package.format("torch", "2.8.0")
    assert read(write("uv.lock", text)) == {
        "uv.lock": ["uv.lock:7 torch==2.8.0", "uv.lock:3 triton==3.4.0"]
    }


def test_a_broken_lock_is_an_error_with_its_line() -> None:
    """As for every file."""
    with pytest.raises(UsageError, match=r"^uv\.lock:2: not valid TOML"):
        read(write("uv.lock", "version = 1\n[[package]\n"))


def test_files_named_together_are_one_installation_but_a_lock_is_its_own() -> None:
    """As `pip install -r A -c B`."""
    files = [
        write("r.txt", "torch==2.7.1\n"),
        write("c.txt", "triton==3.2.0\n"),
        write("uv.lock", LOCK[-30:]),
    ]
    files[2].write_text('[[package]]\nname = "triton"\nversion = "3.5.0"\n')
    assert read(*files) == {
        "r.txt, c.txt": ["r.txt:1 torch==2.7.1", "c.txt:1 triton==3.2.0"],
        "uv.lock": ["uv.lock:3 triton==3.5.0"],
    }


def test_found_files_are_judged_each_by_itself(here: Path) -> None:
    """Alternatives lie side by side; files without a pin and of other kinds are passed over."""
    write("requirements-a100.txt", "triton==3.2.0\n")
    write("requirements/h100.txt", "triton==3.4.0\n")
    write("requirements.txt", "numpy\n")
    write("notes.txt", "not a requirement at all\n")
    assert said(sources.in_folder(here, no_warning)) == {
        "requirements-a100.txt": ["requirements-a100.txt:1 triton==3.2.0"],
        "requirements/h100.txt": ["requirements/h100.txt:1 triton==3.4.0"],
    }


def test_a_kind_of_file_that_is_not_read_is_said() -> None:
    """Better than to find no pin in it."""
    with pytest.raises(
        UsageError, match=r"environment.yml: cannot be read by gate, which knows pyproject.toml"
    ):
        sources.of_files([write("environment.yml", "dependencies: [triton]")], no_warning)


def test_the_live_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed is pinned exactly, and has no line."""
    there = {"triton": "3.4.0"}

    def version(name: str) -> str:
        if name not in there:
            raise sources.metadata.PackageNotFoundError(name)
        return there[name]

    monkeypatch.setattr(sources.metadata, "version", version)
    assert said(sources.installed()) == {"the live environment": ["(installed) triton==3.4.0"]}
    assert sources.installed()[0].pins[0].line is None


@pytest.mark.parametrize(
    ("text", "specifier"),
    [
        ("triton", ""),
        ("triton ", ""),
        ("triton[x]; python_version > '3'", ""),
        ("triton>=3 , <4 ; python_version > '3'", ">=3 , <4"),
        ("triton (>=3,<4)", ">=3,<4"),
        ("triton[a, b]==3.*", "==3.*"),
    ],
)
def test_a_specifier_is_found_in_its_requirement(text: str, specifier: str) -> None:
    """Nothing more and nothing less is replaced by --fix."""
    assert text[slice(*requirement.specifier_span(text))] == specifier
