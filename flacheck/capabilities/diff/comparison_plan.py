"""What to compile for a comparison: the same cells under both compilers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from flacheck.analysis.known_good import group_by_key
from flacheck.capabilities.diff.sides import ReleaseSide, Side, StoredSide
from flacheck.errors import EmptySelection, UsageError
from flacheck.inputs.expand import Selection
from flacheck.inputs.subject import Subject
from flacheck.model import Cell, Purpose, Record, canonical
from flacheck.packages.package import Package
from flacheck.pipeline import planning
from flacheck.pipeline import resolved_cell as cells
from flacheck.pipeline.job import Job
from flacheck.pipeline.package_launches import CapturedPackage, PackageCapture
from flacheck.pipeline.plan import Plan
from flacheck.tables import targets
from flacheck.toolchains import Resolver


@dataclass(frozen=True)
class ComparisonPlan:
    """A comparison before anything is compiled.

    `plan` holds the cells of the sides that are compilers, None where both are stored; `captures`
    are those of a package; `is_narrowed` says that one configuration a kernel and dtype is compared.
    """

    before: Side
    after: Side
    about: str
    plan: Plan | None = None
    captures: tuple[PackageCapture, ...] = ()
    is_narrowed: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.before, self.after

    def records(self, side: Side, settled: Mapping[str, Record]) -> list[Record]:
        """A side's records: those stored, or those of its cells among all that are settled."""
        if isinstance(side, StoredSide):
            return list(side.records)
        assert self.plan is not None
        own = (cell.key for cell in self.plan.cells if cell.toolchain == side.choice.identity)
        return [settled[key] for key in own if key in settled]

    @property
    def made_up(self) -> frozenset[str] | None:
        """The keys of launches whose arguments flacheck made up. One that either side has seen is
        seen; None for stored records, which say it themselves."""
        if self.plan is None or any(isinstance(each, StoredSide) for each in self.sides):
            return None
        seen = {_identity(cell) for cell in self.plan.cells if not cell.kernel.is_made_up}
        return frozenset(cell.key for cell in self.plan.cells if _identity(cell) not in seen)


def plan_comparison(
    before: Side, after: Side, subject: Subject, chosen: bool, selection: Selection
) -> ComparisonPlan:
    """What a comparison asks. `chosen` says that the user named the subject: else a stored run on
    the other side, or a launches file, decides which cells are compared.

    Raises UsageError for sides that cannot be compared, EmptySelection when nothing is left.
    """
    before, after = (_selected(side, selection) for side in (before, after))
    if isinstance(before, StoredSide) and isinstance(after, StoredSide):
        _check_stored(before, after)
        return ComparisonPlan(before, after, f"{before.name} and {after.name}")
    stored = next((side for side in (before, after) if isinstance(side, StoredSide)), None)
    if stored is not None and not chosen:
        _check_single(stored)
        return _of_stored(before, after, stored, subject.trust)
    if stored is not None:
        _check_single(stored)
    return _of_subject(before, after, subject, chosen, selection)


def _selected(side: Side, selection: Selection) -> Side:
    """A stored side's records that the selection leaves in; UsageError where none is left."""
    if isinstance(side, ReleaseSide):
        return side
    resolver = Resolver()
    names = {name for spec in selection.toolchains for name in resolver(spec)}
    on = {name for asked in selection.targets for name in targets.spellings(asked)}
    left = [record for record in side.records if _matches(record, selection, on, names)]
    if not left:
        raise EmptySelection(f"{side.name}: no record matches the selection")
    return replace(side, records=tuple(left))


def _matches(record: Record, selection: Selection, on: set[str], names: set[str]) -> bool:
    facts = (
        (record.target, on),
        (record.toolchain, names),
        (record.dtype, selection.dtypes),
        (record.options.get("num_warps"), selection.num_warps),
        (record.options.get("num_stages"), selection.num_stages),
    )
    admitted = all(not values or value in values for value, values in facts)
    return admitted and selection.names(record.kernel)


def _check_single(side: StoredSide) -> None:
    """UsageError for records of several compilers, which are no one side."""
    if len(side.toolchains) > 1:
        held = ", ".join(side.toolchains)
        raise UsageError(f"{side.name} holds results of {held}: choose one with --triton")


def _check_stored(before: StoredSide, after: StoredSide) -> None:
    for side in (before, after):
        _check_single(side)


