"""The plan of a comparison: the same cells under both compilers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from flacheck.capabilities.diff.package_view import OwnCapture, SideCapture
from flacheck.capabilities.diff.sides import ReleaseSide, Side, StoredSide
from flacheck.errors import EmptySelection, UsageError
from flacheck.evidence.analysis.known_good import group_by_key
from flacheck.model import Cell, Purpose, Record
from flacheck.model.launch_sizes import size_class
from flacheck.pipeline import planning
from flacheck.pipeline import resolved_cell as cells
from flacheck.pipeline.job import Job
from flacheck.pipeline.package_launches import CapturedPackage
from flacheck.pipeline.plan import Plan
from flacheck.source.packages.package import Package
from flacheck.subjects.inputs import edges
from flacheck.subjects.inputs.chosen_cells import MOST_OWN
from flacheck.subjects.inputs.edges import LaunchSettings
from flacheck.subjects.inputs.expand import Selection, tuned_names
from flacheck.subjects.inputs.subject import Subject
from flacheck.tables import targets
from flacheck.toolchains import Resolver


@dataclass(frozen=True)
class ComparisonPlan:
    """A comparison before anything is compiled.

    Attributes:
        before, after: The sides FROM and TO.
        about: The subject.
        plan: The cells of the sides that are compilers; None if both are stored.
        captures: The captures of a package.
        configs: The compared configurations: `usual`, `edges` or `own`; None for stored cells.
        warnings: Messages for the user.
    """

    before: Side
    after: Side
    about: str
    plan: Plan | None = None
    captures: tuple[SideCapture, ...] = ()
    configs: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both sides, FROM first."""
        return self.before, self.after

    def records(self, side: Side, by_key: Mapping[str, Record]) -> list[Record]:
        """Return the records of a side: the stored ones, or those of its cells."""
        if isinstance(side, StoredSide):
            return list(side.records)
        assert self.plan is not None
        own_records = []
        for cell in self.plan.cells:
            if _belongs(cell, side) and cell.key in by_key:
                own_records.append(by_key[cell.key])
        return own_records

    @cached_property
    def made_up(self) -> frozenset[str] | None:
        """The keys of launches with invented arguments; None for stored records.

        A launch that one side recorded is real on both.
        """
        if self.plan is None or any(isinstance(each, StoredSide) for each in self.sides):
            return None
        real = {_identity(cell) for cell in self.plan.cells if not cell.kernel.is_made_up}
        return frozenset(cell.key for cell in self.plan.cells if _identity(cell) not in real)


def plan_comparison(
    before: Side, after: Side, subject: Subject, has_subject: bool, selection: Selection
) -> ComparisonPlan:
    """Return the plan of a comparison.

    Args:
        before: The side FROM.
        after: The side TO.
        subject: The package, matrix or launches file.
        has_subject: True if the user named the subject; else a stored run on the other side, or a
            launches file, decides which cells are compared.
        selection: The selection of cells.

    Raises:
        UsageError: If the sides cannot be compared.
        EmptySelection: If nothing is left to compare.
    """
    check_packages(before, after, has_subject)
    before, after = (_select_records(side, selection) for side in (before, after))
    if isinstance(before, StoredSide) and isinstance(after, StoredSide):
        _check_stored(before, after)
        return ComparisonPlan(before, after, f"{before.name} and {after.name}")
    stored_side = next((side for side in (before, after) if isinstance(side, StoredSide)), None)
    if stored_side is not None and not has_subject:
        _check_single(stored_side)
        return _of_stored(before, after, stored_side, subject.trust)
    if stored_side is not None:
        _check_single(stored_side)
    return _of_subject(before, after, subject, has_subject, selection)


def _belongs(cell: Cell, side: ReleaseSide) -> bool:
    """Return True for a cell of a side's compiler, and of its package if it has one."""
    if side.package is not None and cell.kernel.package != side.package:
        return False
    return cell.toolchain == side.choice.identity


def _select_records(side: Side, selection: Selection) -> Side:
    """Return a side with the selected records.

    Raises:
        EmptySelection: If no record is selected.
    """
    if isinstance(side, ReleaseSide):
        return side
    resolver = Resolver()
    names = {name for spec in selection.toolchains for name in resolver(spec)}
    on: set[str] = set()
    for target in selection.targets:
        on.update(targets.spellings(target))
    records = [record for record in side.records if _matches(record, selection, on, names)]
    if not records:
        raise EmptySelection(f"{side.name}: no record matches the selection")
    return replace(side, records=tuple(records))


