"""Two network namespaces with one link between them and no other way out, made in a user namespace of their own: so the
rules meet exactly what a rootless container gives them, and no packet can leave.

Uid 0 within is who runs the tests, so that files can be read; the users of the cell and the resolver are others than
outside, as they are for a rootless container."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.egress.peer import begun
from tests.egress.wire import Packet

ID_MAP = "0 0 900\n900 100900 64000\n"


class Nets:
    """The cell's end (`near`) and the world's (`far`)."""

    def __init__(self, folder: Path) -> None:
        """`folder` is for all users to read and write."""
        self.folder = folder
        errors = folder / "errors.log"
        # The shell waits until its user namespace has users.
        waiting = ["sh", "-c", 'read _; exec "$@"', "sh"]
        program = [sys.executable, "-m", "tests.egress.far_end"]
        self.far = begun(["unshare", "--user", "--net", "--mount", *waiting, *program], errors)
        try:
            self._name_users(self.far.process)
            enter = ["nsenter", "--user", "--target", str(self.far.process.pid), "--preserve-credentials"]
            inner = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.egress.near_end", str(folder)]
            self.near = begun([*enter, *inner], errors)
            self.near.ask("hello")  # it is in its own namespace only when it answers
            self.far.ask("join", cell_pid=self.near.process.pid)
            self.near.ask("settle")
        except BaseException:
            self.far.process.kill()
            raise

    def _name_users(self, process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 10
        while _user_namespace(process.pid) == _user_namespace(os.getpid()):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no user namespace could be made: {(self.folder / 'errors.log').read_text()}")
            time.sleep(0.005)
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{process.pid}/{kind}").write_text(ID_MAP)
        stdin, _ = self.far.pipes
        stdin.write("\n")
        stdin.flush()

    def try_as(self, who: str, how: str, **words: Any) -> Any:
        return self.near.ask("as_user", name=who, how=how, words=words)

    def arrived(self, *wanted: str) -> list[Packet]:
        """What came out at the far end since the last time, for one of these addresses or for any; for the public ones
        there may be something left from connections of earlier tests."""
        found = [Packet(*one) for one in self.far.ask("take")]
        return [packet for packet in found if not wanted or packet.destination in wanted]

    def counted(self) -> dict[str, int]:
        """Packets by rule."""
        found: dict[str, int] = self.near.ask("counted")
        return found

    def hang_up(self) -> None:
        """End every connection that a test held."""
        for who in ("agent", "keep"):
            self.try_as(who, "release")
        self.far.ask("hang_up")

    def end(self) -> None:
        self.near.end()
        self.far.end()


def _user_namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/user")
    except OSError:
        return ""
