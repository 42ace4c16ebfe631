"""flacheck toolchain: the compilers in the cache."""

from typing import Annotated, TypedDict

import flacheck
from flacheck import Exit
from flacheck.cli import commands, common, flags
from flacheck.cli.progress import follow

_SPECS = "3.2.0, a specifier, or a path."


class InstallToolchains(TypedDict, total=False):
    """The options of `flacheck toolchain install`."""

    specs: Annotated[list[str], flags.argument("SPEC", _SPECS, kind=list[str], complete="releases")]


class RemoveToolchains(TypedDict, total=False):
    """The options of `flacheck toolchain remove`."""

    names: Annotated[
        list[str],
        flags.argument("NAME", "triton==3.2.0 or 3.2.0.", kind=list[str], complete="toolchains"),
    ]


@common.command(
    flags.EveryCommand,
    examples=[
        ("What is in the cache?", "flacheck toolchain list"),
        ("The largest last", "flacheck toolchain list | sort -k2 -n"),
    ],
    exits={
        0: "always",
    },
)
def list_(_: common.Call[flags.EveryCommand]) -> int:
    """List the compilers in the cache."""
    from flacheck.reports.document import Paragraph, Report, listing

    rows = []
    for shelf in flacheck.list_toolchains():
        manifest = shelf.manifest
        size = f"{manifest.get('size_mb', 0):8.0f} MB"
        name, installer = manifest.get("identity", "?"), manifest.get("installer", "")
        rows.append({"toolchain": name, "size": size, "installer": installer})
    shown_report = listing(rows, has_header=False)
    if not rows:
        nothing = "No toolchain is installed yet; a scan installs those that it needs."
        shown_report = Report([Paragraph(nothing)])
    common.show("table", shown_report)
    return Exit.OK


@common.command(
    InstallToolchains,
    examples=[
        ("One release, before going offline", "flacheck toolchain install 3.7.1"),
        ("All releases of a range", 'flacheck toolchain install ">=3.4,<3.8"'),
    ],
    exits={
        0: "every compiler is installed",
        3: "a compiler cannot be installed here",
    },
)
def install(call: common.Call[InstallToolchains]) -> int:
    """Install compilers now instead of on first use."""
    with follow(resumable=False) as on_event:
        for toolchain in flacheck.install_toolchains(call.options["specs"], on_event=on_event):
            common.write([f"{toolchain.identity}  {toolchain.path}\n"], None)
    return Exit.OK


@common.command(
    RemoveToolchains,
    examples=[
        ("One release", "flacheck toolchain remove 3.2.0"),
        ("A CUDA compiler", "flacheck toolchain remove nvcc==13.0.88"),
    ],
    exits={
        0: "every named compiler is removed",
    },
)
def remove(call: common.Call[RemoveToolchains]) -> int:
    """Remove compilers from the cache."""
    for shelf in flacheck.remove_toolchains(call.options["names"]):
        common.write([f"removed {shelf.manifest.get('identity', shelf.path.name)}\n"], None)
    return Exit.OK


app = commands.group_of(
    "List, install or remove compilers, each isolated.",
    {"list": list_, "install": install, "remove": remove},
)
