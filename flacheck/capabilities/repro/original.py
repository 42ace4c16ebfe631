"""The start of a reduction: a cell's kernel cut out with its dependencies, its launch complete."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flacheck import files
from flacheck.capabilities.repro.compilers import Compilers
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.kernel.syntax_trees import expression
from flacheck.capabilities.repro.passes.autotuner import add_autotuner, set_autotuner
from flacheck.errors import Exit, FlacheckError
from flacheck.guest.pysource.functions import called_name, parameter_names
from flacheck.model import Cell, Cut, Launch, Outcome

# The number of reasons in the error if no release can import the kernel.
_REASONS = 3
# An autotuner with a single configuration does not read its keys.
_CONFIGS = ({"kwargs": {}, "num_warps": 4}, {"kwargs": {}, "num_warps": 8})
_HEAD = "import triton\nimport triton.language as tl\n\n\n"


class NotReproduced(FlacheckError):
    """The failure does not show in a standalone script."""

    exit_code = Exit.FINDINGS


def cut_out(cell: Cell, compilers: Compilers) -> Specimen:
    """Return the cell as a specimen with its kernel cut out.

    The failing release cuts it out or, if it cannot import the kernel, the newest release that can.

    Raises:
        NotReproduced: If no release can import the kernel, with the reasons.
    """
    launch = _launch_of(cell)
    source, name, heuristics = _cut(replace(cell, launch=launch), compilers)
    args: dict[str, Any] = {}
    if launch:
        args.update(launch.args)
    for parameter, value in heuristics.items():
        args[parameter] = {"constexpr": value}
    front_end = compilers.types_on(cell.toolchain)
    whole = Specimen(source, name, args, cell.target, dict(cell.options), front_end=front_end)
    # A parameter with a default may lack an argument.
    names = [name for name in parameter_names(whole.function) if name in args]
    return whole.with_(args={name: args[name] for name in names})


def _launch_of(cell: Cell) -> Launch | None:
    """Return the cell's launch with recorded heuristics among the arguments.

    For one configuration that an autotuner tried, its constants are added.
    """
    launch = cell.launch
    if launch is None:
        return None
    launch = replace(launch, args={**launch.args, **launch.heuristics})
    if cell.stage == "trial":
        # The configuration under trial stands first.
        return launch.with_constants(launch.configs[0].get("kwargs", {}))
    return launch


def _cut(cell: Cell, compilers: Compilers) -> tuple[str, str, Mapping[str, Any]]:
    """Return the kernel's source with its dependencies, its name, and its heuristics' values."""
    origin = cell.kernel.origin
    if isinstance(origin, Cut):
        return origin.source, origin.qualname, {}
    reasons = []
    for release in dict.fromkeys([cell.toolchain, *reversed(list(compilers.releases))]):
        attempt = compilers.ask(replace(cell, toolchain=release), op="cut", until=None)
        facts = attempt.facts
        if attempt.outcome is Outcome.FINISHED and facts.get("text"):
            return facts["text"], facts["qualname"], facts["heuristics"]
        if attempt.outcome is Outcome.FINISHED:
            reason = facts.get("reason")
        else:
            reason = attempt.log.strip().rpartition("\n")[2] or attempt.outcome.value
        reasons.append(f"{release}: {reason}")
    raise NotReproduced(
        f"{cell.kernel.name} cannot be cut out of its program; " + "; ".join(reasons[:_REASONS])
    )


def with_autotuner(cell: Cell, compilers: Compilers) -> Specimen:
    """Return the cell's kernel cut out, under the autotuner that its launch describes."""
    specimen = cut_out(cell, compilers)
    launch = cell.launch or Launch({})
    return add_autotuner(specimen, launch.configs, launch.keys)


def with_refused_key(cell: Cell, compilers: Compilers) -> Specimen:
    """Return the kernel whose decorator is refused (FC603).

    It is the cell's kernel or another of its module or package, because a failing import does not
    tell which kernel is at fault. The package cannot be imported, so its sources are read.

    Raises:
        NotReproduced: If no kernel is at fault.
    """
    package = compilers.packages.get(cell.kernel.package or "")
    if package is None:
        return with_autotuner(cell, compilers)
    module, _, name = cell.kernel.name.partition(":")
    best = None
    for faulty_module, function, keys in _faulty(Path(package.path)):
        same_module = faulty_module == module
        rank = (same_module, same_module and function.name == name)
        if best is None or rank > best[0]:
            best = rank, function, keys
    if best is None:
        raise NotReproduced(
            f"no autotuner in {package.identity} has a key in plain text that is no parameter"
        )
    _, function, keys = best
    # Only the decorator runs: names in the body are not looked up before a launch.
    function.decorator_list = [expression("triton.jit")]
    # An annotation may use a name from elsewhere in the module.
    function.returns = None
    source = f"{_HEAD}{ast.unparse(function)}\n"
    parameters = tuple(parameter_names(function))
    bare = Specimen(source, function.name, {}, cell.target, {}, "import", parameters)
    return set_autotuner(bare, _CONFIGS, keys)


def _faulty(folder: Path) -> Iterator[tuple[str, ast.FunctionDef, list[str]]]:
    """Yield module, function and keys of each kernel with a key that is not its parameter."""
    for file in sorted(folder.rglob("*.py")):
        try:
            tree = ast.parse(files.read_text(file, links=True))
        except (SyntaxError, UnicodeDecodeError):
            # Packages ship templates and files of other Python versions.
            continue
        module = ".".join(file.relative_to(folder).with_suffix("").parts)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                keys = _keys(node)
                if set(keys) - set(parameter_names(node)):
                    yield module, node, keys


def _keys(function: ast.FunctionDef) -> list[str]:
    """Return the keys of the autotuner among the decorators; empty if they are not literals."""
    for call in function.decorator_list:
        if isinstance(call, ast.Call) and called_name(call) == "autotune":
            arguments = {keyword.arg: keyword.value for keyword in call.keywords}
            arguments.update(zip(("configs", "key"), call.args))
            try:
                return list(ast.literal_eval(arguments["key"]))
            except (KeyError, ValueError, TypeError):
                return []
    return []
