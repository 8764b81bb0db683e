"""What the seal costs those who work in it: the seccomp profile on a step of the agent, profile and egress rules on a
transfer over loopback.

Two containers stand side by side, made by the same words as the agent's own and the same in all but the profile; the
rules are loaded into both and taken away again in each round. The steps are those of the figure `step`."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

from bench import transfers
from bench.sealed.cages import Cages
from bench.sealed.project import Project
from bench.sealed.scene import Asked, answering, image_of, sealed_project
from bench.stamps import progress
from bench.tables import TIMES_HEAD, Figure, Table, distance, times_row
from infra.keep.egress.rules import Exits, rules_text

ROUNDS = 20
STEPS = 5
"""In each round."""
TRANSFERS = 3
TRANSFER_BYTES = 100_000_000
PROFILES = {"seccomp.json": "2", "unconfined": "0"}
"""And what the kernel says of a process under each (proc_pid_status(5))."""
LIVES_SECONDS = 300
STEP, BASH = "one step: loop, toolbox, bash `true`", 'subprocess.run(["bash", "-c", "true"])'
SHOWN = {"seccomp.json": "with the profile", "unconfined": "without"}


def run(directory: Path, rounds: int | None) -> Figure:
    """Raises Unprepared."""
    wanted = rounds or ROUNDS
    steps: dict[tuple[str, str], list[float]] = {(what, p): [] for what in (BASH, STEP) for p in reversed(PROFILES)}
    moved: dict[tuple[str, bool], list[float]] = {(p, ruled): [] for p in reversed(PROFILES) for ruled in (False, True)}
    with contextlib.ExitStack() as cleanup:
        project = cleanup.enter_context(sealed_project())
        made = Cages(project.user)
        cages = [_Cage(project, made, profile, cleanup) for profile in PROFILES]
        for number in range(wanted):
            progress("seal", f"round {number + 1} of {wanted}")
            in_order = cages if number % 2 else cages[::-1]
            for what in (BASH, STEP):
                for cage in in_order:
                    steps[what, cage.profile] += cage.steps(what)
            for ruled in (True, False) if number % 2 else (False, True):
                for cage in in_order:
                    cage.rule(ruled)
                    moved[cage.profile, ruled] += cage.transfers()
    return _figure(steps, moved)


class _Cage:
    """A container that lies idle, with programs of the cell's user in it that work when they are asked."""

    def __init__(self, project: Project, cages: Cages, profile: str, cleanup: contextlib.ExitStack) -> None:
        self.profile = profile
        self._user = project.user
        self._name = cleanup.enter_context(_container(project, cages, profile))
        found = self._user.podman(
            "exec", "--user=1000:1000", self._name, "grep", "^Seccomp:", "/proc/self/status"
        ).stdout
        if found.split()[1] != PROFILES[profile]:
            raise RuntimeError(f"under {profile} the kernel says {found.strip()!r}; expected {PROFILES[profile]}")
        module = ("python", "-s", "-P", "-m")
        self._steppers = {
            BASH: self._program(cleanup, *module, "bench.steps_bare", "bash"),
            STEP: self._program(cleanup, *module, "bench.steps_ours", "loop"),
        }
        self._mover = self._program(cleanup, "python", "-c", Path(transfers.__file__).read_text())
        self._rules = rules_text(Exits(990, 970, ("10.0.2.3",)))
        for what in self._steppers:  # what is imported and compiled at the first use
            self.steps(what)
        self.transfers()

    def _program(self, cleanup: contextlib.ExitStack, *words: str) -> Asked:
        asked = answering(self._user, self._name, *words)
        cleanup.callback(asked.close)
        return asked

    def steps(self, what: str) -> list[float]:
        found: list[float] = self._steppers[what].ask(str(STEPS))
        return found

    def transfers(self) -> list[float]:
        return [float(self._mover.ask(str(TRANSFER_BYTES))) for _ in range(TRANSFERS)]

    def rule(self, ruled: bool) -> None:
        """Load the agent's egress rules, or take all rules away."""
        text = self._rules if ruled else "flush ruleset\n"
        self._user.podman("exec", "--interactive", self._name, "nft", "-f", "-", stdin=text)
        stand = bool(self._user.podman("exec", self._name, "nft", "list", "tables").stdout.strip())
        if stand is not ruled:
            raise RuntimeError(f"the rules {'do not stand after' if ruled else 'still stand though'} they were told to")


@contextlib.contextmanager
def _container(project: Project, cages: Cages, profile: str) -> Iterator[str]:
    """Made as `up` makes it, but for the profile, and with this project's bench to be read in it."""
    user, image = project.user, image_of(project)
    name = f"minifram-bench-{secrets.token_hex(4)}"
    more = (
        *("--detach", f"--name={name}", f"--timeout={LIVES_SECONDS}", "--entrypoint=sleep"),
        f"--volume={project.root}:/project:ro",
    )
    words = cages.sealed(str(LIVES_SECONDS), profile=profile, words=more)
    try:
        user.podman(*(image if word == user.base() else word for word in words))
        yield name
    finally:
        user.podman("rm", "--force", "--time=0", "--ignore", name)


def _figure(steps: dict[tuple[str, str], list[float]], moved: dict[tuple[str, bool], list[float]]) -> Figure:
    tables = tuple(
        Table(
            f"{what}, in two containers that differ in the seccomp profile ({STEPS} steps a round)",
            (*TIMES_HEAD[:-2], "steps", "ratio"),
            tuple(times_row(SHOWN[p], steps[what, p], steps[what, "unconfined"]) for p in reversed(PROFILES)),
        )
        for what in (BASH, STEP)
    )
    neither = moved["unconfined", False]
    rules = {False: "no rules", True: "the egress rules"}
    transfer = Table(
        f"{TRANSFER_BYTES / 1e6:.0f} MB over loopback in the same containers, rules loaded and flushed in each round",
        (*TIMES_HEAD[:-2], "transfers", "ratio"),
        tuple(times_row(f"{SHOWN[p]}, {rules[ruled]}", values, neither) for (p, ruled), values in moved.items()),
    )
    verdicts = (
        distance("bash `true` with the profile", steps[BASH, "seccomp.json"], "one without", steps[BASH, "unconfined"]),
        distance("a step with the profile", steps[STEP, "seccomp.json"], "one without", steps[STEP, "unconfined"]),
        distance("100 MB with profile and rules", moved["seccomp.json", True], "one with neither", neither),
    )
    return Figure((*tables, transfer), verdicts)
