"""YAML as plain values, each with its line."""

from typing import Any

import yaml

from flacheck.errors import MatrixError
from flacheck.model.launch import FormError, check_plain

# Levels and values of a file; matrices have fewer.
_DEEPEST, _MOST_VALUES = 40, 200_000

# A place in the file: the keys and indices that lead there.
Location = tuple[Any, ...]


class LocatedYaml:
    """One file. `top` is its contents: mappings, lists and plain values; None if it is empty.

    Raises MatrixError with file and line for a file that is not YAML, or is too large.
    """

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        # The line of each value.
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
        line = mark.line + 1 if mark else None
        return MatrixError(self.file, line, f"not valid YAML: {what}")

    def _plain(self, node: yaml.Node, path: Location) -> Any:
        self._lines[path] = line = node.start_mark.line + 1
        self._values += 1
        # An alias stands for the whole value of its anchor, which may contain the alias.
        if len(path) > _DEEPEST or self._values > _MOST_VALUES:
            what = f"nested over {_DEEPEST} levels deep or over {_MOST_VALUES:,} values"
            raise MatrixError(self.file, line, what, "aliases are counted with what they stand for")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, line)

    def _scalar(self, node: yaml.Node, line: int) -> Any:
        try:
            value = self._loader.construct_object(node)
            check_plain(value)
        except yaml.YAMLError as error:
            raise self._yaml_error(error) from None
        except (ValueError, LookupError, AttributeError, TypeError, FormError) as error:
            # The errors of the parser's own constructors for a tag or for digits.
            raise MatrixError(self.file, line, f"not valid YAML: {error}") from None
        if value is not None and not isinstance(value, (bool, int, float, str)):
            kind = type(value).__name__
            raise MatrixError(self.file, line, f"a value of the type {kind}", "quote it")
        return value

    def _mapping(self, node: yaml.MappingNode, path: Location) -> dict[str, Any]:
        mapping = {}
        for key, value in node.value:
            name = self._key(key)
            mapping[name] = self._plain(value, (*path, name))
            self._lines[path + (name,)] = key.start_mark.line + 1
        return mapping

    def _key(self, node: yaml.Node) -> str:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.ScalarNode):
            raise MatrixError(self.file, line, "a key must be a plain word")
        try:
            check_plain(node.value)
        except FormError as error:
            raise MatrixError(self.file, line, str(error)) from None
        return str(node.value)

    def error(self, path: Location, what: str, hint: str = "") -> MatrixError:
        """Return the error for a value, with its line or that of the innermost value around it."""
        while path and path not in self._lines:
            path = path[:-1]
        return MatrixError(self.file, self._lines.get(path), what, hint)
