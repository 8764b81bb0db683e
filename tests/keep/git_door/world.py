"""A bare repository with its door, the agent's clone and the PM's, all real and all in one directory."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from structlog import get_logger

from infra.keep.git_door import setup
from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.judge import JudgePush, judge
from infra.keep.git_door.setup import memory_bytes, write_door_files
from infra.keep.settings.schema import LimitSettings, Settings
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from tests.cell.doors import GitDoor
from tests.cell.loop.waiting import wait_for

PAGE = "# COMMS\n\n## Directives\n\n- [ ] be good\n\n## Reports\n\n### first\n\nborn\n"
BLOB_BYTES = 10_000
NO_COMMIT = "0" * 40


class Clone:
    def __init__(self, path: Path, git_config: str) -> None:
        self.path = path
        self.env = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(path),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": git_config,
            "GIT_TERMINAL_PROMPT": "0",
        }

    def git(self, *words: str, stdin: str | None = None, **env: str) -> str:
        """Standard output of a command that must not fail."""
        done = self.run(*words, stdin=stdin, **env)
        assert not done.returncode, done.stdout + done.stderr
        return done.stdout.strip()

    def run(self, *words: str, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *words],
            cwd=self.path,
            env=self.env | env,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
        )

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text)

    def commit(self, files: dict[str, str], message: str = "a change", to: str = "") -> str:
        """Its id; it is pushed, and must be taken, where that is named."""
        self.write(files)
        self.git("add", "--force", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        if to:
            self.push(to)
        return self.head

    def push(self, *refspecs: str) -> None:
        """One that must be taken."""
        self.git("push", "--quiet", "origin", *refspecs)

    def refused(self, *refspecs: str) -> str:
        """What git said to a push that must be refused."""
        done = self.run("push", "origin", *refspecs)
        assert done.returncode, f"the push was taken: {done.stderr}"
        return done.stderr

    def commits(self, changes: Iterable[Mapping[str, str]]) -> list[str]:
        """A commit on HEAD for each of these changes, all by one process; nothing is checked out."""
        parent, lines = self.head, list[bytes]()
        marks = 0
        for marks, files in enumerate(changes, 1):
            header = f"commit refs/made/{marks}\nmark :{marks}\ncommitter {AGENT.name} <{AGENT.email}> 1 +0000\n"
            lines.append(f"{header}data 8\na change\nfrom {parent}\n".encode())
            for name, text in files.items():
                path = b"".join(b"\\%03o" % each for each in name.encode())  # whatever letters it has
                lines.append(b'M 100644 inline "%s"\ndata %d\n%s\n' % (path, len(text.encode()), text.encode()))
            lines.append(b"\n")
        (self.path / ".git/made").write_bytes(b"".join(lines))
        with open(self.path / ".git/made", "rb") as given:
            words = ["git", "fast-import", "--quiet", "--force", f"--export-marks={self.path}/.git/marks"]
            subprocess.run(words, cwd=self.path, env=self.env, stdin=given, check=True, timeout=60)
        made = dict(line.split() for line in (self.path / ".git/marks").read_text().splitlines())
        return [made[f":{number}"] for number in range(1, marks + 1)]

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")


def told_of(said: str, ref: str) -> str:
    """What the door said of one ref of a push."""
    words = " ".join(line.removeprefix("remote:").strip() for line in said.splitlines() if line.startswith("remote:"))
    found = [each.removeprefix(f"{ref}: ") for each in words.split("refused: ")[1:] if each.startswith(f"{ref}: ")]
    assert found, (ref, said)
    return " ".join(found)


def on_branches(tips: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Each commit on a branch of its own, for `World.judges`."""
    return {f"{tip}:refs/heads/{number}": words for number, (tip, words) in enumerate(tips)}