def _matches(record: Record, selection: Selection, on: set[str], names: set[str]) -> bool:
    facts = (
        (record.target, on),
        (record.toolchain, names),
        (record.dtype, selection.dtypes),
        (record.options.get("num_warps"), selection.num_warps),
        (record.options.get("num_stages"), selection.num_stages),
    )
    for value, values in facts:
        if values and value not in values:
            return False
    return selection.names(record.kernel)


def check_packages(before: Side, after: Side, has_subject: bool) -> None:
    """Check that a package is compared with another release of its own, and with no subject.

    Raises:
        UsageError: If it is compared with another package or a compiler, or with a subject beside.
    """
    names = []
    for side in (before, after):
        package = None
        if isinstance(side, ReleaseSide) and side.package is not None:
            package = side.package.partition("==")[0]
        names.append(package)
    if names == [None, None]:
        return
    first, second = names
    if first != second:
        raise UsageError(
            f"{before.text} and {after.text}: a release of a package is compared with another "
            "release of it, both under the Triton that --triton names"
        )
    if has_subject:
        raise UsageError(
            f"{before.text} and {after.text} are packages themselves: leave out --package and "
            "--matrix"
        )


def _check_single(side: StoredSide) -> None:
    """Raise UsageError for records of several compilers, which are not one side."""
    if len(side.toolchains) > 1:
        names = ", ".join(side.toolchains)
        raise UsageError(f"{side.name} holds results of {names}: choose one with --triton")


def _check_stored(before: StoredSide, after: StoredSide) -> None:
    for side in (before, after):
        _check_single(side)


def _of_stored(before: Side, after: Side, stored_side: StoredSide, trust: bool) -> ComparisonPlan:
    """Return the plan of a stored run's cells under the other side's compiler."""
    (release,) = (side for side in (before, after) if isinstance(side, ReleaseSide))
    new_cells: list[Cell] = []
    packages: dict[str, Package] = {}
    warnings: list[str] = []
    for record in stored_side.records:
        # A record without a launch is the package's own failure, not a cell.
        if record.launch is None:
            continue
        try:
            cell = cells.rebuild_cell(record, trust)
        except UsageError as error:
            raise UsageError(
                f"{stored_side.name} lacks the sources of its cells ({error}); "
                "name the subject with --package or --matrix"
            ) from None
        new_cells.append(cell.under(release.choice.identity))
        packages.update(cell.packages)
        warnings += cell.warnings
    plan = Plan(
        name=f"diff {stored_side.name}",
        cells=new_cells,
        choices={release.choice.identity: release.choice},
        packages=packages,
        purpose=Purpose.DIFF,
        trust=trust,
    )
    return ComparisonPlan(
        before, after, stored_side.name, plan, warnings=tuple(dict.fromkeys(warnings))
    )


def _of_subject(
    before: Side, after: Side, subject: Subject, has_subject: bool, selection: Selection
) -> ComparisonPlan:
    """Return the plan of a subject's cells under the compilers of both sides."""
    releases = [side for side in (before, after) if isinstance(side, ReleaseSide)]
    # Sides with the same subject are planned together.
    specs: dict[Subject, list[str]] = {}
    for side in releases:
        own_subject = _subject_of(side, releases, subject, has_subject)
        specs.setdefault(replace(own_subject, compares=True), []).append(side.spec)
    jobs = []
    for about, own in specs.items():
        job = Job(about, replace(selection, toolchains=tuple(dict.fromkeys(own))))
        # A mistake in the second package is an error before the first is captured.
        jobs.append((job, planning.resolve(job)))
    plans = []
    captures: list[SideCapture] = []
    for job, package_of_job in jobs:
        with planning.capture(package_of_job) as result:
            plans.append(planning.expand(job, result))
        if isinstance(result, CapturedPackage):
            captures += map(OwnCapture, result.captures)
    whole = _join_plans(plans)
    if len(whole.configs) > 1:
        # Each place has its default, and places with other configurations cannot be compared.
        subject = replace(subject, configs="edges")
        return _of_subject(before, after, subject, has_subject, selection)
    cells, configs = _compared_cells(whole, subject.configs)
    plan = replace(
        whole,
        name=f"diff {whole.name}",
        cells=list({cell.key: cell for cell in cells}.values()),
        purpose=Purpose.DIFF,
    )
    return ComparisonPlan(before, after, whole.name, plan, tuple(captures), configs, plan.warnings)


def _compared_cells(plan: Plan, configs: str | None) -> tuple[Sequence[Cell], str]:
    """Return the cells to compare, and which configurations they are."""
    if plan.configs:
        # Recorded launches: their configurations are chosen.
        (chosen_configs,) = plan.configs
        if chosen_configs == "own":
            return plan.cells, chosen_configs
        usual_cells = [cell for cell in plan.cells if cell.key in plan.usual_keys]
        others = [cell for cell in plan.cells if cell.key not in plan.usual_keys]
        return [*one_each(usual_cells, by_size=True), *others], chosen_configs
    if configs is None:
        places = Counter((cell.toolchain, cell.target) for cell in plan.cells)
        configs = "own" if max(places.values()) <= MOST_OWN else "edges"
    if configs == "own":
        return plan.cells, configs
    cells = one_each(plan.cells)
    if configs == "edges":
        cells += _edge_cells(plan.cells, cells)
    return cells, configs


