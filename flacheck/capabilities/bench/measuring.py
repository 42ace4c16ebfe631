"""The forms of our own families and of a package, and their timing, one after another."""

from __future__ import annotations

import fnmatch
import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flacheck.capabilities.bench.results import Form, FormTiming, Spread
from flacheck.engine.card import CardWorker, failure_of
from flacheck.engine.package_builds import provide_package
from flacheck.errors import EmptySelection, UsageError, did_you_mean
from flacheck.model import Attempt, Corpus, Json, Outcome
from flacheck.source.packages import checkouts
from flacheck.subjects.inputs import corpus

# The first run of an operator with large autotuners compiles for minutes.
_SECONDS = 1800.0
# The forms of the same operator in the order in which they are timed and compared.
_ORDER = ("chunk", "fused_chunk", "fused_recurrent", "parallel")


@dataclass(frozen=True)
class Sizes:
    """The sizes and the dtype of every call, and the number of steady runs."""

    batches: tuple[int, ...]
    lengths: tuple[int, ...]
    heads: int
    head_size: int
    dtype: str
    repeats: int


@dataclass(frozen=True)
class Importable:
    """A package's top-level modules and the folder from which they are imported."""

    modules: tuple[str, ...]
    folder: str


class FormBench:
    """Times forms on the GPU, inside of a `with` statement."""

    def __init__(self, device: str = "cuda") -> None:
        self._worker = CardWorker(
            "forms_worker",
            "flacheck bench",
            device,
            _SECONDS,
            variables=("TRITON_CACHE_DIR",),
        )
        self.card = self._worker.card

    def __enter__(self) -> FormBench:
        self._worker.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.__exit__()

    def forms_of_package(
        self, package: Importable, globs: Sequence[str]
    ) -> tuple[list[Form], list[str]]:
        """Return the operators of a package that match, and what could not be imported."""
        forms: dict[str, Form] = {}
        failures: dict[str, None] = {}
        for glob in globs:
            request = {"op": "forms", "modules": list(package.modules), "glob": glob}
            attempt = self._worker.run({**request, "folders": [package.folder]})
            if attempt.outcome is not Outcome.FINISHED:
                raise UsageError(f"the package cannot be imported: {failure_of(attempt)}")
            failures.update(dict.fromkeys(attempt.facts["failures"]))
            for each in attempt.facts["forms"]:
                form = Form(each["operator"], each["form"], each["function"])
                forms.setdefault(form.function, form)
        if not forms:
            why = f" ({'; '.join(failures)})" if failures else ""
            raise EmptySelection(f"no operator of the package matches {', '.join(globs)}{why}")
        return list(forms.values()), list(failures)

    def measure(
        self, forms: Sequence[Form], sizes: Sizes, folders: Sequence[str]
    ) -> Iterator[FormTiming]:
        """Yield a timing for each form, batch size and length; the forms of a size in a row."""
        operators: dict[str, list[Form]] = {}
        for form in forms:
            operators.setdefault(form.operator, []).append(form)
        for operator, its_forms in operators.items():
            its_forms.sort(key=lambda form: (_ORDER.index(form.form), form.function))
            for batch in sizes.batches:
                for length in sizes.lengths:
                    comparison = f"{operator} {batch} {length}"
                    for form in its_forms:
                        request = _request(form, sizes, batch, length)
                        request |= {"comparison": comparison, "folders": list(folders)}
                        attempt = self._worker.run(request)
                        yield _timing(form, batch, length, attempt)


def forms_of_corpus(operator: str) -> list[Form]:
    """Return the forms of our own families whose name or operator matches.

    Raises UsageError if there are none.
    """
    forms: dict[tuple[str, str], Form] = {}
    names: set[str] = set()
    for source in corpus.load().values():
        origin = source.kernel.origin
        if not isinstance(origin, Corpus) or source.kernel.form not in _ORDER:
            continue
        names.add(origin.family)
        if fnmatch.fnmatchcase(origin.family, operator):
            key = origin.family, str(source.kernel.form)
            forms[key] = Form(origin.family, key[1], f"{origin.family}.{key[1]}", is_ours=True)
    if not forms:
        listing = f"; the operators are {', '.join(sorted(names))}"
        raise UsageError(f"no operator {operator}{did_you_mean(operator, names) or listing}")
    return list(forms.values())


def importable(spec: str) -> Importable:
    """Return the modules of a package: `NAME==VERSION` or a checkout, or NAME as installed here.

    Raises UsageError if a package without a version is not installed.
    """
    if "==" in spec or checkouts.is_path(spec):
        package = provide_package(spec)
        return Importable(package.modules, package.path)
    try:
        distribution = importlib.metadata.distribution(spec)
    except importlib.metadata.PackageNotFoundError:
        remedy = f"install it, or name a version: {spec}==…"
        raise UsageError(f"{spec} is not installed beside flacheck; {remedy}") from None
    tops = set()
    for file in distribution.files or ():
        if len(file.parts) > 1 and file.suffix == ".py" and file.parts[0].isidentifier():
            tops.add(file.parts[0])
    return Importable(tuple(sorted(tops)), str(Path(str(distribution.locate_file("")))))


def _request(form: Form, sizes: Sizes, batch: int, length: int) -> Json:
    request: Json = {"op": "measure", "dtype": sizes.dtype, "repeats": sizes.repeats}
    request["form"] = form.form
    head = sizes.head_size
    request["sizes"] = {"B": batch, "T": length, "H": sizes.heads, "K": head, "V": head}
    if form.is_ours:
        request["family"] = form.operator
    else:
        request["function"] = form.function
    return request


def _timing(form: Form, batch: int, length: int, attempt: Attempt) -> FormTiming:
    make: Callable[..., FormTiming] = FormTiming
    place: dict[str, Any] = {"operator": form.operator, "form": form.form}
    place |= {"function": form.function, "batch": batch, "length": length}
    if attempt.outcome is not Outcome.FINISHED:
        return make(**place, failed=failure_of(attempt))
    facts = attempt.facts
    seconds = {name: round(facts[name], 3) for name in ("compile_s", "tuning_s", "warm_up_s")}
    difference = facts["difference"]
    return make(
        **place,
        **seconds,
        forward=_spread(facts["forward_ms"]),
        backward=_spread(facts["backward_ms"]),
        memory_mb=None if facts["memory_mb"] is None else round(facts["memory_mb"], 1),
        difference=difference,
        compared_with=None if difference is None else facts["compared_with"],
        backward_failed=facts["backward_failed"],
    )


def _spread(times: Sequence[float] | None) -> Spread | None:
    if times is None:
        return None
    median, low, high = (round(time, 5) for time in times)
    return Spread(median, low, high)
