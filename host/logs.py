"""`minifram logs`: what watcher and doors logged, and what each version of the agent printed, by the program `tail`.

What lies in a checkout was written by the agent, which may also write such a line as `tail` names a file by: each file
has a `tail` of its own."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
from collections.abc import Collection, Iterator

import click

from host.cli import command
from host.home import Context
from host.screen import Say, Shown, harmless, harmless_lines, mark
from infra.cell.clones import with_clones
from infra.shared.mind.event import event_files
from infra.shared.paths import BOOT_LOG, ERROR_LOG, Paths
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted

EVENT_DAYS = 3
READ_BYTES = 1 << 16


@command
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they come; end with Ctrl-C.")
@click.option(
    "--source",
    type=click.Choice(["watcher", "doors", "runner", "boot", "events", "all"]),
    default="all",
    help="Whose lines (default: all but events).",
)
@click.option("-n", "--lines", type=click.IntRange(min=0), default=20, show_default=True, help="How many of each file.")
def logs(context: Context, say: Say, follow: bool, source: str, lines: int) -> Iterator[Shown]:
    """The last lines of the logs of watcher and agent, file by file; with -f, then new ones of all as they come.

    'watcher' and 'doors' are the keep's own logs; 'runner' is the output of each version of the agent, 'boot' its
    boot log; 'events' is the keep's record of each act of the mind, as JSON.
    With --json each line is a JSON object of its own.

    \b
    Examples:
      minifram logs -n 50
      minifram logs -f --source watcher
    """
    files, last = log_files(context.initialised().places, source), f"--lines={lines}"
    by_file = (each for path in files for each in tailed([path], last))
    for path, text in tailed(files, last, "-F", f"--pid={os.getpid()}") if follow else by_file:
        of, branch = files[path]
        whose = mark(harmless(f"{of} {branch}".strip()))
        words = "\n".join(harmless_lines(_as_words(text)))
        yield Shown({"source": of, "branch": branch, "text": text}, f"{whose} {words}", schema="log-line")


def log_files(places: Paths, source: str) -> dict[str, tuple[str, str]]:
    """Path -> source and branch of each log, there or yet to come; nothing that is no file below its own tree."""
    every = [(places.var, "watcher.log", "watcher", ""), (places.var, "doors.log", "doors", "")]
    for branch in with_clones(Below(places.bot)):
        every.append((places.bot, f"{branch}/minifram/{ERROR_LOG}", "runner", branch))
        every.append((places.bot, f"{branch}/minifram/{BOOT_LOG}", "boot", branch))
    if source == "events":
        names = event_files(Below(places.events))[-EVENT_DAYS:]
        every = [(places.events, name, "events", "") for name in names]
    found = {}
    for root, name, of, branch in every:
        path = f"{os.path.realpath(root)}/{name}"
        is_log = os.path.realpath(path) == path and (os.path.isfile(path) or not os.path.lexists(path))
        if is_log and source in (of, "all"):
            found[path] = (of, branch)
    return found


def tailed(files: Collection[str], *options: str) -> Iterator[tuple[str, str]]:
    """Path and text of each line that one `tail` a file prints, without the keys that it may hold."""
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for path in files:
            words = ["tail", *options, "--", path]
            process = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
            stack.callback(process.terminate)
            assert process.stdout  # noqa: S101 - as asked for
            selector.register(process.stdout, selectors.EVENT_READ, (path, bytearray()))
        while selector.get_map():
            for key, _ in selector.select():
                (path, unended), got = key.data, os.read(key.fd, READ_BYTES)
                if not got:
                    selector.unregister(key.fileobj)
                unended += got or b"\n"
                if b"\n" in got or not got:
                    *lines, unended[:] = unended.split(b"\n")
                    for text in (redacted(line.decode(errors="replace")) for line in lines if line.strip()):
                        yield path, text


def _as_words(text: str) -> str:
    """A line that is a JSON object with a time and an event, as structlog writes them, in words; any other as it is."""
    try:
        fields = json.loads(text)
        words = [str(fields.pop("timestamp")), str(fields.pop("event"))]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text
    return " ".join([*words, *(f"{key}={value}" for key, value in fields.items())])
