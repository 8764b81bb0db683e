"""`recorder.py RECORD PROJECT COMMANDS`: minifram commands (a JSON list of lists of words), with a record, as JSON
lines, of each program that they start and of the files that their modules were loaded from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

DONE = (0, 3, 8)
"""It worked; the agent is down; doctor found something."""
STARTS = (
    "subprocess.Popen",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pty.spawn",
    "os.fork",
    "os.forkpty",
)


def record_to(path: str) -> None:
    file = open(path, "a", buffering=1)  # noqa: SIM115 - as long as the process

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if event in STARTS:
            words = arguments[1] if event == "subprocess.Popen" else arguments
            print(json.dumps([event, *map(str, words if isinstance(words, list | tuple) else [words])]), file=file)

    sys.addaudithook(hear)


def loaded_files() -> list[str]:
    return sorted(str(module.__file__) for module in list(sys.modules.values()) if getattr(module, "__file__", None))


if __name__ == "__main__":
    record, project, given = sys.argv[1:]
    commands = json.loads(given)
    record_to(record)
    if commands == [["the control"]]:  # that a program which is no git would be seen
        sys.exit(subprocess.run(["true", "indeed"]).returncode)

    from host.cli import main
    from host.context import Context

    agent = os.environ.get("MINIFRAM_AGENT") or "agent"
    context = Context(dict(os.environ), os.getuid(), project, ("false",), agent)
    ended = {" ".join(words): int(main(words, context)) for words in commands}
    with open(record, "a") as file:
        print(json.dumps(["loaded", *loaded_files()]), file=file)
    wrong = {words: code for words, code in ended.items() if code not in DONE}
    sys.exit(f"these failed: {wrong}" if wrong else 0)
