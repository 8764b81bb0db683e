"""A whole agent in its sealed container, as `minifram up` makes it but with no network, and eyes on it from outside."""

from __future__ import annotations

import contextlib
import functools
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from host.container.words import container_name
from host.home import paths_of
from infra.keep.seal.capabilities import Held, parse_status
from tests.cell.loop.waiting import wait_for
from tests.sealed.support.project import Project

until = functools.partial(wait_for, seconds=120.0)
END = "=== the end of an answer"
INIT = ("init", "--sandbox", "podman", "--model", "scripted")
PROBE = """
import alpha
import errno as _errno, socket as _socket

def _ask() -> str:
    with _socket.socket() as caller:
        caller.settimeout(5)
        try:
            caller.connect(("10.255.255.254", 9))
        except OSError as error:
            return _errno.errorcode.get(error.errno or 0, "?")
    return "connected"

with open("/bot/first.log", "a") as _log:
    _log.write(f"FIRST {_ask()}\\n")
"""
"""Before all else of a runner: it needs a package of its own, and asks the canary, which only the rules reject."""


class Inside(NamedTuple):
    """A process of the container, seen from the host."""

    pid: int
    words: str
    uid: int
    held: Held


class SealedAgent:
    def __init__(self, project: Project, name: str = "") -> None:
        self.project, self.user = project, project.user
        self.name = name or f"s{secrets.token_hex(4)}"
        self.container = container_name(self.name)
        self.home = paths_of(self.name, self.user.environ, self.user.uid)

    def minifram(self, *words: str, check: bool = True, **environ: str) -> Any:
        command = self.project.command("host", *words, "--agent", self.name, **environ)
        return self.user.run(*command, check=check, timeout=120.0)

    def settings(self, text: str) -> None:
        Path(self.home.settings).write_text(f"sandbox: podman\npodman: {{network: none}}\n{text}")

    def podman(self, *words: str, check: bool = True) -> str:
        return self.user.podman(*words, check=check).stdout.strip()

    def state(self) -> dict[str, Any]:
        return dict(json.loads(self.podman("container", "inspect", self.container))[0]["State"])

    def created_by(self) -> list[str]:
        """Behind `podman`, the words that made the container."""
        words = json.loads(self.podman("container", "inspect", self.container))[0]["Config"]["CreateCommand"]
        return list(words[words.index("create") :])

    def exit_code(self) -> int:
        until(lambda: self.state()["Status"] == "exited", "the container ends")
        return int(self.state()["ExitCode"])

    def page(self) -> str:
        """COMMS.md as the PM reads it."""
        return self.user.run("git", "-C", self.home.remote, "show", "main:COMMS.md").stdout

    def read(self, path: str) -> str:
        """A file that may be the cell's; empty when it is not there."""
        return self.podman("unshare", "cat", path, check=False)

    def starts(self) -> list[str]:
        """What came of the canary at the first line of each runner."""
        return self.read(f"{self.home.places.bot}/first.log").split()[1::2]

    def phase(self) -> str:
        return str(json.loads(Path(self.home.state, "watcher.json").read_text())["phase"])

    def serves(self, count: int) -> bool:
        return len(self.starts()) == count and self.phase() == "running"

    def pid(self) -> int:
        """The host's number of its first process."""
        return int(self.state()["Pid"])

    def inside(self) -> list[Inside]:
        """Every process of the container."""
        return [found for pid in _family(self.pid()) for found in _seen(pid)]

    def as_agent(self, command: str) -> str:
        """What a shell of the cell's user says, whatever comes of it."""
        words = ("exec", "--user=1000:1000", self.container, "bash", "-c", f"{{ {command}; }} 2>&1; true")
        return self.podman(*words)

    def answers(self, *commands: str) -> dict[str, str]:
        """What it says to each of these, all asked in one go."""
        asked = "; ".join(f"( {command} ); echo '{END}'" for command in commands)
        told = self.as_agent(asked).split(END)[:-1]
        return dict(zip(commands, map(str.strip, told), strict=True))

    def probe(self, lock: str) -> None:
        """Have main's runner begin with that, and these requirements installed for it."""

        def edit(clone: Path) -> None:
            (clone / "requirements.lock").write_text(lock)
            runner, future = clone / "infra/runner.py", "from __future__ import annotations\n"
            assert future in runner.read_text()
            runner.write_text(runner.read_text().replace(future, future + PROBE, 1))

        self.push(edit, "a package of its own, and the canary is asked first")

    def push(self, edit: Callable[[Path], None], message: str) -> None:
        """Onto main, as the PM does."""
        clone = self.user.directory(f"pm-{self.name}")
        self.user.run("git", "clone", "--quiet", self.home.remote, clone)
        edit(clone)
        git = ("git", "-C", str(clone), "-c", "user.name=PM", "-c", "user.email=pm@example.invalid")
        self.user.run(*git, "add", "--all")
        self.user.run(*git, "commit", "--quiet", f"--message={message}")
        self.user.run(*git, "push", "--quiet", "origin", "HEAD:main")

    def clear(self) -> None:
        self.podman("rm", "--force", "--time=0", "--ignore", self.container)
        places = [self.home.data, self.home.state, str(Path(self.home.settings).parent), self.home.run]
        self.podman("unshare", "rm", "-rf", *places)


@contextlib.contextmanager
def born(project: Project) -> Iterator[SealedAgent]:
    """An agent that is initialised and not started; all of it goes away afterwards."""
    agent = SealedAgent(project)
    try:
        with agent.user.alone("init"):  # which refuses while another of this user's agents is made
            agent.minifram(*INIT)
        assert Path(agent.home.settings).exists()
        agent.settings("model: {provider: scripted}\n")
        yield agent
    finally:
        agent.clear()


def _family(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield from _family(int(child))


def _seen(pid: int) -> Iterator[Inside]:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return
    fields: Mapping[str, str] = dict(line.split(":", 1) for line in status.splitlines())
    yield Inside(pid, words, int(fields["Uid"].split()[0]), parse_status(status))
