"""The files that put the door in front of the bare repository: its rules, its git settings, its hook, the
program that the agent's clones call in place of `git receive-pack`, and the agent's own git configuration.

Everything that decides a push runs with an environment of its own, and reads the door's settings after the
repository's own, so that neither can switch it off. Written whole at each start; nobody edits them."""

from __future__ import annotations

import os
import shlex
import sys

from infra.admission import rules
from infra.contract.files import write_whole
from infra.contract.identity import OURS, Identity
from infra.contract.places import Places
from infra.contract.settings import Settings
from infra.repository.git import AGENT, safe_environment

PUSH_SECONDS = 300
"""The longest a whole push may take, unpacking included."""
LEAST_INPUT_BYTES = 100 * 1024 * 1024


def write_door_files(places: Places, settings: Settings, cell: Identity = OURS, by_daemon: bool = False) -> None:
    """Put the door in place as these settings want it. Raises OSError.

    `by_daemon`: the clones reach the door by git:// and need to name no program."""
    door = f"{places.var}/door"
    os.makedirs(f"{door}/hooks", exist_ok=True)
    limits = rules.Rules(rules.Autonomy(settings.autonomy), settings.limits.blob_bytes)
    write_whole(f"{door}/config.json", rules.to_json(limits).encode())
    write_whole(f"{door}/gitconfig", door_git_config(door, settings.limits.blob_bytes).encode())
    write_whole(f"{door}/hooks/pre-receive", _pre_receive(door).encode(), 0o755)
    write_whole(f"{door}/receive-pack", _receive_pack(door, places.remote).encode(), 0o755)
    # Last, because it sends the agent's pushes to what is written above.
    os.makedirs(places.bot, exist_ok=True)
    with cell.acting():
        write_whole(places.cell_git_config, cell_git_config("" if by_daemon else door).encode())


def door_git_config(door: str, blob_bytes: int) -> str:
    """Settings for whatever receives the agent's pushes."""
    return _git_config(
        ("core.hooksPath", f"{door}/hooks"),
        ("core.fsync", "all"),  # what was acknowledged survives a power cut
        ("receive.denyDeletes", "true"),  # these two say again what pre-receive says in better words
        ("receive.denyNonFastForwards", "true"),
        ("receive.fsckObjects", "true"),  # no `.GIT` directory and the like in a tree that the PM checks out
        ("receive.maxInputSize", str(max(LEAST_INPUT_BYTES, 10 * blob_bytes))),
        ("receive.advertisePushOptions", "false"),
        ("receive.autogc", "false"),
        ("transfer.fsckObjects", "true"),
        ("transfer.hideRefs", "refs/minifram"),
        ("gc.auto", "0"),
        ("maintenance.auto", "false"),
        ("safe.directory", "*"),
    )


def cell_git_config(door: str) -> str:
    """The git configuration of everything in the cell; with no `door`, pushes go where the clone's origin is."""
    through = (('remote "origin".receivepack', shlex.quote(f"{door}/receive-pack")),) if door else ()
    return _git_config(
        ("user.name", AGENT.name),
        ("user.email", AGENT.email),
        *through,
        ("push.default", "simple"),
        ("pull.rebase", "true"),  # a merge would be refused on main where autonomy is not `merge`
        ("init.defaultBranch", "main"),
        ("core.excludesFile", "/dev/null"),
        ("advice.detachedHead", "false"),
        ("advice.addEmbeddedRepo", "false"),
        ("gc.autoDetach", "false"),  # or a collection would outlive the command that began it
    )


def _pre_receive(door: str) -> str:
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # Without site-packages (-S), which it has no need of: it starts a quarter sooner.
    python = [sys.executable, "-S", "-s", "-P"]
    words = [*python, "-m", "infra.git_door", "pre-receive", "--config", f"{door}/config.json"]
    return f"""\
#!/bin/sh
# Judges what comes through the git door. minifram writes this file at each start.
exec /usr/bin/env -i {_environment(PYTHONPATH=root)} \\
    ${{GIT_QUARANTINE_PATH:+"GIT_QUARANTINE_PATH=$GIT_QUARANTINE_PATH"}} \\
    ${{GIT_OBJECT_DIRECTORY:+"GIT_OBJECT_DIRECTORY=$GIT_OBJECT_DIRECTORY"}} \\
    ${{GIT_ALTERNATE_OBJECT_DIRECTORIES:+"GIT_ALTERNATE_OBJECT_DIRECTORIES=$GIT_ALTERNATE_OBJECT_DIRECTORIES"}} \\
    {shlex.join(words)}
"""


def _receive_pack(door: str, remote: str) -> str:
    include = f"include.path={door}/gitconfig"
    return f"""\
#!/bin/sh
# The git door: the agent's clones call this in place of git receive-pack. minifram writes this file at each start.

# The agent may have repositories of its own that call their origin the same; those are none of the door's.
[ "$1" -ef {shlex.quote(remote)} ] || exec git receive-pack "$@"

# git goes on without a hook or an included file that is not there.
if ! [ -x {shlex.quote(f"{door}/hooks/pre-receive")} ] || ! [ -r {shlex.quote(f"{door}/gitconfig")} ]; then
    echo "the git door is not in place, so nothing was taken; tell the PM: minifram restart sets it up anew" >&2
    exit 1
fi

# Settings given on the command line are read after the repository's own.
exec /usr/bin/env -i {_environment(HOME="/nonexistent", GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null")} \\
    timeout --kill-after=10 {PUSH_SECONDS} git -c {shlex.quote(include)} receive-pack "$@"
"""


def _environment(**names: str) -> str:
    wanted = {"PATH": safe_environment()["PATH"], "LANG": "C.UTF-8"} | names
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in wanted.items())


def _git_config(*settings: tuple[str, str]) -> str:
    """The text of a git configuration file; a key is `section.name` or `section "subsection".name`."""
    lines, open_section = ["# minifram writes this file at each start."], ""
    for key, value in settings:
        section, _, name = key.rpartition(".")
        if section != open_section:
            lines.append(f"[{section}]")
            open_section = section
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'\t{name} = "{quoted}"')
    return "\n".join(lines) + "\n"
