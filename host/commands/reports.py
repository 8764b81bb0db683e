"""`minifram reports`."""

from __future__ import annotations

import click

from host.commands.options import Verb, context_of, json_option, screen_of


@click.command("reports", cls=Verb)
@click.option("-n", "--number", type=click.IntRange(min=0), default=10, show_default=True, help="How many at first.")
@click.option("-f", "--follow", is_flag=True, help="Go on with new reports as they come; end with Ctrl-C.")
@json_option
@click.pass_context
def verb(ctx: click.Context, number: int, follow: bool, as_json_: bool) -> None:
    """Read what the agent reports on main's COMMS.md, the newest last. With -f --json each is an object of its own."""
    import time

    from host.display import as_json, harmless, plain
    from host.repository import comms as talk
    from host.repository import open as bare

    context, screen = context_of(ctx), screen_of(ctx)
    git = bare.open_repository(context.initialised())
    found = talk.reports(git)
    shown = found[-number:] if number else []
    if as_json_ and not follow:
        screen.result(as_json("reports", {"reports": plain(shown), "total": len(found)}))
        return

    def show(report: talk.Report) -> None:
        screen.result(as_json("report", report) if as_json_ else harmless(report.text) + "\n")

    def pause() -> bool:
        time.sleep(talk.POLL_SECONDS)
        return True

    for report in shown:
        show(report)
    if follow:
        for report in talk.new_reports(git, found, pause):
            show(report)
    elif not found:
        screen.progress("no reports yet")
