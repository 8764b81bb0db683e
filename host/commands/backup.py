"""`minifram backup`."""

from __future__ import annotations

import click

from host.commands.options import Verb, context_of, json_option, screen_of


@click.command("backup", cls=Verb)
@click.argument("file", required=False, type=click.Path())
@json_option
@click.pass_context
def verb(ctx: click.Context, file: str | None, as_json_: bool) -> None:
    """Write an agent to one file, from which 'minifram restore' makes it anew. It may go on running meanwhile.

    FILE (default: minifram-AGENT-TIME.tar.gz, here) must not be there yet. It holds the repository with all branches
    and tags, and so the mind; your settings; the ledger of model calls. It never holds the model's key, sockets, logs,
    or work in the agent's clones that was not pushed.

    \b
    Examples:
      minifram backup
      minifram backup /mnt/safe/agent.tar.gz --agent second
    """
    import time

    from host.agent import backup
    from host.display import as_json, counted
    from host.errors import CommandError
    from infra.shared.exit_codes import Exit

    if file == "-":
        raise CommandError(
            Exit.USAGE, "a backup goes to a file with a name, not to standard output; give FILE or nothing"
        )
    context, screen = context_of(ctx), screen_of(ctx)
    made = backup.back_up(context, file, time.time(), screen.progress)
    if as_json_:
        screen.result(as_json("backup", made))
        return
    screen.result(f"{screen.strong('backup')}      {made.file} ({counted(made.bytes, 'byte')})")
    screen.result(f"agent       {made.agent}, {counted(made.refs, 'ref')}, main at {made.commit[:12]}")
    for name, size in made.parts.items():
        screen.result(f"  {name:<18}  {counted(size, 'byte')}")
    screen.result(f"not in it   {', '.join(made.left_out)}")
    screen.progress("it holds everything that the agent and you wrote: keep it where only you read")
