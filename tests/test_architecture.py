"""The house: its rooms, and which way an import may go.

`ROOMS` is the plan. CONTRIBUTING's table is checked against it, and every module of the package,
imports for types included, is read and held to it.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

import flacheck
from tests.paths import ROOT, TESTS

PACKAGE = ROOT / "flacheck"

# From the ground floor up: an import leads to a floor below. The folders of `capabilities` do not
# import each other.
ROOMS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("files",),
    ("model",),
    ("tables",),
    ("guest",),
    ("toolchains",),
    ("source",),
    ("rules",),
    ("store",),
    ("evidence",),
    ("engine",),
    ("subjects",),
    ("pipeline",),
    ("capabilities",),
    ("reports",),
    ("api",),
    ("cli",),
    ("pytest_plugin",),
)
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}
CAPABILITIES = (
    *(
        "check",
        "scan",
        "bisect",
        "diff",
        "repro",
        "autotune",
        "bench",
        "measure",
        "gate",
        "init",
        "dtypes",
        "known_results",
        "results",
    ),
)
# The guest's own floors: a compiler's process does not import torch's recorder.
GUEST_ROOMS = (
    "pysource",
    "engine",
    "card",
    "workers",
    "fake_cuda",
    "recorder",
    "inference",
    "search",
    "test_suite",
    "dtypes",
)
LOOSE = {"__init__", "__main__", "errors", "files", "version"}
# Data that ships with the package and holds no module.
FOLDERS_WITHOUT_MODULES = {"kernels", "matrices", "results", "__pycache__"}
# Test files that test no single room.
TESTS_OF_THE_WHOLE = {
    "test_architecture",
    "test_conftest",
    "test_documents",
    "test_files",
    "test_hostile_input",
    "test_readme_commands",
    "test_shown_outputs",
    "test_recall",
    "test_soak",
    "test_wheel",
    "test_workflows",
}
# The corpus lies beside the package until a wheel is built.
FOLDERS_OF_TESTS = {"journeys", "kernels"}
# The sandbox uses the guest's protocol, and readers of launches files digest definitions like the
# recorder; the analysis of Python source exists once. Those files have no dependencies, and both
# sides share nothing else.
PYSOURCE = ("called_name", "dotted_name", "last_name", "names_of", "parameter_names", "parameters")
SHARED = {
    "flacheck.guest.engine.channel",
    "flacheck.guest.engine.confinement",
    "flacheck.guest.engine.confinement.Policy",
    "flacheck.guest.engine.escapes",
    *(f"flacheck.guest.pysource.functions.{name}" for name in PYSOURCE),
    "flacheck.guest.recorder.definitions.Definitions",
    "flacheck.guest.recorder.definitions.digest",
}


# Lines of Python that the product and its tests may have. Who raises one says why in the same
# commit; the plan is 81,000 and 50,000.
LINES = {"flacheck": 89634, "tests": 56809}


@functools.cache
def tree_of(file: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(file.read_text())


def modules() -> dict[str, Path]:
    """Every module of the package outside the guest, by its dotted name."""
    names = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        if parts[1] != "guest":
            names[".".join(parts).removesuffix(".__init__")] = file
    return names


@functools.cache
def imports(file: Path) -> tuple[str, ...]:
    """Return every absolute import of a file, including imports for types and within functions."""
    names = []
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(names)


def room_of(name: str) -> str:
    """Return the room of a dotted name; "" outside flacheck or for a top-level name."""
    parts = name.split(".")
    inside = parts[0] == "flacheck" and len(parts) > 1 and parts[1] in FLOOR
    return parts[1] if inside else ""


def edges() -> dict[str, set[str]]:
    """Return the imports of each module."""
    names = modules()
    edge_map: dict[str, set[str]] = {}
    for name, file in names.items():
        next_rooms = set()
        for targets in imports(file):
            target = targets if targets in names else targets.rpartition(".")[0]
            if target in names and target != name:
                next_rooms.add(target)
        edge_map[name] = next_rooms
    return edge_map


def guest_edges() -> dict[str, set[str]]:
    """Return the imports among the guest's modules, which are all relative."""
    folder = PACKAGE / "guest"
    files = {}
    for file in folder.rglob("*.py"):
        files[".".join(file.relative_to(folder).with_suffix("").parts)] = file
    graph: dict[str, set[str]] = {}
    for name, file in files.items():
        graph[name] = set()
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = [*name.split(".")[: -node.level], *filter(None, [node.module])]
                for alias in node.names:
                    paths = [".".join([*base, alias.name]), ".".join(base)]
                    paths.append(f"{paths[1]}.__init__")
                    graph[name].update([path for path in paths if path in files][:1])
    return graph


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return modules that import each other in a ring; none without such a ring."""
    finished: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> list[str]:
        if name in path:
            return path[path.index(name) :]
        if name in finished:
            return []
        path.append(name)
        for next_rooms in sorted(graph[name]):
            ring = visit(next_rooms)
            if ring:
                return ring
        path.pop()
        finished.add(name)
        return []

    for name in sorted(graph):
        ring = visit(name)
        if ring:
            return ring
    return []


def test_every_module_is_in_a_room() -> None:
    """A new folder is placed in the plan before it is used, and nothing lies about."""
    loose = {file.stem for file in PACKAGE.glob("*.py")}
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    assert loose == LOOSE
    assert folders - FOLDERS_WITHOUT_MODULES == set(FLOOR) - LOOSE


@pytest.mark.parametrize("folder", LINES)
def test_a_folder_stays_within_its_lines(folder: str) -> None:
    """Whoever adds finds something to take away."""
    files = (ROOT / folder).rglob("*.py")
    lines = sum(file.read_text(encoding="utf-8").count("\n") for file in files)
    assert lines <= LINES[folder]


def test_imports_only_go_down() -> None:
    """No module imports from its own floor's other rooms or from a floor above."""
    wrong = []
    for name, file in modules().items():
        own = room_of(name)
        for targets in imports(file):
            other = room_of(targets)
            if own and other and other != own and FLOOR[other] >= FLOOR[own]:
                wrong.append(f"{name} imports {targets}")
    assert wrong == []


