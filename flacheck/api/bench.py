"""`flacheck.bench`: the forms of an operator against each other on this machine's GPU."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flacheck.api.arguments import dtypes, numbers, one_package, split
from flacheck.api.options.commands import BenchOptions
from flacheck.api.options.declaration import takes
from flacheck.capabilities.bench.measuring import FormBench, Sizes, forms_of_corpus, importable
from flacheck.capabilities.bench.results import Form, FormsCompared, FormTiming, winners
from flacheck.errors import EmptySelection, UsageError
from flacheck.pipeline.events import OnEvent, Progress, ignore

if TYPE_CHECKING:
    from typing_extensions import Unpack

# The largest relative difference of two right forms: the corpus's own limits, doubled because both
# sides round.
_TOLERANCE = {"fp32": 2e-5, "fp16": 4e-3, "bf16": 2e-2}


@takes(BenchOptions)
def bench(
    operator: str | None = None, *, on_event: OnEvent | None = None, **options: Unpack[BenchOptions]
) -> FormsCompared:
    """Time the forms of an operator on this machine's GPU, forward and backward.

    An interrupt keeps the timings so far.

    Args:
        operator: A family of flacheck's own kernels, or a glob.
        **options: The options of `flacheck bench`.
        on_event: Receives a `Progress` for each timing.

    Raises:
        UsageError: If an argument is wrong.
        EmptySelection: If no form matches.
        IncompleteError: If there is no GPU that torch can use.
    """
    handle = on_event or ignore
    spec = one_package(options["package"], "bench")
    if (operator is None) == (spec is None):
        raise UsageError("name an OPERATOR, or a package with --package and --op; not both")
    ops = split(options["op"])
    if spec is not None and not ops:
        raise UsageError("--package needs --op GLOB, such as --op '*_gla'")
    if operator is not None and ops:
        raise UsageError("--op selects operators of a package: name it with --package")
    sizes = _sizes(options)
    source = importable(spec) if spec is not None else None
    forms = forms_of_corpus(operator) if operator is not None else []
    notes: list[str] = []
    timings: list[FormTiming] = []
    interrupted = False
    timer = FormBench(options["device"])
    handle(Progress(f"timing on {timer.card.name}, Triton {timer.card.triton}"))
    with timer:
        if source is not None:
            forms, failures = timer.forms_of_package(source, ops)
            notes += [f"not imported: {failure}" for failure in failures]
        forms = matching(forms, split(options["form"]))
        folders = [source.folder] if source is not None else []
        try:
            for timing in timer.measure(forms, sizes, folders):
                timings.append(timing)
                handle(Progress(_line(timing)))
        except KeyboardInterrupt:
            # Each timing took seconds to minutes on the GPU.
            interrupted = True
            handle(Progress("interrupted: the other forms and sizes were not timed"))
    return FormsCompared(
        about=operator or f"{spec} {', '.join(ops)}",
        gpu=timer.card.name,
        triton=timer.card.triton,
        torch=timer.card.torch,
        dtype=sizes.dtype,
        heads=sizes.heads,
        head_size=sizes.head_size,
        repeats=sizes.repeats,
        tolerance=_TOLERANCE[sizes.dtype],
        timings=timings,
        winners=winners(timings),
        notes=notes,
        interrupted=interrupted,
    )


def _sizes(options: BenchOptions) -> Sizes:
    """Return the sizes; UsageError for numbers below 1 and dtypes that no form takes."""
    lengths, batches = numbers("--length", options["length"]), numbers("--batch", options["batch"])
    heads, head_size, repeats = options["heads"], options["head_size"], options["repeats"]
    limits = {"--length": lengths, "--batch": batches, "--heads": (heads,)}
    limits |= {"--head-size": (head_size,), "--repeats": (repeats,)}
    for option, values in limits.items():
        if not values or min(values) < 1:
            raise UsageError(f"{option} takes numbers of at least 1")
    names = dtypes(options["dtype"])
    if len(names) != 1 or names[0] not in _TOLERANCE:
        raise UsageError(f"--dtype takes one of {', '.join(_TOLERANCE)}")
    ascending = tuple(sorted(set(lengths)))
    return Sizes(tuple(sorted(set(batches))), ascending, heads, head_size, names[0], repeats)


def matching(forms: list[Form], globs: tuple[str, ...]) -> list[Form]:
    """Return the forms whose name matches a glob, all without globs; EmptySelection for none."""
    if not globs:
        return forms
    fitting = [each for each in forms if any(fnmatch.fnmatchcase(each.form, g) for g in globs)]
    if not fitting:
        names = sorted({each.form for each in forms})
        raise EmptySelection(f"no form matches {', '.join(globs)}: there are {', '.join(names)}")
    return fitting


def _line(timing: FormTiming) -> str:
    """Return a timing in one line."""
    return " ".join(_words(timing))


def _words(timing: FormTiming) -> Iterator[str]:
    yield f"{timing.function} batch {timing.batch} length {timing.length:,}:"
    if timing.forward is None:
        yield f"fails: {timing.failed}"
        return
    yield f"forward {timing.forward.median:.3f} ms"
    if timing.backward is not None:
        yield f"backward {timing.backward.median:.3f} ms"
