"""`protocol`: the operations protocol, tried out without an agent."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import IO

import click

from host.commands.options import command
from host.context import Context
from host.display import Screen
from infra.shared.exit_codes import Exit


@command
@click.argument("action", type=click.Choice(["check", "run", "schema", "guide"]))
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--workspace", metavar="DIR", default=".", show_default=True, help="run: the directory to work in.")
@click.option(
    "--policy", metavar="FILE", type=click.Path(exists=True), help="run: a minifram.yaml whose policy counts."
)
def protocol(context: Context, screen: Screen, action: str, file: IO[bytes], workspace: str, policy: str | None) -> int:
    """Check or carry out a list of operations, or print what a model is told of them.

    FILE is a model's reply, as it came (default: stdin).

    \b
    check   each error by its path, with what was expected and found; 8 when there is one
    run     carry it out in DIR and print the events; 8 when nothing was, or one of them failed. It runs with your
            rights: DIR bounds the files of operations, not what a shell command touches
    schema  JSON Schema of operations and of events
    guide   what a model is told

    \b
    Examples:
      minifram protocol check reply.txt
      echo '[{"type": "shell", "command": "ls"}]' | minifram protocol run --workspace /tmp/try
    """
    if action == "schema":
        return _print_schema(screen)
    if action == "guide":
        from infra.shared.protocol.guide import guide

        screen.show({"guide": guide()}, guide().rstrip().split("\n"))
        return Exit.OK
    reply = file.read()
    return _check(reply, screen) if action == "check" else _run(reply, screen, workspace, policy)


def _print_schema(screen: Screen) -> int:
    from infra.shared.protocol.schema import events_schema, operations_schema

    both = {"operations": operations_schema(), "events": events_schema()}
    screen.show(both, json.dumps(both, indent=2).split("\n"))
    return Exit.OK


def _check(reply: bytes, screen: Screen) -> int:
    from infra.shared.protocol.read import ReplyProblem, problems_of
    from infra.shared.secret_shapes import redacted

    try:
        found = problems_of(reply.decode())
    except UnicodeDecodeError as error:
        found = (ReplyProblem("$", f"the reply is not UTF-8 ({error}); expected it as it came"),)
    shown = [problem._replace(message=redacted(problem.message)) for problem in found]
    screen.show(
        {"problems": [problem._asdict() for problem in shown]},
        [f"{problem.path}: {problem.message}" for problem in shown] or ["ok"],
    )
    return Exit.FINDINGS if found else Exit.OK


def _run(reply: bytes, screen: Screen, workspace: str, policy: str | None) -> int:
    """By a program of the cell's, which this command does not import."""
    from infra.shared.programs import keep_command, keep_environment
    from infra.shared.settings import runner_policy
    from infra.shared.settings_file import read_settings

    if not Path(workspace).is_dir():
        raise click.UsageError(f"--workspace {workspace!r} is no directory")
    words = ["--workspace", workspace]
    words += ["--policy", runner_policy(read_settings(policy))] if policy else []
    program = keep_command("infra.cell.runner.run_operations", *words)
    ended = subprocess.run(program, input=reply, env=keep_environment(), stdout=subprocess.PIPE, check=False)
    if ended.stdout:
        message = json.loads(ended.stdout)
        screen.show(message, json.dumps(message, ensure_ascii=False, indent=2).split("\n"))
    return ended.returncode
