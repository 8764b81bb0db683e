"""Debian's newer podman: files that one can change the root to, run in namespaces and with a storage of their own."""

from __future__ import annotations

import secrets
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sealed.prepare import PLACE
from tests.sealed.support.rootless import Ended, Rootless

CHANGE_ROOT = """
set -e
for each in dev proc sys; do mount --rbind /$each "$ROOT/$each"; done
mkdir -p "$ROOT$HOME"
mount --bind "$HOME" "$ROOT$HOME"
cd "$ROOT"
pivot_root . oldroot
umount -l /oldroot
set +e
export PATH=/usr/bin:/usr/sbin
while read -r line; do
    eval "$line" </dev/null
    printf '\\nended with %s\\n' $?
done
"""
"""For a shell in namespaces of its own; what it has to run afterwards comes line by line."""
ENDED = "ended with "


class Podman5:
    """The newer podman, for as long as the namespaces last that it sees: those that it knows containers from."""

    def __init__(self, user: Rootless) -> None:
        root = user.home / PLACE
        assert root.is_dir(), f"{root} is not there. Run: python -m tests.sealed.prepare (make test does)"
        self.place = user.directory(f"podman5-{secrets.token_hex(4)}")
        self.runtime = root / "run" / self.place.name
        self.runtime.mkdir()
        shutil.chown(self.runtime, user.uid, user.gid)
        options = {"root": self.place / "root", "runroot": self.place / "run", "storage-driver": "overlay"}
        self.command = ["podman", "--runtime=runc", "--cgroup-manager=cgroupfs"]
        # The images of this machine's podman, to be read where they lie: to save and load one takes half a minute.
        images = user.podman("info", "--format={{.Store.GraphRoot}}").stdout.strip()
        options |= {"storage-opt": f"additionalimagestore={images}"}
        self.command += [f"--{option}={value}" for option, value in options.items()]
        environ = [f"ROOT={root}", f"XDG_RUNTIME_DIR=/run/{self.place.name}", "PODMAN_IGNORE_CGROUPSV1_WARNING=1"]
        begin = f'mount --bind "$ROOT" "$ROOT"; {CHANGE_ROOT}'
        words = ("unshare", "env", *environ, "unshare", "--mount", "bash", "-c", begin)
        self.user, self.shell = user, user.popen(*user.command(*words))

    def __call__(self, line: str, check: bool = True) -> Ended:
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        self.shell.stdin.write(f"{line} 2>&1\n")
        self.shell.stdin.flush()
        said: list[str] = []
        for answer in self.shell.stdout:
            if answer.startswith(ENDED):
                status = int(answer.removeprefix(ENDED))
                assert not (check and status), (line, said)
                return Ended([line], status, "".join(said).strip(), "")
            said.append(answer)
        raise AssertionError(f"the shell has ended: {said} {self.shell.stderr.read() if self.shell.stderr else ''}")

    def podman(self, *words: str | Path, check: bool = True) -> Ended:
        return self(shlex.join([*self.command, *map(str, words)]), check)

    def close(self) -> None:
        for kind in (["pod"], []):
            self.podman(*kind, "rm", "--all", "--force", "--time=0", check=False)
        assert self.shell.stdin is not None
        self.shell.stdin.close()
        self.shell.wait(30)
        for stream in (self.shell.stdout, self.shell.stderr):
            assert stream is not None
            stream.close()
        self.user.podman("unshare", "rm", "-rf", self.place, self.runtime)


@pytest.fixture(scope="session")
def podman5(user: Rootless) -> Iterator[Podman5]:
    """One for all tests: an image is taken over once."""
    podman = Podman5(user)
    try:
        yield podman
    finally:
        podman.close()
