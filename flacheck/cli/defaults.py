"""Defaults of options: a variable (FLACHECK_TARGET for --target), else a setting.

Settings are those of the user's own file, else of the nearest `[tool.flacheck]`, which may hold the
options that select and no others. All are checked for all commands, whichever runs: an unknown name
or a wrong value is an error with its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from flacheck import FlacheckError, UsageError
from flacheck.api import settings
from flacheck.api.options.declaration import Option as Declaration
from flacheck.cli import pages

# Variables that belong to flacheck and are not options.
_OTHER_VARIABLES = ("FLACHECK_CACHE_DIR", "FLACHECK_CAPTURE_SETTINGS")
# Options whose values may be paths: a project's are relative to its pyproject.toml, and inside its
# folder.
_PATHS = ("matrix", "package", "baseline")
# Versions and specifiers. 3.10 as a number is 3.1.
_VERSIONS = ("triton", "toolchain", "torch", "releases")
# Options whose values may hold a space.
_WITH_SPACES = (*_VERSIONS, "package")
_TRUTHS = {"1": True, "true": True, "yes": True, "on": True} | {
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}
Map = dict[str, Any]


@dataclass(frozen=True)
class _Option:
    """An option as Typer has it, of the command with a path: `("toolchain", "install")`."""

    path: tuple[str, ...]
    command: Any
    parameter: Any

    @property
    def selects(self) -> bool:
        """Return True if a project's settings may hold the option."""
        return self.declaration.selects

    @property
    def choices(self) -> tuple[str, ...]:
        """All values that it takes, where its usage lists them."""
        return self.declaration.choices

    @property
    def declaration(self) -> Declaration:
        return pages.page_of(self.command).options[self.parameter.name]


@dataclass(frozen=True)
class _Given:
    """A value, the name of its option, and where the value was given."""

    option: str
    value: Any
    where: str
    # Variables are text; what a settings file holds has a type.
    is_text: bool = False
    # A project's value is for the commands whose option selects.
    is_of_project: bool = False


def of(command: Any, folder: Path, variables: Mapping[str, str]) -> dict[str, Map]:
    """The defaults of each command's options. UsageError for an unknown name or a bad value."""
    project, user = settings.read_project(folder), settings.read_user()
    own_variables = _own_variables(variables)
    # The options of all commands take long to import.
    if not (project.values or user.values or own_variables):
        return {}
    options = _options(command)
    given = {each.option: each for each in _of_project(project, options, folder)}
    given |= {each.option: each for each in _of_user(user, options)}
    given |= {each.option: each for each in _of_environment(own_variables, options)}
    maps: dict[str, Map] = {name: {} for name in command.commands}
    for name, each in given.items():
        value = _checked(each, options[name])
        for option in options[name]:
            if each.is_of_project and not option.selects:
                continue
            # A format, say, that only other commands have.
            if not option.choices or value in option.choices:
                _put(maps, option, value)
    # The root reads a default of its own --help here.
    maps.pop("help", None)
    return maps


def _own_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that set an option of a command."""
    own = {}
    for name, value in variables.items():
        if name.startswith(pages.VARIABLE_PREFIX) and name not in _OTHER_VARIABLES:
            own[name] = value
    return own


def _put(maps: dict[str, Map], option: _Option, value: Any) -> None:
    """Write an option's default into the map of its command; groups have maps of maps."""
    place: Map = maps
    for name in option.path:
        place = place.setdefault(name, {})
    place[option.parameter.name] = value


def _options(command: Any) -> dict[str, list[_Option]]:
    """Every option of every command by its long name, `num_warps`; scan's MATRIX is one of them."""
    options: dict[str, list[_Option]] = {}
    for path, sub in pages.commands(command):
        for parameter in sub.params:
            name = pages.setting_name(sub, parameter)
            if name is not None:
                key = name.replace("-", "_")
                options.setdefault(key, []).append(_Option(path, sub, parameter))
    return options


def _of_user(user: settings.SettingsFile, options: Iterable[str]) -> Iterator[_Given]:
    """Yield the settings in the user's own file: any option."""
    for key, value in user.values.items():
        yield _Given(_option_of(user, key, options), value, user.where(key))


def _of_project(
    project: settings.SettingsFile, options: Mapping[str, list[_Option]], folder: Path
) -> Iterator[_Given]:
    """Yield the settings in `[tool.flacheck]`.

    Raises UsageError for an option that does more than select, a path out of the project, or a
    package that the package index would provide.
    """
    for key, value in project.values.items():
        if key == settings.WAIVERS:
            continue
        name = _option_of(project, key, options, (settings.WAIVERS,))
        if not any(option.selects for option in options[name]):
            raise UsageError(
                f"{project.where(key)}: a project may not set {key!r}: its settings select what is "
                f"checked and do nothing else; {_instead(name)}"
            )
        if name in _PATHS and project.file is not None:
            root, where = project.file.parent, project.where(key)
            value = _from_project(value, root, folder, where, name)
            if name == "matrix":
                _refuse_packages(value, root, where)
        if name in _VERSIONS:
            _refuse_paths(value, project.where(key), name)
        yield _Given(name, value, project.where(key), is_of_project=True)


