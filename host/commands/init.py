"""`minifram init`."""

from __future__ import annotations

import shlex

import click

from host.commands.options import Verb, context_of, json_option, screen_of
from infra.shared.providers import PROVIDERS


@click.command("init", cls=Verb)
@click.option(
    "--sandbox",
    type=click.Choice(["auto", "podman", "process"]),
    help="Where the agent will live (default: auto, a sealed container where podman works).",
)
@click.option("--model", type=click.Choice(["auto", *PROVIDERS]), help="Who thinks (default: auto).")
@click.option(
    "--autonomy",
    type=click.Choice(["merge", "propose", "frozen"]),
    help="merge: the agent merges what the keep examined (default); propose: only you move main; frozen: reports only.",
)
@json_option
@click.pass_context
def verb(ctx: click.Context, sandbox: str | None, model: str | None, autonomy: str | None, as_json_: bool) -> None:
    """Make a new agent: its bare repository with a first commit, its settings, its directories.

    \b
    Examples:
      minifram init
      minifram init --agent second --model anthropic --autonomy propose
    """
    from host.agent import init as birth
    from host.agent.settings_text import file_text
    from host.context import as_option
    from host.display import as_json
    from host.repository import open as bare

    context, screen = context_of(ctx), screen_of(ctx)
    defaults = {"sandbox": "auto", "autonomy": "merge", "model.provider": "auto"}
    given = {"sandbox": sandbox, "autonomy": autonomy, "model.provider": model}
    chosen = {key: value for key, value in given.items() if value}
    text = file_text(context.agent, defaults | chosen)
    born = birth.give_birth(
        context.home, context.root, text if chosen else None, text, bare.pm_of(context.environ), context.uid
    )
    if as_json_:
        screen.result(as_json("init", born))
        return
    option = as_option(born.agent)
    kept = " (it was there, and is kept as it is)" if born.settings_kept else ""
    screen.result(f"{screen.strong('agent')}       {born.agent}, first commit {born.commit[:12]} on main")
    screen.result(f"repository  {born.remote}")
    screen.result(f"settings    {born.settings}{kept}")
    screen.result(f"its files   {born.bot}")
    screen.result(f"state       {born.state}")
    screen.result(f"sockets     {born.run}")
    screen.result()
    screen.result(f"Next: minifram up{option}")
    screen.result(f'      minifram tell{option} "what the agent should do"')
    screen.result(f"      git clone {shlex.quote(born.remote)}   (edit COMMS.md, commit, push: the same by hand)")
