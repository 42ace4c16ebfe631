"""Builds of packages: real backends in the real sandbox, and what a hostile build can do there."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from flacheck.engine.package_builds import build_wheel, provide_package
from flacheck.errors import ToolchainError
from flacheck.guest.engine.confinement import available_confinement

# A backend of the checkout's own, so that nothing has to be fetched.
BACKEND = """
import zipfile, os

def build_wheel(folder, config_settings=None, metadata_directory=None):
    import attack
    name = "tiny-1.0-py3-none-any.whl"
    entries = {
        "tiny.py": attack.text(),
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n",
        "tiny-1.0.dist-info/WHEEL":
            "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    with zipfile.ZipFile(os.path.join(folder, name), "w") as file:
        for entry, text in entries.items():
            file.writestr(entry, text)
        record = "".join(f"{entry},,\\n" for entry in entries)
        file.writestr("tiny-1.0.dist-info/RECORD", record + "tiny-1.0.dist-info/RECORD,,\\n")
    return name
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
needs_landlock = pytest.mark.skipif(
    not available_confinement()["landlock"], reason="this kernel has no Landlock"
)


def project(folder: Path, attack: str, backend: str = BACKEND) -> Path:
    """A checkout whose build runs this text; the wheel contains what `text` returns."""
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "backend.py").write_text(backend)
    (folder / "attack.py").write_text(attack)
    return folder


def module_of(wheel: Path) -> str:
    """The text of the module in a wheel."""
    with zipfile.ZipFile(wheel) as file:
        return file.read("tiny.py").decode()


def build_under(tmp_path: Path, attack: str) -> str:
    """Return the build's output under an attack."""
    into = tmp_path / "into"
    into.mkdir()
    return module_of(build_wheel(project(tmp_path / "tiny", attack), into))


def test_a_build_has_a_clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build gets no variable of the user, and its home is a folder that is removed."""
    monkeypatch.setenv("INDEX_PASSWORD", "secret")
    text = "import os\ndef text(): return repr(dict(os.environ))\n"
    variables = eval(build_under(tmp_path, text))
    assert "INDEX_PASSWORD" not in variables
    assert variables["HOME"] != os.environ.get("HOME")
    assert not Path(variables["HOME"]).exists()


ESCAPES = {
    "reads a file of the user": "open({outside!r}).read()",
    "writes a file of the user": "open({outside!r}, 'w').write('x')",
    "opens a socket": "import socket; socket.create_connection(('127.0.0.1', {port}), 2)",
    "sends a name to a resolver": "import socket; socket.getaddrinfo('theirs.example', 80)",
    "kills flacheck": "import os, signal; os.kill({pid}, signal.SIGTERM)",
    "reads flacheck's variables": "open('/proc/{pid}/environ', 'rb').read()",
}


@needs_landlock
@pytest.mark.parametrize("escape", ESCAPES)
def test_a_build_is_held(tmp_path: Path, escape: str) -> None:
    """The kernel refuses accesses outside of the build's folder."""
    outside = tmp_path / "outside.txt"
    outside.write_text("private")
    line = ESCAPES[escape].format(outside=str(outside), port=9, pid=os.getpid())
    attack = f"""
def text():
    try:
        {line}
    except OSError as error:
        return type(error).__name__
    return "escaped"
"""
    assert build_under(tmp_path, attack) in ("PermissionError", "gaierror")
    assert outside.read_text() == "private"


def test_a_build_may_write_its_own_folder(tmp_path: Path) -> None:
    """Builds generate sources, and start programs that they compiled."""
    attack = """
import subprocess
def text():
    with open("generated.sh", "w") as file:
        file.write("#!/bin/sh\\necho made\\n")
    return subprocess.run(["sh", "generated.sh"], capture_output=True, text=True).stdout
"""
    assert build_under(tmp_path, attack) == "made\n"


def test_a_build_sees_only_what_it_requires(tmp_path: Path) -> None:
    """The build does not see packages beside flacheck, which would change its result."""
    attack = """
def text():
    try:
        import msgspec
    except ImportError:
        return "alone"
"""
    assert build_under(tmp_path, attack) == "alone"


HOSTILE_BACKENDS = {
    "a link": "import os; os.symlink('{secret}', folder + '/x-1-py3-none-any.whl')",
    "a pipe": "import os; os.mkfifo(folder + '/x-1-py3-none-any.whl')",
    "a hard link": "import os; os.link('backend.py', folder + '/x-1-py3-none-any.whl')",
}


@pytest.mark.parametrize("kind", HOSTILE_BACKENDS)
def test_what_is_no_file_of_the_build_is_not_read(tmp_path: Path, kind: str) -> None:
    """A link in place of the wheel would be installed, and the package could read it back."""
    secret = tmp_path / "secret"
    secret.write_text("private")
    line = HOSTILE_BACKENDS[kind].format(secret=secret)
    backend = f"def build_wheel(folder, *_):\n    {line}\n    return 'x-1-py3-none-any.whl'\n"
    with pytest.raises(ToolchainError, match="it is not read"):
        build_wheel(project(tmp_path / "tiny", "", backend), tmp_path)


@pytest.mark.parametrize("name", ["../x-1-py3-none-any.whl", "/tmp/x-1-py3-none-any.whl", "x", 3])
def test_a_wheels_name_leads_nowhere(tmp_path: Path, name: object) -> None:
    """The backend chooses the wheel's name, so the name must not lead out of the folder."""
    text = f"""
def build_wheel(folder, *_):
    class Name(str): pass
    open(folder + "/w", "w").close()
    import backend, pathlib, json, sys
    config = json.load(open(sys.argv[1]))
    pathlib.Path(config["wheel"]).write_text("x")
    pathlib.Path(config["answer"]).write_text(json.dumps({{"answer": {name!r}}}))
    import os
    os._exit(0)
"""
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(ToolchainError, match="made no wheel"):
        build_wheel(project(tmp_path / "tiny", "", text), into)
    assert list(into.iterdir()) == []


def test_a_failed_build_is_named_with_its_last_line(tmp_path: Path) -> None:
    """The last line is the reason why the package is used without its compiled parts."""
    with pytest.raises(ToolchainError, match=r"the build of tiny failed .*RuntimeError: no CUDA"):
        build_under(tmp_path, "def text(): raise RuntimeError('no CUDA')\n")


@pytest.mark.network
def test_a_setup_py_is_built_by_setuptools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its requirements come as wheels, it runs in the sandbox, and its version has the state."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "tiny"
    (folder / "tiny").mkdir(parents=True)
    (folder / "tiny" / "__init__.py").write_text("")
    (folder / "setup.py").write_text(
        "import os, setuptools\n"
        f"for place in ({str(tmp_path)!r}, os.environ['HOME']):\n"
        "    try:\n"
        "        open(os.path.join(place, '.bashrc'), 'w').write('evil')\n"
        "    except OSError:\n"
        "        pass\n"
        "setuptools.setup(name='tiny', version='1.0', packages=['tiny'])\n"
    )
    package = provide_package(str(folder))
    assert package.identity.startswith("tiny==1.0+h")
    assert package.modules == ("tiny",)
    if available_confinement()["landlock"]:
        assert not (tmp_path / ".bashrc").exists()
