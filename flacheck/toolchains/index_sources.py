"""The package indexes and folders of wheels that the user's pip and uv are configured with."""

import ast
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

# The index that pip and uv read without a configuration.
DEFAULT_INDEX = "https://pypi.org/simple"
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
# Values of the setting `keyring-provider` with which pip and uv read a keyring.
_KEYRINGS = frozenset({"import", "subprocess"})
_TRUE = ("1", "true", "yes", "on", "y", "t")


@dataclass(frozen=True)
class Sources:
    """The places that list distributions.

    `indexes` are URLs of simple indexes (PEP 503), `links` are folders, files or URLs of pages with
    links to distributions. `trusted_hosts` are read without a check of their certificates;
    `certificates` is a file of certificate authorities, None for the system's. With `has_keyring`
    the program `keyring` holds the password of a URL with a user name alone.
    """

    indexes: tuple[str, ...]
    links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    certificates: str | None = None
    client_certificate: str | None = None
    proxy: str | None = None
    has_keyring: bool = False

    @property
    def all(self) -> tuple[str, ...]:
        """Every place: the indexes first."""
        return (*self.indexes, *self.links)

    def without(self, places: Sequence[str]) -> "Sources":
        """Return the sources without some of the places."""
        return replace(
            self,
            indexes=tuple(each for each in self.indexes if each not in places),
            links=tuple(each for each in self.links if each not in places),
        )


def is_remote(place: str) -> bool:
    """Return True for a URL of another machine; False for a file or a folder."""
    return urlsplit(place).scheme in ("http", "https")


def local_path(place: str) -> Path:
    """Return the path of a local place: a path as it is, or a `file:` URL."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return Path(place).expanduser()


def with_absolute_paths(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables of an installer that mean the same in another folder."""

    def absolute(place: re.Match[str]) -> str:
        is_relative = not urlsplit(place[0]).scheme and not place[0].startswith("~")
        return os.path.abspath(place[0]) if is_relative else place[0]

    changed = {name: environment[name] for name in _PATHS if name in environment}
    for name, value in changed.items():
        changed[name] = re.sub(r"[^\s,]+", absolute, value)
    return {**environment, **changed}


def read(pip: Sequence[str]) -> Sources:
    """Return the sources in pip's configuration, its files and variables, and in uv's variables.

    `pip` is the start of pip's command line. Credentials are in the URLs or in the netrc file.
    """
    return combine(_pip_configuration(pip), os.environ)


def _pip_configuration(pip: Sequence[str]) -> dict[str, str]:
    """Return the options of `pip install` that a file or a variable sets, by long name."""
    command = [*pip, "config", "list"]
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PIP_TIMEOUT,
            cwd=NEUTRAL_FOLDER,
            env=with_absolute_paths(os.environ),
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


def combine(pip: Mapping[str, str], variables: Mapping[str, str]) -> Sources:
    """Return the sources of pip's options and of uv's variables."""
    indexes: list[str] = []
    if pip.get("no-index", "").lower() not in _TRUE:
        default = (
            pip.get("index-url")
            or variables.get("UV_DEFAULT_INDEX")
            or variables.get("UV_INDEX_URL")
            or DEFAULT_INDEX
        )
        extra = [
            *pip.get("extra-index-url", "").split(),
            *variables.get("UV_EXTRA_INDEX_URL", "").split(),
            *variables.get("UV_INDEX", "").split(),
        ]
        # uv allows a name before a URL: `internal=https://…`.
        indexes = [_without_name(each).rstrip("/") for each in (default, *extra)]
    links = [*pip.get("find-links", "").split(), *_split(variables.get("UV_FIND_LINKS", ""))]
    return Sources(
        indexes=tuple(dict.fromkeys(indexes)),
        links=tuple(dict.fromkeys(links)),
        trusted_hosts=tuple(pip.get("trusted-host", "").split()),
        certificates=pip.get("cert") or _certificates_variable(variables),
        client_certificate=pip.get("client-cert"),
        proxy=pip.get("proxy"),
        has_keyring=_requests_keyring(pip, variables),
    )


def _requests_keyring(pip: Mapping[str, str], variables: Mapping[str, str]) -> bool:
    """Return True if pip or uv is set to read passwords from a keyring."""
    providers = (pip.get("keyring-provider"), variables.get("UV_KEYRING_PROVIDER"))
    return not _KEYRINGS.isdisjoint(providers)


def _split(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _without_name(index: str) -> str:
    name, separator, url = index.partition("=")
    if separator and "/" not in name:
        return url
    return index


def _certificates_variable(variables: Mapping[str, str]) -> str | None:
    """Return the file of authorities that pip takes from the environment."""
    return variables.get("REQUESTS_CA_BUNDLE") or variables.get("CURL_CA_BUNDLE") or None
