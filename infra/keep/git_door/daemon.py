"""How the agent reaches the git door from a container: `git daemon` on loopback, which serves one repository to
clone, fetch and push, and nothing else.

The door's settings come by its environment. Git reads that after the repository's own configuration, so whatever is
written there, every push meets the door's hook."""

from __future__ import annotations

import os
import resource
import shlex
import shutil

from infra.keep.git_door.door_files import LEAST_MEMORY_BYTES, PUSH_SECONDS, door_settings
from infra.shared.control import KNOWN_GOOD, REFS
from infra.shared.paths import Paths
from infra.shared.repository.git import Git
from infra.shared.repository.git_environment import SAFE_SETTINGS, safe_environment

PORT = 9418
MAX_CONNECTIONS = 16
SILENT_SECONDS = 300
"""A clone or fetch that is silent for so long is ended."""
GREETING_SECONDS = 10
"""A client that connects has so long to say what it wants."""


def url(places: Paths, port: int = PORT) -> str:
    """What the agent's clones call origin."""
    return f"git://127.0.0.1{'' if port == PORT else f':{port}'}/{os.path.basename(places.remote)}"


def command(places: Paths, port: int = PORT, memory: int = LEAST_MEMORY_BYTES) -> list[str]:
    """Serves until SIGTERM; what it was about then is ended by its client's going. Raises GitError.

    `memory`: bytes, for each process of a push; less where the machine allows less. The limits are the daemon's own and
    so each connection's: set from beside, they might hit another process that has the pid by then.

    Started as itself and not by `git daemon`, which would stay in between and not hand on a SIGKILL."""
    programs = Git("/")("--exec-path")
    memory, seconds = at_most(memory, resource.RLIMIT_AS), at_most(PUSH_SECONDS, resource.RLIMIT_CPU)
    return [
        *(shutil.which("prlimit") or "prlimit", f"--as={memory}", f"--cpu={seconds}", "--"),
        f"{programs}/git-daemon",
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
        f"--init-timeout={GREETING_SECONDS}",
        f"--timeout={SILENT_SECONDS}",
        places.remote,
    ]


def at_most(wanted: int, resource_limit: int) -> int:
    """As much of it as this process may allow its children (setrlimit(2))."""
    hard = resource.getrlimit(resource_limit)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def environment(places: Paths, blob_bytes: int) -> dict[str, str]:
    """The whole environment of `command`: nothing of the keep's, and settings that win over the repository's own.

    The only git on its PATH is the door's own, which speaks no protocol v2."""
    settings = (*SAFE_SETTINGS, *door_settings(f"{places.var}/door", blob_bytes), *_SERVING)
    env = {name: value for name, value in safe_environment().items() if not name.startswith("GIT_CONFIG_KEY_")}
    env |= {"PATH": f"{places.var}/door/bin", "GIT_ALLOW_PROTOCOL": "none", "GIT_CONFIG_COUNT": str(len(settings))}
    for index, (key, value) in enumerate(settings):
        env |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return env


_SERVING = (
    # For reading, after `transfer.hideRefs`: all else below refs/minifram stays hidden, and nothing there is written.
    ("uploadpack.hideRefs", f"!{REFS}"),
    ("uploadpack.hideRefs", f"!{KNOWN_GOOD}"),  # main's clone may be brought to one of these
    # Only what a ref that is shown leads to is given out, and only whole. These bind protocols v0 and v1: a v2 client
    # may want any object by its id (gitprotocol-v2(5)), so the door's git (door_files.git_without_v2) speaks none.
    ("uploadpack.allowTipSHA1InWant", "false"),
    ("uploadpack.allowReachableSHA1InWant", "false"),
    ("uploadpack.allowAnySHA1InWant", "false"),
    ("uploadpack.allowFilter", "false"),
    ("uploadpack.advertiseBundleURIs", "false"),
    ("pack.threads", "2"),
    ("pack.windowMemory", "64m"),
    ("pack.deltaCacheSize", "64m"),
)