def _option_of(
    file: settings.SettingsFile, key: str, options: Iterable[str], others: tuple[str, ...] = ()
) -> str:
    """Return the option of a key in a settings file; raise UsageError if there is none."""
    name = key.replace("-", "_")
    if name in options:
        return name
    names = [each.replace("_", "-") for each in options]
    hint = settings.suggest(key.replace("_", "-"), [*names, *others])
    waivers = "".join(f", and {each}" for each in others)
    raise UsageError(
        f"{file.where(key)}: {key!r} is no setting: the keys are options of the commands by their "
        f"names{waivers}{hint}"
    )


def _instead(name: str) -> str:
    """Return where to set an option that a project may not set."""
    setting = name.replace("_", "-")
    return (
        f"give --{setting}, set {pages.variable_name(setting)}, or write {setting} into "
        f"{settings.user_file()}"
    )


def _from_project(value: Any, project: Path, folder: Path, where: str, name: str) -> Any:
    """Return a path, or each of a list, as seen from the current folder.

    Raises UsageError for a path that leads out of the project's folder, also through a link.
    """
    if isinstance(value, list):
        return [_from_project(each, project, folder, where, name) for each in value]
    if not isinstance(value, str):
        return value
    path = project / Path(value).expanduser()
    if name == "package" and "," in value and not path.is_dir():
        parts = settings.split_packages(value)
        return _from_project(parts, project, folder, where, name)
    if name == "package":
        _refuse_release(value, path, where)
    elif value != "." and "/" not in value and not path.exists():
        return value
    if not path.resolve().is_relative_to(project.resolve()):
        raise UsageError(
            f"{where}: {value!r} lies outside of the project, whose settings may only name what is "
            f"in it; {_instead(name)}"
        )
    if project == folder:
        return value
    return str(path)


def _refuse_release(value: str, path: Path, where: str) -> None:
    """Raise UsageError for a project's package that is not a folder: it would be installed."""
    is_folder = value == "." or "/" in value or (path.is_dir() and "=" not in value)
    if not is_folder:
        raise UsageError(
            f"{where}: package = {value!r} is not a folder of this project, and the package index "
            'would provide it; a project may only select "." or a folder in it (with a slash); '
            f"for any other package {_instead('package')}"
        )


def _refuse_packages(value: Any, project: Path, where: str) -> None:
    """Raise UsageError for a project's matrix with a package that does not lie in the project."""
    if not isinstance(value, str):
        return
    for package in settings.packages_outside(value, project):
        raise UsageError(
            f"{where}: the matrix {value!r} names the package {package!r}, which does not lie in "
            "this project, and a project may only select a package of its own; remove it from the "
            f"matrix's packages, or {_instead('matrix')}"
        )


def _refuse_paths(value: Any, where: str, name: str) -> None:
    """Raise UsageError for a compiler that a project names by its path: it would be run."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str) and settings.is_compiler_path(each):
            raise UsageError(
                f"{where}: {each!r} is a compiler's path, and a project may only name releases; "
                f"{_instead(name)}"
            )


def _of_environment(variables: Mapping[str, str], options: Iterable[str]) -> Iterator[_Given]:
    names = {f"{pages.VARIABLE_PREFIX}{name.upper()}": name for name in options}
    for variable, value in variables.items():
        if variable not in names:
            hint = settings.suggest(variable, [*names, *_OTHER_VARIABLES])
            raise UsageError(
                f"{variable} in the environment: no option has that name; unset it, or give it "
                f"another name if it is not meant for flacheck{hint}"
            )
        # CI sets a variable to nothing where its input was left out.
        if value:
            yield _Given(names[variable], value, f"{variable} in the environment", is_text=True)


def _checked(given: _Given, options: list[_Option]) -> Any:
    """The value in the type of its option; UsageError with its place if it has another type."""
    try:
        value = _typed(given, options[0])
        _check(given.option, value, options)
    except (FlacheckError, typer.BadParameter) as error:
        message = getattr(error, "message", None) or str(error)
        name = given.option.replace("_", "-")
        raise UsageError(f"{given.where}: {name} = {given.value!r}: {message}") from None
    return value


def _typed(given: _Given, option: _Option) -> Any:
    value, parameter = given.value, option.parameter
    if getattr(parameter, "is_flag", False):
        if given.is_text:
            value = _TRUTHS.get(value.strip().lower())
        if not isinstance(value, bool):
            raise UsageError("expected true or false")
        return value
    if getattr(parameter, "multiple", False):
        return [_text(given.option, each) for each in _several(given)]
    if isinstance(value, list):
        raise UsageError("expected one value, not a list")
    context = typer.Context(option.command, info_name=" ".join(option.path))
    return parameter.process_value(context, _text(given.option, value))


def _several(given: _Given) -> list[Any]:
    if isinstance(given.value, list):
        return given.value
    if given.is_text and given.option not in _WITH_SPACES:
        return list(given.value.split())
    return [given.value]


def _text(option: str, value: Any) -> str:
    """A text or a number as it would be typed."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UsageError("expected a text or a number")
    if isinstance(value, float) and option in _VERSIONS:
        raise UsageError("a version is a text: write it in quotes")
    return str(value)


def _check(name: str, value: Any, options: list[_Option]) -> None:
    """Raise UsageError for a value that no command accepts."""
    choices = dict.fromkeys(choice for option in options for choice in option.choices)
    if choices and value not in choices:
        hint = settings.suggest(str(value), list(choices))
        raise UsageError(f"expected one of {', '.join(choices)}{hint}")
    settings.check(name, value)
