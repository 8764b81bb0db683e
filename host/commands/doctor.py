"""`minifram doctor`."""

from __future__ import annotations

import click

from host.commands.options import Verb, context_of, json_option, screen_of
from infra.shared.exit_codes import Exit


@click.command("doctor", cls=Verb)
@json_option
@click.pass_context
def verb(ctx: click.Context, as_json_: bool) -> int:
    """Check this machine and the agent's places. Ends with 8 when something was found, 4 when there is no agent.

    It changes nothing but what a power cut spoilt in the repository and needs no guess to put right; it says so.
    """
    from host.agent.doctor import diagnose
    from host.display import as_json, counted, harmless, plain

    context, screen = context_of(ctx), screen_of(ctx)
    found = diagnose(context)
    if as_json_:
        screen.result(as_json("doctor", plain(found) | {"findings": found.findings}))
    else:
        for result in found.results:
            paint = {"ok": screen.good, "note": screen.faint}.get(result.level, screen.bad)
            screen.result(f"{paint(f'{result.level:<5}')} {result.check:<16} {harmless(result.text)}")
        screen.progress(f"{counted(found.findings, 'finding')}" if found.findings else "nothing found")
    if found.findings:
        return Exit.FINDINGS
    return Exit.OK if found.initialised else Exit.NOT_FOUND
