"""A capture of the same package under another release stands for one under this release, where all
that the package meets here is the same: its modules import as they did there, its kernels are
decorated alike, and what it asked of Triton is answered alike."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from ..engine import releases
from ..recorder.described import Identities, configuration
from ..recorder.recorder import Recorder
from .asked import TritonAnswers, answered, fingerprint, same_answers
from .operators import Operator


class MetWhileImported:
    """What a package met while it was imported: taken once it was, and compared with that of an
    earlier capture."""

    def __init__(
        self,
        answers: TritonAnswers,
        modules: Iterable[ModuleType],
        failed: Mapping[str, str],
        offered: Iterable[Operator],
        packages: Mapping[str, str],
    ) -> None:
        self._answers = answers
        self._while_imported = dict(answers.answers)
        self._names: set[str] = set()
        kernels = self._kernels(modules, Identities(packages))
        # Why a module failed names folders of the release; the report of a capture says it anew.
        imported = [kernels, sorted(failed), [operator.name for operator in offered]]
        text = json.dumps(imported, sort_keys=True, default=repr)
        self._met = hashlib.sha256(text.encode()).hexdigest()

    def _kernels(self, modules: Iterable[ModuleType], identities: Identities) -> dict[str, Any]:
        from triton.runtime.autotuner import Autotuner, Heuristics
        from triton.runtime.jit import JITFunction

        kernels: dict[str, Any] = {}
        for module in modules:
            for name, value in sorted(vars(module).items()):
                layers: list[Any] = []
                while isinstance(value, (Autotuner, Heuristics)):
                    if isinstance(value, Heuristics):
                        layers.append(sorted(value.values))
                    else:
                        layers.append(_tuner(value))
                    value = value.fn
                if isinstance(value, JITFunction):
                    self._names.add(identities.of(value.fn)[0])
                    parameters = [[p.name, p.is_constexpr, p.has_default] for p in value.params]
                    kernels[f"{module.__name__}:{name}"] = [layers, parameters]
        return kernels

    def differs(self, earlier: Mapping[str, Any]) -> str | None:
        """Why an earlier capture does not hold here, None where it does."""
        if not earlier["reusable"]:
            return "it is bound to its release"
        if earlier["met"] != self._met:
            return "its kernels or modules differ"
        if "" in self._while_imported.values():
            return "what it asked cannot be compared"
        if earlier["while_imported"] != self._while_imported:
            return "it was answered otherwise while it was imported"
        question = same_answers(earlier["called"], answered)
        if question is not None:
            return f"{question} is another"
        return None

    def told(self, recorder: Recorder, report: Mapping[str, Any]) -> dict[str, Any]:
        """For those that come later, once the drive is over."""
        called = {
            question: answer
            for question, answer in self._answers.answers.items()
            if self._while_imported.get(question) != answer
        }
        # A kernel made during a call was compared with nothing, and a warning speaks of a release.
        is_known = recorder.kernels.keys() <= self._names
        unknown = [*called.values(), *self._while_imported.values()].count("")
        return {
            "reusable": is_known and not report["said"] and not unknown,
            "met": self._met,
            "while_imported": self._while_imported,
            "called": called,
        }


def _tuner(tuner: Any) -> list[Any]:
    """Its configurations and keys, and how it prunes where something is to be pruned."""
    configs = [configuration(config, {}) for config in tuner.configs]
    pruning = ""
    if getattr(tuner, "perf_model", None) or getattr(tuner, "early_config_prune", None):
        pruning = fingerprint(type(tuner).prune_configs)
    return [configs, releases.key_names(tuner), pruning]


def take(earlier: str, output: str) -> str:
    """Write the launches of an earlier capture, with this release in their header; its own."""
    with open(earlier, encoding="utf-8") as file:
        header = json.loads(file.readline())
        release: str = header["triton"]
        header["triton"] = sys.modules["triton"].__version__
        with open(output, "w", encoding="utf-8") as taken:
            taken.write(json.dumps(header, ensure_ascii=False) + "\n")
            shutil.copyfileobj(file, taken)
    return release
