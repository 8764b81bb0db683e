"""What puts the git door in front of the bare repository: files, git's settings, and `git daemon`.

What serves the agent has an environment of its own, and settings in it that git reads after the repository's own, so
that neither can switch the door off. In the container `git daemon` serves the repository on loopback; in the process
sandbox the agent's clones call a program in place of `git receive-pack`. The files are written whole at each start."""

from __future__ import annotations

import contextlib
import os
import resource
import shlex
import shutil
import stat
import sys

from infra.keep.git_door import hook
from infra.keep.repository import bare_tip
from infra.keep.repository.bare_tip import KNOWN_GOOD
from infra.keep.settings.schema import Settings
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import Git
from infra.shared.repository.git_environment import safe_environment, with_settings
from infra.shared.safe_files import Below

PORT = 9418
MAX_CONNECTIONS = 16
PUSH_SECONDS = 300
"""The longest a whole push may take, unpacking included."""
JUDGE = "judge.sock"
"""In the door's directory: where the hook asks."""
LEAST_MEMORY_BYTES = 1024 * 1024 * 1024


def write_door_files(places: Paths, settings: Settings, cell: Identity = OURS, by_daemon: bool = False) -> None:
    """Put the door in place as these settings want it. `by_daemon`: the clones reach it by git:// and need to name no
    program. Raises OSError."""
    door = f"{places.var}/door"
    os.makedirs(f"{door}/hooks", exist_ok=True)
    os.chmod(door, 0o700)  # within it listens who judges pushes
    judging = shlex.join([sys.executable, "-I", "-S", hook.__file__, f"{door}/{JUDGE}"])
    for name, text in (
        ("hooks/pre-receive", f"#!/bin/sh\nexec {judging}\n"),
        (f"hooks/{bare_tip.HOOK}", bare_tip.SCRIPT),
        ("access", f'#!/bin/sh\n[ "$1" != receive-pack ] || {_is_in_place(door)} || exit 1\n')
        if by_daemon
        else ("receive-pack", _receive_pack(places, settings.limits.blob_bytes)),
    ):
        _write(Below(door), name, text, 0o755)
    # Last, because it sends the agent's pushes to what is written above.
    os.makedirs(places.bot, exist_ok=True)
    bot = Below(places.bot, cell)
    bot.open_up()  # the agent may have closed it
    bot.set_aside(places.cell_git_config, unless=stat.S_ISREG)
    _write(bot, places.cell_git_config, _cell_git_config("" if by_daemon else f"{door}/receive-pack"), 0o644)


def _write(below: Below, path: str, text: str, mode: int) -> None:
    """Unless it stands there: a launch waits for no disk, and a full one keeps none back. Raises OSError."""
    found = below.status(path)
    with contextlib.suppress(OSError, ValueError):
        if found and stat.S_IMODE(found.st_mode) == mode and below.whole(path) == text.encode():
            return
    below.write(path, text.encode(), mode)


def _cell_git_config(program: str) -> str:
    """The git configuration of everything in the cell; with no `program`, pushes go where the clone's origin is."""
    quoted = shlex.quote(program).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    through = f'[remote "origin"]\n\treceivepack = "{quoted}"\n' if program else ""
    # rebase: a merge is refused on main unless autonomy is `merge`. autoDetach: a collection would outlive its command.
    return f"""\
[user]
\tname = {AGENT.name}
\temail = {AGENT.email}
[push]
\tdefault = simple
[pull]
\trebase = true
[init]
\tdefaultBranch = main
[advice]
\tdetachedHead = false
[gc]
\tautoDetach = false
{through}"""


def memory_bytes(blob_bytes: int) -> int:
    """For each process of one push: what a small pack unfolds to in memory has no limit of its own."""
    return LEAST_MEMORY_BYTES + 4 * blob_bytes


def at_most(wanted: int, resource_limit: int) -> int:
    """As much of it as this process may allow its children (setrlimit(2))."""
    hard = resource.getrlimit(resource_limit)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def url(places: Paths, port: int = PORT) -> str:
    """What the agent's clones call origin, where a daemon serves it."""
    return f"git://127.0.0.1{'' if port == PORT else f':{port}'}/{os.path.basename(places.remote)}"


