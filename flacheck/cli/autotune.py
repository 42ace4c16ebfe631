"""flacheck autotune: what a release's autotuner makes of a kernel's configurations and keys."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flacheck.cli import common
from flacheck.errors import Exit, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flacheck.autotune.bench import Bench
    from flacheck.autotune.examination import Examination
    from flacheck.autotune.examined import TunerResult
    from flacheck.autotune.sources import Asked

_LINE = re.compile(r"(?P<file>.+\.jsonl)(?::(?P<line>\d+))?")

_Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        min=0,
        metavar="N",
        show_default=False,
        help="Workers at once.",
        envvar="FLACHECK_JOBS",
    ),
]
_Budget = Annotated[
    int,
    typer.Option(
        metavar="N", min=0, help="Settings to try for each failure; 0 looks for no fallbacks."
    ),
]
_Emit = Annotated[
    str | None,
    typer.Option(
        metavar="fla|python",
        help="What runs everywhere: config files for FLA into the folder -o, or triton.Config lists.",
    ),
]
_Bench = Annotated[
    bool,
    typer.Option(
        "--bench",
        help="Time what compiles on the GPU that is here, with the installed Triton: our own kernels, and those of "
        "packages and launches files with the sizes that were recorded.",
    ),
]


@common.command
def autotune(
    kernel: Annotated[
        str,
        typer.Argument(
            metavar="KERNEL",
            help="A glob over kernels' names, or a launches file, FILE.jsonl[:LINE].",
        ),
    ],
    package: Annotated[
        str | None,
        typer.Option(
            metavar="NAME==VERSION", help="Kernels of a package, captured under each release."
        ),
    ] = None,
    launches: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="Kernels of a launches file.")
    ] = None,
    matrix: Annotated[
        str | None,
        typer.Option(metavar="MATRIX", help="Kernels of a matrix; without any, our own."),
    ] = None,
    target: common.Target = [],
    dtype: common.Dtype = [],
    toolchain: common.Toolchain = [],
    triton: common.Triton = [],
    jobs: _Jobs = 0,
    fallback_budget: _Budget = 48,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compile again what is already in the store.")
    ] = False,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Install and import packages that a launches file names."),
    ] = False,
    emit: _Emit = None,
    bench: _Bench = False,
    store: common.StoreDir = Path(".flacheck"),
    format: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORMAT", help="table, json or markdown.", envvar="FLACHECK_FORMAT"
        ),
    ] = "table",
    output: common.Output = None,
) -> int:
    """List each configuration of KERNEL's autotuner with what becomes of it, and the faults of its
    keys.
    """
    from flacheck.autotune import formats
    from flacheck.autotune.examination import Examination
    from flacheck.autotune.sources import gather

    formats.check(format)
    if emit not in (None, "fla", "python"):
        raise UsageError(f"--emit {emit}: fla or python is wanted")
    card = _bench() if bench else None
    asked = _asked(kernel, package, launches, matrix, trust)
    here = [card.card.target] if card and card.card.target and not target else target
    asked = _selected(asked, here, dtype, [*toolchain, *triton])
    gathered = gather(asked)
    for note in gathered.notes:
        common.say(note)
    examination = Examination(kernel, gathered, jobs, fresh=fresh)
    results = _results(examination, store, fallback_budget)
    if results is None:
        return common.interrupted()
    if card is not None:
        results = examination.timed(results, card, common.say)
    if emit == "fla":
        _emit_fla(results, output or Path("fla-configs"))
    elif emit == "python":
        _emit_python(results, output)
    else:
        _show(format, kernel, results, output)
    return _exit_code(results)


def _bench() -> Bench:
    """The card that is here; UsageError without one, before anything is compiled."""
    from flacheck.autotune.bench import Bench

    found = Bench()
    common.say(
        f"timing on {found.card.name} with Triton {found.card.triton} and torch {found.card.torch}"
    )
    return found


def _asked(
    kernel: str, package: str | None, launches: Path | None, matrix: str | None, trust: bool
) -> Asked:
    """The one source that was named."""
    from flacheck.autotune.sources import Asked
    from flacheck.inputs.expand import Selection

    named = _LINE.fullmatch(kernel)
    given = {"--package": package, "--launches": launches, "--matrix": matrix, kernel: named}
    sources = [name for name, value in given.items() if value is not None]
    if len(sources) > 1:
        raise UsageError(f"{' and '.join(sources)} were given: kernels come from one of them")
    if named:
        line = int(named["line"]) if named["line"] else None
        return Asked(
            "*", Selection(), file=Path(named["file"]), line=line, trust=trust, progress=common.say
        )
    return Asked(kernel, Selection(), package, launches, None, matrix, trust, common.say)


def _selected(asked: Asked, target: list[str], dtype: list[str], toolchain: list[str]) -> Asked:
    from dataclasses import replace

    from flacheck.inputs.expand import Selection
    from flacheck.inputs.matrix import DTYPES
    from flacheck.tables import targets

    names = tuple(targets.find(name).name for name in common.split(target))
    for each in common.split(dtype):
        if each not in DTYPES:
            raise UsageError(f"unknown dtype {each!r}: allowed are {', '.join(DTYPES)}")
    selection = Selection(targets=names, dtypes=common.split(dtype), toolchains=tuple(toolchain))
    return replace(asked, selection=selection)


def _results(examination: Examination, store: Path, budget: int) -> Sequence[TunerResult] | None:
    """None when interrupted; what is finished is stored then."""
    from flacheck.cli.progress import watch

    for line in examination.ruled_out():
        common.say(f"before compiling: {line}")
    try:
        with watch(len(examination.plan.cells)) as seen:
            for record in examination.records(store, seen.say):
                seen(record)
        return examination.results(store, budget, common.say)
    except KeyboardInterrupt:
        return None


def _show(format: str, kernel: str, results: Sequence[TunerResult], output: Path | None) -> None:
    from flacheck.autotune import formats
    from flacheck.reports import Page

    page = Page() if output else Page.of_stdout()
    common.write(formats.render(format, kernel, results, page), output)


def _emit_fla(results: Sequence[TunerResult], folder: Path) -> None:
    """The folder that FLA_CONFIG_DIR is to name; the variables to set go to stdout."""
    from flacheck.autotune.emit import fla

    written = list(fla.files(results))
    if not written:
        raise UsageError(
            "no configuration runs under everything that was asked: there is nothing to emit"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be made ({error.strerror}); name another folder with -o"
        ) from None
    for name, text in written:
        common.write([text], folder / name)
    common.say(
        f"{len(written)} configuration files for flash-linear-attention 0.6 or newer in {folder}"
    )
    common.write(
        [f"export FLA_CONFIG_DIR={shlex.quote(str(folder.resolve()))} FLA_CACHE_MODE=full\n"], None
    )


def _emit_python(results: Sequence[TunerResult], output: Path | None) -> None:
    from flacheck.autotune.emit import python

    common.write(python.render(results), output)


def _exit_code(results: Sequence[TunerResult]) -> Exit:
    if any(result.is_finding for result in results):
        return Exit.FINDINGS
    known = any(config.fate is not None for result in results for config in result.configs)
    return Exit.OK if known else Exit.INCOMPLETE
