"""A wheel in a file of any name: builds are often renamed before they are sent."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

from packaging.tags import Tag, parse_tag, sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from flacheck.toolchains.scratch import temporary_folder


@dataclass(frozen=True)
class WheelFile:
    """The distribution in a wheel. `filename` is the name that installers require."""

    name: str
    version: Version
    tags: frozenset[Tag]
    filename: str


def read(path: Path) -> WheelFile:
    """Return the wheel by its name or, if that is not a wheel's, by its metadata.

    Raises OSError, BadZipFile, and ValueError for another archive.
    """
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename:
        return _read_content(path)
    return WheelFile(name, version, tags, path.name)


def _read_content(path: Path) -> WheelFile:
    with zipfile.ZipFile(path) as archive:
        folders = {name.partition("/")[0] for name in archive.namelist() if "/" in name}
        about = sorted(folder for folder in folders if folder.endswith(".dist-info"))
        if len(about) != 1:
            raise ValueError("the archive has no .dist-info folder of its own")
        try:
            metadata = Parser().parsestr(archive.read(f"{about[0]}/METADATA").decode())
            wheel = Parser().parsestr(archive.read(f"{about[0]}/WHEEL").decode())
        except KeyError as error:
            raise ValueError(str(error.args[0])) from None
    name, number = metadata["Name"], metadata["Version"]
    tags: list[Tag] = []
    for text in wheel.get_all("Tag", []):
        tags += parse_tag(text)
    if not name or not number or not tags:
        raise ValueError("its metadata lacks a name, version or tag")
    # Installers judge a file by its name, so the name gets a tag of this Python if there is one.
    here = set(sys_tags())
    fitting = next(filter(here.__contains__, tags), tags[0])
    filename = f"{about[0].removesuffix('.dist-info')}-{fitting}.whl"
    return WheelFile(name, Version(number), frozenset(tags), filename)


@contextmanager
def named_rightly(path: Path) -> Iterator[Path]:
    """Yield the file under the name that installers require."""
    filename = read(path).filename
    if filename == path.name:
        yield path
        return
    with temporary_folder() as folder:
        link = Path(folder, filename)
        link.symlink_to(path)
        yield link
