"""From the decision to launch to a running process: its code is copied, the clone made ready, the process started.

Nothing here decides which version runs. A failure names the version at fault, if one is: an outage is no version's."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from typing import NamedTuple

from msgspec.structs import replace

from infra.keep import boot_files, code
from infra.keep.environments import choose
from infra.keep.git_door.tips import Unreadable, read_tip
from infra.keep.services import children
from infra.keep.services.doors import Services
from infra.keep.services.hearts import Heartbeat
from infra.keep.settings.schema import Settings, runner_acts
from infra.keep.supervision import clones
from infra.keep.supervision.decide.events import Launch
from infra.keep.supervision.preparation import Preparation, Step
from infra.keep.supervision.zones import Zones
from infra.keep.verdicts import trees
from infra.keep.watcher_file import Level, Runner, State
from infra.shared.boot import Boot
from infra.shared.paths import ROOT
from infra.shared.repository.git import Git, GitError
from infra.shared.safe_files import Below, NotPlain

GIT_SECONDS = 30.0
"""For reading the tree of a commit, and copying it."""


class CannotLaunch(Exception):
    """Says why; `guilty` is the version that cannot be launched, None when it was not the version's fault."""

    def __init__(self, why: str, guilty: Runner | None = None) -> None:
        super().__init__(why)
        self.guilty = guilty


class Candidate(NamedTuple):
    launch: Launch
    boot: Boot
    runner: Runner
    """As it will be, without its pid."""
    python: str
    """The interpreter that it runs with."""
    first: Step | None = None
    """What has to be done before it can be launched."""


