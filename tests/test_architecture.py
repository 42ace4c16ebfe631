"""The house: imports only go down, the guest stands alone, and no report reads the store."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "flacheck"

# The sandbox speaks the guest's protocol; that file has no dependencies and is the one thing both
# sides share.
SHARED = "flacheck.guest.channel"


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (
                f"{node.module}.{alias.name}" for alias in node.names if node.module == "flacheck"
            )


def room(path: str) -> str:
    """The room an import leads to, "" for one outside flacheck."""
    parts = path.split(".")
    return parts[1] if parts[0] == "flacheck" and len(parts) > 1 else ""


def test_every_room_has_a_floor() -> None:
    """A new module is placed before it is used."""
    rooms = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()
    }
    assert rooms - {"guest"} <= set(FLOORS)


def test_imports_only_go_down() -> None:
    """No module imports from a floor above its own."""
    wrong = []
    for file in PACKAGE.rglob("*.py"):
        own = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if own in ("guest", "kernels", "matrices"):
            continue
        for name in imports(file):
            if FLOORS.get(room(name), -1) > FLOORS[own]:
                wrong.append(f"{file.relative_to(PACKAGE)} imports {name}")
    assert wrong == []


def test_only_the_protocol_is_shared_with_the_guest() -> None:
    """flacheck starts the guest and never imports it, and the guest imports nothing of flacheck."""
    outside = {
        name
        for file in PACKAGE.rglob("*.py")
        if "guest" not in file.parts
        for name in imports(file)
        if name.startswith("flacheck.guest")
    }
    assert outside <= {"flacheck.guest", SHARED}
    inside = [name for file in (PACKAGE / "guest").rglob("*.py") for name in imports(file)]
    assert not [name for name in inside if name.partition(".")[0] == "flacheck"]


def test_reports_do_not_read_the_store() -> None:
    """A report gets values."""
    found = {name for file in (PACKAGE / "reports").glob("*.py") for name in imports(file)}
    assert not found & {"flacheck.store", "flacheck.database", "sqlite3"}


def test_the_model_has_no_io() -> None:
    """The nouns import neither what draws nor what compiles."""
    found = {name.partition(".")[0] for name in imports(PACKAGE / "model.py")}
    assert not found & {"rich", "typer", "torch", "triton", "sqlite3", "subprocess"}


def test_the_command_line_imports_neither_triton_nor_torch() -> None:
    """Help and explanations are quick, and the compile path never needs torch."""
    code = (
        "import sys, flacheck.cli, flacheck.session; print({'torch', 'triton'} & set(sys.modules))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert said.strip() == "set()"
