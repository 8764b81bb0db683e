"""Where things are planted: a PM's desk with an agent that has something to decide on, a clone of the PM's, a program
that leaves a mark, and a place outside that nobody may touch."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pty
import shutil
import signal
import subprocess
import time
import zlib
from pathlib import Path
from typing import NamedTuple

from tests.host.desk import Desk

SECONDS = 20.0
"""For plain git, where it is not meant to wait."""
ENDLESS_SECONDS = 1.0
"""After which what has not ended is taken to be without end."""


class Said(NamedTuple):
    """How plain git ended."""

    status: int | None
    """None when it waited, and was ended."""
    text: str


class Site:
    """One repository to plant things in."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.remote = Path(desk.home().remote)
        self.clone = desk.root / "clone"
        self.outside = desk.root / "outside"
        self.mark = desk.root / "ran"
        self.program = desk.root / "tools/program"
        self.fifos: list[Path] = []

    def prepare(self) -> None:
        """Three versions on main, a branch to merge, one to reject, and a clone that is one version behind."""
        self.program.parent.mkdir()
        first = self.desk.branch("main", {"src/a.py": "one\n"}, "one")
        self.desk.branch("main", {"src/a.py": "two\n"}, "two", start=first)
        improve = self.desk.branch("improve", {"src/b.py": "b\n"}, "improve it")
        self.desk.validated("improve", improve)
        self.desk.branch("other", {"src/c.py": "c\n"}, "something else")
        (self.desk.root / "pm/.gitconfig").write_text("[user]\n\tname = PM\n\temail = pm@example.invalid\n")
        self.plain("clone", "--quiet", str(self.remote), str(self.clone), cwd=self.desk.root)
        self.desk.report("done: something", "Nothing special.")
        self.program.write_text(f"#!/bin/sh\ntouch '{self.mark}'\nexit 1\n")
        self.program.chmod(0o755)
        self.outside.mkdir()
        (self.outside / "mine").write_text("the PM's own\n")

    def like(self, other: Site) -> None:
        """Take over what was prepared elsewhere, with the paths of this place."""
        self.desk.like(other.desk)
        for path in (self.program, self.clone / ".git/config"):
            path.write_text(path.read_text().replace(str(other.desk.root), str(self.desk.root)))

    # What to plant.

    def path(self, name: str) -> Path:
        """A place in the repository, with what is missing above it made."""
        path = self.remote / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self.path(name)
        path.write_text(text)
        path.chmod(mode)

    def fifo(self, name: str) -> None:
        path = self.path(name)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        self.fifos.append(path)

    def lead_outside(self, name: str) -> Path:
        """Move what is there outside, and put a link in its place."""
        path, target = self.path(name), self.outside / name.replace("/", "-")
        if path.exists():
            path.rename(target)
        else:
            target.mkdir()
        path.symlink_to(target)
        return target

    def set(self, *pairs: tuple[str, str]) -> None:
        """Put keys into the repository's configuration; PROGRAM stands for the program."""
        for key, value in pairs:
            words = (word.replace("PROGRAM", str(self.program)) for word in (key, value))
            subprocess.run(["git", "config", "--file", str(self.remote / "config"), "--add", *words], check=True)

    def loose(self, kind: str, body: bytes) -> str:
        """An object, written as git would."""
        raw = b"%s %d\0%s" % (kind.encode(), len(body), body)
        name = hashlib.sha1(raw, usedforsecurity=False).hexdigest()
        self.path(f"objects/{name[:2]}/{name[2:]}").write_bytes(zlib.compress(raw, 1))
        return name

    def main(self) -> str:
        return (self.remote / "refs/heads/main").read_text().strip()

    # What plain git does.

    def git(self, words: str, stdin: str = "") -> Said:
        """`git words` in the repository, by a PM who thinks of nothing."""
        return self.plain(*words.split(), cwd=self.remote, stdin=stdin)

    def plain(self, *words: str, cwd: Path, stdin: str = "", terminal: bool = False, seconds: float = SECONDS) -> Said:
        """Plain git with the PM's own surroundings. It is ended when it waits at one of the FIFOs, or for too long."""
        output = self.program.parent / "output"
        master, terminal_end = pty.openpty()
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["git", *words],
                cwd=cwd,
                env=self.desk.environ | {"TERM": "xterm", "GIT_TERMINAL_PROMPT": "0"},
                stdin=subprocess.PIPE,
                stdout=terminal_end if terminal else file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        os.close(terminal_end)
        try:
            assert process.stdin
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(stdin.encode())
                process.stdin.close()
            waits, deadline = False, time.monotonic() + seconds
            while process.poll() is None and not waits:
                waits = time.monotonic() > deadline or self._somebody_waits()
                time.sleep(0.001)
        finally:
            with contextlib.suppress(ProcessLookupError):  # the other end of a push or a fetch, too
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(master)
        return Said(None if waits else process.returncode, output.read_text(errors="replace"))

    def _somebody_waits(self) -> bool:
        """Whether somebody has opened one of the FIFOs to read: then it can be opened to write without waiting."""
        for path in self.fifos:
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                continue
            return True
        return False