class World:
    """`agent` pushes through the door, `pm` by path. Both clones are at main, which holds COMMS.md and a file.

    `like`: the repository and the clones are copies of that world's, which nothing has been done to."""

    def __init__(self, root: Path, by_daemon: bool = False, like: World | None = None) -> None:
        self.root, self.by_daemon = root, by_daemon
        root.mkdir(parents=True, exist_ok=True)
        self.places = Paths(*(str(root / name) for name in ("bot", "remote.git", "run", "var")))
        self.door: GitDoor | None = None
        self.settings()
        pm_config = root / "pm.gitconfig"
        pm_config.write_text("[user]\n\tname = PM\n\temail = pm@example.invalid\n[init]\n\tdefaultBranch = main\n")
        self.pm = Clone(root / "pm", str(pm_config))
        self.agent = Clone(root / "agent", self.places.cell_git_config)
        if like:
            self._copy(like)
        else:
            self._make()

    def _make(self) -> None:
        self.pm.path.mkdir()
        self.pm.git("init", "--quiet", "--bare", self.places.remote)
        self.pm.git("init", "--quiet")
        self.pm.git("remote", "add", "origin", self.places.remote)
        self.pm.commit({"COMMS.md": PAGE, "src/a.py": "a = 1\n"}, "birth", to="main")
        self.agent.path.mkdir()
        self.agent.git("clone", "--quiet", self.places.remote, ".")

    def _copy(self, other: World) -> None:
        directories = (other.places.remote, str(other.pm.path), str(other.agent.path))
        subprocess.run(["cp", "--archive", *directories, str(self.root)], check=True)
        for clone in (self.pm, self.agent):
            config = clone.path / ".git/config"
            config.write_text(config.read_text().replace(other.places.remote, self.places.remote))

    def settings(self, autonomy: Any = "merge", blob_bytes: int = BLOB_BYTES, **chosen: Any) -> None:
        """The door opens anew with these."""
        self.chosen = Settings(autonomy=autonomy, limits=LimitSettings(blob_bytes=blob_bytes), **chosen)
        write_door_files(self.places, self.chosen, by_daemon=self.by_daemon)
        self.close_door()
        self.door = GitDoor(self.places, settings=self.chosen)

    def judged(self, *refspecs: str) -> str:
        """What the door says of them as one push, in the words that git would hand on; nothing lands. The agent's own
        objects, more than a push would bring, are the quarantine: no process of git's is there, nor what it refuses."""
        sources, refs = zip(*(spec.lstrip("+").rsplit(":", 1) for spec in refspecs), strict=True)
        there = dict(line.split()[::-2] for line in self.bare("for-each-ref").splitlines())
        ids = self.agent.git("rev-parse", *sources).split()
        lines = "".join(f"{there.get(ref, NO_COMMIT)} {id} {ref}\n" for ref, id in zip(refs, ids, strict=True))
        asked = JudgePush(lines.encode(), os.fsencode(self.agent.path / ".git/objects"))
        found = (why for why in judge(asked, self.context()) if "files that none of its commits has" not in why)
        return "".join(f"remote: refused: {why}\n" for why in found)

    def context(self, now: Callable[[], float] = time.time) -> DoorContext:
        return DoorContext(self.places, self.chosen, get_logger(), now)

    def judges(self, wanted: Mapping[str, str]) -> str:
        """Refspecs, and words of each one's refusal, or nothing where it lands. All that is refused is judged as one
        push, and a real one has all that lands. Gives what the door said of the first."""
        said = self.judged(*(spec for spec, words in wanted.items() if words))
        for spec, words in wanted.items():
            assert not words or words in told_of(said, spec.rpartition(":")[2]), (spec, words)
        fine = [spec for spec, words in wanted.items() if not words]
        if fine:
            self.agent.push(*fine)
        return said

    def close_door(self) -> None:
        """Until `settings` opens it again."""
        if self.door:
            self.door.close()
        self.door = None

    def secret(self, value: str) -> None:
        """What the keep holds and no push may carry."""
        os.makedirs(self.places.secrets, exist_ok=True)
        Path(self.places.secrets, "anthropic_api_key").write_text(value)

    def bare(self, *words: str, stdin: str | None = None) -> str:
        """What git says in the repository itself."""
        return self.pm.git("--git-dir", self.places.remote, *words, stdin=stdin)

    def part(self, name: str) -> Path:
        """A file that the door is made of."""
        return Path(self.places.var, "door", name)

    def shown(self, path: str) -> str | None:
        """A file of main's; None when it has none of that name."""
        done = self.pm.run("--git-dir", self.places.remote, "show", f"main:{path}")
        return None if done.returncode else done.stdout

    def ref(self, name: str) -> str | None:
        """Where a ref of the bare repository is."""
        return (
            self.pm.run("--git-dir", self.places.remote, "rev-parse", "--quiet", "--verify", name).stdout.strip()
            or None
        )

    @property
    def main(self) -> str | None:
        return self.ref("refs/heads/main")


class Server:
    """A world whose agent reaches the door by git://."""

    def __init__(self, root: Path, like: World | None = None) -> None:
        self.world = World(root, by_daemon=True, like=like)
        self.port = lasting_port()
        self.start(setup.daemon_command(self.world.places, self.port, memory_bytes(BLOB_BYTES)))
        self.url = setup.url(self.world.places, self.port)
        self.world.agent.git("remote", "set-url", "origin", self.url)

    def start(self, words: list[str]) -> None:
        env = setup.daemon_environment(self.world.places, BLOB_BYTES)
        self.process = subprocess.Popen(words, env=env, cwd="/", stdin=subprocess.DEVNULL, start_new_session=True)
        wait_for(self._is_up, "git daemon")

    def _is_up(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
            return True
        return False

    def connect(self, request: bytes) -> socket.socket:
        """Where the answer to a request comes, as it goes over the wire."""
        wire = socket.create_connection(("127.0.0.1", self.port), 20.0)
        wire.sendall(pkt(request))
        return wire

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.world.close_door()


def lasting_port() -> int:
    """A port of loopback that is free, and that no connection of another test takes while the server is down: the
    kernel gives those from ip_local_port_range(7)."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.SystemRandom().sample(range(10_000, lowest), 100):
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"none of 100 ports from 10,000 to {lowest:,} is free")


def pkt(line: bytes) -> bytes:
    """gitprotocol-common(5): a line with its length before it."""
    return b"%04x" % (len(line) + 4) + line