def test_capabilities_do_not_import_each_other() -> None:
    """Code that two of them share lies below both."""
    folders = {path.name for path in (PACKAGE / "capabilities").iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == set(CAPABILITIES)
    wrong = []
    for name, file in modules().items():
        own = name.split(".")[2:3]
        for targets in imports(file):
            other = targets.split(".")[2:3]
            if room_of(name) == room_of(targets) == "capabilities" and own != other:
                wrong.append(f"{name} imports {targets}")
    assert wrong == []


def test_the_command_line_uses_the_api_and_reports_alone() -> None:
    """Whatever a command does, a program can do with `import flacheck`."""
    public = {f"flacheck.{name}" for name in flacheck.__all__} | {
        "flacheck",
        "flacheck.__version__",
    }
    rooms = ("flacheck.api.", "flacheck.reports", "flacheck.cli")
    wrong = []
    for name, file in modules().items():
        if room_of(name) != "cli":
            continue
        for targets in imports(file):
            ours = targets.partition(".")[0] == "flacheck"
            if ours and targets not in public and not targets.startswith(rooms):
                wrong.append(f"{name} imports {targets}")
    assert wrong == []


def test_no_module_hides_a_function_of_the_api() -> None:
    """`flacheck.diff` stays a function after every module was imported."""
    code = """
import flacheck, importlib, pkgutil
for module in pkgutil.walk_packages(flacheck.__path__, "flacheck."):
    if ".guest." not in module.name and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for name in flacheck.__all__:
    value = getattr(flacheck, name)
    assert type(value).__name__ != "module", name
print(flacheck.explain("FC302").findings[0].code)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.stdout.strip(), ran.stderr) == ("FC302", "")


def test_no_two_modules_import_each_other() -> None:
    """This includes imports for types: code that two modules share lies below both."""
    assert circle(edges()) == []


def test_a_ring_of_imports_would_be_seen() -> None:
    """The search for rings finds one that is there."""
    assert circle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c"]


def test_tests_mirror_the_rooms() -> None:
    """The folder of a test file is the room of what it tests, except tests of the whole tool."""
    folders = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*") if path.is_dir()}
    files_elsewhere = []
    for file in sorted(TESTS.rglob("test_*.py")):
        folder = str(file.parent.relative_to(TESTS))
        is_of_the_whole = folder == "." and file.stem in TESTS_OF_THE_WHOLE
        if not is_of_the_whole and folder not in folders | FOLDERS_OF_TESTS:
            files_elsewhere.append(str(file.relative_to(TESTS)))
    assert files_elsewhere == []


def test_contributing_shows_the_same_rooms() -> None:
    """The table that a newcomer reads is the one that the tests hold the code to."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = re.findall(r"^\| (\d+) \| ([^|]+) \|", text, re.MULTILINE)
    rows_shown = tuple(tuple(re.findall(r"`(\w+)(?:/|\.py)`", rooms)) for _, rooms in table)
    assert rows_shown == ROOMS


def test_only_protocol_and_digests_are_shared_with_the_guest() -> None:
    """flacheck starts the guest and never imports it, and the guest imports nothing of flacheck."""
    outside = {
        targets
        for file in modules().values()
        for targets in imports(file)
        if targets.startswith("flacheck.guest")
    }
    assert outside <= SHARED
    inside = [name for file in (PACKAGE / "guest").rglob("*.py") for name in imports(file)]
    assert [name for name in inside if name.partition(".")[0] == "flacheck"] == []


def test_the_guests_engine_needs_only_the_compiler() -> None:
    """Server and workers run beside compilers that have neither torch nor flacheck."""
    for room in ("engine", "workers"):
        files = list((PACKAGE / "guest" / room).glob("*.py"))
        assert len(files) > 1, room
        for file in files:
            names = {name.partition(".")[0] for name in imports(file)}
            assert names <= {*sys.stdlib_module_names, "triton", "torch"}, file


def test_imports_of_the_guest_only_go_down() -> None:
    """The compiler's process knows no recorder, and no two modules of the guest import each other."""
    floor = {room: number for number, room in enumerate(GUEST_ROOMS)}
    graph = guest_edges()
    wrong = []
    for name, next_rooms in graph.items():
        own = floor.get(name.partition(".")[0], 0)
        for other in next_rooms:
            if floor.get(other.partition(".")[0], 0) > own:
                wrong.append(f"{name} imports {other}")
    assert wrong == []
    assert circle(graph) == []


@pytest.mark.parametrize("room", ["reports"])
def test_reports_do_not_read_the_store(room: str) -> None:
    """A report gets values."""
    names = {room_of(name) for file in (PACKAGE / room).rglob("*.py") for name in imports(file)}
    assert not names & {"store", "engine", "toolchains"}


def test_the_model_has_no_io() -> None:
    """The model imports neither rendering nor compiling code."""
    names = {
        name.partition(".")[0]
        for file in (PACKAGE / "model").rglob("*.py")
        for name in imports(file)
    }
    assert not names & {"rich", "typer", "torch", "triton", "sqlite3", "subprocess", "yaml"}


def test_the_command_line_imports_neither_triton_nor_torch() -> None:
    """Help and explanations are quick, and the compile path never needs torch."""
    code = "import sys, flacheck.cli, flacheck.engine.loop, flacheck.pipeline.planning; "
    code += "print({'torch', 'triton'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


# Calls that open a file by its path and follow links.
FOLLOWING_CALLS = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes"),
    *("copy", "copy2", "copyfile", "copytree", "move", "extractall"),
}


