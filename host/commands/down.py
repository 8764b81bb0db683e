"""`minifram down`."""

from __future__ import annotations

import click

from host.commands.options import Verb, context_of, json_option, screen_of


@click.command("down", cls=Verb)
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=60.0, show_default=True, help="Seconds to wait for it."
)
@json_option
@click.pass_context
def verb(ctx: click.Context, timeout: float, as_json_: bool) -> None:
    """End an agent: its runner first, then the doors and the watcher. Its work stays where it is."""
    from host.agent import up as running
    from host.display import as_json

    context, screen = context_of(ctx), screen_of(ctx)
    ended = running.down(context, screen.progress, timeout)
    screen.result(as_json("down", ended) if as_json_ else f"down  {ended.agent} (watcher was pid {ended.pid})")
