"""A capture of the same package under another release stands for one under this release, where all
that the package meets here is the same: what it asked of Triton is answered alike, its kernels are
decorated alike, launches may name the same options, and Triton's front end takes and refuses the
same arguments for the same reasons.

All of that was written down when the capture was made, so `main` needs neither torch nor the
package, which take most of the time of a small capture. It is started with one argument, a JSON
object: `earlier` (captures under other releases, each {"asked", "launches", "report"}), `card`,
`scratch` (a folder), `output`, `report` and `asked` (the files to write). Where none of them holds
it writes nothing."""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from ..engine import releases, vendor_libraries
from ..engine.driver import TargetDriver
from ..engine.loader import module_from
from ..recorder import refusals
from ..recorder.described import Identities
from ..recorder.recorder import Recorder
from ..workers import torch_stub, values
from . import asked, decorated
from .asked import TritonAnswers
from .front_end import against_arguments, refusal, set_up
from .interview import Interview


class MetWhileImported:
    """What a package met while it was imported: taken once it was."""

    def __init__(
        self,
        answers: TritonAnswers,
        modules: Iterable[ModuleType],
        failed: Mapping[str, str],
        packages: Mapping[str, str],
    ) -> None:
        answers.importing = False
        self._answers, self._failed = answers, failed
        self._kernels = decorated.described(modules, Identities(packages))

    def told(
        self, recorder: Recorder, interview: Interview, said: Iterable[object]
    ) -> dict[str, Any]:
        """For those that come later, once the drive is over; `bound` says why the capture holds
        under its own release only, None where it may hold under others."""
        return {
            "bound": self._bound(recorder, interview, said),
            "answers": self._answers.answers,
            "kernels": self._kernels,
            "options": refusals.asked,
            "sources": interview.sources,
            "questions": interview.questions,
        }

    def _bound(
        self, recorder: Recorder, interview: Interview, said: Iterable[object]
    ) -> str | None:
        names = {kernel["name"] for kernel in self._kernels.values()}
        made = sorted(recorder.kernels.keys() - names)
        unknown = [name for name, answer in self._answers.answers.items() if not answer]
        triton = os.path.dirname(sys.modules["triton"].__file__ or "")
        reasons = {
            "the package speaks of a release": any(True for _ in said),
            f"a call made kernels: {', '.join(made)}": bool(made),
            f"nobody can compare {', '.join(unknown)}": bool(unknown),
            f"two answers to {', '.join(sorted(self._answers.changed))}": self._answers.changed,
            "a module failed inside Triton": any(triton in why for why in self._failed.values()),
            f"the front end cannot be asked again about {interview.unwritten}": interview.unwritten,
        }
        return next((reason for reason, holds in reasons.items() if holds), None)


def main() -> None:
    config = json.loads(sys.argv[1])
    here = _Here(config["card"], config["scratch"])
    for earlier in config["earlier"]:
        if _in_a_child(functools.partial(_taken, here, earlier, config)):
            return


def _in_a_child(work: Callable[[], bool]) -> bool:
    """Whether this holds; what it imports of Triton is not there for the next."""
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        failed = True
        try:
            failed = not work()
        finally:
            sys.stderr.flush()
            os._exit(failed)
    return os.waitpid(child, 0)[1] == 0


def _taken(here: _Here, earlier: Mapping[str, str], config: Mapping[str, str]) -> bool:
    """Take an earlier capture over, or say why it does not hold."""
    with open(earlier["asked"], encoding="utf-8") as file:
        told = json.load(file)
    try:
        why = here.differs(told)
    except Exception as error:
        # Kernels are read and decorated again, and a release may refuse either in any way.
        why = f"{type(error).__name__}: {error}"
    if why is not None:
        print(f"{earlier['launches']} does not hold here: {why}", file=sys.stderr)
        return False
    _take(earlier, config)
    return True


class _Here:
    """The release on the path, as a capture would meet it, but without torch."""

    def __init__(self, card: Mapping[str, Any], scratch: str) -> None:
        self._scratch = scratch
        driver = TargetDriver()
        driver.select({**card})
        torch_stub.install(driver)
        import triton  # noqa: F401 what follows changes parts of it

        releases.install_driver(driver)
        releases.time_once()
        vendor_libraries.leave_out_blas()
        set_up()

    def differs(self, told: Mapping[str, Any]) -> str | None:
        """Why an earlier capture does not hold here, None where it does: what costs least first."""
        if told["bound"]:
            return f"it is bound to its release: {told['bound']}"
        question = asked.differs(told["answers"])
        if question is not None:
            return f"{question} is another"
        for name, is_option in told["options"].items():
            if refusals.is_option(name) != is_option:
                return f"{name} is an option of one of the releases only"
        kernel = decorated.differs(told["kernels"], self._scratch)
        if kernel is not None:
            return f"{kernel} is decorated otherwise"
        return self._refuses_otherwise(told)

    def _refuses_otherwise(self, told: Mapping[str, Any]) -> str | None:
        from triton.runtime.jit import JITFunction

        modules = {digest: self._module(digest, text) for digest, text in told["sources"].items()}
        for question in told["questions"]:
            names = vars(modules[question["source"]])
            arguments = values.arguments(question["args"], names)
            function = names[question["kernel"]]
            error = releases.front_end_error(JITFunction.run, function, arguments)
            if refusal(against_arguments(error)) != question["refusal"]:
                return f"the front end says something else of {question['kernel']}"
        return None

    def _module(self, digest: str, text: str) -> ModuleType:
        name = f"asked_{digest}"
        path = os.path.join(self._scratch, f"{name}.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return module_from(path, name)


def _take(earlier: Mapping[str, str], config: Mapping[str, str]) -> None:
    """The launches of an earlier capture, with this release in their header, and its report, which
    comes last: it says that all is there."""
    with open(earlier["launches"], encoding="utf-8") as file:
        header = json.loads(file.readline())
        release: str = header["triton"]
        header["triton"] = sys.modules["triton"].__version__
        with open(config["output"], "w", encoding="utf-8") as taken:
            taken.write(json.dumps(header, ensure_ascii=False) + "\n")
            shutil.copyfileobj(file, taken)
    shutil.copyfile(earlier["asked"], config["asked"])
    with open(earlier["report"], encoding="utf-8") as file:
        report: dict[str, Any] = json.load(file)
    report = {**report, "like": report.get("like", release)}
    partial = f"{config['report']}.part"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    os.replace(partial, config["report"])