def following_calls(tree: ast.Module) -> Iterator[str]:
    """Yield each call that opens a path outside `files`, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name("open")):
                yield f"{node.lineno} open"
            case ast.Call(ast.Attribute(value, name)) if name in FOLLOWING_CALLS:
                if not (isinstance(value, ast.Name) and value.id == "files"):
                    yield f"{node.lineno} {name}"


def starts_guests(file: Path) -> bool:
    """True for a module that starts a confined program, or that has its folder."""
    names = {"flacheck.engine.programs", "flacheck.subjects.captures.capture_job.run_guest"}
    return bool(names.union({"flacheck.files.GuestFolder"}).intersection(imports(file)))


def test_guest_folders_are_read_through_one_module() -> None:
    """A guest may put a link in place of any file, so `files` alone opens what is there."""
    guests = {name: file for name, file in modules().items() if starts_guests(file)}
    assert len(guests) > 4
    wrong = []
    for name, file in guests.items():
        wrong += [f"{name}:{call}" for call in following_calls(tree_of(file))]
    assert wrong == []


# Modules that read only what the system, flacheck's own data or an installed compiler have.
READ_OWN_FILES = {
    *("api.lists", "cli.topics", "reports.board", "reports.formats.html", "rules.base", "tables"),
    *("engine.executors", "engine.sandbox", "evidence.published.library", "subjects.inputs.nearby"),
    *("toolchains.cache", "toolchains.filling", "toolchains.identity", "toolchains.triton"),
    "source.packages.package",
}


def reads_paths(file: Path) -> bool:
    """True for a module that reads files by their path."""
    calls = {call.partition(" ")[2] for call in following_calls(tree_of(file))}
    return bool(calls & {"read_text", "read_bytes"})


def test_files_of_users_are_read_through_one_module() -> None:
    """A checkout may hold a pipe, a device or a link in place of any file that flacheck reads."""
    names = {
        name.removeprefix("flacheck.") for name, file in modules().items() if reads_paths(file)
    }
    assert names - {"files"} == READ_OWN_FILES


def test_another_way_into_a_guest_folder_would_be_seen() -> None:
    """The search finds each of the calls that flacheck once read a guest's files by."""
    text = """
json.loads(Path(config["report"]).read_text(encoding="utf-8"))
shutil.copyfile(config[name], partial)
with file.open() as stream, open(path) as other: ...
os.open(path, os.O_RDONLY)
files.read_text(path)
"""
    assert sorted(following_calls(ast.parse(text))) == [
        *("2 read_text", "3 copyfile", "4 open", "4 open", "5 open"),
    ]


