"""Hostile inputs, and their trial in this process under an audit hook."""

from __future__ import annotations

import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from flacheck.errors import FlacheckError
from flacheck.model.launch import LAUNCHES_SCHEMA
from flacheck.subjects.inputs import launches
from flacheck.subjects.inputs.expand import Selection, expand
from flacheck.subjects.inputs.matrix import Block, Matrix
from tests.mutations import dump, mangled, mutated
from tests.subjects.inputs.launches.test_launches import HEADER, KERNEL, launch
from tests.subjects.inputs.test_matrix import GOOD

# Seconds that an input may take.
SLOWEST = 10.0
# Events of Python's audit that no reader of an input has a use for.
_EXECUTIONS = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "ctypes.dlopen")
# Where Python and this project read their own modules and data.
_OWN = ("/proc/self", "/dev/null", *sys.path, str(Path(__file__).parent.parent))


@dataclass
class Guard:
    """Record events while an input is tried; a hook cannot be removed, so there is one."""

    own_folder: str = ""
    is_armed: bool = False
    executions: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    @staticmethod
    def the_guard() -> Guard:
        if not _GUARDS:
            guard = Guard()
            sys.addaudithook(guard.hear)
            _GUARDS.append(guard)
        return _GUARDS[0]

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_armed:
            return
        if event in _EXECUTIONS:
            self.executions.append(f"{event} {arguments!r}"[:200])
        elif event == "open" and isinstance(arguments[0], (str, bytes)):
            name = arguments[0] if isinstance(arguments[0], str) else arguments[0].decode()
            # Python looks for the source of a syntax error under this name.
            places = (self.own_folder, sys.prefix, sys.base_prefix, sys.pycache_prefix, *_OWN)
            own = ("<unknown>", *filter(None, places))
            # A bare name lies in a folder that was opened before, as when a folder is removed.
            if "/" in name and not name.startswith(own):
                self.files.append(name)


_GUARDS: list[Guard] = []


@dataclass(frozen=True)
class Kind:
    """A kind of input: how hostile examples are made, and the code that reads them."""

    strategy: st.SearchStrategy[str]
    read: Callable[[str, Path], object]


def _launches(text: str, folder: Path) -> object:
    file = folder / "l.jsonl"
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    read = launches.read(file)
    own_sources, _ = launches.without_refused(read.launches)
    matrix = Matrix("l", str(file), (Block({"target": ("sm90",)}),))
    found = launches.sources(own_sources)
    return [cell.key for cell in expand(matrix, found, Selection(), lambda spec: ["triton==3.7.1"])]


def _matrix(text: str, folder: Path) -> object:
    from flacheck.subjects.inputs import corpus, size
    from flacheck.subjects.inputs import matrix as matrices

    file = folder / "m.yaml"
    file.write_text(text, encoding="utf-8", errors="replace")
    read = matrices.read(file)
    sources = list(corpus.load().values())
    size.check(read, sources, Selection(), lambda spec: ["triton==3.7.1"])
    cells = expand(read, sources, Selection(), lambda spec: ["triton==3.7.1"])
    # As many as a test has time for.
    return [cell.key for cell, _ in zip(cells, range(300))]


def _pins(text: str, folder: Path) -> object:
    from flacheck.capabilities.gate import sources

    installations = []
    for name in ("pyproject.toml", "requirements.txt", "uv.lock"):
        file = folder / name
        file.write_text(text, encoding="utf-8", errors="replace")
        try:
            installations.append(sources.of_files([file]))
        except FlacheckError as error:
            installations.append(error)
        finally:
            file.unlink()
    return installations


def _log(text: str, folder: Path) -> object:
    from flacheck.rules import explanation

    return explanation.of_log(text)


def _settings(text: str, folder: Path) -> object:
    from flacheck.tables.settings import settings

    (folder / "pyproject.toml").write_text(text, encoding="utf-8", errors="replace")
    try:
        return settings.read(folder), settings.waivers(folder)
    finally:
        (folder / "pyproject.toml").unlink()


def _admission(text: str, folder: Path) -> object:
    from flacheck.subjects.inputs.launches.admission import check_source

    return check_source(text)


TOML = """\
[project]
name = "x"
dependencies = ["triton==3.2.0", "torch>=2.5,<2.9 ; python_version > '3.9'"]

[project.optional-dependencies]
gpu = ["triton[x]>=3 ; extra == 'gpu'"]

[tool.poetry.dependencies]
torch = {version = "^2.5", optional = true}

[tool.flacheck]
target = ["sm90"]
store = "s"

[[tool.flacheck.waivers]]
kernel = "chunk_*"
signature = "FC302:ttgir:reshapeOuts:1a2b3c4d"
reason = "known"
expires = 2027-03-31
"""
REQUIREMENTS = "triton==3.2.0 ; sys_platform == 'linux'\n-r other.txt\n--index-url https://x\ntorch @ file:///x.whl\n"
LINES = [HEADER, launch(), {"of": "a" * 16, "count": 4}, {"end": True, "coverage": {}}]
LOG = (
    "ptxas fatal : Feature '.bf16' requires .target sm_80\n"
    '  File "k.py", line 3, in run\nRuntimeError: PassManager::run failed\n'
    "a.cpp:12: int f(int) const: Assertion `size == want' failed.\nTriton Error [CUDA]: x\n"
    "triton.compiler.errors.CompilationError: at 3:4:\n    x = tl.dot(a, b)\n    ^\nTypeError('no')\n"
)
assert HEADER["schema"] == LAUNCHES_SCHEMA


@st.composite
def _files(draw: st.DrawFn) -> str:
    """A launches file with a line changed as a value, or as text."""
    lines = [dump(line) for line in LINES]
    place = draw(st.integers(0, len(lines) - 1))
    if draw(st.booleans()):
        lines[place] = json.dumps(draw(mutated(LINES[place])))
    else:
        lines[place] = draw(mangled(lines[place]))
    return "\n".join(lines) + "\n"


KINDS: dict[str, Kind] = {
    "launches": Kind(_files(), _launches),
    "matrix": Kind(
        mangled(GOOD.replace("packages: [flash-linear-attention==0.2.2]\n", "")), _matrix
    ),
    "pins": Kind(st.one_of(mangled(TOML), mangled(REQUIREMENTS)), _pins),
    "log": Kind(st.one_of(mangled(LOG), st.text(max_size=300)), _log),
    "settings": Kind(mangled(TOML), _settings),
    "source": Kind(mangled(KERNEL), _admission),
}


def attempt(kind: Kind, text: str, folder: Path, guard: Guard) -> str | None:
    """Return what went wrong with an input: a traceback, a file, a program or its time."""
    guard.own_folder, guard.is_armed = str(folder), True
    guard.executions.clear()
    guard.files.clear()
    start = time.process_time()
    # Commands have temporary folders of their own.
    tempfile.tempdir = str(folder)
    wrong = None
    try:
        kind.read(text, folder)
    except FlacheckError as error:
        if not str(error):
            wrong = "an error without a word"
    except Exception:
        wrong = traceback.format_exc()
    finally:
        guard.is_armed = False
        tempfile.tempdir = None
    if guard.executions:
        return f"it ran {guard.executions}"
    if guard.files:
        return f"it opened {guard.files}"
    if time.process_time() - start > SLOWEST:
        return "it took too long"
    return wrong
