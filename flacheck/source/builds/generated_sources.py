"""Sources that a project's build generates, which a scan does not find before that build ran."""

import re
from collections.abc import Iterator
from pathlib import Path

from flacheck.errors import MatrixError
from flacheck.files import lies_inside
from flacheck.source.builds.arguments import printable
from flacheck.source.builds.build_file import is_file, read_text

_CMAKE_FILE = "CMakeLists.txt"
_SETUP_SCRIPT = "setup.py"
_MOST_BYTES = 1 << 20
_MOST_NAMES = 3
# A pattern of sources, relative to its file: `file(GLOB KERNELS autogen/*.cu)`.
_GLOB = re.compile(r"[\w./${}@-]*\*[\w.*-]*\.cu\b")
_CMAKE_FOLDER = re.compile(
    r"^\$\{(?:CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR|PROJECT_SOURCE_DIR"
    r"|CMAKE_SOURCE_DIR)\}/"
)
_SCRIPT = re.compile(r"[\w.-]+\.py\b")
_CUDA = re.compile(r"\.cuh?\b|\bcuda\b|__global__", re.IGNORECASE)
_WRITES = re.compile(r"open\([^\n]*['\"]w|\.write_text\(")
# A statement of a setup.py that writes a source itself.
_WRITES_SOURCE = re.compile(r"\.cu\b[^\n]*(?:['\"]w['\"]|\.write_text\()")


def find_warnings(root: Path) -> Iterator[str]:
    """Yield a warning if a build generates CUDA sources or lists folders that have none.

    It names the scripts that generate them: their sources are scanned after the scripts ran.
    """
    files = [root / _SETUP_SCRIPT, root / _CMAKE_FILE, *sorted(root.glob(f"*/{_CMAKE_FILE}"))]
    patterns: dict[str, None] = {}
    scripts: dict[str, None] = {}
    for file in files:
        text = _read(file, root)
        # A setup.py joins the parts of its patterns, so that one part alone matches nothing.
        if file.name == _CMAKE_FILE:
            for pattern in _empty_patterns(text, file.parent, root):
                patterns[pattern] = None
        for script in _find_generators(text, file, root):
            scripts[script] = None
    if not patterns and not scripts:
        return
    warning = "sources that the build generates are not scanned unless they exist"
    if scripts:
        warning += f"; they are written by {_list_names(list(scripts))}"
    if patterns:
        warning += f"; no file matches {_list_names(list(patterns))}"
    yield f"{warning}: build the project once, or run what writes them, and scan it again"


def _empty_patterns(text: str, folder: Path, root: Path) -> Iterator[str]:
    """Yield the patterns of CUDA sources in a build file that match no file."""
    for pattern in _GLOB.findall(text):
        relative = _CMAKE_FOLDER.sub("", pattern)
        has_variable = "$" in relative or "@" in relative
        if has_variable or relative.startswith("/") or ".." in relative:
            continue
        if not any(folder.glob(relative)):
            yield str((folder / relative).relative_to(root))


def _find_generators(text: str, file: Path, root: Path) -> Iterator[str]:
    """Yield the project's scripts that a build file names and that write CUDA sources."""
    if file.name == _SETUP_SCRIPT and _WRITES_SOURCE.search(text):
        yield _SETUP_SCRIPT
    names = dict.fromkeys(_SCRIPT.findall(text))
    names.pop(_SETUP_SCRIPT, None)
    for name in names:
        for script in sorted(root.rglob(name)):
            script_text = _read(script, root)
            if _CUDA.search(script_text) and _WRITES.search(script_text):
                yield str(script.relative_to(root))


def _read(file: Path, root: Path) -> str:
    if not is_file(file) or not lies_inside(file, root):
        return ""
    try:
        return read_text(file, root, _MOST_BYTES)
    except MatrixError:
        return ""


def _list_names(names: list[str]) -> str:
    text = ", ".join(map(printable, names[:_MOST_NAMES]))
    if len(names) > _MOST_NAMES:
        text += f" and {len(names) - _MOST_NAMES} more"
    return text
