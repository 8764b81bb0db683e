"""`minifram deny`."""

from __future__ import annotations

import click

from host.commands.options import Verb, context_of, json_option, screen_of


@click.command("deny", cls=Verb)
@click.argument("id")
@click.argument("why", default="")
@json_option
@click.pass_context
def verb(ctx: click.Context, id: str, why: str, as_json_: bool) -> None:
    """Refuse the call that the agent asked about: ID is in its report; it is told WHY.

    \b
    Example:
      minifram deny ab12cd34 "use the test server"
    """
    from host.display import as_json, plain
    from host.repository import approvals
    from host.repository import open as bare

    context, screen = context_of(ctx), screen_of(ctx)
    home = context.initialised()
    git = bare.open_repository(home, bare.pm_of(context.environ))
    told, asking = approvals.answer(git, home, id, approved=False, why=why)
    if as_json_:
        screen.result(as_json("deny", {**plain(told), "call": plain(asking)}))
    else:
        screen.result("\n".join([f"denied  {told.commit[:12]} {told.text}", *approvals.shown(asking)]))
