"""`minifram ledger`."""

from __future__ import annotations

import click

from host.commands.options import Verb, context_of, json_option, screen_of
from infra.shared.exit_codes import Exit


@click.command("ledger", cls=Verb)
@click.argument("what", type=click.Choice(["verify"]))
@json_option
@click.pass_context
def verb(ctx: click.Context, what: str, as_json_: bool) -> int:
    """Check that nothing in the book of model calls was changed, put in or taken out; 8 when something was.

    Each line carries a hash over itself and the line before it. Lines taken from the end leave no trace in the file:
    note the head that this prints, and look for it later ('grep').

    \b
    Examples:
      minifram ledger verify
      minifram ledger verify --json
    """
    from host.agent.ledger import verify
    from host.display import as_json, counted, one_line

    context, screen = context_of(ctx), screen_of(ctx)
    home = context.initialised()
    found = verify(home)
    if as_json_:
        screen.result(as_json("ledger", {"agent": home.agent, "file": home.places.ledger, **found._asdict()}))
        return Exit.FINDINGS if found.findings else Exit.OK
    size = f"{counted(found.lines, 'line')}, {counted(found.calls, 'call')}"
    screen.result(f"{screen.strong('ledger')}   {home.places.ledger}: {size}")
    for count, words in ((found.unlinked, "from before lines had a hash"), (found.torn, "cut short, passed over")):
        if count:
            screen.result(f"         {counted(count, 'line')} {words}")
    for finding in found.findings:
        screen.result(f"{screen.bad('finding')}  {one_line(finding, 300)}")
    if not found.findings:
        screen.result(f"{screen.good('whole')}    head {found.head or 'none: no line yet'}")
    return Exit.FINDINGS if found.findings else Exit.OK
