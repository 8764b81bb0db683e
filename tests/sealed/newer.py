"""Debian's newer podman and systemd, as files that one can change the root to: the generator of quadlet units, the
checker of services, and, in namespaces of their own, the whole podman with a storage of its own."""

from __future__ import annotations

import contextlib
import secrets
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.sealed.rootless import Ended, Rootless
from host.container.quadlet import name
from tests.host.test_container_quadlet import sections
from tests.sealed.prepare import PLACE


class Made(NamedTuple):
    """What the generator made of a unit."""

    service: str
    said: str

    def line(self, key: str) -> str:
        (found,) = (value for found, value in sections(self.service)["Service"] if found == key)
        return found


class Newer:
    """Debian's newer podman and systemd, as files that one can change the root to."""

    def __init__(self, user: Rootless) -> None:
        self.user, self.root = user, user.home / PLACE
        assert self.root.is_dir(), f"{self.root} is not there. Run: python -m tests.sealed.prepare (make test does)"

    def generate(self, agent: str, text: str) -> Made:
        """The service that podman's generator makes of a unit; whatever is wrong with that fails."""
        with self._directory() as place:
            self._put(place, f"{name(agent)}.container", text)
            ended = self._run(place, "/usr/libexec/podman/quadlet", "-dryrun", "-user")
        head, _, service = ended[0].partition("\n")
        assert head == f"---{name(agent)}.service---", ended
        return Made(service, ended[1])

    def verify(self, agent: str, service: str) -> str:
        """What systemd has to say against the service."""
        with self._directory() as place:
            self._put(place, f"{name(agent)}.service", service)
            file = f"/run/{place.name}/{name(agent)}.service"
            return self._run(place, "/usr/bin/systemd-analyze", "--user", "--man=no", "verify", file)[1]

    @contextlib.contextmanager
    def _directory(self) -> Iterator[Path]:
        place = self.root / "run" / secrets.token_hex(6)
        place.mkdir()
        shutil.chown(place, self.user.uid, self.user.gid)
        try:
            yield place
        finally:
            shutil.rmtree(place)

    def _put(self, place: Path, file: str, text: str) -> None:
        (place / file).write_text(text)
        (place / file).chmod(0o644)

    def _run(self, place: Path, *words: str) -> tuple[str, str]:
        inside = f"/run/{place.name}"
        environ = [f"{variable}={inside}" for variable in ("QUADLET_UNIT_DIRS", "XDG_RUNTIME_DIR", "HOME")]
        command = self.user.command("unshare", "env", *environ, "chroot", self.root, *words)
        ended = self.user.run(*command, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout, ended.stderr


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

    def __init__(self, newer: Newer) -> None:
        user, self.place = newer.user, newer.user.directory(f"podman5-{secrets.token_hex(4)}")
        self.runtime = newer.root / "run" / self.place.name
        self.runtime.mkdir()
        shutil.chown(self.runtime, user.uid, user.gid)
        options = {"root": self.place / "root", "runroot": self.place / "run", "storage-driver": "overlay"}
        self.command = ["podman", "--runtime=runc", "--cgroup-manager=cgroupfs"]
        # The images of this machine's podman, to be read where they lie: to save and load one takes half a minute.
        images = user.podman("info", "--format={{.Store.GraphRoot}}").stdout.strip()
        options |= {"storage-opt": f"additionalimagestore={images}"}
        self.command += [f"--{option}={value}" for option, value in options.items()]
        environ = [f"ROOT={newer.root}", f"XDG_RUNTIME_DIR=/run/{self.place.name}", "PODMAN_IGNORE_CGROUPSV1_WARNING=1"]
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
    podman = Podman5(Newer(user))
    try:
        yield podman
    finally:
        podman.close()
