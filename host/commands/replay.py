"""`minifram replay`."""

from __future__ import annotations

import click

from host.commands.options import Verb, context_of, json_option, screen_of
from infra.shared.exit_codes import Exit

TEXT_CHARS = 300


@click.command("replay", cls=Verb)
@click.argument("run")
@json_option
@click.pass_context
def verb(ctx: click.Context, run: str, as_json_: bool) -> int:
    """Play a run once more through the installed loop, with the answers and results that are on record; 8 when
    something goes another way. No provider is asked, and nothing that the run did is done.

    RUN is the beginning of its name, as 'minifram runs' shows it. A difference means that the installed version would
    treat the same answers in another way than the version that ran, or that the record was changed.

    \b
    Examples:
      minifram replay 2026-01-31T10
      minifram replay 2026-01-31T10 --json
    """
    from host.agent.replaying import replayed
    from host.display import as_json, counted, one_line, plain

    context, screen = context_of(ctx), screen_of(ctx)
    name, found = replayed(context.initialised(), run)
    if as_json_:
        screen.result(as_json("replay", {"run": name, **plain(found)}))
        return Exit.FINDINGS if found.differences else Exit.OK
    for each in found.differences:
        screen.result(f"{screen.bad(one_line(each.where, 20))}")
        screen.result(f"  recorded  {one_line(each.recorded, TEXT_CHARS)}")
        screen.result(f"  replayed  {one_line(each.replayed, TEXT_CHARS)}")
    played = f"{one_line(name, 80)}: {counted(found.events, 'event')}"
    if found.differences:
        screen.result(f"{played}, {counted(len(found.differences), 'difference')}")
        return Exit.FINDINGS
    screen.result(f"{played}, {screen.good('all as recorded')}")
    return Exit.OK
