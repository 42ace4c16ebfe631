"""The user's index settings, for both installers: pip and uv each read only their own."""

import ast
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from flacheck.toolchains import connections

# Seconds that pip may take to print its configuration.
_PIP_TIMEOUT = 60.0
# Installers run here. The current folder may be a stranger's checkout: `python -m pip` imports
# modules from it, and uv reads the indexes in its uv.toml or pyproject.toml.
NEUTRAL_FOLDER = "/"
# Variables of installers whose relative paths start at the current folder.
_PATHS = """
PIP_FIND_LINKS UV_FIND_LINKS PIP_CONFIG_FILE UV_CONFIG_FILE PIP_CERT PIP_CLIENT_CERT SSL_CERT_FILE
SSL_CLIENT_CERT REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NETRC
""".split()
# Beside its own variables, these decide which settings pip reads.
_PLACES_OF_SETTINGS = ("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "VIRTUAL_ENV")
# Limits of an installer whose user has set none: a dead host must not hold up a scan for minutes.
_PATIENCE = {
    "PIP_RETRIES": "1",
    "PIP_DEFAULT_TIMEOUT": "15",
    "UV_HTTP_RETRIES": "1",
    "UV_HTTP_TIMEOUT": "30",
}
# With one of these, uv's own index holds.
_INDEX_OF_UV = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_NO_CONFIG", "UV_CONFIG_FILE")
_TRUE = ("1", "true", "yes", "on", "y", "t")


def variables(pip: Sequence[str]) -> dict[str, str]:
    """Return variables that give pip and uv the same indexes, and limits to their patience.

    `pip` is the start of pip's command line. Without an index, pip reads local folders alone.
    """
    options = pip_options(pip)
    limits = {name: value for name, value in _PATIENCE.items() if name not in os.environ}
    settings = {**limits, **for_uv(options, os.environ), **for_pip(options, os.environ)}
    if connections.has_no_index():
        links = settings.get("PIP_FIND_LINKS", options.get("find-links", "")).split()
        local = [link for link in links if urlsplit(link).scheme not in ("http", "https")]
        settings["PIP_NO_INDEX"] = "1"
        # pip ignores empty variables and would use its configuration file.
        settings["PIP_FIND_LINKS"] = " ".join(local) or os.devnull
    return settings


def for_uv(pip: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables of uv with pip's index, proxy and certificates; uv's own settings hold."""
    if not environment.keys().isdisjoint(_INDEX_OF_UV):
        return {}
    proxy = pip.get("proxy")
    settings = {
        "HTTP_PROXY": proxy,
        "HTTPS_PROXY": proxy,
        "SSL_CLIENT_CERT": pip.get("client-cert"),
        "UV_DEFAULT_INDEX": pip.get("index-url"),
    }
    if pip.get("no-index", "").lower() in _TRUE:
        settings["UV_NO_INDEX"] = "1"
        settings["UV_FIND_LINKS"] = ",".join(pip.get("find-links", "").split())
    authorities = pip.get("cert") or environment.get("REQUESTS_CA_BUNDLE")
    authorities = authorities or environment.get("CURL_CA_BUNDLE")
    if authorities and os.path.isfile(authorities):
        settings["SSL_CERT_FILE"] = authorities
    variables = {}
    for name, value in settings.items():
        if value and not {name, name.lower()} & environment.keys():
            variables[name] = value
    return variables


def for_pip(pip: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables of pip with the places in uv's variables beside pip's own."""
    settings = {}
    default = environment.get("UV_DEFAULT_INDEX") or environment.get("UV_INDEX_URL")
    if default and "index-url" not in pip:
        settings["PIP_INDEX_URL"] = _without_name(default)
    more = f"{environment.get('UV_EXTRA_INDEX_URL', '')} {environment.get('UV_INDEX', '')}".split()
    if more:
        indexes = [*pip.get("extra-index-url", "").split(), *map(_without_name, more)]
        settings["PIP_EXTRA_INDEX_URL"] = " ".join(indexes)
    links = environment.get("UV_FIND_LINKS", "").replace(",", " ").split()
    if links:
        settings["PIP_FIND_LINKS"] = " ".join([*pip.get("find-links", "").split(), *links])
    keyring = environment.get("UV_KEYRING_PROVIDER")
    if keyring and "keyring-provider" not in pip:
        settings["PIP_KEYRING_PROVIDER"] = keyring
    return settings


def _without_name(index: str) -> str:
    """Return the URL of an index of uv, which may have a name before it: `internal=https://…`."""
    name, separator, url = index.partition("=")
    if separator and "/" not in name:
        return url
    return index


def with_absolute_paths(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables of an installer that mean the same in another folder."""

    def absolute(place: re.Match[str]) -> str:
        is_relative = not urlsplit(place[0]).scheme and not place[0].startswith("~")
        return os.path.abspath(place[0]) if is_relative else place[0]

    changed = {name: environment[name] for name in _PATHS if name in environment}
    for name, value in changed.items():
        changed[name] = re.sub(r"[^\s,]+", absolute, value)
    return {**environment, **changed}


def pip_options(pip: Sequence[str]) -> Mapping[str, str]:
    """Return the options of `pip install` that a file or a variable sets, by long name."""
    environment = with_absolute_paths(os.environ)
    decisive = {
        name: value
        for name, value in environment.items()
        if name.startswith("PIP_") or name in _PLACES_OF_SETTINGS
    }
    return _pip_options(tuple(pip), tuple(sorted(decisive.items())))


@lru_cache
def _pip_options(pip: tuple[str, ...], decisive: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    try:
        result = subprocess.run(
            [*pip, "config", "list"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PIP_TIMEOUT,
            cwd=NEUTRAL_FOLDER,
            env={**os.environ, **dict(decisive)},
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return parse_pip_configuration(result.stdout)


def parse_pip_configuration(text: str) -> dict[str, str]:
    """Return the options in the output of `pip config list`, by long name.

    A section of the command precedes the global one, and a variable precedes both.
    """
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in text.splitlines():
        key, separator, quoted = line.partition("=")
        section, _, name = key.strip().rpartition(".")
        if not separator or section not in sections:
            continue
        try:
            value = ast.literal_eval(quoted.strip())
        except (ValueError, SyntaxError):
            continue
        sections[section][name.replace("_", "-")] = str(value)
    return {**sections["global"], **sections["install"], **sections[":env:"]}
