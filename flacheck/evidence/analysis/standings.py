"""The standings of a question, made from its records."""

from collections.abc import Callable, Iterable, Mapping

from flacheck.evidence.analysis.alternatives import configurations, list_alternatives
from flacheck.evidence.analysis.observation import observe
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.untested_cells import separate_untested
from flacheck.model import KeySet, Question, Record, RequestedCells, RequestedPlace


def standing(
    question: Question,
    request: RequestedCells,
    keys: KeySet | None,
    records: Iterable[Record],
    note: str = "",
    further: Iterable[Record] = (),
) -> Standing:
    """Return the state of a question on one place.

    `records` are the current records of its keys and of their alternatives, `further` those of
    other configurations of its launches. Without a key set the number of its cells is unknown.
    """
    made_up = None
    requested_count = None
    of_launches: Mapping[str, str] = {}
    kernels: set[str] = set()
    records = list(records)
    if keys is not None:
        made_up = keys.made_up
        of_launches = configurations(keys, records)
        requested_keys = {*keys.kernels, *of_launches}
        requested_count = len(requested_keys)
        # A wider scan may have records of alternatives that are not needed here.
        records = [record for record in records if record.key in requested_keys]
        kernels.update(keys.kernels.values())
    extent = None
    if keys is not None:
        extent = keys.extent
    launch_of: dict[str, str] = {}
    further_records = []
    if extent is not None:
        own_keys = {record.key for record in records}
        for record in records:
            launch = extent.launch_of(record.cell)
            if launch is not None:
                launch_of[record.key] = launch
        for record in further:
            launch = extent.launch_of(record.cell)
            # Only the autotuner's settings are configurations of the launch.
            if launch is not None and record.key not in own_keys and not record.cell.is_widened:
                launch_of[record.key] = launch
                further_records.append(record)
    cells = observe(records, made_up, of_launches)
    further_cells = observe(further_records)
    counting, untested_cells = separate_untested(cells, further_cells)
    further_counting, _ = separate_untested(further_cells, cells)
    for cell in cells:
        kernels.add(cell.kernel)
    return Standing(
        question=question,
        toolchain=request.toolchain,
        target=request.target,
        requested_count=requested_count,
        answered_count=len(cells),
        cells=tuple(counting),
        untested_cells=tuple(untested_cells),
        kernels=frozenset(kernels),
        note=note,
        further_cells=tuple(further_counting),
        extent=extent,
        launch_of=launch_of,
    )


def find_nothing(place: RequestedPlace) -> Iterable[Record]:
    """Return no further records; for questions about every configuration."""
    return ()


def standings(
    places: Iterable[RequestedPlace],
    current: Callable[[Iterable[str]], Iterable[Record]],
    further: Callable[[RequestedPlace], Iterable[Record]] = find_nothing,
) -> list[Standing]:
    """Return the states of the questions on every place.

    `current` returns the current records of keys, `further` those of other configurations of the
    launches of a place.
    """
    states = []
    for place in places:
        records = list(current(place.known_keys))
        records += current(list_alternatives(place.keys, records))
        states.append(
            standing(place.question, place.request, place.keys, records, place.note, further(place))
        )
    return states
