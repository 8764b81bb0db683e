"""`minifram restore`."""

from __future__ import annotations

import click

from host.commands.options import Verb, accept_option, context_of, json_option, screen_of


@click.command("restore", cls=Verb)
@click.argument("file", type=click.Path())
@accept_option("Take the archive's settings that concern isolation, keys, money or network.")
@json_option
@click.pass_context
def verb(ctx: click.Context, file: str, accept: bool, as_json_: bool) -> None:
    """Make an agent from FILE, which 'minifram backup' wrote: same history, COMMS.md, settings, money spent.

    It gets the name that it had; another one with --agent or $MINIFRAM_AGENT. An agent that is there is never
    overwritten. The file is verified as a whole first; when anything is wrong with it, nothing is left behind.

    An archive is a stranger: it may not be yours, or no more as you wrote it. Its settings that differ from the
    defaults and may give the agent more, in what concerns isolation, keys, money or network, are listed, and none of
    them is taken without your answer or --accept. 'sandbox: process' never is, and the agent counts as one that
    lived sealed, unless the archive says otherwise and you agree: without podman, 'minifram up' does not start it but
    with --sandbox process.

    \b
    Examples:
      minifram restore minifram-agent-20260131T104212Z.tar.gz
      minifram restore agent.tar.gz --agent second
    """
    from host.agent import restore
    from host.agent.consent import asking, shown
    from host.context import as_option
    from host.display import as_json, counted
    from infra.shared.providers import VARIABLES

    context, screen = context_of(ctx), screen_of(ctx)
    name = context.agent if _is_named(ctx) else None
    made = restore.restore(context, file, name, asking(accept, screen), screen.progress)
    if as_json_:
        screen.result(as_json("restore", made))
        return
    option = as_option(made.agent)
    was = "" if made.was == made.agent else f" (it was {made.was!r})"
    screen.result(f"{screen.strong('agent')}       {made.agent}{was}, as of {made.time}")
    screen.result(f"repository  {made.remote}, {counted(made.refs, 'ref')}, main at {made.commit[:12]}")
    screen.result(f"settings    {made.settings}")
    for title, settings in (("taken", made.taken), ("not taken", made.not_taken)):
        for each in settings:
            screen.result(f"  {title:<9}  {shown(each)}")
    screen.result(f"ledger      {counted(made.ledger_bytes, 'byte')}, in {made.state}")
    screen.result(f"not there   {', '.join(made.not_restored)}")
    screen.result()
    screen.result(f"Next: export its model's key, such as {VARIABLES[0]}=…   (unless it needs none)")
    screen.result(f"      minifram up{option}")


def _is_named(ctx: click.Context) -> bool:
    """Whether the PM said which agent, before or after the verb or in the environment."""
    if context_of(ctx).environ.get("MINIFRAM_AGENT"):
        return True
    contexts = [each for each in (ctx, ctx.parent) if each]
    return any(each.get_parameter_source("agent") is click.core.ParameterSource.COMMANDLINE for each in contexts)
