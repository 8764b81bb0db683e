"""The `minifram` command: reads the environment, finds the command, turns errors into text and an exit code.

A module is imported when one of its commands is asked for, so that none pays for the others. Nothing below this module
decides how the process ends."""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from host.errors import as_command_error
from host.home import Context, problem_with_agent_name, this_process
from host.screen import Screen, Shown, as_json, harmless
from infra.shared.exit_codes import Exit

COMMANDS = {
    "init": ("Live", "host.init", "make a new agent: its repository, settings, directories"),
    "up": ("Live", "host.up", "start an agent and wait until it works"),
    "down": ("Live", "host.up", "stop an agent"),
    "restart": ("Live", "host.up", "stop an agent, start it again"),
    "demo": ("Live", "host.demo", "watch an agent work, improve itself, fail and recover"),
    "tell": ("Say", "host.talk", "give the agent a directive"),
    "task": ("Say", "host.tasks", "give the agent tasks, and see its answers"),
    "approve": ("Say", "host.talk", "allow a tool call that waits for your answer"),
    "deny": ("Say", "host.talk", "refuse a tool call that waits for your answer"),
    "status": ("See", "host.fleet", "the state of an agent on one screen, or of all"),
    "reports": ("See", "host.talk", "read what the agent reports"),
    "runs": ("See", "host.runs", "the agent's runs, and their steps"),
    "logs": ("See", "host.logs", "the logs of watcher and agent"),
    "mind": ("See", "host.mind", "the agent's memory: why, snapshots, restore"),
    "skills": ("See", "host.skills", "the agent's skills: list, show, promote, retire"),
    "egress": ("See", "host.egress", "the network requests of an agent in its container"),
    "serve": ("See", "host.serve.command", "serve a page, an API and MCP on this machine"),
    "mcp": ("See", "host.serve.mcp", "speak MCP on standard input and output"),
    "review": ("Decide", "host.review", "list the branches that await your decision, or show one"),
    "merge": ("Decide", "host.decide", "merge the reviewed commit of a branch into main"),
    "reject": ("Decide", "host.decide", "remove a branch, keep its commit, tell the agent"),
    "rollback": ("Decide", "host.decide", "give main the content of an earlier version"),
    "retry": ("Decide", "host.decide", "retry versions that failed"),
    "trust": ("Decide", "host.trust", "trust what the agent has read on the web"),
    "config": ("Keep", "host.settings", "each setting: value, origin, meaning"),
    "doctor": ("Keep", "host.doctor", "check this machine and the agent's directories"),
    "backup": ("Keep", "host.backup", "write an agent to one file"),
    "notify": ("Keep", "host.notify", "send notifications to you, or one as a test"),
}
"""Name -> (group of `--help`, module, line of `--help`), in the order of `--help`."""

EPILOG = """\b
A first day:
  minifram init                       make an agent
  minifram up                         start it
  minifram tell "write a haiku tool"  give a directive
  minifram reports -f                 watch it report
  minifram review                     see what awaits you

\b
Everything that minifram does with git you can do by hand: clone the repository that
'minifram init' names, edit COMMS.md, commit, push.

\b
Exit codes: 0 ok, 1 failure, 2 usage, 3 not running, 4 not found or not initialised,
5 denied by policy, 6 conflict, 7 budget, 8 findings, 75 try again, 130 interrupted."""


class Commands(click.Group):
    """The commands, each loaded when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        _, module, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group, commands in itertools.groupby(COMMANDS.items(), lambda item: item[1][0]):
            with formatter.section(group):
                formatter.write_dl([(name, text) for name, (_, _, text) in commands])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader has seen enough
            _discard_stdout()
            return int(Exit.OK)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            known = as_command_error(error)
            if known is None:
                raise
            if isinstance(error, OSError):
                _discard_stdout()
            ctx.meta["minifram.screen"].fail(known.code, str(known))
            return int(known.code)


def command(function: Callable[..., Any], has_json: bool = True, has_agent: bool = True) -> click.Command:
    """A command of `minifram`: `function(context, say, **parameters)`, whose docstring is the help. It gives a `Shown`,
    or yields several, which are printed here; `say` takes its progress.

    It takes `--agent` after its own name as well as before it, and `--json`."""

    @functools.wraps(function)
    def run(as_json: bool = False, **values: Any) -> int:
        ctx = click.get_current_context()
        schema = "-".join(ctx.command_path.split()[1:])  # such as `skills-show`
        screen: Screen = ctx.meta["minifram.screen"]._replace(schema=schema if as_json else "")
        ctx.meta["minifram.screen"] = screen  # for the error that may end the command
        if problem := problem_with_agent_name(ctx.obj.agent):
            raise click.UsageError(f"{problem} (--agent, or MINIFRAM_AGENT)", ctx)
        shown = function(ctx.obj, screen.progress, **values)
        ended = Exit.OK
        for each in [shown] if isinstance(shown, Shown) else shown:
            screen.print(each)
            ended = each.code
        return ended

    made = click.command(function.__name__)(run)
    if has_json:
        made.params.append(click.Option(["--json", "as_json"], is_flag=True, help="Print the result as JSON."))
    if has_agent:
        made.params.append(agent_option())
    return made


def agent_option() -> click.Option:
    return click.Option(
        ["--agent"],
        metavar="NAME",
        expose_value=False,
        callback=_choose_agent,
        help="Which agent (default: $MINIFRAM_AGENT, else 'agent').",
    )


def timeout_option(seconds: float, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option("--timeout", type=click.FloatRange(min=0), default=seconds, show_default=True, help=help)


def _choose_agent(ctx: click.Context, param: click.Parameter, name: str | None) -> None:
    if name is not None:
        ctx.obj = ctx.obj._replace(agent=name)


def _version(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    if asked:
        from host.project import version_of

        click.echo(f"minifram {version_of(ctx.obj.root)}")
        ctx.exit()


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
@click.pass_context
def minifram(ctx: click.Context) -> None:
    """AI agents that run in a sandbox, communicate only through git, and may rewrite themselves."""
    environ = ctx.obj.environ
    plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
    ctx.meta["minifram.screen"] = Screen(sys.stdout, sys.stderr, colour=sys.stdout.isatty() and not plain)


minifram.params.append(agent_option())


def main(arguments: Sequence[str] | None = None, context: Context | None = None) -> int:
    """Run the command; gives its exit code. `context` stands for this process and its environment."""
    context = context or this_process()
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Unicode must not make us fail half-way through a report.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        ended = minifram.main(args=words, prog_name="minifram", standalone_mode=False, obj=context)
    except click.Abort:
        return Exit.INTERRUPTED
    except click.ClickException as error:
        if "--json" in words:
            click.echo(as_json("error", {"code": error.exit_code, "error": harmless(error.format_message())}))
        error.show()
        return error.exit_code
    return int(ended) if isinstance(ended, int) else Exit.OK


def _discard_stdout() -> None:
    """Where it takes no more, the rest goes nowhere: Python would complain about it again at the end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
