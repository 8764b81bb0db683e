"""`minifram logs`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click

from host.commands.options import Verb, context_of, json_option, screen_of

if TYPE_CHECKING:
    from host.agent.logs import Line
    from host.display import Screen

_ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}")
"""Boot ids and commits: twelve digits are enough for people."""
_ENVELOPE = ("timestamp", "time", "at", "event", "level")


@click.command("logs", cls=Verb)
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines as they come; end with Ctrl-C.")
@click.option(
    "--source",
    type=click.Choice(["watcher", "doors", "runner", "boot", "all"]),
    default="all",
    help="Whose lines (default: all).",
)
@click.option("-n", "--lines", type=click.IntRange(min=0), default=100, show_default=True, help="How many at first.")
@json_option
@click.pass_context
def verb(ctx: click.Context, follow: bool, source: str, lines: int, as_json_: bool) -> None:
    """What watcher and agent wrote, in order of time.

    'watcher' and 'doors' are the keep's own logs; 'runner' is what each version of the agent wrote to its streams,
    'boot' what it said about its boots. With -f --json each line is a JSON object of its own.

    \b
    Examples:
      minifram logs -n 20
      minifram logs -f --source watcher
    """
    from host.agent import logs
    from host.display import as_json, plain

    context, screen = context_of(ctx), screen_of(ctx)
    places = context.initialised().places
    if follow:
        for line in logs.follow(places, source, lines):
            screen.result(as_json("log-line", line) if as_json_ else _shown(line, screen))
        return
    found = logs.last_lines(places, source, lines)
    if as_json_:
        screen.result(as_json("logs", {"lines": plain(found)}))
        return
    for line in found:
        screen.result(_shown(line, screen))
    if not found:
        screen.progress("no log lines yet; 'minifram up' starts the agent")


def _shown(line: Line, screen: Screen) -> str:
    from host.display import harmless, harmless_lines

    whose = f"{line.source} {line.branch}".strip()
    if line.event is not None and "event" in line.event:
        text = _event_text({key: value for key, value in line.event.items() if value != line.branch})
    else:
        text = line.text.removeprefix(f"{line.time} ")
    return f"{screen.faint(line.time)} {screen.mark(f'{harmless(whose):<14}')} {chr(10).join(harmless_lines(text))}"


def _event_text(event: dict[str, Any]) -> str:
    """A structured line for people: `level event key=value …`."""
    pairs = (f"{key}={_value(value)}" for key, value in event.items() if key not in _ENVELOPE)
    level = str(event.get("level", ""))
    head = f"{level} {event['event']}" if level not in ("", "info") else str(event["event"])
    return " ".join([head, *pairs]).replace("\n", "\n    ")


def _value(value: Any) -> str:
    if isinstance(value, str) and _ID.fullmatch(value):
        return value[:12]
    return value if isinstance(value, str) and value and " " not in value else json.dumps(value, ensure_ascii=False)
