"""The layers of a package that reach a kernel, and the sequence length from which they do.

Layers often send short sequences to another kernel, so a kernel's failure shows only from a certain
length. The source is read, not imported or run, by these conventions only:

- a layer is a class with a base whose name ends in `Module`; the package is the first part of the
  kernel's module;
- a switch assigns the name `mode` by a conditional on a length (`T`, `L`, a name that ends in `len`
  or `length`,
  `x.shape[1]`, `x.shape[-2]`, `x.size(1)`) compared with a constant, perhaps together with
  `self.training`;
- `mode` is then compared with strings, and each branch names functions, classes or kernels of the
  package;
- a `forward` that can only raise (`assert mode == "chunk"`) reaches nothing.

Each layer is examined twice: built with its constructor's defaults, which `__init__` keeps in
`self`, and, if that does not reach the kernel, in any other configuration. A test that the source
does not decide may go either way. A layer may therefore be listed although no input takes it to the
kernel, but a layer that reaches the kernel is not left out as far as the conventions hold.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from pathlib import Path

from flacheck.guest.pysource.functions import dotted_name
from flacheck.source import flow
from flacheck.source.modules import DEEPEST, definitions, module_name, package_of, read
from flacheck.source.syntax import content, is_kernel, tree

# A definition of the package: its module and its name there.
Node = tuple[str, str]
# For each state of a layer, the definitions that lead to the kernel.
_Reaching = Mapping[flow.State, set[Node]]
# The statement that chooses `mode` by a sequence length: its line and its text.
Switch = tuple[int, str]


@dataclass(frozen=True)
class Reach:
    """A layer (`module:Class`) that reaches a kernel.

    `training` and `inference` are the first sequence lengths that reach it in that mode: 1 for the
    shortest, None if none does. `file` is relative to the package's folder. `line` and `condition`
    are those of the switch that decides, None if every length reaches the kernel; the switch may be
    in a layer that this one contains. `plain` layers reach the kernel when built with their
    constructors' defaults, the others only in another configuration.
    """

    layer: str
    file: str
    line: int | None
    condition: str | None
    training: int | None
    inference: int | None
    plain: bool


@dataclass(frozen=True)
class Definition:
    """A function, class or assignment: the names it uses in each state in which that may change."""

    layer: bool
    cases: Mapping[flow.State, frozenset[str]]
    switch: Switch | None = None

    def uses(self, state: flow.State) -> frozenset[str]:
        """Return the names used in a state.

        A length between two cases behaves like the smaller one.
        """
        nearest = max(case.length for case in self.cases if case.length <= state.length)
        return self.cases[replace(state, length=nearest)]


@dataclass(frozen=True)
class Graph:
    """The layers of a package and, in every state, the users of each definition."""

    layers: tuple[Node, ...]
    users: Mapping[flow.State, Mapping[Node, set[Node]]]
    switches: Mapping[Node, Switch]

    def reaching(self, kernel: Node, state: flow.State) -> set[Node]:
        """Return every definition that leads to a kernel in a state."""
        nodes: set[Node] = set()
        todo = [kernel]
        while todo:
            node = todo.pop()
            if node not in nodes:
                nodes.add(node)
                todo.extend(self.users[state].get(node, ()))
        return nodes


def find_reaches(package_folder: str | Path, kernel: str) -> tuple[Reach, ...]:
    """Return the layers of a package that reach `module:kernel`, in order of their files.

    An unknown kernel has none. A package is parsed once for all its kernels.
    """
    module, _, name = kernel.partition(":")
    package = package_of(module)
    if not package.isidentifier():
        return ()
    root = Path(package_folder).absolute()
    package_graph = graph(root, package)
    reaching = {
        state: package_graph.reaching((module, name), state) for state in package_graph.users
    }
    reaches = []
    for layer in package_graph.layers:
        reach = _reach(root, package_graph, layer, reaching)
        if reach:
            reaches.append(reach)
    return tuple(reaches)


def first_length(reaches: Iterable[Reach]) -> int | None:
    """Return the shortest sequence with which training reaches the kernel through some layer.

    Plain layers come first. None if no layer reaches the kernel.
    """
    lengths = []
    for reach in reaches:
        if reach.training is not None:
            lengths.append((not reach.plain, reach.training))
    return min(lengths, default=(False, None))[1]


# More packages than one scan names; a graph takes a few megabytes.
@lru_cache(maxsize=16)
def graph(root: Path, package: str) -> Graph:
    """Build the graph of the package in a folder."""
    layers = tuple(_layers(root, package))
    every: list[tuple[Node, Definition]] = []
    done: set[Node] = set()
    todo = list(layers)
    while todo:
        node = todo.pop()
        if node in done:
            continue
        done.add(node)
        module, name = node
        names: set[str] = set()
        for definition in _definitions(root, module).get(name, []):
            every.append((node, definition))
            names.update(*definition.cases.values())
        for used_name in names:
            todo.extend(resolve(root, module, used_name))
    lengths: set[int] = set()
    switches = {}
    for node, definition in every:
        lengths.update(case.length for case in definition.cases)
        if definition.switch:
            switches[node] = definition.switch
    states = _states(lengths)
    users: dict[flow.State, dict[Node, set[Node]]] = {state: {} for state in states}
    for state, (node, definition) in product(states, every):
        for used_name in definition.uses(state):
            for target in resolve(root, node[0], used_name):
                users[state].setdefault(target, set()).add(node)
    return Graph(layers, users, switches)


@cache
def resolve(root: Path, module: str, name: str, depth: int = 0) -> frozenset[Node]:
    """Return the package's definitions to which a module's dotted name may lead through imports."""
    if depth > DEEPEST:
        return frozenset()
    head, _, rest = name.partition(".")
    here = read(root, module)
    nodes: set[Node] = set()
    imports = here.imports.get(head, ())
    if head in here.definitions:
        nodes.add((module, head))
    elif not imports:
        imports = here.imports.get("*", ())
    for each in imports:
        if package_of(each.module) != package_of(module):
            continue
        target = name
        if each.name != "*":
            target = ".".join(filter(None, [each.name, rest]))
        nodes |= resolve(root, each.module, target, depth + 1)
    is_bound = head in here.definitions or head in here.imports
    if not nodes and rest and not is_bound and here.file.endswith("__init__.py"):
        return resolve(root, f"{module}.{head}", rest, depth + 1)
    return frozenset(nodes)


def _layers(root: Path, package: str) -> Iterator[Node]:
    """Yield the classes of a package whose bases end in `Module`, in order of their files."""
    for file in sorted((root / package).rglob("*.py")):
        # Most files do not define a layer and need not be parsed.
        if b"Module" not in content(file):
            continue
        module = module_name(root, file)
        for name, several in _definitions(root, module).items():
            if any(definition.layer for definition in several):
                yield module, name


@cache
def _definitions(root: Path, module: str) -> dict[str, list[Definition]]:
    """Return the definitions of a module's names, several where branches define a name again."""
    here = read(root, module)
    if not here.definitions:
        return {}
    names = here.definitions | here.imports.keys()
    by_name: dict[str, list[Definition]] = {}
    for name, node in definitions(tree(content(root / here.file))):
        by_name.setdefault(name, []).append(_definition(node, names))
    return by_name


