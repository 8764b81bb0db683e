"""`minifram merge`."""

from __future__ import annotations

import click

from host.commands.options import Verb, complete_branch, context_of, json_option, screen_of


@click.command("merge", cls=Verb)
@click.argument("branch", metavar="BRANCH@COMMIT", shell_complete=complete_branch)
@click.option("--unexamined", is_flag=True, help="Even when the keep has not examined it, or it did not pass.")
@click.option("--unvalidated", is_flag=True, hidden=True, help="The earlier name of --unexamined.")
@json_option
@click.pass_context
def verb(ctx: click.Context, branch: str, unexamined: bool, unvalidated: bool, as_json_: bool) -> None:
    """Merge the reviewed commit of a branch into main, by a merge commit of yours; main's COMMS.md stays as it is.

    'minifram review BRANCH' prints the whole command. A branch that has moved since is not merged. Merging is your word
    on what the verdict says needs it. Prints the undo.
    """
    from host.context import as_option
    from host.display import as_json, harmless, one_line
    from host.repository import merge as decisions
    from host.repository import open as bare

    context, screen = context_of(ctx), screen_of(ctx)
    git = bare.open_repository(context.initialised(), bare.pm_of(context.environ))
    option = as_option(context.agent)
    done = decisions.merge(git, branch, unexamined or unvalidated, option)
    if as_json_:
        screen.result(as_json("merge", done))
        return
    if done.commit == done.main_before:
        screen.result(f"nothing to do: {done.branch}@{done.branch_commit[:12]} is already in main ({done.commit[:12]})")
        return
    screen.result(f"merged  {done.branch}@{done.branch_commit[:12]} ({done.verdict}): main is now {done.commit}")
    for path in done.files:
        screen.result(f"  {harmless(path)}")
    if done.unseen:
        screen.result(screen.bad(f"  what changed cannot be listed: {one_line(done.unseen, 200)}"))
    screen.result(f"undo:   {done.undo}")
    screen.progress(f"a running agent takes it up after its unit of work, or at once: 'minifram restart{option}'")
