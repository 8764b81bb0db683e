"""`minifram up`."""

from __future__ import annotations

import click

from host.commands.options import Verb, context_of, json_option, screen_of


@click.command("up", cls=Verb)
@click.option("--sandbox", type=click.Choice(["auto", "podman", "process"]), help="Instead of the settings' sandbox.")
@click.option("--rebuild", is_flag=True, help="podman: make base and image anew, with today's Debian packages.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=90.0, show_default=True, help="Seconds to wait for it."
)
@json_option
@click.pass_context
def verb(ctx: click.Context, sandbox: str | None, rebuild: bool, timeout: float, as_json_: bool) -> int:
    """Start an agent and wait until it works. Ends with 8 when only safe mode does.

    The watcher runs on by itself when this command has ended. With $ANTHROPIC_API_KEY set the agent runs on Claude,
    else with $OPENAI_API_KEY on OpenAI's model, unless the settings name another 'model.provider'. The keys that it
    needs are put where only the model door reads them, and 'minifram down' removes them.

    The sandbox 'podman' is a sealed container; its image is built when it is not there, which takes some minutes the
    first time. 'auto' takes it where 'minifram doctor' finds podman usable. --timeout counts from the start.
    """
    from host.agent import up as running
    from host.context import as_option
    from host.display import as_json
    from host.running.start import exit_of, version_words

    context, screen = context_of(ctx), screen_of(ctx)
    ready = running.make_ready(context, sandbox, screen.progress)
    started = running.up(context, ready, screen.progress, timeout, rebuild)
    if as_json_:
        screen.result(as_json("up", started))
        return exit_of(started.rung)
    option = as_option(started.agent)
    code, version = exit_of(started.rung), version_words(started.branch, started.commit, started.rung)
    mark = screen.bad("running") if code else screen.good("running")
    screen.result(
        f"{mark}  {started.agent}: {version}, {started.model} model, {started.sandbox} sandbox, "
        f"watcher pid {started.pid}, after {started.seconds:.1f} s"
    )
    screen.result(f'Next: minifram tell{option} "…"; minifram status{option}; minifram down{option}')
    return code
