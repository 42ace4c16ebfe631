"""YAML as plain values, with the line of each."""

from typing import Any

import yaml

from flacheck.errors import MatrixError
from flacheck.model.launch import FormError, check_plain

# Levels of a file and values in it, beyond what any matrix holds.
_DEEPEST, _MOST_VALUES = 40, 200_000

# Where in the file: the keys and places that lead there.
Location = tuple[Any, ...]


class LocatedYaml:
    """One file. `top` is what it holds: mappings, lists and plain values; None for an empty one.

    Raises MatrixError with file and line for what is no YAML, or holds more than that.
    """

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        # Where each value stood.
        self._lines: dict[Location, int] = {}
        self._values = 0
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            raise self._yaml_error(error) from None
        except RecursionError:
            raise MatrixError(file, None, "not valid YAML: it is nested too deeply") from None
        self._loader = yaml.SafeLoader("")
        self.top = self._plain(node, ()) if node else None

    def _yaml_error(self, error: yaml.YAMLError) -> MatrixError:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        return MatrixError(self.file, mark.line + 1 if mark else None, f"not valid YAML: {what}")

    def _plain(self, node: yaml.Node, path: Location) -> Any:
        self._lines[path] = line = node.start_mark.line + 1
        self._values += 1
        # An alias stands for all that its anchor holds, the anchor itself included.
        if len(path) > _DEEPEST or self._values > _MOST_VALUES:
            what = f"nested over {_DEEPEST} levels deep or over {_MOST_VALUES:,} values"
            raise MatrixError(self.file, line, what, "aliases are counted with what they stand for")
        if isinstance(node, yaml.MappingNode):
            return dict(self._entry(key, value, path) for key, value in node.value)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, (*path, index)) for index, item in enumerate(node.value)]
        try:
            value = self._loader.construct_object(node)
            check_plain(value)
        except yaml.YAMLError as error:
            raise self._yaml_error(error) from None
        except (ValueError, LookupError, AttributeError, TypeError, FormError) as error:
            # Whatever the parser's own constructors raise of a tag or of digits.
            raise MatrixError(self.file, line, f"not valid YAML: {error}") from None
        if value is not None and not isinstance(value, (bool, int, float, str)):
            kind = type(value).__name__
            raise MatrixError(self.file, line, f"a value of the type {kind}", "quote it")
        return value

    def _entry(self, key: yaml.Node, value: yaml.Node, path: Location) -> tuple[str, Any]:
        name = self._key(key, path)
        plain = self._plain(value, (*path, name))
        self._lines[path + (name,)] = key.start_mark.line + 1
        return name, plain

    def _key(self, node: yaml.Node, path: Location) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise MatrixError(self.file, node.start_mark.line + 1, "a key must be a plain word")
        try:
            check_plain(node.value)
        except FormError as error:
            raise MatrixError(self.file, node.start_mark.line + 1, str(error)) from None
        return str(node.value)

    def error(self, path: Location, what: str, allowed: str = "") -> MatrixError:
        """What to raise of a value, with its line or that of what holds it."""
        while path and path not in self._lines:
            path = path[:-1]
        return MatrixError(self.file, self._lines.get(path), what, allowed)
