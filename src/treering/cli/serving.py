"""Serve the store over HTTP, and look at it in a browser."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import sys
from collections.abc import Sequence
from urllib.parse import quote

import click

from treering.cli.completion import session_argument
from treering.cli.names import find_session, namespace_of
from treering.cli.settings import Settings, store_options
from treering.errors import UsageError
from treering.kinds import Kind

TOKEN_VARIABLE = "TREERING_TOKEN"  # noqa: S105  # the name of a variable
SHUTDOWN_SECONDS = 3
BACKLOG = 128
REQUESTS_AT_ONCE_MAX = 1000
"""Most requests at once, open streams included; further requests are answered with 503."""


def serve_options(function: click.decorators.FC) -> click.decorators.FC:
    """Add the options of a server."""
    options = (
        click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on."),
        click.option("--port", default=0, type=click.IntRange(0, 65535), help="The port; by default a free one."),
        click.option(
            "--token", envvar=TOKEN_VARIABLE, show_envvar=True, metavar="TEXT",
            help="What requests must bring; by default a new one, which is printed once.",
        ),
        click.option("--hostname", multiple=True, metavar="NAME", help="A name that the server is asked by."),
        click.option("--read-only", is_flag=True, help="Refuse everything that writes."),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@serve_options
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@store_options()
@click.pass_obj
def serve(
    settings: Settings,
    *,
    host: str,
    port: int,
    token: str | None,
    hostname: tuple[str, ...],
    read_only: bool,
    opens: bool,
) -> None:
    """Serve the store over HTTP, with a web page that shows it.

    The page and the API need the token, which is in the printed address. To listen on an address other than the local
    one, choose a token with --token or the environment.
    """
    run(settings, host=host, port=port, token=token, hostnames=hostname, read_only=read_only, opens=opens)


@click.command()
@session_argument(required=False)
@serve_options
@store_options()
@click.pass_obj
def view(
    settings: Settings,
    *,
    session: str | None,
    host: str,
    port: int,
    token: str | None,
    hostname: tuple[str, ...],
    read_only: bool,
) -> None:
    """Look at the store, or at a session, in a browser.

    Serves the store until interrupted, as `serve` does.
    """
    found = None
    if session is not None:
        place, name = find_session(settings.open(), session)
        found = namespace_of(place)[len(settings.namespace) :], name
    run(settings, host=host, port=port, token=token, hostnames=hostname, read_only=read_only, opens=True, session=found)


def run(
    settings: Settings,
    *,
    host: str,
    port: int,
    token: str | None,
    hostnames: tuple[str, ...],
    read_only: bool,
    opens: bool,
    session: tuple[Sequence[str], str] | None = None,
) -> None:
    """Listen, print the address, and answer requests until interrupted.

    Raises:
        UsageError: Other computers could reach the address, and no token was chosen; or the extra is not installed.
    """
    if token is None and not _is_loopback(host):
        raise UsageError(
            f"other computers can reach this address, so choose a token. host={host!r}",
            kind=Kind.TOKEN,
            remedy=f"pass --token, or set {TOKEN_VARIABLE}",
        )
    try:
        import uvicorn

        from treering.api.async_store import AsyncStore  # loads asyncio, which no other command needs
        from treering.server import app
        from treering.server.keys import key_of
    except ModuleNotFoundError as error:
        raise UsageError(
            f"a server needs a package that is not here: {error.name}",
            kind=Kind.MISSING,
            remedy="pip install 'treering[server]'",
        ) from error
    token = token or secrets.token_urlsafe(24)
    store = AsyncStore(settings.place())
    application = app(store, token=token, read_only=read_only, search=True, hosts=[*hostnames, host])
    config = uvicorn.Config(
        application,
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=REQUESTS_AT_ONCE_MAX,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    fragment = "" if session is None else f"/s/{key_of(*session)}&"
    with _listening(host, port) as there:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{there.getsockname()[1]}/#{fragment}token={quote(token, safe='')}"
        click.echo(f"treering serves {store.place.location} at", err=True)
        click.echo(address)
        sys.stdout.flush()
        if opens:
            click.launch(address)
        uvicorn.Server(config).run(sockets=[there])


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listening(host: str, port: int) -> socket.socket:
    """Bind the address, so that the port is known before anything is printed.

    Raises:
        UsageError: The address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # If the protocol is named, asyncio sets TCP_NODELAY; otherwise a page waits 40 ms for an acknowledgement.
    there = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    there.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        there.bind((host, port))
        there.listen(BACKLOG)  # from now on connections wait, and are not refused
    except OSError as error:
        there.close()
        raise UsageError(
            f"this address cannot be taken: {error}. host={host!r}, port={port}", kind=Kind.HOST
        ) from error
    return there
