"""What all commands share: how one is declared, its context and screen, and the options that several have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from host.context import Context
from host.display import Screen
from host.paths import known_agents, problem_with_agent_name


def command(function: Callable[..., int | None], has_json: bool = True) -> click.Command:
    """A command of `minifram`: `function(context, screen, **parameters)`, whose docstring is the help.

    It takes `--agent` after its own name as well as before it, and `--json`; what it returns is the exit code."""

    @functools.wraps(function)
    def run(as_json: bool = False, **values: Any) -> int | None:
        ctx = click.get_current_context()
        context = context_of(ctx)
        screen: Screen = ctx.meta["minifram.screen"]
        screen = screen._replace(schema=function.__name__ if as_json else "", option=context.option)
        ctx.meta["minifram.screen"] = screen  # `cli` tells on it what ends the command
        return function(context, screen, **values)

    made = click.command(function.__name__)(run)
    if has_json:
        made.params.append(click.Option(["--json", "as_json"], is_flag=True, help="Print the result as JSON."))
    made.params.append(agent_option())
    return made


command_without_json = functools.partial(command, has_json=False)


def context_of(ctx: click.Context) -> Context:
    found = ctx.obj
    assert isinstance(found, Context)  # noqa: S101 - `cli.main` sets it
    return found


def agent_option() -> click.Option:
    return click.Option(
        ["--agent"],
        metavar="NAME",
        expose_value=False,
        callback=_choose_agent,
        shell_complete=_complete_agent,
        help="Which agent (default: $MINIFRAM_AGENT, else 'agent').",
    )


sandbox_option = click.option(
    "--sandbox", type=click.Choice(["auto", "podman", "process"]), help="Instead of the settings' sandbox."
)
rebuild_option = click.option(
    "--rebuild", is_flag=True, help="podman: make base and image again, with today's Debian packages."
)


def accept_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option("--accept", is_flag=True, help=help)


def timeout_option(seconds: float, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option("--timeout", type=click.FloatRange(min=0), default=seconds, show_default=True, help=help)


def complete_branch(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Branches that await review, for the shell; nothing when they cannot be read.

    The shell takes a completed word as if it had been typed: a name like `$(…)` would run. So only plain ones."""
    from host.errors import as_command_error
    from host.repository.open import open_repository
    from host.repository.review import main_commit, unmerged
    from infra.shared.branches import problem_with_branch

    try:
        git = open_repository(context_of(ctx).initialised())
        names = [name for name, _ in unmerged(git, main_commit(git))]
    except Exception as error:
        if as_command_error(error) is None:
            raise
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and not problem_with_branch(name)]


branch_argument = click.argument("branch", shell_complete=complete_branch)


def _choose_agent(ctx: click.Context, param: click.Parameter, name: str | None) -> None:
    if name is None:
        return
    if problem := problem_with_agent_name(name):
        raise click.BadParameter(problem, ctx=ctx, param=param)
    ctx.obj = context_of(ctx)._replace(agent=name)


def _complete_agent(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in known_agents(context_of(ctx).environ) if name.startswith(incomplete)]
