"""Advisories that a log calls to mind: a program that ran, and then computed something wrong."""

import re

from flacheck.errors import UsageError
from flacheck.tables import advisories, targets
from flacheck.tables.advisories import Advisory, Effect

# "triton==3.7.0", "Triton: 3.7.0", "triton | 3.7.0", "triton 3.7.0+git…"; not "Triton >= 3.4.0",
# which names a range and no release.
_RELEASE = re.compile(
    r"(?i)\btriton(?:-windows)?\b[\s:=|'\"*`_(-]{0,12}(?:version\W{0,4})?v?(3\.\d+\.\d+)"
)
# What may name a GPU: sm_90a, H100, RTX 5090, gfx942. Its generation's name says as much.
_GPU = re.compile(r"(?i)\b(?:sm_?\d{2,3}[af]?|gfx\d+\w*|rtx[\s_-]?\d{4}|[a-z]{1,2}\d{2,3}x?)\b")
_GENERATIONS = {
    "volta": ("sm70",),
    "turing": ("sm75",),
    "ampere": ("sm80", "sm86"),
    "ada": ("sm89",),
    "hopper": ("sm90",),
    "blackwell": ("sm100", "sm120"),
}
# How it shows in a log that a kernel computed something wrong, and which effects look like that.
_SYMPTOMS = (
    (
        re.compile(
            r"(?i)tensor-likes are not close|mismatched elements|not equal to tolerance"
            r"|\bdiff: [\d.eE+-]+ +ratio: |\bnans?\b|non-?determinis"
            r"|\b(?:wrong|incorrect) (?:results?|outputs?|gradients?|values?)"
        ),
        frozenset((Effect.WRONG_RESULTS, Effect.NOT_A_NUMBER, Effect.RACE)),
    ),
    (
        re.compile(r"GPUs produces incorrect results for"),
        frozenset((Effect.WRONG_RESULTS, Effect.REFUSED)),
    ),
    (
        re.compile(
            r"(?i)illegal memory access|misaligned address|unspecified launch failure"
            r"|invalid __(?:shared|global)__ (?:read|write)"
        ),
        # Kernels that read outside their memory also compute wrong values, and the other way about.
        frozenset((Effect.MEMORY_ERROR, Effect.WRONG_RESULTS, Effect.NOT_A_NUMBER)),
    ),
    (
        re.compile(r"(?i)watchdog caught collective operation timeout|\bhangs?\b"),
        frozenset((Effect.HANG,)),
    ),
)


def of_log(log: str) -> list[Advisory]:
    """The advisories that a log calls to mind, in the order of the table.

    The log must show a symptom of the advisory's effect and name what the advisory is about: one of
    its kernels, or a clue. What the log says of the release and of the GPU must not contradict it.
    An advisory about a pattern in the code names nothing, so release and GPU must both be there.
    """
    effects = {effect for symptom, those in _SYMPTOMS if symptom.search(log) for effect in those}
    if not effects:
        return []
    releases = set(_RELEASE.findall(log))
    gpus = _targets(log)
    slashed = log.replace(".", "/")
    return [
        advisory
        for advisory in advisories.every()
        if advisory.effect in effects and _is_meant(advisory, log, slashed, releases, gpus)
    ]


def _is_meant(
    advisory: Advisory, log: str, slashed: str, releases: set[str], gpus: set[str]
) -> bool:
    if advisory.is_general:
        return any(advisory.covers(release, gpu) for release in releases for gpu in gpus)
    if not _is_named(advisory, log, slashed):
        return False
    # A log that names no release, or no GPU, contradicts nothing.
    admitted = [gpu for gpu in advisory.targets if not gpus or gpu in gpus]
    if not releases:
        return bool(admitted)
    return any(advisory.covers(release, gpu) for release in releases for gpu in admitted)


def _is_named(advisory: Advisory, log: str, slashed: str) -> bool:
    """Whether the log holds a clue or the name of a kernel, which a module must go with where the
    advisory names one: several modules of a package have a kernel of the same name. `slashed` is
    the log with modules as paths."""
    if any(clue in log for clue in advisory.clues):
        return True
    for glob in advisory.kernels:
        module, _, name = glob.rpartition(":")
        path = module.strip("*").replace(".", "/")
        # Long logs are searched for plain text first, which takes no time.
        parts = name.split("*")
        if path in slashed and all(part in log for part in parts) and re.search(_word(name), log):
            return True
    return False


def _word(glob: str) -> str:
    """A pattern for a word that matches a glob."""
    middle = r"\w*".join(map(re.escape, glob.split("*")))
    return rf"\b{middle}\b"


def _targets(log: str) -> set[str]:
    """The targets whose GPU or generation a log names."""
    named = {
        target
        for generation, its in _GENERATIONS.items()
        if re.search(rf"(?i)\b{generation}\b", log)
        for target in its
    }
    for word in set(_GPU.findall(log)):
        try:
            named.add(targets.find(word).name)
        except UsageError:
            continue
    return named
