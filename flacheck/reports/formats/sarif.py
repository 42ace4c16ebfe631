"""The annotations of a report as SARIF 2.1.0, for code scanning and editors."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from flacheck.model import Json
from flacheck.model.source_location import SourceLocation
from flacheck.reports.document import Annotation, Display, Report, make_visible
from flacheck.reports.formats.json import dump
from flacheck.rules import RULES
from flacheck.version import __version__

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "notice": "note"}
# Consumers compare only fingerprints under the same name, so a new form needs a new one.
_FINGERPRINT = "flacheckSignature/v1"


def render(report: Report, display: Display) -> Iterator[str]:
    """Yield one document: a result for each place of a message, messages without as notifications.

    Code scanning rejects results without a file, and reads only the first place of a result.
    """
    results: list[Json] = []
    notifications = []
    rules: dict[str, None] = {}
    for annotation in map(make_visible, report.annotations):
        rule = annotation.code or annotation.title
        if not annotation.places:
            notifications.append(_notification(annotation))
            continue
        rules[rule] = None
        for place in annotation.places:
            results.append(_result(annotation, rule, list(rules).index(rule), place))
    driver = {"name": "flacheck", "version": __version__, "rules": list(map(_rule, rules))}
    invocation = {"executionSuccessful": True, "toolExecutionNotifications": notifications}
    run = {"tool": {"driver": driver}, "invocations": [invocation], "results": results}
    yield dump({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(annotation: Annotation, rule: str, index: int, place: SourceLocation) -> Json:
    result: Json = {
        "ruleId": rule,
        "ruleIndex": index,
        "level": _LEVELS[annotation.level],
        "message": {"text": f"{annotation.title}\n{annotation.text}"},
        "locations": [_location(place)],
    }
    if annotation.identity:
        parts: Iterable[str | None] = (annotation.identity, place.name)
        result["partialFingerprints"] = {_FINGERPRINT: " ".join(filter(None, parts))}
    return result


def _location(place: SourceLocation) -> Json:
    location: Json = {}
    if place.file is not None:
        uri = quote(place.file)
        if Path(place.file).is_absolute():
            uri = Path(place.file).as_uri()
        physical: Json = {"artifactLocation": {"uri": uri}}
        if place.line:
            physical["region"] = {"startLine": place.line}
        location["physicalLocation"] = physical
    if place.name:
        location["logicalLocations"] = [{"fullyQualifiedName": place.name, "kind": "function"}]
    return location


def _notification(annotation: Annotation) -> Json:
    text = f"{annotation.title}: {annotation.text}"
    return {"level": _LEVELS[annotation.level], "message": {"text": text}}


def _rule(rule: str) -> Json:
    if rule not in RULES:
        return {"id": rule, "shortDescription": {"text": rule}}
    definition = RULES[rule]
    return {
        "id": rule,
        "shortDescription": {"text": definition.title},
        "fullDescription": {"text": definition.cause},
        "help": {"text": definition.remedy},
    }
