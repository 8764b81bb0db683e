"""`minifram serve`: the program, from its words to the server."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import os
import socket
import stat
from urllib.parse import urlsplit

import click
import uvicorn

from host.cli import command
from host.errors import conflict, usage
from host.home import Context, base_directory, secure_directory
from host.screen import Say, Shown
from host.serve.access import ENTER, Access, Token
from host.serve.agents import Agent, Agents
from host.serve.app import application
from host.serve.jobs import Jobs, Store
from infra.keep.settings.check import SettingsError, read_settings
from infra.shared.files import lock_within

LISTEN = "127.0.0.1:8300"


@command
@click.option("--listen", metavar="ADDRESS:PORT", default=LISTEN, show_default=True, help="Where; loopback alone.")
@click.option("--socket", "path", metavar="PATH", default="", help="A unix socket instead.")
@click.option("--link", is_flag=True, help="Print the link that opens the page, and end.")
@click.option("--new-token", is_flag=True, help="Make a new token first: it ends all sessions.")
def serve(context: Context, say: Say, listen: str, path: str, link: bool, new_token: bool) -> Shown:
    """Serve a page for all your agents, an API and MCP, to whoever has the token."""
    state = base_directory(context.environ, "XDG_STATE_HOME", ".local/state")
    secure_directory(state, context.uid)
    token = Token(f"{state}/serve.token")
    if new_token or not os.path.lexists(f"{state}/serve.token"):
        token.renew()
    if link:
        address = f"http://{listen}{ENTER}?token={token.read()}"
        return Shown({"link": address}, address)
    with open(f"{state}/serve.lock", "w", encoding="utf-8") as lock:
        if not lock_within(lock.fileno(), 0):
            raise conflict("another 'minifram serve' of yours runs; it serves all your agents")
        agents = Agents(context)
        listener = _unix_socket(path) if path else _loopback(listen)
        at = f"unix:{path}" if path else "http://{}:{}".format(*listener.getsockname()[:2])
        jobs = Jobs(Store(f"{state}/serve.db"), agents)
        page = application(agents, jobs, context.agent)
        app = Access(page, token, lambda: names_of(agents), f"{state}/serve.audit.jsonl")
        link_words = f"{'http://localhost' if path else at}{ENTER}?token={token.read()}"
        say(f"serving {at}; Ctrl-C ends it. This link opens it:\n{link_words}")
        config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=3)
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            jobs.end()
    return Shown({"at": at})


def names_of(agents: Agents) -> set[str]:
    """Host names that the PM gave the page: `notify.page` of the agents' settings."""
    every = map(agents.get, agents.names())
    return {name for each in every if (name := each.known("page", ("settings",), functools.partial(_page_name, each)))}


def _page_name(agent: Agent) -> str:
    with contextlib.suppress(SettingsError):
        return urlsplit(read_settings(agent.home.settings).notify.page or "").hostname or ""
    return ""


def _loopback(listen: str) -> socket.socket:
    """Raises CommandError."""
    host, _, port = listen.rpartition(":")
    try:
        address, number = ipaddress.ip_address(host.strip("[]")), int(port)
    except ValueError:
        raise usage(f"--listen is {listen!r}; expected an address and a port such as {LISTEN}") from None
    if not address.is_loopback:
        raise usage(
            f"--listen is {listen!r}; expected an address of loopback: who reaches the page acts in your name. For "
            "more, use 'ssh -L', or a reverse proxy in front of --socket"
        )
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    # By its protocol asyncio sees that the answers must not be held back for more (TCP_NODELAY).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((str(address), number))
        listener.listen(128)  # who reads the link may open it at once
    except OSError as error:
        listener.close()
        raise conflict(f"{listen} cannot be listened on: {error.strerror}; name another by --listen") from None
    return listener


def _unix_socket(path: str) -> socket.socket:
    """For this user alone; one that an earlier server left is replaced. Raises CommandError."""
    if os.path.lexists(path):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise conflict(f"{path} is there and is no socket; name another by --socket")
        os.unlink(path)
    listener, mask = socket.socket(socket.AF_UNIX), os.umask(0o077)
    try:
        listener.bind(path)
        listener.listen(128)
    finally:
        os.umask(mask)
    return listener
