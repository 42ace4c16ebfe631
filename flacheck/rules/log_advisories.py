"""Advisories that match a log of a program that ran and then computed something wrong."""

import re
from itertools import product

from flacheck.errors import UsageError
from flacheck.tables import advisories, targets
from flacheck.tables.advisories import Advisory, Effect

# "triton==3.7.0", "Triton: 3.7.0", "triton | 3.7.0", "triton 3.7.0+git…"; not "Triton >= 3.4.0",
# which is a range.
_RELEASE = re.compile(
    r"(?i)\btriton(?:-windows)?\b[\s:=|'\"*`_(-]{0,12}(?:version\W{0,4})?v?(3\.\d+\.\d+)"
)
# Names of GPUs: sm_90a, H100, RTX 5090, gfx942. The name of a generation counts too.
_GPU = re.compile(r"(?i)\b(?:sm_?\d{2,3}[af]?|gfx\d+\w*|rtx[\s_-]?\d{4}|[a-z]{1,2}\d{2,3}x?)\b")
_GENERATIONS = {
    "volta": ("sm70",),
    "turing": ("sm75",),
    "ampere": ("sm80", "sm86"),
    "ada": ("sm89",),
    "hopper": ("sm90",),
    "blackwell": ("sm100", "sm120"),
}
# Patterns of a log in which a kernel computed something wrong, with the effects that cause them.
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
        # Kernels that read outside their memory also compute wrong values, and vice versa.
        frozenset((Effect.MEMORY_ERROR, Effect.WRONG_RESULTS, Effect.NOT_A_NUMBER)),
    ),
    (
        re.compile(r"(?i)watchdog caught collective operation timeout|\bhangs?\b"),
        frozenset((Effect.HANG,)),
    ),
)


def of_log(log: str) -> list[Advisory]:
    """Return the advisories that match a log, in the order of the table.

    The log must show a symptom of the advisory's effect and contain one of its kernels or clues.
    Release and GPU in the log must not contradict it. An advisory about a pattern in the code has
    neither kernels nor clues, so it requires both release and GPU.
    """
    effects: set[Effect] = set()
    for symptom, causes in _SYMPTOMS:
        if symptom.search(log):
            effects |= causes
    if not effects:
        return []
    releases = set(_RELEASE.findall(log))
    gpus = _targets(log)
    log_with_paths = log.replace(".", "/")
    matches = []
    for advisory in advisories.every():
        if advisory.effect not in effects:
            continue
        if _matches(advisory, log, log_with_paths, releases, gpus):
            matches.append(advisory)
    return matches


def _matches(
    advisory: Advisory, log: str, log_with_paths: str, releases: set[str], gpus: set[str]
) -> bool:
    """Return True if the advisory covers the log's release and GPU, and the log mentions it."""
    if advisory.is_general:
        return _covers(advisory, releases, gpus)
    if not _is_mentioned(advisory, log, log_with_paths):
        return False
    # A log without a release or a GPU contradicts no advisory.
    candidates = {gpu for gpu in advisory.targets if not gpus or gpu in gpus}
    if not releases:
        return bool(candidates)
    return _covers(advisory, releases, candidates)


def _covers(advisory: Advisory, releases: set[str], gpus: set[str]) -> bool:
    return any(advisory.covers(release, gpu) for release, gpu in product(releases, gpus))


def _is_mentioned(advisory: Advisory, log: str, log_with_paths: str) -> bool:
    """Return True if the log contains a clue or a kernel of the advisory.

    If the advisory gives the kernel's module, the log must contain that too, because several
    modules of a package have kernels of one name. `log_with_paths` is the log with modules as
    paths.
    """
    if any(clue in log for clue in advisory.clues):
        return True
    for glob in advisory.kernels:
        module, _, name = glob.rpartition(":")
        path = module.strip("*").replace(".", "/")
        # Plain text first, because regular expressions are slow on long logs.
        has_parts = path in log_with_paths and all(part in log for part in name.split("*"))
        if has_parts and re.search(_word(name), log):
            return True
    return False


def _word(glob: str) -> str:
    """Return a pattern for a word that matches a glob."""
    middle = r"\w*".join(map(re.escape, glob.split("*")))
    return rf"\b{middle}\b"


def _targets(log: str) -> set[str]:
    """Return the targets whose GPU or generation a log contains."""
    names: set[str] = set()
    for generation, members in _GENERATIONS.items():
        if re.search(rf"(?i)\b{generation}\b", log):
            names.update(members)
    for word in set(_GPU.findall(log)):
        try:
            names.add(targets.find(word).name)
        except UsageError:
            continue
    return names
