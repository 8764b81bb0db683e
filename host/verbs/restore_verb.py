"""`minifram restore`."""

from __future__ import annotations

import click

from host.options import Verb, caller_of, json_option, screen_of


@click.command("restore", cls=Verb)
@click.argument("file", type=click.Path())
@json_option
@click.pass_context
def verb(ctx: click.Context, file: str, as_json_: bool) -> None:
    """Make an agent from FILE, which 'minifram backup' wrote: same history, COMMS.md, settings, money spent.

    It gets the name that it had; another one with --agent or $MINIFRAM_AGENT. An agent that is there is never
    overwritten. The file is verified as a whole first; when anything is wrong with it, nothing is left behind.

    \b
    Examples:
      minifram restore minifram-agent-20260131T104212Z.tar.gz
      minifram restore agent.tar.gz --agent second
    """
    from host import restore
    from host.caller import as_option
    from host.display import as_json, counted
    from infra.contract.providers import VARIABLES

    caller, screen = caller_of(ctx), screen_of(ctx)
    made = restore.restore(caller, file, caller.agent if _is_named(ctx) else None, screen.progress)
    if as_json_:
        screen.result(as_json("restore", made))
        return
    option = as_option(made.agent)
    was = "" if made.was == made.agent else f" (it was {made.was!r})"
    screen.result(f"{screen.strong('agent')}       {made.agent}{was}, as of {made.time}")
    screen.result(f"repository  {made.remote}, {counted(made.refs, 'ref')}, main at {made.commit[:12]}")
    screen.result(f"settings    {made.settings}")
    screen.result(f"ledger      {counted(made.ledger_bytes, 'byte')}, in {made.state}")
    screen.result(f"not there   {', '.join(made.not_restored)}")
    screen.result()
    screen.result(f"Next: export its model's key, such as {VARIABLES[0]}=…   (unless it needs none)")
    screen.result(f"      minifram up{option}")


def _is_named(ctx: click.Context) -> bool:
    """Whether the PM said which agent, before or after the verb or in the environment."""
    if caller_of(ctx).environ.get("MINIFRAM_AGENT"):
        return True
    contexts = [each for each in (ctx, ctx.parent) if each]
    return any(each.get_parameter_source("agent") is click.core.ParameterSource.COMMANDLINE for each in contexts)
