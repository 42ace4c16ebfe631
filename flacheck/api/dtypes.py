"""`flacheck.dtypes`: the line where a promotion breaks the dtypes that kernels expect."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flacheck import toolchains
from flacheck.api.arguments import one_package, split, texts
from flacheck.api.options.commands import DtypesOptions
from flacheck.api.options.declaration import Texts, takes
from flacheck.capabilities.dtypes.costs import CostBench
from flacheck.capabilities.dtypes.examination import Experiments, examine
from flacheck.capabilities.dtypes.finding import DtypeFinding
from flacheck.capabilities.dtypes.following import DtypesQuestion
from flacheck.capabilities.dtypes.heads import TARGETS
from flacheck.capabilities.dtypes.observation import Mode
from flacheck.capabilities.dtypes.result import DtypesResult
from flacheck.engine.package_builds import provide_package
from flacheck.errors import UsageError
from flacheck.pipeline.events import OnEvent, Progress, ignore
from flacheck.subjects.captures.cards import card
from flacheck.toolchains.base import Choice

if TYPE_CHECKING:
    from typing_extensions import Unpack

_AUTOCASTS, _PARAMETERS = ("fp16", "bf16", "off"), ("fp32", "bf16", "fp16")


@takes(DtypesOptions)
def dtypes(
    words: Texts = (), *, on_event: OnEvent | None = None, **options: Unpack[DtypesOptions]
) -> DtypesResult:
    """Follow dtypes through a module under autocast, without a GPU; torch is required.

    It runs under autocast in fp16 and in bf16 by default, with parameters in fp32. Launches that
    the Triton beside the target cannot compile are compiled by an older release, unless `triton`
    names one.

    Args:
        words: One or more of `MODULE:NAME` or `FILE.py:NAME`; every layer of the package without
            any.
        **options: The options of `flacheck dtypes`.
        on_event: Receives a sentence for each finding as soon as it is known.

    Raises:
        UsageError: If an argument is wrong or the target is missing.
        IncompleteError: If the target cannot be followed.
    """
    targets = _targets(texts(words))
    triton, autocast, params = texts(options["triton"]), options["autocast"], options["params"]
    choice = _choice(triton)
    names = ("fp16", "bf16") if autocast is None else split(autocast)
    modes = _modes(names, params or "fp32")
    question = _question(targets, modes, choice, options)
    handle = on_event or ignore

    def announce(finding: DtypeFinding) -> None:
        where = f"{finding.code} {finding.file}:{finding.line}: {finding.source}"
        handle(Progress(f"{where} ({finding.subject}, {finding.mode})"))

    bench = CostBench(Path(options["store"]), choice, question.package, options["jobs"], not triton)
    experiments = Experiments(bench, _gpus(options), options["costs"])
    return examine(question, experiments, announce)


def _targets(words: Sequence[str]) -> tuple[str, ...]:
    """Return the targets, each once; UsageError for two files of one name."""
    files: dict[str, Path] = {}
    for word in words:
        where, colon, _ = word.rpartition(":")
        if not colon:
            raise UsageError(f"{word}: expected TARGETs: MODULE:NAME or FILE.py:NAME")
        if not where.endswith(".py"):
            continue
        file = Path(where).absolute()
        # A file is imported by its name, and a module can be only one file.
        first = files.setdefault(file.name, file)
        if first != file:
            raise UsageError(f"{first} and {file} have the same name: follow each in its own call")
    return tuple(dict.fromkeys(words))


def _question(
    targets: tuple[str, ...],
    modes: tuple[Mode, ...],
    choice: Choice,
    options: DtypesOptions,
) -> DtypesQuestion:
    package = one_package(options["package"], "dtypes")
    if not targets and package is None:
        raise UsageError("name a TARGET (MODULE:NAME or FILE.py:NAME), a --package, or both")
    settings = dict(map(_argument, texts(options["arg"])))
    if settings and len(targets) != 1:
        raise UsageError("--arg is for one TARGET: different layers take different arguments")
    return DtypesQuestion(
        targets=targets,
        modes=modes,
        toolchain=toolchains.provide(choice),
        package=provide_package(package) if package else None,
        settings=settings,
        device=options["device"],
    )


def _choice(triton: Sequence[str]) -> Choice:
    choices = toolchains.resolve(triton or [toolchains.DEFAULT_SPEC]).choices
    if len(choices) != 1:
        names = ", ".join(choice.identity for choice in choices)
        specs = ", ".join(triton)
        raise UsageError(f"--triton {specs}: expected one release, not {names or 'none'}")
    return choices[0]


def _gpus(options: DtypesOptions) -> tuple[str, ...]:
    """Return the GPUs to measure heads on; UsageError for one that cannot be imitated."""
    names, shared = split(options["target_gpu"]), options["shared"]
    if not shared and names:
        raise UsageError("--target names GPUs for --shared: add --shared")
    if not shared:
        return ()
    return tuple(dict.fromkeys(card(name)["name"] for name in names or TARGETS))


def _modes(autocast: Sequence[str], params: str) -> tuple[Mode, ...]:
    for name in autocast:
        if name not in _AUTOCASTS:
            raise UsageError(f"--autocast {name}: expected {', '.join(_AUTOCASTS)}")
    if params not in _PARAMETERS:
        raise UsageError(f"--params {params}: expected {', '.join(_PARAMETERS)}")
    if params == "fp32" and "off" in autocast:
        raise UsageError(
            "--autocast off with fp32 parameters has no half dtype to break; give --params bf16 or "
            "--autocast fp16"
        )
    return tuple(Mode(name, params) for name in dict.fromkeys(autocast))


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--arg {text}: expected NAME=VALUE, for example hidden_size=1024")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
