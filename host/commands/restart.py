"""`minifram restart`."""

from __future__ import annotations

import click

from host.commands.options import Verb, context_of, json_option, screen_of


@click.command("restart", cls=Verb)
@click.option("--sandbox", type=click.Choice(["auto", "podman", "process"]), help="Instead of the settings' sandbox.")
@click.option("--rebuild", is_flag=True, help="podman: make base and image anew, with today's Debian packages.")
@click.option("--timeout", type=click.FloatRange(min=0), default=90.0, show_default=True, help="Seconds for each half.")
@json_option
@click.pass_context
def verb(ctx: click.Context, sandbox: str | None, rebuild: bool, timeout: float, as_json_: bool) -> int:
    """End an agent if it runs, start it again, and say what changed. Ends with 8 when only safe mode works.

    Nothing is stopped when it could not be started again: settings, repository and key are checked first.
    """
    from host.agent import up as running
    from host.display import as_json, harmless
    from host.running.start import exit_of

    context, screen = context_of(ctx), screen_of(ctx)
    done = running.restart(context, sandbox, screen.progress, timeout, timeout, rebuild)
    if as_json_:
        screen.result(as_json("restart", done))
        return exit_of(done.rung)
    screen.result(f"{screen.good('running')}  {done.agent}: watcher pid {done.pid}")
    if not done.pid_before:
        screen.result("it was down before")
    if done.before == done.after:
        screen.result(f"version   {_short(done.after)}, as before")
    else:
        screen.result(f"version   {_short(done.before) or 'none'} -> {_short(done.after)}")
    for key, (old, new) in done.settings_changed.items():
        screen.result(harmless(f"setting   {key}: {old} -> {new}"))
    if exit_of(done.rung):
        screen.result(f"leads     {screen.bad(done.rung)}: 'minifram status' says why")
    return exit_of(done.rung)


def _short(version: str) -> str:
    branch, _, commit = version.rpartition("@")
    return f"{branch}@{commit[:12]}" if branch else ""
