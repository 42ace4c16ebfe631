"""flacheck toolchain: the compilers in the cache."""

from typing import Annotated

import typer

import flacheck
from flacheck import Exit
from flacheck.cli import common
from flacheck.cli.progress import follow

_SPECS = "3.2.0, a specifier, or a path."
app = typer.Typer(help="List, install or remove compilers, each isolated.", no_args_is_help=True)


@app.command("list")
@common.command
def list_() -> int:
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


@app.command("install")
@common.command
def install(
    specs: Annotated[list[str], typer.Argument(metavar="SPEC…", help=_SPECS)],
) -> int:
    """Install compilers now instead of on first use."""
    with follow(resumable=False) as on_event:
        for toolchain in flacheck.install_toolchains(specs, on_event=on_event):
            common.write([f"{toolchain.identity}  {toolchain.path}\n"], None)
    return Exit.OK


@app.command("remove")
@common.command
def remove(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="triton==3.2.0 or 3.2.0.")],
) -> int:
    """Remove compilers from the cache."""
    for shelf in flacheck.remove_toolchains(names):
        common.write([f"removed {shelf.manifest.get('identity', shelf.path.name)}\n"], None)
    return Exit.OK
