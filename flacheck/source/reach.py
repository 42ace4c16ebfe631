"""Which layers of a package reach a kernel, and from which sequence length on, read from the source
alone.

Layers often send short sequences to another kernel, so a kernel's failure shows only from a certain
length. Nothing is imported or run. What is read are these conventions, and no others:

- a layer is a class with a base whose name ends in `Module`; the package is the first part of the
  kernel's module;
- a switch assigns the name `mode` by a conditional on a length (`T`, `L`, a name that ends in `len`
  or `length`,
  `x.shape[1]`, `x.shape[-2]`, `x.size(1)`) compared with a constant, perhaps together with
  `self.training`;
- `mode` is then compared with strings, and each branch names functions, classes or kernels of the
  package;
- a `forward` that can only raise (`assert mode == "chunk"`) reaches nothing.

Each layer is asked twice: built with its constructor's defaults, which `__init__` keeps in `self`,
and, when that does not reach the kernel, configured in whatever way. A test whose outcome the
source does not give may go either way, so a layer may be named that no input takes to the kernel;
none that one does is left out, as far as the conventions hold.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from pathlib import Path

from flacheck.source import flow
from flacheck.source.modules import DEEPEST, definitions, module_name, package_of, read
from flacheck.source.syntax import content, dotted_name, is_kernel, tree

# A definition of the package: its module and its name there.
Node = tuple[str, str]
# For each state of a layer, the definitions that lead to the kernel.
_Reaching = Mapping[flow.State, set[Node]]
# The statement that chooses `mode` by a sequence length: its line and its text.
Switch = tuple[int, str]


@dataclass(frozen=True)
class Reach:
    """A layer (`module:Class`) that reaches a kernel, and the first sequence lengths that do in
    training and in inference: 1 when the shortest does, None when none does.

    `file` is relative to the package's folder; `line` and `condition` are the switch that decides,
    None when every length reaches the kernel; of a layer that only holds the one with the switch,
    they are the inner one's. `plain` layers do so when built with their constructors' defaults, the
    others only when configured otherwise.
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
        """The names used in a state; a length between two known ones behaves as the smaller."""
        nearest = max(case.length for case in self.cases if case.length <= state.length)
        return self.cases[replace(state, length=nearest)]


@dataclass(frozen=True)
class Graph:
    """The layers of a package and, in every state, which definition is used by which others."""

    layers: tuple[Node, ...]
    users: Mapping[flow.State, Mapping[Node, set[Node]]]
    switches: Mapping[Node, Switch]

    def reaching(self, kernel: Node, state: flow.State) -> set[Node]:
        """Every definition that leads to a kernel in a state."""
        seen: set[Node] = set()
        todo = [kernel]
        while todo:
            node = todo.pop()
            if node not in seen:
                seen.add(node)
                todo.extend(self.users[state].get(node, ()))
        return seen


def find_reaches(package_folder: str | Path, kernel: str) -> tuple[Reach, ...]:
    """The layers of the package in a folder that reach `module:kernel`, in order of their files;
    none of an unknown kernel. A package is parsed once, for all its kernels."""
    module, _, name = kernel.partition(":")
    package = package_of(module)
    if not package.isidentifier():
        return ()
    root = Path(package_folder).absolute()
    known = graph(root, package)
    reaching = {state: known.reaching((module, name), state) for state in known.users}
    reaches = (_reach(root, known, layer, reaching) for layer in known.layers)
    return tuple(reach for reach in reaches if reach)


def first_length(reaches: Iterable[Reach]) -> int | None:
    """The shortest sequence with which training reaches the kernel through some layer: a plain one
    if there is any; None when no layer does."""
    trained = [(not reach.plain, reach.training) for reach in reaches if reach.training is not None]
    return min(trained, default=(False, None))[1]


# More packages than one scan names; a graph holds a few megabytes.
@lru_cache(maxsize=16)
def graph(root: Path, package: str) -> Graph:
    """The graph of the package in a folder."""
    top = tuple(_layers(root, package))
    nodes: dict[Node, list[Definition]] = {}
    todo = list(top)
    while todo:
        module, name = node = todo.pop()
        if node not in nodes:
            nodes[node] = _definitions(root, module).get(name, [])
            names = {used for each in nodes[node] for case in each.cases.values() for used in case}
            todo.extend(target for used in names for target in resolve(root, module, used))
    every = [(node, definition) for node, several in nodes.items() for definition in several]
    states = _states({case.length for _, definition in every for case in definition.cases})
    switches = {node: definition.switch for node, definition in every if definition.switch}
    users: dict[flow.State, dict[Node, set[Node]]] = {state: {} for state in states}
    for state, (node, definition) in product(states, every):
        for used in definition.uses(state):
            for target in resolve(root, node[0], used):
                users[state].setdefault(target, set()).add(node)
    return Graph(top, users, switches)


