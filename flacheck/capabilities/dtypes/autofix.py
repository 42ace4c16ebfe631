"""Casts that fix findings: edits of the source, applied in a copy that runs again.

The result of a promotion is cast back to the dtype of its half operand, so that it is still
computed in float32. For an operation that rejects its operands, the wide operand is cast instead.
"""

from __future__ import annotations

import ast
import difflib
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck import files
from flacheck.capabilities.dtypes import expressions, following
from flacheck.capabilities.dtypes.finding import OVERFLOW, PROMOTION, DtypeFinding
from flacheck.capabilities.dtypes.following import DtypesAnswer, DtypesQuestion
from flacheck.capabilities.dtypes.observation import Mode, Place
from flacheck.errors import IncompleteError, UsageError

# Returns the findings of a run in some modes.
Judge = Callable[[DtypesAnswer, Sequence[Mode]], list[DtypeFinding]]
# Each round may uncover the next promotion of the same tensor.
_ROUNDS = 6
# A computed half operand is bound to this name, so that it is computed only once.
_NAME = "half"
# Expressions that a method can be called on without parentheses.
_PRIMARY = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


@dataclass(frozen=True)
class Edit:
    """New text in place of an expression."""

    place: Place
    text: str


@dataclass(frozen=True)
class FixResult:
    """The outcome of casts in a copy of the sources.

    `diff` is a unified diff of all changes; `remaining` are the findings of the fixed copy;
    `behind` are findings that only appeared after others were cast; `not_fixed` are findings of the
    first run without a cast that works.
    """

    diff: str
    remaining: tuple[DtypeFinding, ...]
    behind: tuple[DtypeFinding, ...]
    not_fixed: tuple[DtypeFinding, ...]


def make_edit(finding: DtypeFinding) -> Edit | None:
    """Return the cast for a finding, or None if the source does not identify the expression."""
    node = expressions.find_expression(finding.place)
    if node is None or finding.code == OVERFLOW or finding.half is None:
        return None
    place = expressions.place_of(finding.place.file, node)
    if finding.code == PROMOTION:
        edit = _cast_of(place, finding.half)
    elif finding.wide is not None and _is_plain(finding.half):
        edit = _cast_of(finding.wide, finding.half)
    else:
        return None
    text = expressions.read_source(place.file).text
    # Python has no assignment in an iterable of a comprehension, for example.
    return edit if _is_python(apply_edits(text, [edit])) else None


def _cast_of(place: Place, half: Place) -> Edit:
    """Return a cast of an expression to the dtype of a half operand, which it may contain."""
    file = expressions.read_source(place.file)
    content = file.text.encode()
    whole, inner = expressions.find_span(content, place), expressions.find_span(content, half)
    text, source = content[whole].decode(), content[inner].decode()
    if not _is_plain(half):
        # The operand is evaluated in place, which comes before its dtype is read.
        name = file.unused_name(_NAME)
        before, after = content[whole.start : inner.start], content[inner.stop : whole.stop]
        text = f"{before.decode()}({name} := {source}){after.decode()}"
        source = name
    if not isinstance(ast.parse(f"({text})", mode="eval").body, _PRIMARY):
        text = f"({text})"
    return Edit(place, f"{text}.to({source}.dtype)")


def _is_plain(place: Place) -> bool:
    """Return whether the expression at a place may be evaluated twice."""
    tree = ast.parse(f"({expressions.text_at(place)})", mode="eval")
    return all(
        isinstance(node, (ast.Expression, ast.Name, ast.Attribute, ast.expr_context))
        for node in ast.walk(tree)
    )