def test_class_names_are_unique() -> None:
    """Two classes with one name would be two meanings of one word."""
    names = [
        node.name
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.ClassDef)
    ]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_no_conditional_expression_holds_another() -> None:
    """A reader's eye goes down, not back and forth."""
    places = [
        f"{file.relative_to(PACKAGE)}:{node.lineno}"
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.IfExp)
        and any(
            isinstance(inner, ast.IfExp)
            for part in (node.test, node.body, node.orelse)
            for inner in ast.walk(part)
        )
    ]
    assert places == []


# Decisions in one function, counted as radon does. Above this its parts have no names.
MOST_DECISIONS = 15


def decisions(node: ast.AST) -> int:
    """Return the branches that a node adds to its function."""
    match node:
        case ast.If() | ast.IfExp() | ast.Assert() | ast.ExceptHandler():
            return 1
        case ast.For() | ast.AsyncFor() | ast.While():
            return 1 + bool(node.orelse)
        case ast.Try():
            return bool(node.orelse)
        case ast.BoolOp():
            return len(node.values) - 1
        case ast.comprehension():
            return 1 + len(node.ifs)
        case ast.match_case():
            return getattr(node.pattern, "pattern", node) is not None
    return 0


def complexity(node: ast.AST) -> int:
    """Return a function's decisions, without those of the functions in it."""
    total = 1 if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else 0
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            total += decisions(child) + complexity(child)
    return total


def test_no_function_decides_too_much() -> None:
    """A function above the limit is split at a part that has a name, or reads a table."""
    too_complex = [
        f"{file.relative_to(PACKAGE)}:{node.lineno} {node.name}"
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(tree_of(file))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and complexity(node) > MOST_DECISIONS
    ]
    assert too_complex == []


# An attribute or an import of a private name: only these files are parsed.
MAY_BE_PRIVATE = re.compile(r"\w\._[a-zA-Z]|^(?:from|import|    _).*\b_[a-zA-Z]", re.MULTILINE)


def private_names(file: Path) -> Iterator[str]:
    """The private names of flacheck that a test imports, or reads from a module that it imports."""
    tree = tree_of(file)
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flacheck"):
            names.update({alias.asname or alias.name: alias.name for alias in node.names})
    yield from (name for name in names.values() if re.match("_[^_]", name))
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name(module), attr) if module in names:
                if re.match("_[^_]", attr):
                    yield attr


def test_tests_use_no_private_names() -> None:
    """Tests use public names only."""
    uses = []
    for file in TESTS.rglob("*.py"):
        if MAY_BE_PRIVATE.search(file.read_text()):
            uses += [f"{file.name}: {name}" for name in private_names(file)]
    assert uses == []