def _of_stored(before: Side, after: Side, stored: StoredSide, trust: bool) -> ComparisonPlan:
    """A stored run's cells under the other side's compiler."""
    (release,) = (side for side in (before, after) if isinstance(side, ReleaseSide))
    made: list[Cell] = []
    packages: dict[str, Package] = {}
    warnings: list[str] = []
    for record in stored.records:
        # What a package raised is not a cell that another compiler can be asked.
        if record.launch is None:
            continue
        try:
            chosen = cells.rebuild_cell(record, trust)
        except UsageError as error:
            raise UsageError(
                f"{stored.name} does not hold what its cells were compiled from ({error}); say "
                "what to compile with --package or --matrix"
            ) from None
        made.append(chosen.under(release.choice.identity))
        packages.update(chosen.packages)
        warnings += chosen.warnings
    plan = Plan(
        name=f"diff {stored.name}",
        cells=made,
        choices={release.choice.identity: release.choice},
        packages=packages,
        purpose=Purpose.DIFF,
        trust=trust,
    )
    return ComparisonPlan(before, after, stored.name, plan, warnings=tuple(dict.fromkeys(warnings)))


def _of_subject(
    before: Side, after: Side, subject: Subject, chosen: bool, selection: Selection
) -> ComparisonPlan:
    """A package's, matrix's or launches file's cells under the compilers of both sides."""
    is_narrowed = subject.configs != "own"
    if is_narrowed:
        subject = replace(subject, configs="shared")
    releases = [side for side in (before, after) if isinstance(side, ReleaseSide)]
    # The sides that have a subject in common are planned together.
    specs = group_by_key(
        (_subject_of(side, releases, subject, chosen), side.spec) for side in releases
    )
    plans = []
    captures: list[PackageCapture] = []
    for about, own in specs.items():
        job = Job(about, replace(selection, toolchains=tuple(dict.fromkeys(own))))
        captured = planning.capture(planning.resolve(job))
        plans.append(planning.expand(job, captured))
        if isinstance(captured, CapturedPackage):
            captures += captured.captures
    made = [cell for plan in plans for cell in plan.cells]
    if is_narrowed:
        made = one_each(made)
    joined = _joined(plans)
    plan = replace(
        joined,
        name=f"diff {joined.name}",
        cells=list({cell.key: cell for cell in made}.values()),
        purpose=Purpose.DIFF,
    )
    return ComparisonPlan(
        before, after, joined.name, plan, tuple(captures), is_narrowed, plan.warnings
    )


def _subject_of(
    side: ReleaseSide, releases: Sequence[ReleaseSide], subject: Subject, chosen: bool
) -> Subject:
    """What a side compiles: its own launches file, else what the user named, else the other side's
    file, else the default."""
    files = [each.launches for each in (side, *releases) if each.launches]
    if not files or (chosen and side.launches is None):
        return subject
    return replace(subject, matrix=files[0], package=None)


def _joined(plans: Sequence[Plan]) -> Plan:
    """Several plans as one."""
    first, *others = plans
    for plan in others:
        first = replace(
            first,
            name=f"{first.name} and {plan.name}",
            choices={**first.choices, **plan.choices},
            packages={**first.packages, **plan.packages},
            attempts={**first.attempts, **plan.attempts},
            forms={**first.forms, **plan.forms},
            warnings=tuple(dict.fromkeys((*first.warnings, *plan.warnings))),
            trust=first.trust and plan.trust,
            coverage=(*first.coverage, *plan.coverage),
        )
    return replace(first, cells=[cell for plan in plans for cell in plan.cells])


def one_each(made: Iterable[Cell]) -> list[Cell]:
    """One configuration of each kernel and dtype on each target and, where that can be, the same
    one under all compilers. Launches that a program made come before those that flacheck made up.

    What has no launch, such as an import that a package refused, stays.
    """
    made = list(made)
    groups = group_by_key((_group(cell), cell) for cell in made)
    kept: set[str] = set()
    for (*_, is_launch), members in groups.items():
        if is_launch:
            kept.update(cell.key for cell in _same(members))
        else:
            kept.update(cell.key for cell in members)
    return [cell for cell in made if cell.key in kept]


def _group(cell: Cell) -> tuple[str, str | None, str, str, bool]:
    return cell.kernel.name, cell.dtype, cell.target, cell.stage, cell.launch is not None


def _same(members: Sequence[Cell]) -> list[Cell]:
    """One cell a compiler out of those of one kernel and dtype."""
    by_compiler = group_by_key((cell.toolchain, cell) for cell in members)
    offered = [{_identity(cell) for cell in own} for own in by_compiler.values()]
    common = set.intersection(*offered)

    def choice(cell: Cell) -> tuple[bool, bool]:
        return _identity(cell) not in common, cell.kernel.is_made_up

    first = min(members, key=choice)
    chosen = []
    for own in by_compiler.values():
        same = [cell for cell in own if _identity(cell) == _identity(first)]
        chosen.append((same or [min(own, key=choice)])[0])
    return chosen


def _identity(cell: Cell) -> str:
    """A cell without its compiler."""
    launch = cell.launch and cell.launch.to_json()
    return canonical([cell.kernel.name, cell.target, launch, dict(cell.options), cell.stage])
