"""`minifram config`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from host.commands.options import Verb, context_of, json_option, screen_of
from infra.shared.exit_codes import Exit

if TYPE_CHECKING:
    from host.agent.settings_text import Entry


@click.command("config", cls=Verb)
@click.argument("key", required=False)
@json_option
@click.pass_context
def verb(ctx: click.Context, key: str | None, as_json_: bool) -> None:
    """Each setting: its value, where that came from, its type and meaning. KEY is one, or a section of them.

    \b
    Examples:
      minifram config
      minifram config limits.bash_seconds
    """
    from host.agent import settings_text
    from host.display import as_json, harmless, plain
    from host.errors import CommandError

    context, screen = context_of(ctx), screen_of(ctx)
    home = context.initialised()
    found = settings_text.explained(home.settings)
    chosen = settings_text.chosen(found, key)
    if not chosen:
        raise CommandError(Exit.NOT_FOUND, settings_text.unknown_key(found, key or ""))
    if as_json_:
        screen.result(as_json("config", {"file": home.settings, "settings": plain(chosen)}))
        return
    for entry in chosen:
        screen.result(f"{screen.strong(entry.key)}: {harmless(_shown(entry.value))}   {screen.faint(_origin(entry))}")
        screen.result(f"    {entry.meaning + ' ' if entry.meaning else ''}({entry.type})")


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _origin(entry: Entry) -> str:
    return "default" if entry.origin == "default" else f"set in {entry.origin}, default {_shown(entry.default)}"