def _subject_of(
    side: ReleaseSide, releases: Sequence[ReleaseSide], subject: Subject, has_subject: bool
) -> Subject:
    """Return the subject that a side compiles.

    It is the side's own package or launches file, else the named subject, else the other side's
    file, else the default.
    """
    if side.package is not None:
        return replace(subject, matrix=None, package=side.package)
    files = [each.launches for each in (side, *releases) if each.launches]
    if not files or (has_subject and side.launches is None):
        return subject
    return replace(subject, matrix=files[0], package=None)


def _join_plans(plans: Sequence[Plan]) -> Plan:
    """Join several plans into one."""
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
            configs=first.configs | plan.configs,
            usual_keys=first.usual_keys | plan.usual_keys,
        )
    all_cells: list[Cell] = []
    for plan in plans:
        all_cells += plan.cells
    return replace(first, cells=all_cells)


def one_each(all_cells: Iterable[Cell], by_size: bool = False) -> list[Cell]:
    """Return one configuration of each kernel and dtype on each target, if possible the same one.

    Launches of a program come before those with invented arguments. Cells without a launch, such as
    an import, all stay. With `by_size`, each usual class of sizes has a configuration of its own.
    """
    all_cells = list(all_cells)
    groups = group_by_key(((*_group(cell), _size(cell, by_size)), cell) for cell in all_cells)
    keys: set[str] = set()
    for (*_, is_launch, _), members in groups.items():
        if is_launch:
            members = _one_each_compiler(members)
        for cell in members:
            keys.add(cell.key)
    return [cell for cell in all_cells if cell.key in keys]


def _edge_cells(all_cells: Sequence[Cell], usual_cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that `edges` adds to the usual ones, the same for every compiler."""
    by_group = group_by_key((_group(cell), cell) for cell in all_cells)
    usual_groups = group_by_key((_group(cell), cell) for cell in usual_cells)
    candidates = []
    groups = []
    for group, members in by_group.items():
        by_compiler = group_by_key((cell.toolchain, cell) for cell in members)
        # The choice among the cells of one compiler holds for all.
        first = next(iter(by_compiler.values()))
        candidates.append(first)
        usual = list(map(_settings, usual_groups[group]))
        groups.append(edges.Group(usual, list(map(_settings, first))))
    keys: set[str] = set()
    for members, first, indices in zip(by_group.values(), candidates, edges.choose(groups)):
        identities = {_identity(first[index]) for index in indices}
        keys.update(cell.key for cell in members if _identity(cell) in identities)
    return [cell for cell in all_cells if cell.key in keys]


def _settings(cell: Cell) -> LaunchSettings:
    assert cell.launch is not None
    tuned_parameters = tuned_names(cell.configs)
    args, constants = {}, {}
    for name, value in cell.launch.args.items():
        if name in tuned_parameters:
            constants[name] = value["constexpr"]
        else:
            args[name] = value
    return LaunchSettings(args, cell.options, constants, cell.kernel.is_made_up)


def _group(cell: Cell) -> tuple[str, str | None, str, str, bool]:
    return cell.kernel.name, cell.dtype, cell.target, cell.stage, cell.launch is not None


def _size(cell: Cell, by_size: bool) -> str:
    if by_size and cell.launch is not None:
        return size_class(cell.launch.args)
    return ""


def _one_each_compiler(members: Sequence[Cell]) -> list[Cell]:
    """Return one cell of each compiler and package, if possible with the same configuration."""
    by_compiler = group_by_key(((cell.toolchain, cell.kernel.package), cell) for cell in members)
    identity_of = {cell.key: _identity(cell) for cell in members}
    identities = []
    for own in by_compiler.values():
        identities.append({identity_of[cell.key] for cell in own})
    common = set.intersection(*identities)

    def choice(cell: Cell) -> tuple[bool, bool]:
        return identity_of[cell.key] not in common, cell.kernel.is_made_up

    first = min(members, key=choice)
    selection = []
    for own in by_compiler.values():
        same = [cell for cell in own if identity_of[cell.key] == identity_of[first.key]]
        same.append(min(own, key=choice))
        selection.append(same[0])
    return selection


def _identity(cell: Cell) -> str:
    """Return a key of a cell without its compiler and its package's version."""
    return cell.identity(without=["package", "toolchain"])
