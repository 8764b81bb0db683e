"""From the decision to launch to a running process: the clone is made ready, the boot described, the process started.

Nothing here decides which version runs. A failure names the version at fault, if one is: an outage is no version's."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from typing import NamedTuple

from msgspec.structs import replace

from infra.keep import boot_files
from infra.keep.active import Level, Runner
from infra.keep.environments import store
from infra.keep.environments.requirements import NAMES, BadRequirements
from infra.keep.services import children
from infra.keep.services.services import Services
from infra.keep.settings import Settings, runner_acts, runner_policy
from infra.keep.supervision import checkouts
from infra.keep.supervision.decide.events import Launch
from infra.keep.supervision.decide.state import State
from infra.keep.supervision.decide.succession import pin_of
from infra.keep.supervision.preparation import Preparation, Step
from infra.keep.supervision.versions import candidate_of
from infra.keep.supervision.zones import Zones
from infra.shared.boot import Boot
from infra.shared.paths import ROOT
from infra.shared.repository.git import MACHINE_WORDS, GitError
from infra.shared.safe_files import Below

VERSION_SECONDS = 30.0
"""For reading the tree of a branch's commit."""


class NotLaunched(Exception):
    """Says why; `guilty` is the version that cannot be launched, None when it was not the version's fault."""

    def __init__(self, why: str, guilty: Runner | None = None) -> None:
        super().__init__(why)
        self.guilty = guilty


class Candidate(NamedTuple):
    boot: Boot
    runner: Runner
    """As it will be, without its pid."""
    rescued: str
    """Where what main's clone held lies; empty when it held nothing."""
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
        self.clones = checkouts.Cell(zones.places, zones.remote_url, zones.cell)

    def candidate(self, launch: Launch, state: State, wall: float) -> Candidate:
        """Make ready what `launch` names. Raises NotLaunched."""
        branch = launch.branch
        known = {good.commit: good.id for good in state.known_good} | {state.main.commit: state.main.id}
        version = "" if launch.level is Level.SAFE else known.get(launch.commit, "")
        wanted = Runner("", branch, launch.commit, 0, 0.0, launch.level, version, launch.launched_for)
        try:
            self._services.await_ports(self._zones.timing.door_seconds)
            ready = checkouts.ready(self.clones, branch, wall, launch.commit)
            if launch.level is Level.BRANCH:
                git = self.clones.git(self._places.checkout(branch)).within(VERSION_SECONDS)
                version = candidate_of(git, ready.commit).id
        except (OSError, GitError) as error:
            raise NotLaunched(str(error)) from error
        except checkouts.CheckoutError as error:
            outage = launch.level is Level.BRANCH or _OUTAGE.search(str(error))
            raise NotLaunched(str(error), None if outage else wanted) from error
        pin = pin_of(state, version) if launch.level is Level.BRANCH else None
        if pin:
            what_to_do = "change it, or ask the PM to run 'minifram retry'"
            raise NotLaunched(f"this version failed at {pin.at} ({pin.why}); {what_to_do}")
        boot = self._boot(launch, ready.commit)
        runner = replace(wanted, boot_id=boot.id, commit=ready.commit, version=version)
        python, first = self._interpreter(launch, runner)
        is_rehearsed = launch.level is not Level.BRANCH or not self._zones.timing.rehearse
        if first is None and not is_rehearsed and not self._preparation.is_fit(branch, ready.commit):
            checkout, seconds = self._places.checkout(branch), self._zones.timing.rehearsal_seconds
            try:
                first = self._preparation.rehearsing(checkout, branch, ready.commit, python, seconds)
            except OSError as error:
                raise NotLaunched(f"its rehearsal has no directory: {error}") from error
        return Candidate(boot, runner, ready.rescued, python, first)

    def _interpreter(self, launch: Launch, runner: Runner) -> tuple[str, Step | None]:
        """The runner's Python, or how to install it. Raises NotLaunched."""
        if launch.level is Level.SAFE:
            return sys.executable, None
        checkout = self._places.checkout(launch.branch)
        try:
            python = store.select(self._bot, checkout, f"{ROOT}/{NAMES[0]}", self._places.environments)
        except BadRequirements as error:
            raise NotLaunched(f"its requirements are invalid: {error}", runner) from error
        except OSError as error:
            raise NotLaunched(f"its requirements cannot be read: {error}") from error
        if python is None:
            return "", self._preparation.installing(checkout, self._zones.timing.install_seconds)
        return python, None

    def spawn(self, candidate: Candidate) -> tuple[subprocess.Popen[bytes], int]:
        """Its process, and the size of its error log when it began. Raises OSError."""
        checkout = self._places.checkout(candidate.boot.branch)
        error_log, size = boot_files.open_error_log(self._bot, checkout, self._settings.limits.log_bytes)
        try:
            words = children.runner_command(candidate.python, safe=candidate.runner.level is Level.SAFE)
            own = candidate.python == sys.executable
            self._environment = "" if own else os.path.dirname(os.path.dirname(candidate.python))
            return children.spawn(candidate.boot, words, error_log, self._zones.cell, also=self._zones.also), size
        finally:
            os.close(error_log)

    def doubt_environment(self) -> None:
        """A boot with an environment of its own has failed: the agent owns it and may have spoiled it. The next start
        installs it again, from the wheels that are kept."""
        if self._environment:
            store.forget(self._bot, self._environment)

    def _boot(self, launch: Launch, commit: str) -> Boot:
        return Boot(
            id=secrets.token_hex(16),
            branch=launch.branch,
            commit=commit,
            reason=launch.reason,
            remote_url=self._zones.remote_url,
            autonomy=self._settings.autonomy,
            places=self._places,
            limits=self._zones.timing.limits_of(self._settings),
            instead_of=launch.instead_of,
            prompt=f"{ROOT}/SYSTEM.md" if launch.level is Level.SAFE else "",
            policy=runner_policy(self._settings),
            exploration_usd=self._settings.exploration.usd,
            acts=runner_acts(self._settings),
        )


_OUTAGE = re.compile(
    f"{MACHINE_WORDS}|Connection refused|hung up|timed out|ran out of time|Permission denied"
    "|maximum recursion depth|Could not read from remote|unable to connect"
)
"""In git's words: nothing that a version could be to blame for."""
