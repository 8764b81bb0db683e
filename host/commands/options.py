"""Options that many verbs share, and the one class of all verbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from host.context import Context
from host.display import Screen
from host.paths import known_agents, problem_with_agent_name

_F = TypeVar("_F", bound=Callable[..., Any])


class Verb(click.Command):
    """A verb of `minifram`: takes `--agent` after its own name as well as before it."""

    def __init__(self, name: str, **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.params.append(agent_option())


def agent_option() -> click.Option:
    return click.Option(
        ["--agent"],
        metavar="NAME",
        expose_value=False,
        callback=_choose_agent,
        shell_complete=_complete_agent,
        help="Which agent (default: $MINIFRAM_AGENT, else 'agent').",
    )


def json_option(function: _F) -> _F:
    return click.option("--json", "as_json_", is_flag=True, help="Print the result as JSON.")(function)


def accept_option(help: str) -> Callable[[_F], _F]:
    return click.option("--accept", is_flag=True, help=help)


def context_of(ctx: click.Context) -> Context:
    """Who calls; the top level put it there."""
    found = ctx.obj
    assert isinstance(found, Context)  # noqa: S101 - `cli.main` sets it for every context
    return found


def screen_of(ctx: click.Context) -> Screen:
    found = ctx.meta["minifram.screen"]
    assert isinstance(found, Screen)  # noqa: S101 - as above
    return found


def complete_branch(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Branches that await review, for the shell; nothing when they cannot be told.

    The shell takes a completed word as if it had been typed: a name like `$(…)` would run. So only plain ones."""
    from host.errors import as_command_error
    from host.repository import open as bare
    from host.repository import review
    from infra.shared.branches import problem_with_branch

    try:
        git = bare.open_repository(context_of(ctx).initialised())
        names = [name for name, _ in review.unmerged(git, review.main_commit(git))]
    except Exception as error:
        if as_command_error(error) is None:
            raise
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and not problem_with_branch(name)]


def _choose_agent(ctx: click.Context, param: click.Parameter, name: str | None) -> None:
    if name is None:
        return
    problem = problem_with_agent_name(name)
    if problem:
        raise click.BadParameter(problem, ctx=ctx, param=param)
    ctx.obj = context_of(ctx)._replace(agent=name)


def _complete_agent(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = known_agents(context_of(ctx).environ)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
