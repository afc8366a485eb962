# SPDX-License-Identifier: Apache-2.0
"""The commands and their options. Each asks the server once (or watches) and prints; errors are one line on stderr.

Exit codes: 0 ok, 1 the server says no (no such gang), 2 wrong usage, 3 the server cannot be reached.
"""

import contextlib
import importlib.metadata
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from muster.cli import watch
from muster.cli.connect import CALL_TIMEOUT, Address, CommandError, RefusedError, UsageError, default_server, view
from muster.cli.detail import detail
from muster.cli.table import console, gangs_table, show
from muster.cli.text import safe, to_json
from muster.v1.view_pb2 import GetGangRequest, ListGangsRequest, ListGangsResponse

INTERRUPTED = 130


class Output(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


class DetailOutput(StrEnum):
    TEXT = "text"
    JSON = "json"


# Plain help and plain errors: both end up in logs and pipes.
_help: dict[str, Any] = {"rich_markup_mode": None, "context_settings": {"help_option_names": ["-h", "--help"]}}
app = typer.Typer(
    help="Shows what gangs wait for.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    **_help,
)
get = typer.Typer(help="List things.", no_args_is_help=True, **_help)
explain = typer.Typer(help="Say why something is held and what to do about it.", no_args_is_help=True, **_help)
app.add_typer(get, name="get")
app.add_typer(explain, name="explain")

Server = Annotated[
    str | None,
    typer.Option(
        metavar="ADDR",
        help="unix:///path or host:port. Default: $MUSTER_SERVER, then .muster/run/server.sock here or above, "
        "then server.sock in /run/muster or /run/muster/private.",
    ),
]
Ca = Annotated[Path | None, typer.Option(help="CA of a server at host:port, if not the system's.")]
Cert = Annotated[Path | None, typer.Option(help="Own certificate, for a server that wants one.")]
Key = Annotated[Path | None, typer.Option(help="Key of --cert.")]


@get.command("gangs")
@get.command("gang", hidden=True)
def get_gangs(
    namespace: Annotated[str, typer.Option("--namespace", "-n", metavar="NS", help="Only this namespace.")] = "",
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="All (the default).")] = False,
    watching: Annotated[bool, typer.Option("--watch", "-w", help="Go on and show changes.")] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="wide does not cut.")] = Output.TABLE,
    server: Server = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """List gangs with their phase and why they are held."""
    with _one_line_errors():
        if namespace and all_namespaces:
            raise UsageError("-n and -A exclude each other")
        request = ListGangsRequest(namespace=namespace)
        with view(Address(server or default_server(), ca, cert, key)) as stub:
            if watching:
                # No deadline: a watch lives until somebody ends it.
                _watch(iter(stub.WatchGangs(request)), output)
            else:
                _show(stub.ListGangs(request, timeout=CALL_TIMEOUT), output)


@explain.command("gang")
def explain_gang(
    gang: Annotated[str, typer.Argument(metavar="NS/NAME", help="The gang.", show_default=False)],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NS", help="The namespace, if NAME alone is given.")
    ] = "",
    output: Annotated[DetailOutput, typer.Option("--output", "-o")] = DetailOutput.TEXT,
    server: Server = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Say what holds a gang, what to do about it, and where each of its members is."""
    with _one_line_errors():
        request = _gang_named(gang, namespace)
        with view(Address(server or default_server(), ca, cert, key)) as stub:
            found = stub.GetGang(request, timeout=CALL_TIMEOUT)
        if output is DetailOutput.JSON:
            print(to_json(found))
        else:
            show(detail(found, time.time()))


@app.command()
def version() -> None:
    """Print the version of this program."""
    try:
        print("muster", importlib.metadata.version("muster"))
    except importlib.metadata.PackageNotFoundError:
        print("muster (from source)")


def _gang_named(gang: str, namespace: str) -> GetGangRequest:
    before, slash, name = gang.rpartition("/")
    if slash and namespace and namespace != before:
        raise UsageError(f"{safe(gang)} is not in namespace {safe(namespace)}")
    if not name or (slash and not before) or "/" in before:
        raise UsageError(f"{safe(gang)}: want NAMESPACE/NAME")
    return GetGangRequest(namespace=before or namespace or "default", name=name)


def _show(found: ListGangsResponse, output: Output) -> None:
    if output is Output.JSON:
        print(to_json(found))
    elif found.gangs:
        show(gangs_table(found.gangs, time.time(), wide=output is Output.WIDE))
    else:
        print("No gangs.", file=sys.stderr)


def _watch(lists: Iterator[ListGangsResponse], output: Output) -> None:
    terminal = console()
    if output is Output.JSON:
        watch.as_json(lists)
    elif terminal.is_terminal:
        watch.redraw(lists, terminal, wide=output is Output.WIDE)
    else:
        watch.as_lines(lists)
    raise RefusedError("muster-server ended the watch")


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except CommandError as error:
        print(safe(str(error)), file=sys.stderr)
        raise typer.Exit(error.code) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
