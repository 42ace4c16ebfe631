"""Files that a package writes beside its modules while its folder is read-only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# The sandbox of a capture refuses writes in the package's folder; here, functions do that.
PROGRAM = """
import builtins, io, os, sys
from pathlib import Path

folder = sys.argv[1]
plain_open, plain_mkdir = io.open, os.mkdir

def refusing_open(file, mode="r", *args, **kwargs):
    if "w" in mode and str(file).startswith(folder):
        raise PermissionError(13, "Permission denied", str(file))
    return plain_open(file, mode, *args, **kwargs)

def refusing_mkdir(path, *args, **kwargs):
    if str(path).startswith(folder):
        raise PermissionError(13, "Permission denied", str(path))
    plain_mkdir(path, *args, **kwargs)

builtins.open = io.open = refusing_open
os.mkdir = refusing_mkdir

from flacheck.guest.search.redirected_writes import redirect_writes

redirect_writes([folder])
rendered = Path(folder) / "ops" / "_rendered"
rendered.mkdir(exist_ok=True)
rendered.mkdir(exist_ok=True)
(rendered / "kernel.py").write_text("x = 1")
with open(rendered / "kernel.py") as file:
    assert file.read() == "x = 1"
assert (Path(folder) / "own.py").read_text() == "own"
(Path(folder) / "layers" / "tuned.json").write_text("{}")
assert (Path(folder) / "layers" / "tuned.json").read_text() == "{}"
for name in ("nothing.py", "nowhere/nothing.py"):
    try:
        open(os.path.join(folder, name))
    except FileNotFoundError as error:
        assert error.filename.startswith(folder), error
    else:
        raise AssertionError(name)
"""


def test_what_is_written_beside_the_modules_can_be_read(tmp_path: Path) -> None:
    """The folder stays as it is; files that are nowhere are missing under their own name."""
    folder = tmp_path / "package"
    (folder / "ops").mkdir(parents=True)
    (folder / "layers").mkdir()
    (folder / "own.py").write_text("own")
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(path.name for path in folder.rglob("*")) == ["layers", "ops", "own.py"]
