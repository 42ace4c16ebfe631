"""The extent of a question: its launches with all their configurations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from flacheck.model import Cell, LaunchExtent, canonical, launch_identity
from flacheck.subjects.inputs.expand import Configuration, tuned_names
from flacheck.subjects.inputs.matrix import Matrix

Place = tuple[str, str]
# The public entry points that lead to a launch, by (kernel, canonical arguments).
Operators = Mapping[tuple[str, str], Sequence[str]]


def selects_all(matrix: Matrix) -> bool:
    """Return True if a matrix selects every configuration except its excluded ones."""
    choices = {block.axes.get("configs", ("own",)) for block in matrix.blocks}
    return choices == {("own",)}


def of_cells(cells: Iterable[Cell]) -> Iterator[Configuration]:
    """Yield the configurations that cells compile."""
    for cell in cells:
        if cell.launch is not None and cell.stage == "compile":
            place = cell.toolchain, cell.target
            tuned_parameters = tuned_names(cell.configs)
            yield Configuration(place, cell.kernel, cell.launch, tuned_parameters, cell.key)


def extents(
    configurations: Iterable[Configuration],
    operators: Operators | None = None,
    missing_kernels: Sequence[str] = (),
) -> dict[Place, LaunchExtent]:
    """Return the extent of each place.

    Args:
        configurations: The configurations of all launches.
        operators: The public entry points of the launches.
        missing_kernels: Kernels without a launch.
    """
    configurations = list(configurations)
    tuned_parameters: dict[str, frozenset[str]] = {}
    for each in configurations:
        tuned_parameters[each.kernel.name] = (
            tuned_parameters.get(each.kernel.name, frozenset()) | each.tuned_parameters
        )
    builders: dict[Place, _Builder] = {}
    for each in configurations:
        if each.place not in builders:
            builders[each.place] = _Builder(tuned_parameters, operators or {})
        builders[each.place].add(each)
    return {place: builder.extent(missing_kernels) for place, builder in builders.items()}


class _Builder:
    """The launches of one place, counted."""

    def __init__(
        self, tuned_parameters: Mapping[str, frozenset[str]], operators: Operators
    ) -> None:
        self._tuned, self._operators = tuned_parameters, operators
        self._settings: dict[str, dict[str, set[str]]] = {}
        self._of_operators: dict[str, dict[str, None]] = {}
        # Configurations of a launch share the object; a digest of each would take seconds.
        self._identities: dict[tuple[int, str], str] = {}

    def add(self, each: Configuration) -> None:
        """Count a configuration."""
        key = id(each.launch), each.kernel.digest
        identity = self._identities.get(key)
        if identity is None:
            tuned_parameters = self._tuned[each.kernel.name]
            identity = launch_identity(each.kernel, each.launch, tuned_parameters)
            self._identities[key] = identity
            for operator in self._operators_of(each):
                self._of_operators.setdefault(operator, {})[identity] = None
        launches = self._settings.setdefault(each.kernel.name, {})
        launches.setdefault(identity, set()).add(each.settings)

    def _operators_of(self, each: Configuration) -> Sequence[str]:
        if not self._operators:
            return ()
        arguments = {}
        for name, value in each.launch.args.items():
            if name not in each.tuned_parameters:
                arguments[name] = value
        return self._operators.get((each.kernel.name, canonical(arguments)), ())

    def extent(self, missing_kernels: Sequence[str]) -> LaunchExtent:
        """Return the counted launches."""
        launches = {}
        tuned_parameters = {}
        for kernel, settings in sorted(self._settings.items()):
            launches[kernel] = {identity: len(own) for identity, own in sorted(settings.items())}
            if self._tuned[kernel]:
                tuned_parameters[kernel] = tuple(sorted(self._tuned[kernel]))
        operators = {}
        for name, identities in sorted(self._of_operators.items()):
            operators[name] = tuple(sorted(identities))
        return LaunchExtent(launches, tuned_parameters, operators, tuple(missing_kernels))