@cache
def resolve(root: Path, module: str, name: str, depth: int = 0) -> frozenset[Node]:
    """The definitions of the package that a dotted name of a module may lead to through imports."""
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
        if package_of(each.module) == package_of(module):
            inside = name if each.name == "*" else ".".join(filter(None, (each.name, rest)))
            nodes |= resolve(root, each.module, inside, depth + 1)
    bound = head in here.definitions or head in here.imports
    if not nodes and rest and not bound and here.file.endswith("__init__.py"):
        return resolve(root, f"{module}.{head}", rest, depth + 1)
    return frozenset(nodes)


def _layers(root: Path, package: str) -> Iterator[Node]:
    """The classes of a package whose bases end in `Module`, in order of their files."""
    for file in sorted((root / package).rglob("*.py")):
        # Most files have no layer and need not be parsed for it.
        if b"Module" in content(file):
            module = module_name(root, file)
            for name, several in _definitions(root, module).items():
                if any(definition.layer for definition in several):
                    yield module, name


@cache
def _definitions(root: Path, module: str) -> dict[str, list[Definition]]:
    """What a module's names are defined as, several times where branches define them anew."""
    here = read(root, module)
    if not here.definitions:
        return {}
    known = here.definitions | here.imports.keys()
    by_name: dict[str, list[Definition]] = {}
    for name, node in definitions(tree(content(root / here.file))):
        by_name.setdefault(name, []).append(_definition(node, known))
    return by_name


def _definition(node: ast.stmt, known: frozenset[str]) -> Definition:
    """Boil a statement down; of the names it uses only those with a `known` head lead anywhere."""
    every = flow.all_names(node)
    if is_kernel(node):
        # What a kernel uses runs inside it and is not launched.
        every = set()
    leading = frozenset(name for name in every if "*" in known or name.partition(".")[0] in known)
    bases = getattr(node, "bases", ())
    layer = any((dotted_name(base) or "").endswith("Module") for base in bases)
    varying = bool(leading) and not every.isdisjoint((flow.MODE, flow.TRAINING))
    lengths = {1}
    if varying:
        # 1, and each limit with its successor: where a definition may change its ways.
        lengths |= {length for bound in _limits(node) for length in (bound, bound + 1)}
    constructed = any(getattr(part, "name", "") == "__init__" for part in getattr(node, "body", ()))
    cases = {}
    for state in _states(length for length in lengths if length > 0):
        cases[state] = leading
        # Following a definition is the costly part.
        if varying or (leading and constructed and state.plain):
            cases[state] = leading & flow.uses(node, state)
    return Definition(layer, cases, _switch(node) if varying else None)


def _states(lengths: Iterable[int]) -> list[flow.State]:
    """Every state at some lengths, the shortest first."""
    return [
        flow.State(length, *others)
        for length in sorted(lengths)
        for others in product((True, False), repeat=2)
    ]


def _limits(node: ast.AST) -> set[int]:
    """Every constant that a sequence length is compared with below a node."""
    return {bound for part in ast.walk(node) if (bound := flow.limit(part)) is not None}


def _switch(node: ast.stmt) -> Switch | None:
    """The first statement of a definition that chooses `mode` by a sequence length."""
    switches = []
    for part in ast.walk(node):
        if isinstance(part, ast.If) and flow.chooses_mode(part) and _limits(part.test):
            switches.append((part.lineno, f"if {ast.unparse(part.test)}"))
        elif isinstance(part, ast.stmt) and flow.sets_mode(part) and _limits(part):
            switches.append((part.lineno, ast.unparse(part)))
    return min(switches, default=None)


def _reach(root: Path, known: Graph, layer: Node, reaching: _Reaching) -> Reach | None:
    plain = any(layer in nodes for state, nodes in reaching.items() if state.plain)
    asked = {state: nodes for state, nodes in reaching.items() if state.plain == plain}
    if not any(layer in nodes for nodes in asked.values()):
        return None
    first: dict[bool, int] = {}
    for state in sorted(asked, key=lambda state: state.length):
        if layer in asked[state]:
            first.setdefault(state.training, state.length)
    decider = _decider(known, layer, asked)
    line, condition = None, None
    if decider:
        line, condition = known.switches[decider]
    return Reach(
        layer=":".join(layer),
        file=read(root, (decider or layer)[0]).file,
        line=line,
        condition=condition,
        training=first.get(True),
        inference=first.get(False),
        plain=plain,
    )


def _decider(known: Graph, layer: Node, asked: _Reaching) -> Node | None:
    """The definition whose switch keeps states of a layer from the kernel: its own first."""
    if all(layer in nodes for nodes in asked.values()):
        return None
    partial = []
    for node in known.switches:
        if 0 < sum(node in nodes for nodes in asked.values()) < len(asked):
            partial.append(node)
    if layer in partial:
        return layer
    # A layer that only holds another points to the inner one's switch; sorted, so that the answer
    # does not depend on the order of files.
    for node in sorted(partial):
        if any(layer in known.reaching(node, state) for state in asked):
            return node
    return None
