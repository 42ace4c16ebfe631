"""Who uses whom in a package, per state: built once from its layers downwards, asked from a kernel
upwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from flacheck.source.definitions import Definition, states
from flacheck.source.source import content, package_of, read
from flacheck.source.syntax import Switch
from flacheck.source.values import State

Node = tuple[str, str]
Edges = Mapping[Node, frozenset[Node]]
# Re-exports go a few modules deep; a circle of imports must end somewhere.
_DEEPEST = 16


@dataclass(frozen=True)
class Graph:
    """The layers of a package and, in every state that may differ, which definition uses which."""

    layers: tuple[Node, ...]
    users: Mapping[State, Edges]
    switches: Mapping[Node, Switch]

    def reaching(self, kernel: Node, state: State) -> frozenset[Node]:
        """Every definition that leads to a kernel in a state."""
        return _closure([kernel], self.users[state])


@lru_cache(maxsize=16)
def graph(root: Path, package: str) -> Graph:
    """The graph of the package in a folder."""
    top = tuple(layers(root, package))
    nodes = _nodes(root, top)
    lengths = {length for found in nodes.values() for each in found for length in each.lengths}
    switches = {node: each.switch for node, found in nodes.items() for each in found if each.switch}
    return Graph(top, {state: _users(root, nodes, state) for state in states(lengths)}, switches)


def layers(root: Path, package: str) -> Iterator[Node]:
    """The classes of a package whose bases end in `Module`, in order of their files."""
    for path in sorted((root / package).rglob("*.py")):
        if b"Module" in content(path):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            module = read(root, name)
            yield from (
                (name, each)
                for each in module.names
                if any(d.layer for d in module.definitions(each))
            )


@cache
def resolve(root: Path, module: str, name: str, depth: int = 0) -> frozenset[Node]:
    """The definitions that a dotted name of a module may lead to, through imports, within the
    package.
    """
    head, _, rest = name.partition(".")
    here = read(root, module)
    if depth > _DEEPEST:
        return frozenset()
    found: set[Node] = set()
    for bound in here.names.get(head) or here.names.get("*", ()):
        if isinstance(bound, Definition):
            found.add((module, head))
        elif package_of(bound.module) == package_of(module):
            inside = name if bound.name == "*" else ".".join(filter(None, (bound.name, rest)))
            found |= resolve(root, bound.module, inside, depth + 1)
    if not found and rest and head not in here.names and here.file.endswith("__init__.py"):
        return resolve(root, f"{module}.{head}", rest, depth + 1)
    return frozenset(found)


def _nodes(root: Path, top: Iterable[Node]) -> dict[Node, list[Definition]]:
    """Every definition that the layers lead to in any state."""
    nodes: dict[Node, list[Definition]] = {}
    todo = list(top)
    while todo:
        module, name = node = todo.pop()
        if node not in nodes:
            nodes[node] = read(root, module).definitions(name)
            names = {used for each in nodes[node] for case in each.cases.values() for used in case}
            todo.extend(target for used in names for target in resolve(root, module, used))
    return nodes


def _users(root: Path, nodes: Mapping[Node, list[Definition]], state: State) -> Edges:
    """Node → the definitions that use it in a state."""
    users: dict[Node, set[Node]] = {}
    for node, found in nodes.items():
        for used in frozenset().union(*(each.uses(state) for each in found)):
            for target in resolve(root, node[0], used):
                users.setdefault(target, set()).add(node)
    return {node: frozenset(who) for node, who in users.items()}


def _closure(start: Iterable[Node], edges: Edges) -> frozenset[Node]:
    seen: set[Node] = set()
    todo = list(start)
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo.extend(edges.get(node, ()))
    return frozenset(seen)
