"""A sitecustomize for every Python of a captured program: it starts the recorder.

It also runs the user's own sitecustomize.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import sys

# Python imports this file by its name from a folder on PYTHONPATH, so it is not in a package.
_HERE = os.path.dirname(os.path.abspath(__file__))
_GUEST = os.path.dirname(os.path.dirname(_HERE))
_NAME = "flacheck_guest"


def _arm() -> None:
    if not os.environ.get("FLACHECK_CAPTURE_SETTINGS"):
        return
    spec = importlib.util.spec_from_file_location(
        _NAME, os.path.join(_GUEST, "__init__.py"), submodule_search_locations=[_GUEST]
    )
    assert spec is not None and spec.loader is not None
    sys.modules[_NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[_NAME])
    importlib.import_module(f"{_NAME}.recorder.session").install()


def _run_the_next() -> None:
    """Run the sitecustomize that this file hides, if there is one."""
    path = []
    for entry in sys.path:
        if os.path.abspath(entry or os.curdir) != _HERE:
            path.append(entry)
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_arm()
_run_the_next()