def _is_python(text: str) -> bool:
    try:
        compile(text, "mended", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return a file's text with edits applied; of two that overlap, only the outer one."""
    content = text.encode()
    spans = []
    for each in edits:
        span = expressions.find_span(content, each.place)
        spans.append((span.start, span.stop, each.text.encode()))
    outer: list[tuple[int, int, bytes]] = []
    for change in sorted(set(spans), key=lambda change: (change[0], -change[1])):
        if not outer or change[0] >= outer[-1][1]:
            outer.append(change)
    for begin, end, new in reversed(outer):
        content = content[:begin] + new + content[end:]
    return content.decode()


def diff(name: str, before: str, after: str) -> str:
    """Return a unified diff that `git apply` and `patch -p1` accept."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"a/{name}",
        f"b/{name}",
    )
    return "".join(lines)


def add_fix(finding: DtypeFinding) -> DtypeFinding:
    """Return the finding with its own cast as a diff, if there is a cast."""
    change = make_edit(finding)
    if change is None:
        return finding
    text = expressions.read_source(finding.place.file).text
    return replace(finding, fix=diff(finding.file, text, apply_edits(text, [change])))


def fix(
    question: DtypesQuestion,
    answer: DtypesAnswer,
    findings: Sequence[DtypeFinding],
    folder: Path,
    judge: Judge,
) -> FixResult:
    """Cast findings in a copy of the sources and run the copy, until no finding can be cast.

    The copy lies below `folder`; `judge` finds what remains in it. `answer` is the run with the
    findings: a cast is undone if the copy then ends in an error that this run lacks.
    """
    copy = _MendedCopy(question, folder, judge, frozenset(following.find_errors(answer)))
    names = _names(findings)
    not_fixed = [each for each in findings if make_edit(each) is None]
    remaining: Sequence[DtypeFinding] = findings
    behind: dict[tuple[str, str, str], DtypeFinding] = {}
    for _ in range(_ROUNDS):
        pairs = []
        for finding in remaining:
            change = make_edit(finding)
            if change is not None:
                pairs.append((finding, change))
        edits = {change for _, change in pairs}
        working, result = copy.try_edits(edits)
        for finding, change in pairs:
            if change not in working and finding in findings:
                not_fixed.append(finding)
            elif change not in working:
                each = _behind(finding, names)
                behind[_key(each)] = replace(each, fix=None)
        if result is None:
            break
        remaining = result
        for finding in remaining:
            each = add_fix(_behind(finding, names))
            behind.setdefault(_key(each), each)
        if working != edits:
            break
    for each in findings:
        behind.pop(_key(each), None)
    return FixResult(copy.diff(names), tuple(remaining), tuple(behind.values()), tuple(not_fixed))


def _behind(finding: DtypeFinding, names: Mapping[str, str]) -> DtypeFinding:
    """Return a finding of the copy with the path of the user's file."""
    return replace(finding, file=names.get(finding.file, finding.file), is_after_fix=True)


def _key(finding: DtypeFinding) -> tuple[str, str, str]:
    return finding.subject, finding.mode, finding.identity


class _MendedCopy:
    """A copy of the sources below a folder, which runs with edits.

    `known_errors` are those of the original's run. Any other error, unless it is a finding, means
    that the edits break the program.
    """

    def __init__(
        self,
        question: DtypesQuestion,
        folder: Path,
        judge: Judge,
        known_errors: frozenset[following.ErrorKey],
    ) -> None:
        self._question, self._folder, self._judge = question, folder, judge
        self._known_errors = known_errors
        self._path = folder / "mended"
        # The text of each file as the user wrote it, and before the last edits.
        self._original: dict[Path, str] = {}
        self._before: dict[Path, str] = {}

    def try_edits(
        self, edits: AbstractSet[Edit]
    ) -> tuple[AbstractSet[Edit], Sequence[DtypeFinding] | None]:
        """Apply the edits that break nothing; return them with the findings that remain.

        The findings are None if no edit was applied.
        """
        result = self._run(edits)
        if result is not None or len(edits) < 2:
            return (set() if result is None else edits), result
        working = set()
        for edit in edits:
            if self._run({edit}) is not None:
                working.add(edit)
                self._restore()
        return working, self._run(working)

    def _run(self, edits: AbstractSet[Edit]) -> Sequence[DtypeFinding] | None:
        """Return the findings of the copy with these edits; None, without them, if they fail."""
        if not edits:
            return None
        by_file: dict[str, list[Edit]] = {}
        for edit in edits:
            by_file.setdefault(edit.place.file, []).append(edit)
        self._before = {}
        for file, changes in by_file.items():
            target = _copy(Path(file), self._path)
            text = files.read_text(target)
            self._before[target] = text
            self._original.setdefault(target, text)
            target.write_text(apply_edits(text, changes), "utf-8")
        expressions.read_source.cache_clear()
        question = _within(self._question, self._path)
        try:
            answer = following.follow(question, self._folder, self._path)
        except (UsageError, IncompleteError):
            # The copy cannot be imported.
            self._restore()
            return None
        findings = self._judge(answer, question.modes)
        if following.find_new_errors(answer, self._known_errors, findings):
            self._restore()
            return None
        return findings

    def _restore(self) -> None:
        """Take the last edits back."""
        for target, text in self._before.items():
            target.write_text(text, "utf-8")
        expressions.read_source.cache_clear()

    def diff(self, names: Mapping[str, str]) -> str:
        """Return all edits as a unified diff; `names` are the paths of files in the report."""
        diffs = []
        for target, original in self._original.items():
            name = target.relative_to(self._path).as_posix()
            diffs.append(diff(names.get(name, name), original, files.read_text(target)))
        return "".join(diffs)


def _names(findings: Iterable[DtypeFinding]) -> dict[str, str]:
    """Return the path of each user's file in a report, by its name at the top of the copy."""
    return {Path(each.file).name: each.file for each in findings}


def _copy(file: Path, copy: Path) -> Path:
    """Return a file's counterpart in the copy, and copy its whole package if it is missing."""
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
    """Return the outermost package folder of a file, or the file itself."""
    root = file
    while (root.parent / "__init__.py").is_file():
        root = root.parent
    return root


def _within(question: DtypesQuestion, copy: Path) -> DtypesQuestion:
    """Return the question with the copies of the user's files as its targets."""
    targets, paths = [], list(question.paths)
    for target in question.targets:
        where, _, name = target.rpartition(":")
        copied_file = copy / Path(where).name
        if where.endswith(".py") and copied_file.is_file():
            target = f"{copied_file}:{name}"
            # The file may import modules of its own folder.
            paths.append(str(Path(where).parent.absolute()))
        targets.append(target)
    script = question.script
    if script and (copy / Path(script[0]).name).is_file():
        script = (str(copy / Path(script[0]).name), *script[1:])
        paths.append(str(Path(question.script[0]).parent.absolute()))
    return replace(question, targets=tuple(targets), paths=tuple(paths), script=script)
