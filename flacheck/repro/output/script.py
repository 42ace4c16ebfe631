"""The standalone script: one file that imports only triton, tells by its exit status whether the
failure shows.

The compile runs in a child of the script, for it may take its process down. A launch that says
nothing but types is compiled by `triton.compile`; one with constants, numbers or alignments goes
through the kernel's own launch.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flacheck.repro.kernel.specimen import Specimen
from flacheck.repro.output import message
from flacheck.repro.output.launching import CONFIGURED, IMPORTED, LAUNCHED, PLAIN, Form
from flacheck.tables import targets

_HARNESS = '''\
"""{title}

Exit status: 0 the failure shows, 1 it does not, 125 this Triton cannot tell. No GPU is needed.
"""

import os
import subprocess
import sys

{decisive}

if sys.argv[1:] != ["--compile"]:  # the compiler may take its process down, so it gets one of its own
    environment = {{**os.environ, "TRITON_ALWAYS_COMPILE": "1"}}
    command = [sys.executable, os.path.abspath(__file__), "--compile"]
    try:
        child = subprocess.run(command, env=environment, capture_output=True, text=True, timeout={timeout})
    except subprocess.TimeoutExpired:
        sys.exit(125)
    said = child.stdout + child.stderr
    shows = {shows}
    print(said[-4000:])
    print("the failure shows" if shows else "the failure does not show")
    sys.exit(125 if child.returncode == 125 else 0 if shows else 1)

try:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
{imports}except ImportError as error:
    print(error)
    sys.exit(125)


{before}{kernel}


{launch}
'''


@dataclass(frozen=True)
class Symptom:
    """How the failure is known: `words` the compiler prints (or a signal's name), `check` what is
    done with the finished compile to print them after `prepare`, `title` one line that says what
    fails where.
    """

    words: str
    title: str
    check: str = ""
    timeout: int = 600
    prepare: str = ""


def render(specimen: Specimen, symptom: Symptom, form: Form | None = None) -> str:
    """The script's text; as a launch, unless another form is given."""
    form = form or forms(specimen)[-1]
    signal = message.is_signal(symptom.words)
    name = "SIGNAL" if signal else "MESSAGE"
    shows = "child.returncode == -getattr(signal, SIGNAL)" if signal else "MESSAGE in said"
    text = _HARNESS.format(
        title=symptom.title.replace("\\", "/").replace('"""', "'"),
        decisive=f"{name} = {_literal(symptom.words)}",
        shows=shows,
        timeout=symptom.timeout,
        imports="".join(f"    {line}\n" for line in form.imports),
        before=form.before(_target(specimen.target)),
        kernel=kernel_text(specimen),
        launch=symptom.prepare
        + form.render(specimen, _target(specimen.target), symptom.check).rstrip(),
    )
    return text.replace("import os\n", "import os\nimport signal\n", 1) if signal else text


def _literal(text: str) -> str:
    return (
        f'"{text}"' if '"' not in text and "\\" not in text and text.isprintable() else repr(text)
    )


def forms(specimen: Specimen) -> list[Form]:
    """The forms that can say the launch, the simplest first: types alone, a launch, an autotuner's
    run.
    """
    if specimen.stage != "compile":
        return [IMPORTED if specimen.stage == "import" else CONFIGURED]
    return [PLAIN, LAUNCHED] if all(map(_is_typed, specimen.args.values())) else [LAUNCHED]


def _is_typed(spec: Any) -> bool:
    """Whether a type says all that the compiler is told: a pointer of which no alignment is known."""
    return isinstance(spec, Mapping) and "dtype" in spec and bool(spec.get("align", 16) % 16)


def kernel_text(specimen: Specimen) -> str:
    """The module without its first two imports, long signatures and launches broken into lines."""
    skip = ("import triton", "import triton.language as tl")
    parts = [ast.unparse(s).strip() for s in specimen.tree.body if ast.unparse(s) not in skip]
    return quoted("\n\n\n".join(parts))


def quoted(text: str) -> str:
    """Double quotes, as formatters have it, where that changes nothing else."""
    return text if '"' in text or "\\" in text else text.replace("'", '"')


def _target(name: str) -> str:
    row = targets.find(name)
    return f"GPUTarget({row.backend!r}, {row.arch!r}, {row.warp_size})".replace("'", '"')