def daemon_command(places: Paths, port: int = PORT, memory: int = LEAST_MEMORY_BYTES) -> list[str]:
    """Serves until SIGTERM. `memory`: bytes, for each process of a push; less where the machine allows less. Raises
    GitError.

    Started as itself and not by `git daemon`, which would stay in between and not hand on a SIGKILL."""
    memory, seconds = at_most(memory, resource.RLIMIT_AS), at_most(PUSH_SECONDS, resource.RLIMIT_CPU)
    return [
        # Set before it starts: set from beside, the limits might hit another process that has the pid by then.
        *(shutil.which("prlimit") or "prlimit", f"--as={memory}", f"--cpu={seconds}", "--"),
        f"{Git('/')('--exec-path')}/git-daemon",
        "--listen=127.0.0.1",
        f"--port={port}",
        "--reuseaddr",
        f"--base-path={os.path.dirname(places.remote)}",
        "--strict-paths",  # with the last word below: this very directory, and none within it
        "--export-all",
        "--enable=receive-pack",
        "--disable=upload-archive",
        *(f"--forbid-override={service}" for service in ("upload-pack", "receive-pack", "upload-archive")),
        f"--access-hook={shlex.quote(f'{places.var}/door/access')}",
        "--informative-errors",
        f"--max-connections={MAX_CONNECTIONS}",
        "--init-timeout=10",  # seconds for a client that connects to say what it wants
        "--timeout=300",  # seconds that a clone or fetch may be silent
        places.remote,
    ]


def daemon_environment(places: Paths, blob_bytes: int) -> dict[str, str]:
    """The whole environment of what serves the agent: nothing of the keep's, and settings that win over the
    repository's own."""
    settings = with_settings(*_push_settings(f"{places.var}/door", blob_bytes), *_SERVING)
    return safe_environment() | settings | {"GIT_ALLOW_PROTOCOL": "none"}


_SERVING = (
    # For reading, after `transfer.hideRefs`: all else below refs/minifram is not shown, and nothing there is written.
    # It is no secret: a client of protocol v2 may want any object by its id (gitprotocol-v2(5)).
    ("uploadpack.hideRefs", f"!{KNOWN_GOOD}"),  # main's clone may be brought to one of these
    ("pack.threads", "2"),
    ("pack.windowMemory", "64m"),
    ("pack.deltaCacheSize", "64m"),
)


def _push_settings(door: str, blob_bytes: int) -> tuple[tuple[str, str], ...]:
    """Beside `SAFE_SETTINGS`, for the program that receives the agent's pushes."""
    return (
        ("core.hooksPath", f"{door}/hooks"),
        ("core.fsync", "all"),  # this and the hook beside pre-receive: what was acknowledged survives a power cut
        ("core.packedGitWindowSize", "32m"),  # these two keep git within its memory, however large the repository
        ("core.packedGitLimit", "256m"),
        ("core.bigFileThreshold", str(max(16 * 1024 * 1024, 2 * blob_bytes))),  # what is larger is never held whole
        ("receive.denyDeletes", "true"),  # these two say again what pre-receive says in better words
        ("receive.denyNonFastForwards", "true"),
        ("receive.shallowUpdate", "false"),  # or the history of the repository itself could be cut off
        ("receive.fsckObjects", "true"),  # no `.GIT` directory and the like in a tree that the PM checks out
        ("receive.maxInputSize", str(max(100 * 1024 * 1024, 10 * blob_bytes))),
        ("receive.autogc", "false"),
        ("transfer.fsckObjects", "true"),
        ("transfer.hideRefs", "refs/minifram"),
    )


def _receive_pack(places: Paths, blob_bytes: int) -> str:
    env = (f"{name}={value}" for name, value in daemon_environment(places, blob_bytes).items())
    timed = ("timeout", "--kill-after=10", str(PUSH_SECONDS), "git", "receive-pack")
    kib = memory_bytes(blob_bytes) >> 10
    return f"""\
#!/bin/sh
# The agent may have repositories of its own that call their origin the same; those are none of the door's.
[ "$1" -ef {shlex.quote(places.remote)} ] || exec git receive-pack "$@"
{_is_in_place(f"{places.var}/door")} >&2 || exit 1
# A machine that allows less than that gives less.
ulimit -v {kib} 2>/dev/null || [ "$(ulimit -H -v)" -lt {kib} ] || exit 1
exec {shlex.join(("/usr/bin/env", "-i", *env, *timed))} "$@"
"""


def _is_in_place(door: str) -> str:
    """For a shell: fails with words without a hook, as git goes on without one."""
    tests = (f"[ -x {shlex.quote(f'{door}/hooks/{name}')} ]" for name in ("pre-receive", bare_tip.HOOK))
    words = "the git door is not in place, so nothing was taken; tell the PM: minifram restart sets it up again"
    return f"{{ {' && '.join(tests)} || {{ echo '{words}'; false; }}; }}"
