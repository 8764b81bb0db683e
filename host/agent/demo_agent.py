"""The agent that the demo plays with, and everything that the demo does to it or reads of it: by plain git, by the
`minifram` command, and from the watcher's own file."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from host.container.podman import HANDED_ON
from host.paths import paths_of
from infra.shared import watcher_file
from infra.shared.paths import Paths
from infra.shared.programs import keep_command, keep_environment
from infra.shared.watcher_file import BootRecord, WatcherFile

AGENT = "demo"
T = TypeVar("T")


class DemoFailed(Exception):
    """A step of the demo was not seen in time; says which and where to look."""


class DemoAgent(NamedTuple):
    """The agent that the demo plays with."""

    directory: Path
    places: Paths
    clone: Path
    """The PM's clone."""
    env: dict[str, str]
    name: str
    sandbox: str
    base: str | None = None
    """The image that the container's is built on; None for what `minifram up` takes."""


def demo_agent(
    directory: Path, sandbox: str, environ: Mapping[str, str], name: str = "", base: str | None = None
) -> DemoAgent:
    """In the process sandbox, all that it leaves lies in this directory. In podman's it is an agent among the PM's own:
    images and volumes are where the PM's other containers have theirs."""
    directory.mkdir(parents=True, exist_ok=True)
    env = keep_environment()
    if sandbox == "process":
        env |= {f"XDG_{kind}_HOME": str(directory / kind.lower()) for kind in ("DATA", "STATE", "CONFIG")}
        env["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="mf-")  # short, because a unix socket's path is
    else:
        env |= {key: environ[key] for key in environ if key.startswith("XDG_") or key in HANDED_ON}
    env |= {"NO_COLOR": "1", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    name = name or (AGENT if sandbox == "process" else f"{AGENT}-{time.strftime('%Y%m%d-%H%M%S')}")
    places = paths_of(name, env, os.getuid()).places
    return DemoAgent(directory, places, directory / "pm", env, name, sandbox, base)


def state_of(agent: DemoAgent) -> WatcherFile:
    return watcher_file.decode(Path(agent.places.watcher_state).read_bytes())


def newest_boot(agent: DemoAgent, branch: str, *outcomes: str) -> BootRecord | None:
    """The newest boot of `branch`, when it came out like that."""
    boots = [boot for boot in state_of(agent).boots if boot.branch == branch]
    return boots[-1] if boots and boots[-1].outcome in outcomes else None


def main_since(agent: DemoAgent, at: str) -> BootRecord | None:
    """Main's boot that serves and was started then or later; `at` is a timestamp."""
    boot = newest_boot(agent, "main", "success")
    return boot if boot and boot.started_at >= at else None


def main_after(agent: DemoAgent, branch: str) -> BootRecord | None:
    """The boot of main that followed the newest one of `branch`, once it has said SUCCESS."""
    boots = state_of(agent).boots
    last = max((n for n, boot in enumerate(boots) if boot.branch == branch), default=len(boots))
    following = [boot for boot in boots[last + 1 :] if boot.branch == "main"]
    return following[0] if following and following[0].outcome in ("success", "left") else None


def is_serving(agent: DemoAgent, commit: str) -> bool:
    state = state_of(agent)
    return state.phase == watcher_file.RUNNING and state.branch == "main" and same_code(agent, state.commit, commit)


def same_code(agent: DemoAgent, one: str, other: str) -> bool:
    """Equal but for COMMS.md, which may have moved on."""
    return not git(agent, "diff", "--name-only", one, other, "--", ".", ":(exclude)COMMS.md", fetch=True)


def page_of(agent: DemoAgent) -> str:
    return run(["git", "--git-dir", agent.places.remote, "show", "main:COMMS.md"], agent)


def wall(stamp: str) -> float:
    """Seconds, of a boot's time. Raises DemoFailed."""
    match = re.fullmatch(r"(.+)\.(\d{3})Z", stamp)
    if match is None:
        raise DemoFailed(f"{stamp!r} is not a time")
    return time.mktime(time.strptime(match[1], "%Y-%m-%dT%H:%M:%S")) + int(match[2]) / 1000


def until(seconds: float, look: Callable[[], T | None], what: str, agent: DemoAgent) -> T:
    """What `look` gives as soon as it gives something. Raises DemoFailed at the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise DemoFailed(f"not seen within {seconds:g} s: {what}; see {agent.places.watcher_log}")
        time.sleep(0.02)


def minifram(agent: DemoAgent, *words: str, check: bool = True) -> str:
    """What the PM's command prints. Raises DemoFailed."""
    return run(keep_command("host", "--agent", agent.name, *words), agent, check=check)


def minifram_told(agent: DemoAgent, tell: Callable[[str], None], *words: str) -> None:
    """A command that may take long: each line of its progress is passed on as it comes. Raises DemoFailed."""
    command = keep_command("host", "--agent", agent.name, *words)
    said: list[str] = []
    with subprocess.Popen(
        command,
        cwd="/",
        env=agent.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None  # noqa: S101 - it is a pipe
        for line in process.stderr:
            said.append(line.rstrip())
            tell(said[-1])
    if process.returncode:
        raise DemoFailed(f"`{' '.join(words)}` ended with {process.returncode}: {' '.join(said[-5:])}")


def git(agent: DemoAgent, *words: str, fetch: bool = False) -> str:
    if fetch:
        run(["git", "fetch", "--quiet", "--prune"], agent, cwd=agent.clone)
    return run(["git", *words], agent, cwd=agent.clone).strip()


def run(command: list[str], agent: DemoAgent, cwd: Path | None = None, check: bool = True) -> str:
    done = subprocess.run(
        command, cwd=cwd or "/", env=agent.env, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if check and done.returncode:
        words = " ".join(os.path.basename(word) for word in command[-4:])
        raise DemoFailed(f"`{words}` ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
