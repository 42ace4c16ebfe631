"""flacheck dtypes: where a promotion breaks the dtypes that kernels get under mixed precision."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flacheck.cli import common, flags
from flacheck.errors import UsageError

if TYPE_CHECKING:
    from flacheck.dtypes.following import DtypesQuestion
    from flacheck.dtypes.observed import Mode
    from flacheck.toolchains.base import Choice

_TARGET = (
    "A module, function or model config: MODULE:NAME or FILE.py:NAME; or, after --, a script and "
    "its arguments. Default: every layer of the package."
)
_AUTOCAST = "Run under autocast in these dtypes: fp16, bf16, off."
_PARAMS = "Make parameters and arguments in this dtype: fp32, bf16, fp16."
_ARG = "Give the constructor, or the call, this argument. Upper-case names are sizes: T=2048."
_DEVICE = "Imitate this card: h100, a100, v100 …"
_TRITON = "Import the target beside this Triton release. Default: installed."
_BASELINE = "Exit 0 when FILE lists every finding."
_WRITE = "Write a baseline with all findings to FILE."
_SHARED = "Compile the kernels at head sizes 64, 128 and 256: what fits on each GPU."
_TARGETS = "Name the GPUs for --shared. Default: sm90, sm80, sm89, sm86, sm70, sm75."
_FORMAT = "Print the report in this format."
_FORMATS = "table|json|markdown|github"
_AUTOCASTS, _PARAMETERS = ("fp16", "bf16", "off"), ("fp32", "bf16", "fp16")


@common.command
def dtypes(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[TARGET | -- SCRIPT.py ARG…]", help=_TARGET)
    ] = None,
    package: flags.Package = [],
    autocast: list[str] = flags.option(["fp16", "bf16"], metavar="DTYPE", help=_AUTOCAST),
    params: str = flags.option("fp32", metavar="fp32|bf16|fp16", help=_PARAMS),
    arg: list[str] = flags.option([], metavar="NAME=VALUE", help=_ARG),
    device: str = flags.option("h100", metavar="CARD", help=_DEVICE),
    triton: list[str] = flags.option([], metavar="X", help=_TRITON),
    mend: bool = flags.option(
        True, "--mend/--no-mend", help="Apply the casts in a copy and run it again."
    ),
    shared: bool = flags.option(False, "--shared", help=_SHARED),
    target_gpu: list[str] = flags.option([], "--target", "-t", metavar="GPU", help=_TARGETS),
    jobs: flags.Jobs = 0,
    store: flags.StoreDir = Path(".flacheck"),
    baseline: Path | None = flags.option(None, metavar="FILE", help=_BASELINE),
    write_baseline: Path | None = flags.option(None, metavar="FILE", help=_WRITE),
    format: str = flags.option("table", "--format", metavar=_FORMATS, help=_FORMAT),
    output: flags.Output = None,
) -> int:
    """Follow dtypes through TARGET under autocast and name the line that breaks a kernel's.

    Needs torch, and no GPU. Example: flacheck dtypes my_layer.py:Attention --autocast fp16
    """
    from flacheck import reports
    from flacheck.dtypes import baseline as baselines
    from flacheck.dtypes import scripts
    from flacheck.dtypes.costs import CostBench
    from flacheck.dtypes.examination import Tries, examine
    from flacheck.reports import dtypes as dtypes_report

    reports.check(format, dtypes_report.FORMATS)
    # A project's releases are what its scans ask; here one is enough.
    if not common.is_typed(context, "triton"):
        triton = []
    script = scripts.words_of(words or ())
    target = _target(words or [], script)
    choice = _choice(triton)
    modes = _modes(autocast, params)
    name = common.one_package(context, package)
    question = _question(target, script, name, modes, arg, device, choice)
    if script:
        question = _of_script(context, question, autocast, shared)
    if baseline is not None and baseline != write_baseline:
        # A file that is no baseline is said before the work, not after it.
        baselines.known(baseline)
    bench = CostBench(store, choice, question.package, jobs)
    result = examine(question, Tries(mend, bench, _heads_on(shared, target_gpu)))
    if write_baseline is not None:
        common.write([baselines.text(result.findings)], write_baseline)
        common.say(f"baseline with {len(result.findings)} findings: {write_baseline}")
    if baseline is not None:
        result = baselines.applied(result, baseline)
    common.show(format, dtypes_report.report(result), output)
    return result.exit_code


def _of_script(
    context: typer.Context, question: DtypesQuestion, autocast: list[str], shared: bool
) -> DtypesQuestion:
    """The question about a script, in its own mode where no other is typed."""
    from flacheck.dtypes import scripts

    if shared:
        raise UsageError("--shared needs a TARGET: a script says itself how wide its heads are")
    if common.is_typed(context, "params"):
        raise UsageError("--params needs a TARGET: a script makes its parameters itself")
    typed: tuple[str, ...] = ()
    if common.is_typed(context, "autocast"):
        typed = common.split(autocast)
    return scripts.with_modes(question, typed)


def _target(words: list[str], script: tuple[str, ...]) -> str | None:
    if script or not words:
        return None
    if len(words) > 1:
        raise UsageError(f"{' '.join(words)}: expected one TARGET, or a script after --")
    return words[0]


def _question(
    target: str | None,
    script: tuple[str, ...],
    package: str | None,
    modes: tuple[Mode, ...],
    arguments: list[str],
    device: str,
    choice: Choice,
) -> DtypesQuestion:
    from flacheck import toolchains
    from flacheck.dtypes.following import DtypesQuestion
    from flacheck.packages.package import provide_package

    if target is None and package is None and not script:
        raise UsageError(
            "name a TARGET (MODULE:NAME or FILE.py:NAME), a --package, or both; "
            "or give a script after --"
        )
    settings = dict(map(_argument, arguments))
    if settings and target is None:
        raise UsageError("--arg is for one TARGET: layers of a package take different arguments")
    return DtypesQuestion(
        targets=(target,) if target else (),
        script=script,
        modes=modes,
        toolchain=toolchains.provide(choice),
        package=provide_package(package) if package else None,
        settings=settings,
        device=device,
    )


def _choice(triton: list[str]) -> Choice:
    from flacheck import toolchains

    choices = toolchains.resolve(triton or ["installed"]).choices
    if len(choices) != 1:
        names = ", ".join(choice.identity for choice in choices)
        given = ", ".join(triton)
        raise UsageError(f"--triton {given}: expected one release, not {names or 'none'}")
    return choices[0]


def _heads_on(shared: bool, names: list[str]) -> tuple[str, ...]:
    """The GPUs to measure heads on; UsageError for one that cannot be imitated."""
    from flacheck.capture.cards import card
    from flacheck.dtypes.heads import TARGETS

    if not shared and names:
        raise UsageError("--target names GPUs for --shared: add --shared")
    if not shared:
        return ()
    chosen = common.split(names) or TARGETS
    return tuple(dict.fromkeys(card(name)["name"] for name in chosen))


def _modes(autocast: list[str], params: str) -> tuple[Mode, ...]:
    from flacheck.dtypes.observed import Mode

    names = common.split(autocast)
    for name in names:
        if name not in _AUTOCASTS:
            raise UsageError(f"--autocast {name}: expected {', '.join(_AUTOCASTS)}")
    if params not in _PARAMETERS:
        raise UsageError(f"--params {params}: expected {', '.join(_PARAMETERS)}")
    if params == "fp32" and "off" in names:
        raise UsageError(
            "--autocast off with fp32 parameters has no half dtype to break; give --params bf16 or "
            "--autocast fp16"
        )
    return tuple(Mode(name, params) for name in dict.fromkeys(names))


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--arg {text}: expected NAME=VALUE, for example hidden_size=1024")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
