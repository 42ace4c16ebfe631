"""The cast that mends a finding: as an edit of the source, applied in a copy, and run again.

What a promotion computed is cast back to the dtype of the half operand that it met, so that it is
still computed in float32. An operation that refuses its operands gets the wide one cast instead.
"""

from __future__ import annotations

import ast
import difflib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.capabilities.dtypes import expressions, following
from flacheck.capabilities.dtypes.finding import OVERFLOW, PROMOTION, DtypeFinding
from flacheck.capabilities.dtypes.following import DtypesQuestion
from flacheck.capabilities.dtypes.observation import Place

# A cast may uncover the next promotion of the same tensor.
_ROUNDS = 6
# For a half operand that is computed: it is computed once, and its dtype asked by this name.
_NAME = "half"


@dataclass(frozen=True)
class Edit:
    """Text in place of an expression."""

    place: Place
    text: str


@dataclass(frozen=True)
class FixResult:
    """`diff` is all that was changed in the copy, as a unified diff; `left` are the findings that
    the mended copy still has; `behind` those that only showed when others were cast; `unmended`
    those of the first run for which there is no edit."""

    diff: str
    remaining: tuple[DtypeFinding, ...]
    behind: tuple[DtypeFinding, ...]
    not_fixed: tuple[DtypeFinding, ...]


def make_edit(finding: DtypeFinding) -> Edit | None:
    """The cast for a finding; None where the source does not say which expression it is."""
    node = expressions.find_expression(finding.place)
    if node is None or finding.code == OVERFLOW or not finding.half:
        return None
    file = expressions.read_source(finding.place.file)
    if finding.code == PROMOTION:
        text = file.segment(node)
        half = finding.half
        if not _is_plain(half):
            # Evaluated where it stands, so before its dtype is asked.
            text = text.replace(half, f"({_NAME} := {half})", 1)
            half = _NAME
        if not isinstance(node, ast.Call):
            text = f"({text})"
        return Edit(_place(finding.place.file, node), f"{text}.to({half}.dtype)")
    wide = _wide(node, file, finding.operand)
    if wide is None or not _is_plain(finding.half):
        return None
    text = file.segment(wide)
    if not isinstance(wide, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        text = f"({text})"
    return Edit(_place(finding.place.file, wide), f"{text}.to({finding.half}.dtype)")


def _is_plain(text: str) -> bool:
    """Whether an expression may be evaluated twice."""
    tree = ast.parse(text, mode="eval")
    return all(
        isinstance(node, (ast.Expression, ast.Name, ast.Attribute, ast.expr_context))
        for node in ast.walk(tree)
    )


def _wide(node: ast.expr, file: expressions.SourceFile, operand: str) -> ast.expr | None:
    for each in ast.walk(node):
        if isinstance(each, ast.expr) and " ".join(file.segment(each).split()) == operand:
            return each
    return None


def _place(file: str, node: ast.expr) -> Place:
    return Place(file, node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """A file's text with edits made, the last first so that places stay what they are. Of two that
    overlap only the outer one is made."""
    starts = [0]
    content = text.encode()
    for line in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    spans = []
    for each in edits:
        place = each.place
        begin = starts[place.line - 1] + (place.column or 0)
        end = starts[(place.end_line or place.line) - 1] + (place.end_column or 0)
        spans.append((begin, end, each.text.encode()))
    outer: list[tuple[int, int, bytes]] = []
    for span in sorted(set(spans), key=lambda span: (span[0], -span[1])):
        if not outer or span[0] >= outer[-1][1]:
            outer.append(span)
    for begin, end, new in reversed(outer):
        content = content[:begin] + new + content[end:]
    return content.decode()


def diff(shown: str, before: str, after: str) -> str:
    """A unified diff that `git apply` and `patch -p1` take."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"a/{shown}",
        f"b/{shown}",
    )
    return "".join(lines)


def add_fix(finding: DtypeFinding) -> DtypeFinding:
    """The finding with its own cast as a diff, where there is one."""
    change = make_edit(finding)
    if change is None:
        return finding
    text = expressions.read_source(finding.place.file).text
    return replace(finding, fix=diff(finding.file, text, apply_edits(text, [change])))


def fix(question: DtypesQuestion, findings: Sequence[DtypeFinding], folder: Path) -> FixResult:
    """Cast what was found, in a copy of the sources below a folder of ours, run that, and go on
    until nothing is found or nothing more can be cast."""
    copy = folder / "mended"
    not_fixed = tuple(each for each in findings if make_edit(each) is None)
    names = _names(findings)
    left: Sequence[DtypeFinding] = findings
    behind: dict[tuple[str, str, str], DtypeFinding] = {}
    changed: dict[str, tuple[str, Path]] = {}
    for _ in range(_ROUNDS):
        edits: dict[str, list[Edit]] = {}
        for finding in left:
            change = make_edit(finding)
            if change is not None:
                edits.setdefault(finding.place.file, []).append(change)
        if not edits:
            break
        for file, changes in edits.items():
            target = _copied(Path(file), question, copy)
            original = expressions.read_source(file).text
            shown = target.relative_to(copy).as_posix()
            changed.setdefault(shown, (original, target))
            target.write_text(apply_edits(target.read_text(encoding="utf-8"), changes), "utf-8")
        expressions.read_source.cache_clear()
        answer = following.follow(_within(question, copy), folder, copy)
        left = following.findings(answer, question.modes)
        for finding in left:
            each = add_fix(replace(finding, file=names.get(finding.file, finding.file)))
            behind.setdefault((each.subject, each.mode, each.identity), each)
    diffs = []
    for shown, (original, target) in changed.items():
        diffs.append(diff(names.get(shown, shown), original, target.read_text(encoding="utf-8")))
    seen = {(each.subject, each.mode, each.identity) for each in findings}
    new = [each for key, each in behind.items() if key not in seen]
    return FixResult("".join(diffs), tuple(left), tuple(new), not_fixed)


def _names(findings: Iterable[DtypeFinding]) -> dict[str, str]:
    """A user's file lies at the top of the copy: its name in a report, by its name there."""
    return {Path(each.file).name: each.file for each in findings}


def _copied(file: Path, question: DtypesQuestion, copy: Path) -> Path:
    """A file's counterpart below the copy, made with all of its package when it is not there."""
    if file.is_relative_to(copy):
        return file
    root = _root(file)
    target = copy / file.relative_to(root.parent)
    if not target.exists():
        copy.mkdir(parents=True, exist_ok=True)
        if root.is_dir():
            shutil.copytree(root, copy / root.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(root, target)
    return target


def _root(file: Path) -> Path:
    """The outermost package around a file; a file that is in none is its own."""
    root = file
    while (root.parent / "__init__.py").is_file():
        root = root.parent
    return root


def _within(question: DtypesQuestion, copy: Path) -> DtypesQuestion:
    """The question about the copy: a target in a file of the user's is that in the file's copy."""
    targets, paths = [], list(question.paths)
    for target in question.targets:
        where, _, name = target.rpartition(":")
        mended = copy / Path(where).name
        if where.endswith(".py") and mended.is_file():
            target = f"{mended}:{name}"
            # What the file imports from its own folder.
            paths.append(str(Path(where).parent.absolute()))
        targets.append(target)
    script = question.script
    if script and (copy / Path(script[0]).name).is_file():
        script = (str(copy / Path(script[0]).name), *script[1:])
        paths.append(str(Path(question.script[0]).parent.absolute()))
    return replace(question, targets=tuple(targets), paths=tuple(paths), script=script)
