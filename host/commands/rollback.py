"""`minifram rollback`."""

from __future__ import annotations

import click

from host.commands.options import Verb, context_of, json_option, screen_of


@click.command("rollback", cls=Verb)
@click.argument("ref")
@json_option
@click.pass_context
def verb(ctx: click.Context, ref: str, as_json_: bool) -> None:
    """Give main the content of an earlier version, as a new commit: history only grows, COMMS.md is kept.

    REF is a commit, a branch or a tag, optionally with ~N or ^N. Prints what changed, and the undo. The versions that
    you leave behind do not stand in for a main that cannot live, until main is given them again or 'minifram retry'.

    \b
    Examples:
      minifram rollback main~1
      minifram rollback 0123abcd
    """
    from host.context import as_option
    from host.display import as_json, harmless, one_line
    from host.repository import merge as decisions
    from host.repository import open as bare

    context, screen = context_of(ctx), screen_of(ctx)
    git = bare.open_repository(context.initialised(), bare.pm_of(context.environ))
    option = as_option(context.agent)
    done = decisions.roll_back(git, ref, option)
    if as_json_:
        screen.result(as_json("rollback", done))
        return
    if done.commit == done.main_before:
        screen.result(f"nothing to do: main ({done.commit[:12]}) already has the content of {done.target[:12]}")
        return
    screen.result(f"rolled back  main is now {done.commit}, with the content of {done.target[:12]}")
    for change in done.changes:
        screen.result(f"  {harmless(change)}")
    if done.unseen:
        screen.result(screen.bad(f"  what changed cannot be listed: {one_line(done.unseen, 200)}"))
    screen.result(f"undo:        {done.undo}")
    screen.progress(
        "a running agent takes it up after its unit of work, within limits.make_way_seconds (see 'minifram config'), "
        f"or at once: 'minifram restart{option}'"
    )