class Launcher:
    """Launches of one agent."""

    def __init__(self, settings: Settings, zones: Zones, services: Services, preparation: Preparation) -> None:
        self._settings = settings
        self._zones = zones
        self._places = zones.places
        self._bot = Below(zones.places.bot, zones.cell)
        self._services = services
        self._preparation = preparation
        self._environment = ""
        """Of the runner that was started last, if it has one of its own."""
        self._copies: dict[str, str] = {}
        """Of this watcher's: the version -> where its code is."""
        self.clones = clones.Cell(zones.places, zones.remote_url, zones.cell)

    def candidate(self, launch: Launch, state: State) -> Candidate:
        """Make ready what `launch` names. Raises CannotLaunch."""
        branch, shared = launch.branch, Git(self._places.remote).within(GIT_SECONDS)
        commit, version = launch.version.commit, launch.version.id
        wanted = Runner(branch=branch, commit=commit, level=launch.level, version=version, made_for=launch.made_for)
        if launch.level is Level.MAIN and not commit:
            raise CannotLaunch(f"{self._places.remote} has no branch main; push one")
        try:
            self._services.await_ports(self._zones.timing.door_seconds)
            if launch.level is Level.BRANCH:
                wanted = self._of_branch(shared, wanted)
            copy = ROOT if launch.level is Level.SAFE else self._copy(shared, wanted, state)
        except code.NoCode as error:
            raise CannotLaunch(str(error), wanted) from error
        except GitError as error:  # what it is made of is lost, unless it is the machine
            raise CannotLaunch(str(error), None if error.is_machines else wanted) from error
        except (OSError, clones.CloneError) as error:
            raise CannotLaunch(str(error)) from error
        pin = state.pin_of(wanted.version) if launch.level is Level.BRANCH else None
        if pin:
            what_to_do = "change it, or ask the PM to run 'minifram retry'"
            raise CannotLaunch(f"this version failed at {pin.at} ({pin.why}); {what_to_do}")
        boot = self._boot(launch, wanted.commit, copy, state)
        runner = replace(wanted, boot_id=boot.id)
        python, first = self._interpreter(launch, runner, copy)
        is_rehearsed = launch.level is not Level.BRANCH or not self._zones.timing.rehearse
        if first is None and not is_rehearsed and not self._preparation.is_fit(branch, runner.commit):
            try:
                pack, seconds = trees.pack(shared, runner.commit), self._zones.timing.rehearsal_seconds
                first = self._preparation.rehearsing(runner.commit, pack, python, seconds)
            except GitError as error:
                raise CannotLaunch(str(error), None if error.is_machines else runner) from error
        return Candidate(launch, boot, runner, python, first)

    def _of_branch(self, shared: Git, wanted: Runner) -> Runner:
        """With the commit that the shared repository has of it. Raises CloneError, GitError, OSError."""
        try:
            problem = clones.problem_with_clone(self.clones, wanted.branch)
            commit = read_tip(self._places.remote, wanted.branch)
        except Unreadable as error:
            raise clones.CloneError(str(error)) from error
        if problem or not commit:
            raise clones.CloneError(problem or f"origin has no branch {wanted.branch}; push it, then signal again")
        return replace(wanted, commit=commit, version=code.candidate_of(shared, commit).id)

    def _copy(self, shared: Git, wanted: Runner, state: State) -> str:
        """Where the code of this version lies. Nobody runs now, so all other copies may go. Raises NoCode, GitError,
        OSError."""
        folder, version = self._zones.code or f"{self._places.run}/code", wanted.version or wanted.commit
        if not os.path.isdir(self._copies.get(version, "")):
            kept = {version, state.main.id, *(good.id for good in state.goods[:1])}
            self._copies = {each: made for each, made in self._copies.items() if each in kept}
            code.remove_others(folder, self._copies.values())
            try:
                self._copies[version] = code.export(shared, wanted.commit, folder)
            except OSError:  # the others have filled it
                code.remove_others(folder, ())
                self._copies = {version: code.export(shared, wanted.commit, folder)}
        return self._copies[version]

    def clone_ready(self, candidate: Candidate, wall: float) -> str:
        """Make main's clone ready; gives where the old one lies if it got a new one. Raises CloneError, OSError."""
        launch = candidate.launch
        return "" if launch.level is Level.BRANCH else clones.ready_main(self.clones, launch.fresh, wall)

    def _interpreter(self, launch: Launch, runner: Runner, copy: str) -> tuple[str, Step | None]:
        """The runner's Python, or how to install it. Raises CannotLaunch."""
        if launch.level is Level.SAFE:
            return sys.executable, None
        try:
            python = choose.interpreter(Below(copy), copy, self._bot, self._places.environments)
        except NotPlain as error:
            raise CannotLaunch(str(error), runner) from error
        except OSError as error:
            raise CannotLaunch(f"its requirements cannot be read: {error}") from error
        if python is None:
            others = self._copies.values()
            return "", self._preparation.installing(copy, self._zones.timing.install_seconds, others)
        return python, None

    def spawn(self, candidate: Candidate, heart: Heartbeat) -> tuple[subprocess.Popen[bytes], int]:
        """Its process, and the size of its error log when it began. Raises OSError."""
        checkout = self._places.checkout(candidate.boot.branch)
        error_log, size = boot_files.open_error_log(self._bot, checkout, self._settings.limits.log_bytes)
        try:
            words = children.runner_command(candidate.boot.code, candidate.python, candidate.boot)
            own = candidate.python == sys.executable
            self._environment = "" if own else os.path.dirname(os.path.dirname(candidate.python))
            also, cell = dict(self._zones.also) | heart.environment, self._zones.cell
            return children.spawn(candidate.boot, words, error_log, cell, also=also, pass_fds=heart.descriptors), size
        finally:
            os.close(error_log)

    def doubt_environment(self) -> None:
        """A boot with an environment of its own has failed: the agent owns it and may have spoiled it. The next start
        installs it again."""
        if self._environment:
            choose.forget(self._bot, self._environment)

    def _boot(self, launch: Launch, commit: str, copy: str, state: State) -> Boot:
        return Boot(
            id=secrets.token_hex(16),
            branch=launch.branch,
            commit=commit,
            reason=launch.reason,
            remote_url=self._zones.remote_url,
            autonomy=self._settings.autonomy,
            places=self._places,
            limits=self._zones.timing.limits_of(self._settings),
            instead_of=state.main.commit if launch.level in (Level.GOOD, Level.SAFE) else "",
            code=copy,
            is_safe_mode=launch.level is Level.SAFE,
            policy=self._settings.policy,
            exploration_usd=self._settings.exploration.usd,
            acts=runner_acts(self._settings),
        )
