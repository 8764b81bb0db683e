"""The attempts to get out of a container, as rows for a table: what was expected, what was seen, and what held.

Each attempt is made three times: in a container that is sealed as `minifram up` seals it; in the same with a filter
whose refusals have a number of their own, which tells the filter's answers from the kernel's; and in a container with
no fences, where the very same code must get through. A row passes when all three say so."""

from __future__ import annotations

import errno
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host.container.words import MIB, NETWORKS, ResourceLimits, Scratch, Sealing, create_words
from infra.shared.places import CONTAINER
from tests.sealed import profile as seccomp
from tests.sealed.inside.attempts import attempts
from tests.sealed.inside.calls import Attempt
from tests.sealed.rootless import Rootless, prepared

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "inside"
MARK = errno.EXFULL  # no call of the kernel fails with it
BOT = Scratch("/bot", 0o1777, 256 * MIB, executable=True)  # in the place of the agent's volume
SHELVES = (Scratch(CONTAINER.run, 0o711, 16 * MIB), Scratch("/var/tmp", 0o1777, 16 * MIB), BOT)

RUN = ("run", "--rm", "--interactive", "--timeout=120")  # it ends, also when whoever waits for it is killed

Rows = dict[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Row:
    """One attempt and what came of it."""

    line: str
    attempt: str
    expected: str
    seen: str
    held_by: str  # the filter, or whatever else: the kernel's rights, a mount, a mask
    control: str  # the answer where nothing holds; a dash where that is everywhere closed to rootless containers
    passed: bool
    limit: str  # why it is not closed, where it is not


@dataclass(frozen=True, slots=True)
class Seen:
    """What the programs in the containers said."""

    agent: Rows
    keep: Rows
    marked: Rows
    open: Rows
    work: dict[str, str]
    fared: str


class Cages:
    """Containers with and without fences, all of one user."""

    def __init__(self, user: Rootless) -> None:
        self.user = user
        shutil.copytree(PROGRAMS, user.scratch / PROGRAMS.name, ignore=shutil.ignore_patterns("__pycache__"))
        user.put("seccomp.json", seccomp.TEXT)
        user.put("hosts", (ROOT / "podman/hosts").read_text())
        user.put("marked.json", json.dumps(seccomp.marked(MARK)))

    def sealed(
        self,
        *command: str,
        profile: str = "seccomp.json",
        words: Iterable[str] = (),
        processes: int = 4096,
        open_files: int = 4096,
        tmp_bytes: int = 64 * MIB,
    ) -> list[str]:
        """Behind `podman`: a container as `up` makes it, of a bare image and with no network; it begins at once.

        The user's own storage of the agent is left out, as what is in it is for others to examine."""
        sealing = Sealing(
            agent="trial",
            name="",
            home="",
            image=self.user.base(),
            version="",
            seccomp=self._profile(profile),
            binds=(),
            volumes=(),
            scratch=(*SHELVES, Scratch("/tmp", 0o1777, tmp_bytes, executable=True)),
            secrets=(),
            limits=ResourceLimits(processes, open_files, None, None, None),
            network=NETWORKS["none"],
            stop_seconds=1,
            log_driver="k8s-file",
            log_bytes=MIB,
            relabels=False,
            command=command,
        )
        told = [word for word in create_words(sealing)[1:] if word != "--name="]
        image = told.index(sealing.image)
        hosts = f"--volume={self.user.scratch / 'hosts'}:/etc/hosts:ro"  # as the project's image has it
        return [*RUN, *told[:image], *self._probe(), hosts, *words, *told[image:]]

    def open(self, *command: str) -> list[str]:
        """A container without fences, as far as podman lets an ordinary user have one."""
        writable = ("--tmpfs=/dev/shm:exec", *(f"--tmpfs={path}:exec" for path in ("/tmp", "/var/tmp", "/run")))
        words = ("--privileged", "--network=none", *self.user.limits(), *writable, *self._probe())
        return [*RUN, *words, self.user.base(), *command]

    def rows(self, words: Sequence[str], timeout: float = 110.0) -> Any:
        """What the program in the container prints, which is JSON."""
        return json.loads(self.user.podman(*words, timeout=timeout).stdout)

    def _profile(self, name: str) -> str:
        return name if name == "unconfined" else str(self.user.scratch / name)

    def _probe(self) -> list[str]:
        return [
            f"--volume={self.user.scratch / PROGRAMS.name}:/probe/{PROGRAMS.name}:ro",
            "--env=MALLOC_ARENA_MAX=2",  # many threads also where addresses are limited (ulimit -v)
            "--env=PYTHONPATH=/probe",
            "--env=PYTHONDONTWRITEBYTECODE=1",
        ]


def look(cages: Cages) -> Seen:
    """Have everything tried: three containers, one after another."""
    python = ("python3.11", "-m")
    sealed = cages.rows(cages.sealed(*python, "inside.keep"))
    marked = cages.rows(cages.sealed(*python, "inside.keep", "attempts", profile="marked.json"))
    unfenced = cages.rows(cages.open(*python, "inside.attempts", "--open"))
    return Seen(
        agent=_by_name(sealed["agent"]),
        keep=_by_name(sealed["keep"]),
        marked=_by_name(marked["agent"]),
        open=_by_name(unfenced),
        work={row["work"]: row["result"] for row in sealed["seal"] + sealed["cell"]},
        fared=sealed["fared"],
    )


def _by_name(rows: list[dict[str, str]]) -> Rows:
    return {(row["id"], row["attempt"]): row["result"] for row in rows}


def judged(seen: Seen) -> list[Row]:
    """One row for each attempt, in the order of the lines."""
    return [_row(attempt, seen) for attempt in sorted(attempts(), key=lambda attempt: attempt.line)]


def _row(attempt: Attempt, seen: Seen) -> Row:
    name = (attempt.line, attempt.what)
    answer, control = seen.agent.get(name, "not tried"), seen.open.get(name, "not tried")
    filtered = answered_by_filter(seen.marked.get(name, ""), answer, control)
    keep = seen.keep.get(name, attempt.blocked[0])
    blocked = answer in attempt.blocked and keep in attempt.blocked
    shown = control in attempt.free if attempt.free else True
    return Row(
        line=attempt.line,
        attempt=attempt.what,
        expected=" ".join(attempt.blocked),
        seen=answer if keep in attempt.blocked else f"{answer}; the keep's own root: {keep}",
        held_by="nothing" if attempt.limit else "filter" if filtered else "rights",
        control=control if attempt.free else "-",
        passed=blocked and shown,
        limit=attempt.limit,
    )


def answered_by_filter(marked: str, answer: str, control: str) -> bool:
    """Only the filter fails with MARK, and only a filter sends SIGSYS; ENOSYS is its, when the kernel has the call."""
    absent = answer == marked == "ENOSYS" != control
    return marked == errno.errorcode[MARK] or answer == "SIGSYS" or absent


def rows(user: Rootless) -> list[Row]:
    """All of it: make the attempts and judge them."""
    return judged(look(Cages(user)))


def table(judged_rows: Sequence[Row]) -> str:
    """The rows for people, a line each."""
    heads = ("line", "attempt", "seen", "held by", "control", "")
    cells = [
        (row.line, row.attempt, row.seen, row.held_by, row.control, "known limit" if row.limit else _verdict(row))
        for row in judged_rows
    ]
    widths = [max(len(line[column]) for line in (heads, *cells)) for column in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (heads, *cells)
    )


def main() -> int:
    """Print the table; the exit code tells whether all rows held."""
    with prepared() as user:
        judged_rows = rows(user)
    print(table(judged_rows))
    return not all(row.passed for row in judged_rows)


def _verdict(row: Row) -> str:
    return "held" if row.passed else "NOT HELD"


def step_seconds(cages: Cages, profile: str) -> float:
    """What one `bash -c true` takes in a sealed container with this profile."""
    return float(cages.user.podman(*cages.sealed("python3.11", "-m", "inside.work", "steps", profile=profile)).stdout)


if __name__ == "__main__":
    sys.exit(main())