def _definition(node: ast.stmt, names: frozenset[str]) -> Definition:
    """Summarize a statement; only dotted names that begin with one of `names` lead anywhere."""
    every = flow.all_names(node)
    if is_kernel(node):
        # A kernel's names are called inside it and not launched.
        every = set()
    leading = frozenset(name for name in every if "*" in names or name.partition(".")[0] in names)
    bases = map(dotted_name, getattr(node, "bases", ()))
    is_layer = any(base and base.endswith("Module") for base in bases)
    varies = bool(leading) and not every.isdisjoint((flow.MODE, flow.TRAINING))
    lengths = {1}
    switch = None
    if varies:
        # A definition may behave differently at each limit and at its successor.
        for bound in _limits(node):
            lengths |= {bound, bound + 1}
        switch = _switch(node)
    body = getattr(node, "body", ())
    has_constructor = any(getattr(part, "name", "") == "__init__" for part in body)
    cases = {}
    for state in _states(length for length in lengths if length > 0):
        cases[state] = leading
        # Walking through a definition is the costly part.
        if varies or (leading and has_constructor and state.plain):
            cases[state] = leading & flow.uses(node, state)
    return Definition(is_layer, cases, switch)


def _states(lengths: Iterable[int]) -> list[flow.State]:
    """Return every state at some lengths, the shortest first."""
    flags = (True, False)
    return [flow.State(*state) for state in product(sorted(lengths), flags, flags)]


def _limits(node: ast.AST) -> set[int]:
    """Return every constant that is compared with a sequence length below a node."""
    limits = set()
    for part in ast.walk(node):
        limit = flow.limit(part)
        if limit is not None:
            limits.add(limit)
    return limits


def _switch(node: ast.stmt) -> Switch | None:
    """Return the first statement of a definition that chooses `mode` by a sequence length."""
    switches = []
    for part in ast.walk(node):
        if isinstance(part, ast.If) and flow.chooses_mode(part) and _limits(part.test):
            switches.append((part.lineno, f"if {ast.unparse(part.test)}"))
        elif isinstance(part, ast.stmt) and flow.sets_mode(part) and _limits(part):
            switches.append((part.lineno, ast.unparse(part)))
    return min(switches, default=None)


def _reach(root: Path, package_graph: Graph, layer: Node, reaching: _Reaching) -> Reach | None:
    plain = any(layer in nodes for state, nodes in reaching.items() if state.plain)
    states = {state: nodes for state, nodes in reaching.items() if state.plain == plain}
    first: dict[bool, int] = {}
    for state in sorted(states, key=lambda state: state.length):
        if layer in states[state]:
            first.setdefault(state.training, state.length)
    if not first:
        return None
    decider = _decider(package_graph, layer, states)
    line, condition = None, None
    if decider:
        line, condition = package_graph.switches[decider]
    return Reach(
        layer=":".join(layer),
        file=read(root, (decider or layer)[0]).file,
        line=line,
        condition=condition,
        training=first.get(True),
        inference=first.get(False),
        plain=plain,
    )


def _decider(package_graph: Graph, layer: Node, states: _Reaching) -> Node | None:
    """Return the definition whose switch keeps states of a layer from the kernel: its own first."""
    if all(layer in nodes for nodes in states.values()):
        return None
    partial = []
    for node in package_graph.switches:
        count = sum(node in nodes for nodes in states.values())
        if 0 < count < len(states):
            partial.append(node)
    if layer in partial:
        return layer
    # A layer that only contains another points to the inner layer's switch. Sorting makes the
    # result independent of the order of files.
    for node in sorted(partial):
        if any(layer in package_graph.reaching(node, state) for state in states):
            return node
    return None
