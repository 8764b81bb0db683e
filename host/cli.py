"""The `minifram` command: reads the environment, finds the command, turns errors into text and an exit code.

The modules of `host/commands` are imported when one of their commands is asked for, so that none pays for the others.
Nothing below this module reads the process's environment or decides how the process ends."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

from host.commands.options import agent_option, context_of
from host.context import Context, this_process
from host.display import Screen, as_json, harmless
from host.errors import as_command_error
from host.paths import problem_with_agent_name
from infra.shared.exit_codes import Exit

COMMANDS = {
    "init": ("agents", "make a new agent: its repository, settings, directories"),
    "up": ("agents", "start an agent and wait until it works"),
    "down": ("agents", "stop an agent"),
    "restart": ("agents", "stop an agent, start it again, show what changed"),
    "upgrade": ("agents", "move a contained agent to the installed version"),
    "status": ("status", "the state of an agent, on one screen"),
    "logs": ("runs", "the logs of watcher and agent, in chronological order"),
    "runs": ("runs", "the agent's runs, and their steps"),
    "events": ("events", "what the agent did, event by event; verify that none was changed"),
    "replay": ("runs", "replay a run without model calls or side effects"),
    "resume": ("runs", "continue a run from one of its steps, in another way"),
    "notify": ("status", "send notifications to you, or one as a test"),
    "egress": ("runs", "the network requests of an agent in its container"),
    "ledger": ("ledger", "verify the ledger of model calls, or sum it up"),
    "tell": ("comms", "give the agent a directive"),
    "task": ("tasks", "give the agent tasks, and see its answers"),
    "answer": ("comms", "be the model: show what the agent asks, and answer it"),
    "reports": ("comms", "read what the agent reports"),
    "approve": ("comms", "allow a tool call that waits for your answer"),
    "deny": ("comms", "refuse a tool call that waits for your answer"),
    "review": ("branches", "list the branches that await your decision, or show one"),
    "examine": ("branches", "have the keep examine a branch"),
    "merge": ("branches", "merge the reviewed commit of a branch into main"),
    "reject": ("branches", "remove a branch, keep its commit, tell the agent"),
    "rollback": ("branches", "give main the content of an earlier version"),
    "retry": ("branches", "retry versions that failed"),
    "mind": ("mind", "the agent's memory: recall, why, snapshots, forget, health"),
    "skills": ("skills", "the agent's skills: list, show, promote, retire"),
    "backup": ("agents", "write an agent to one file"),
    "restore": ("agents", "make an agent from a backup"),
    "config": ("status", "each setting: value, origin, meaning"),
    "doctor": ("status", "check this machine and the agent's directories"),
    "generate": ("generate", "print a quadlet unit or kube manifest of an agent"),
    "discover": ("discover", "explore a world in a container; score and compare runs"),
    "protocol": ("protocol", "check a list of operations, or carry it out"),
    "demo": ("status", "watch an agent work, improve itself, fail and recover"),
    "completion": ("status", "print the completion script of your shell"),
}
"""Name -> (module of `host.commands`, line of `--help`), in the order of `--help`."""

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
        module, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(f"host.commands.{module}"), cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 - what the table says
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

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
            notes = "".join(f"\nminifram: {note}" for note in getattr(error, "__notes__", ()))
            ctx.meta["minifram.screen"].fail(known.code, f"{known}{notes}")
            return int(known.code)


def _version(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    if asked:
        from host.project import version_of

        click.echo(f"minifram {version_of(context_of(ctx).root)}")
        ctx.exit()


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
@click.pass_context
def minifram(ctx: click.Context) -> None:
    """AI agents that run in a sandbox, communicate only through git, and may rewrite themselves."""
    environ = context_of(ctx).environ
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
        problem = problem_with_agent_name(context.agent)
        if problem:
            raise click.UsageError(f"MINIFRAM_AGENT: {problem}")
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
