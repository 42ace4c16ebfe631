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

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flacheck.source.graph import Graph, Node, graph
from flacheck.source.source import package_of, read
from flacheck.source.values import State

_Reaching = Mapping[State, frozenset[Node]]


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

    def to_json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        return asdict(self)


def reached(package_folder: str | Path, kernel: str) -> tuple[Reach, ...]:
    """The layers of the package in a folder that reach `module:kernel`, in order of their files;
    none of an unknown kernel. A package is parsed once, for all its kernels.
    """
    module, _, name = kernel.partition(":")
    package = package_of(module)
    if not package.isidentifier():
        return ()
    root = Path(package_folder).absolute()
    known = graph(root, package)
    reaching = {state: known.reaching((module, name), state) for state in known.users}
    found = (_reach(root, known, layer, reaching) for layer in known.layers)
    return tuple(reach for reach in found if reach)


def first_length(reaches: Iterable[Reach]) -> int | None:
    """The shortest sequence with which training reaches the kernel through some layer: a plain one
    if there is any; None when no layer does.
    """
    trained = [(not reach.plain, reach.training) for reach in reaches if reach.training is not None]
    return min(trained)[1] if trained else None


def _reach(root: Path, known: Graph, layer: Node, reaching: _Reaching) -> Reach | None:
    plain = any(layer in nodes for state, nodes in reaching.items() if state.plain)
    asked = {state: nodes for state, nodes in reaching.items() if state.plain == plain}
    if not any(layer in nodes for nodes in asked.values()):
        return None
    decider = _decider(known, layer, asked)
    switch = known.switches[decider] if decider else None
    return Reach(
        layer=":".join(layer),
        file=read(root, (decider or layer)[0]).file,
        line=switch.line if switch else None,
        condition=switch.text if switch else None,
        training=_first(layer, asked, training=True),
        inference=_first(layer, asked, training=False),
        plain=plain,
    )


def _first(layer: Node, asked: _Reaching, training: bool) -> int | None:
    lengths = (
        state.length
        for state, nodes in asked.items()
        if state.training == training and layer in nodes
    )
    return min(lengths, default=None)


def _decider(known: Graph, layer: Node, asked: _Reaching) -> Node | None:
    """The definition whose switch keeps some states of a layer from the kernel: its own, else one
    that it uses.
    """
    if all(layer in nodes for nodes in asked.values()):
        return None
    partial = [
        node
        for node in known.switches
        if 0 < sum(node in nodes for nodes in asked.values()) < len(asked)
    ]
    if layer in partial:
        return layer
    held = (
        node
        for node in sorted(partial)
        if any(layer in known.reaching(node, state) for state in asked)
    )
    return next(held, None)
