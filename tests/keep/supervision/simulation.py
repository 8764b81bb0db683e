"""Years of supervision in a minute: the real `decide` in a played world with a clock of its own. Versions that are bad
in their own ways, outages, hops, rollbacks, stops, and a watcher that is killed at any moment, with its memory as it
lay on the disk then. Everything comes from one seed; a broken rule is told with it.

`python -m tests.keep.supervision.simulation SEED [YEARS]` plays one world and prints what happened in it."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from infra.keep.active import Level, Runner
from infra.keep.supervision import memory
from infra.keep.supervision.decide import events, succession
from infra.keep.supervision.decide.decision import decide
from infra.keep.supervision.decide.events import Event
from infra.keep.supervision.decide.state import Instant, Patience, Phase, State
from infra.keep.supervision.memory import may_be_lost
from infra.keep.watcher_file import Remembered, SignalRequest, Version, WatcherFile

YEAR = 365 * 86400.0
PATIENCE = Patience(boot=60.0, grace=10.0, probation=600.0)
WALL = 1_800_000_000.0
WALL_STEP_SECONDS = 5000


Decide = Callable[[State, Event, Instant], events.Decision]


class Nature(NamedTuple):
    """How a version is. Seconds; a death that never comes is None."""

    serves_after: float | None
    dies_after: float | None

    @property
    def good(self) -> bool:
        return self.serves_after is not None and self.serves_after < PATIENCE.boot and self.dies_after is None


GOOD = Nature(0.1, None)
NATURES = (
    (GOOD, 6),
    (Nature(None, 0.1), 3),  # cannot be imported
    (Nature(None, None), 1),  # hangs
    (Nature(None, 59.0), 1),
    (Nature(0.1, 0.2), 1),
    (Nature(0.1, 3600.0), 1),  # after an hour
    (Nature(0.1, 605.0), 1),  # right after its probation
    (Nature(70.0, None), 1),  # too late
)


LEADS = (events.Launch, events.StartRunner, events.RollBack, events.LookAtMain)
"""What may begin a runner; never two at once."""
OTHER = "f" * 32
OF_NOBODY: tuple[Event, ...] = (
    events.Probed(OTHER),
    events.Died(OTHER, "SIGKILL"),
    events.SealFailed("no port", OTHER),
    events.TimeIsUp(),
    events.SignalRefused("it is empty"),
    events.SignalRefused("there is no clone", may_leave=True),
    events.Observed("a limit", "much was written"),
    events.Probed(OTHER, "no answer"),
    events.MustEnd(OTHER, "too much"),
    events.MindDrifted(""),
    events.OutageOver("the disk was full"),
)
NOT_ASKED: tuple[Event, ...] = (
    events.Preparing("nobody", 10.0),
    events.LaunchReady(Runner(OTHER, "nobody", "", 0, 0.0), "nobody asked"),
    events.LaunchFailed("nobody", "nobody asked"),
)


class Broken(AssertionError):
    """A rule that did not hold."""


def instant_at(now: float) -> Instant:
    """The wall's clock is set wrong, and right again, by a year each time: nothing may be decided by it."""
    wrong = (int(now) // WALL_STEP_SECONDS) % 3 - 1
    return Instant(now, WALL + now + wrong * YEAR)


@dataclass
class Alive:
    runner: Runner
    nature: Nature
    began: float
    served: bool = False
    ends_at: float | None = None
    """It was asked to end, or leaves by itself."""
    killed: bool = False
    """By somebody outside, at `ends_at`."""


@dataclass
class Play:
    """One world."""

    seed: int
    decide: Decide = decide
    count: int = 0
    """Of events."""
    now: float = 0.0
    state: State = field(default_factory=lambda: State(Phase.STARTING, Instant(0.0, WALL), PATIENCE))
    remembered: tuple[State, float] | None = None
    """What lies on the disk: written there, if it were read again."""
    alive: Alive | None = None
    outage_until: float = 0.0
    outage_ended: float = 0.0
    natures: dict[str, Nature] = field(default_factory=dict)
    main: Version = field(default_factory=Version)
    main_since: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    """Of each version, since it was last allowed to be tried."""
    seen: Counter[str] = field(default_factory=Counter)
    asked: dict[str, str] = field(default_factory=dict)
    """Requests by identity that nothing has come of yet."""
    carried: Counter[str] = field(default_factory=Counter)
    """Launches while a request was waiting."""
    told: int = 0
    preparing: tuple[float, Event] | None = None
    """When a preparation ends, and how."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.inbox: deque[Event] = deque()
        self.serial = 0
        self.move_main(GOOD)

    # The world.

    def new_version(self, nature: Nature | None = None) -> Version:
        self.serial += 1
        made = Version(commit=f"{self.serial:040x}", id=f"{self.serial:016x}", body=f"body {self.serial}")
        kinds, weights = zip(*NATURES, strict=True)
        self.natures[made.id] = nature or self.chance.choices(kinds, weights)[0]
        return made

    def move_main(self, nature: Nature | None = None) -> None:
        self.main = self.new_version(nature)
        self.main_since = self.now

    def report_on_main(self) -> None:
        """A commit that changes no version."""
        self.serial += 1
        self.main = replace(self.main, commit=f"{self.serial:040x}")

    @property
    def outage(self) -> bool:
        return self.now < self.outage_until

    def instant(self) -> Instant:
        return instant_at(self.now)

    # The watcher.

    def follow(self, event: Event) -> None:
        """Decide, remember, act: as `infra.watcher` does."""
        self.count += 1
        before = self.state
        self.seen[f"{before.phase.value} {type(event).__name__}"] += 1
        self.state, actions = self.decide(self.state, event, self.instant())
        if self.chance.random() < 0.0005:  # killed before it could remember: the decision was never made
            self.state = before
            self.restart()
            return
        if isinstance(event, events.Asked) or not may_be_lost(self.state, actions, self.kept):
            self.remember(self.state)
        if isinstance(event, events.Asked):
            self.note_request(event.request)
        self.check(before, event, actions)
        for action in actions:
            if self.chance.random() < 0.0003:  # killed with the decision remembered and not acted upon
                self.restart()
                return
            self.act(action)

    @property
    def kept(self) -> Remembered:
        return self.remembered[0] if self.remembered else WatcherFile()

    def remember(self, state: State) -> None:
        self.remembered = (state, self.now)

    def act(self, action: events.Action) -> None:
        match action:
            case events.Sweep():
                self.preparing = None
                self.inbox = deque(each for each in self.inbox if not isinstance(each, LAUNCHES))
            case events.LookAtMain(reason):
                seen: Event = events.MainSeen(self.main, reason, self.withdrawn)
                self.inbox.append(events.LaunchFailed("main", "gone") if self.outage else seen)
            case events.Launch():
                self.launch(action)
            case events.StartRunner(runner):
                self.start(runner)
            case events.End(firmly=True) if self.alive:
                self.alive.ends_at = self.now + self.chance.uniform(0.0, 0.1)
            case events.End() if self.alive:
                if self.state.failed and not self.outage:
                    self.count_failure(self.alive.runner.version)
                patient = self.chance.random() < 0.8
                self.alive.ends_at = self.now + self.chance.uniform(0.0, 5.0) if patient else self.alive.ends_at
            case events.RollBack(target):
                if self.outage or self.chance.random() < 0.1:
                    self.inbox.append(events.RolledBack(target, problem="it cannot be"))
                else:
                    self.move_main(GOOD)
                    self.inbox.append(events.RolledBack(target, self.main.commit))
            case events.Tell():
                self.told += 1
                self.report_on_main()

    def launch(self, action: events.Launch) -> None:
        if self.alive:
            raise Broken("a second runner would be launched beside the first")
        if self.outage and self.chance.random() < 0.7:
            self.inbox.append(events.LaunchFailed(action.branch, "no space left"))
            return
        version = self.offered(action)
        self.serial += 1
        runner = Runner(
            f"{self.serial:032x}",
            action.branch,
            action.commit,
            self.serial,
            self.now,
            action.level,
            version,
            action.launched_for,
        )
        if action.level is Level.GOOD and version in self.withdrawn and version not in self.state.pardoned:
            raise Broken(f"version {version}, which the PM took back, stands in for main")
        pin = succession.pin_of(self.state, version)
        if pin and action.level is Level.BRANCH:
            self.inbox.append(events.LaunchFailed(action.branch, "pinned"))
            return
        if pin:
            raise Broken(f"{action.level.value}: version {version} is pinned ({pin.why}) and led")
        ready = events.LaunchReady(replace(runner, pid=0, started=0.0), action.reason)
        if action.level is Level.BRANCH:
            self.prepare(ready)
        else:
            self.inbox.append(ready)

    def prepare(self, ready: events.LaunchReady) -> None:
        """An environment and a rehearsal: some bad versions are found out by it, and a good one never is."""
        self.inbox.append(events.Preparing(ready.runner.branch, 140.0))
        if self.chance.random() < 0.2:  # one more step
            self.inbox.append(events.Preparing(ready.runner.branch, 140.0))
        ends = self.now + self.chance.expovariate(1 / 20.0)
        runner, nature = ready.runner, self.nature_of(ready.runner.version)
        if self.outage:
            self.preparing = (ends, events.LaunchFailed(runner.branch, "there was no place for it"))
        elif nature.serves_after is None and self.chance.random() < 0.9:
            self.preparing = (ends, events.LaunchFailed(runner.branch, "it does not come up", runner, "words"))
        else:
            self.preparing = (ends, ready)

    def start(self, wanted: Runner) -> None:
        if self.alive:
            raise Broken("a second runner would be started beside the first")
        if self.outage and self.chance.random() < 0.1:
            self.inbox.append(events.LaunchFailed(wanted.branch, "no process"))
            return
        if self.state.request:
            self.carried[self.state.request.identity] += 1
            if self.carried[self.state.request.identity] > MOST_FAILURES:
                raise Broken(f"{self.state.request} is carried out again and again")
        self.serial += 1
        runner = replace(wanted, pid=self.serial, started=self.now)
        self.alive = Alive(runner, self.nature_of(runner.version), self.now)
        self.inbox.append(events.Launched(runner))

    def offered(self, action: events.Launch) -> str:
        """The version that the launch leads."""
        if action.level is Level.BRANCH:
            return action.branch
        if action.level is Level.SAFE:
            return ""
        if action.level is Level.MAIN:
            return self.state.main.id
        return next(good.id for good in self.state.known_good if good.commit == action.commit)

    def nature_of(self, version: str) -> Nature:
        return self.natures.get(version, GOOD)

    def count_failure(self, version: str) -> None:
        """Bad versions fail a known number of times and no more."""
        self.failures[version] += 1
        if version and self.failures[version] > MOST_FAILURES:
            raise Broken(f"bad version {version} ({self.nature_of(version)}) failed {self.failures[version]} times")

    def restart(self) -> None:
        """The watcher is gone, without a word, and another begins with what lay on the disk."""
        file = WatcherFile()
        if self.remembered:
            file = memory.to_file(self.remembered[0], (), instant_at(self.remembered[1]))
        self.inbox = deque()
        self.preparing = None
        found = None
        if self.alive and self.chance.random() < 0.5 and file.boot_id == self.alive.runner.boot_id:
            found = self.alive.runner
        if found is None:
            self.alive = None
        self.now += self.chance.uniform(0.1, 2.0)
        self.state = memory.from_file(file, PATIENCE, self.instant())
        known = {boot.id: boot for boot in file.boots}
        served = bool(found and self.alive and (self.alive.served or known[found.boot_id].outcome == "success"))
        age = self.now - self.alive.began if self.alive else 0.0
        # A signal whose file was not deleted is claimed again.
        for identity, target in list(self.asked.items()):
            name, _, words = target.partition(" ")
            self.inbox.append(events.Asked(SignalRequest(name=name, target=words, identity=identity)))
        self.inbox.append(events.Started(found, served, age, found.branch if found and not file.runner_pid else ""))
        self.inbox.append(events.MainSeen(self.main, withdrawn=self.withdrawn))
        self.outdated_since = None
        self.remember(self.state)

    # What happens by itself.

    def note_request(self, request: SignalRequest) -> None:
        """Claimed and decided upon: from now on the watcher's memory answers for it."""
        known = self.state.request
        pending = known is not None and known.identity == request.identity
        dropped = any(f"{request.name} {request.target} was dropped" in each.text for each in self.state.troubles)
        if not (pending or dropped or self.state.handled == request.identity):
            raise Broken(f"the request {request} was lost")
        self.asked.pop(request.identity, None)

    def ask(self, name: str, target: str, leaves: bool = True) -> None:
        """`leaves`: it is the runner's own word, which then mostly goes."""
        self.serial += 1
        identity = f"1:{self.serial}:1"
        self.asked[identity] = f"{name} {target}"
        self.inbox.append(events.Asked(SignalRequest(name=name, target=target, identity=identity)))
        if leaves and self.alive and self.alive.served and self.chance.random() < 0.9:  # none signals before SUCCESS
            self.alive.ends_at = self.now + self.chance.uniform(0.0, 9.0)

    def next_moment(self) -> float:
        moments = [self.now + self.chance.expovariate(1 / 200.0)]
        if self.state.deadline is not None:
            moments.append(self.state.deadline)
        if self.preparing:
            moments.append(self.preparing[0])
        if self.alive:
            moments.append(self.death() or moments[0])
            if not self.alive.served and self.alive.nature.serves_after is not None:
                moments.append(self.alive.began + self.alive.nature.serves_after)
        return max(self.now, min(moments))

    def death(self) -> float | None:
        assert self.alive
        own = self.alive.began + self.alive.nature.dies_after if self.alive.nature.dies_after is not None else None
        both = [moment for moment in (own, self.alive.ends_at) if moment is not None]
        return min(both) if both else None

    def step(self) -> None:
        if self.inbox:
            if self.chance.random() < 0.01:
                self.interrupt()
            self.follow(self.inbox.popleft())
            return
        if self.state.phase is Phase.STOPPED:
            self.now += self.chance.uniform(1.0, 3600.0)
            self.restart()
            return
        was_out = self.outage
        self.now = self.next_moment()
        if was_out and not self.outage:
            self.outage_ended = self.now
            if self.state.phase is Phase.WAITING:
                self.inbox.append(events.OutageOver("the disk was full"))
        if self.alive:
            self.let_live(self.alive)
        if self.preparing and self.now >= self.preparing[0]:
            self.inbox.append(self.preparing[1])
            self.preparing = None
        if self.inbox:
            return
        if self.state.deadline is not None and self.now >= self.state.deadline:
            deadline = self.state.deadline
            self.follow(events.TimeIsUp())
            if self.state.deadline == deadline and not self.inbox and not self.alive:
                raise Broken("a deadline passed and nothing came of it")
            return
        self.surprise()

    def let_live(self, alive: Alive) -> None:
        death = self.death()
        serves = alive.nature.serves_after
        if not alive.served and serves is not None and self.now >= alive.began + serves and not self.outage:
            alive.served = True
            self.inbox.append(events.Probed(alive.runner.boot_id))
        if death is not None and self.now >= death:
            self.alive = None
            if (alive.ends_at is None or alive.ends_at > death) and not self.outage:
                self.count_failure(alive.runner.version)
            how = self.chance.choice(["exit status 0", "exit status 1", "SIGKILL"])
            outside = alive.killed and alive.ends_at == death
            self.inbox.append(events.Died(alive.runner.boot_id, how, "words", alive.served, self.outage, outside))

    def surprise(self) -> None:
        chance = self.chance.random()
        if chance < 0.02:
            self.move_main()
            self.inbox.append(events.MainSeen(self.main, withdrawn=self.withdrawn))
            makes_way = self.alive and self.alive.served and self.alive.runner.level is not Level.BRANCH
            if makes_way and self.chance.random() < 0.7:
                self.ask("bootstrap", "main")  # the runner sees that main holds other code
        elif chance < 0.10:
            self.report_on_main()
            if self.state.known_good and self.chance.random() < 0.05:
                self.withdrawn = tuple(good.id for good in self.state.known_good if self.chance.random() < 0.5)
            self.inbox.append(events.MainSeen(self.main, withdrawn=self.withdrawn))
        elif chance < 0.16 and (self.alive or self.state.phase is Phase.PREPARING):
            candidate = self.new_version()
            self.ask("bootstrap", self.chance.choice([candidate.id, candidate.id, "main"]))
        elif chance < 0.18:
            self.ask("rollback", "main~1")
        elif chance < 0.192:
            self.outage_until = self.now + self.chance.expovariate(1 / 600.0)
        elif chance < 0.20:
            self.restart()
        elif chance < 0.205:
            self.inbox.append(events.StopAsked())
        elif chance < 0.21:
            self.failures.clear()
            self.inbox.append(events.RetryAsked())
        elif chance < 0.215 and self.alive:
            boot_id = self.alive.runner.boot_id
            odd = self.outage or not self.alive.nature.good
            # The first good answer ends a boot: only one that serves gives it.
            well: list[Event] = [events.Probed(boot_id)] if self.alive.served else []
            self.inbox += [events.Probed(boot_id, "it was slow"), *well]
            self.inbox += [events.Probed(boot_id, "no answer")] * (2 if odd else 1)
        elif chance < 0.2163 and self.alive:
            self.inbox += [events.MindDrifted("boot/identity.md is another"), events.MindDrifted("")]
        elif chance < 0.217 and self.alive and not self.alive.nature.good:
            self.inbox.append(events.MustEnd(self.alive.runner.boot_id, "all processors for an hour"))
        elif chance < 0.22 and self.alive and not self.alive.nature.good:
            self.inbox.append(events.SealFailed("no port", self.alive.runner.boot_id))
        elif chance < 0.2202:
            self.inbox.append(events.SealFailed("the rules are gone"))
        elif chance < 0.60 and self.alive and self.outage:
            self.alive.ends_at = self.now
        elif chance < 0.30 and self.alive and self.has_lived(self.alive.runner.version):
            self.alive.ends_at, self.alive.killed = self.now, True  # three in a row are not rare
        else:
            self.follow(self.stale())

    def has_lived(self, version: str) -> bool:
        return any(good.id == version for good in self.state.known_good)

    def interrupt(self) -> None:
        """Something from outside comes before the answers to what was done are in."""
        if self.chance.random() < (0.5 if self.state.phase is Phase.PREPARING else 0.1):
            self.ask("bootstrap", self.new_version().id, leaves=False)
            self.inbox.rotate(1)
            return
        event = self.chance.choice(self.news()) if self.chance.random() < 0.9 else self.chance.choice(self.orders())
        if isinstance(event, events.RetryAsked):
            self.failures.clear()
        self.inbox.appendleft(event)

    def orders(self) -> list[Event]:
        return [events.StopAsked(), events.RetryAsked(), events.SealFailed("the rules are gone")]

    def news(self) -> list[Event]:
        """Of nobody, too early, too late, or twice."""
        return [events.MainSeen(self.main), *OF_NOBODY]

    def stale(self) -> Event:
        """News, or an answer to what was not asked, which comes when nothing else is under way."""
        not_asked = () if self.state.phase is Phase.PREPARING else NOT_ASKED
        return self.chance.choice([*self.news(), events.MainSeen(self.main, "nobody asked"), *not_asked])

    # What must hold.

    def check(self, before: State, event: Event, actions: list[events.Action]) -> None:
        state = self.state
        leads = [each for each in actions if isinstance(each, LEADS)]
        if len(leads) > 1 or (leads and self.alive):
            raise Broken(f"{event}: {leads} with {self.alive}")
        if state.safe_mode_failures > before.safe_mode_failures or state.pins == () != before.pins:
            self.failures.clear()
        coming = leads or self.inbox or any(isinstance(each, events.Leave) for each in actions)
        if not (state.runner or coming or state.deadline is not None or state.phase is Phase.STOPPED):
            raise Broken(f"{event}: nothing is due any more in {state.phase}")
        if state.runner and self.alive is None and not self.inbox:
            raise Broken(f"{event}: {state.runner} is said to be alive")
        if state.phase is Phase.STOPPED and (state.runner or self.alive):
            raise Broken("the watcher left a runner behind")
        for pin in state.pins if state.pins != before.pins else ():
            by_chance = self.nature_of(pin.version).good and "no watcher was running" not in pin.why
            if by_chance and pin not in before.pins:
                raise Broken(f"{event}: the good version {pin.version} was pinned: {pin.why}")
        self.check_service()

    def check_service(self) -> None:
        """Whatever main is, somebody serves soon after the last outage; and a good main is not passed over, nor by
        somebody who ignores it."""
        known = replace(self.state, main=self.main)
        if self.alive is None or not succession.is_outdated(known, self.alive.runner):
            self.outdated_since = None
        elif self.outdated_since is None:
            self.outdated_since = self.now
        elif self.now - self.outdated_since > PATIENCE.make_way + PATIENCE.boot + UNHURRIED:
            raise Broken(f"{self.alive.runner} does not make way for {self.main}")
        calm = self.now - max(self.main_since, self.outage_ended, self.quiet_since) > SOON
        if not calm or self.outage or self.state.phase is not Phase.RUNNING or not self.state.runner:
            return
        level = self.state.runner.level
        if (
            level in (Level.GOOD, Level.SAFE)
            and self.nature_of(self.state.main.id).good
            and self.state.main == self.main
        ):
            raise Broken(f"{level.value} leads although main is good")

    quiet_since: float = 0.0
    outdated_since: float | None = None
    withdrawn: tuple[str, ...] = ()
    """What the PM took back."""


LAUNCHES = (events.Preparing, events.LaunchReady, events.LaunchFailed)
ANSWERS = (events.Started, events.Launched, events.RolledBack)
"""Come in the phase that waits for them, and in no other."""


def possible() -> set[tuple[str, str]]:
    """Phases and events that can meet; nothing happens to a watcher that has left."""
    return {
        (phase.value, kind.__name__)
        for phase in Phase
        for kind in Event.__args__
        if phase is not Phase.STOPPED and (phase is Phase.STARTING or kind not in ANSWERS)
    }


SOON = 1800.0
UNHURRIED = 60.0
"""For one that must be ended more than once."""
MOST_FAILURES = 6
"""Of a bad version before it is pinned: its tries, and those that a killed watcher could not note."""


def play(seed: int, years: float, decide: Decide = decide) -> Play:
    """Raises Broken with the seed."""
    world = Play(seed, decide)
    world.inbox.append(events.Started())
    try:
        while world.now < years * YEAR:
            world.step()
    except Exception as error:
        raise Broken(f"seed {seed}, event {world.count}, at {world.now:.1f} s: {error}") from error
    return world


def main(argv: list[str]) -> int:
    seed, years = int(argv[0]), float(argv[1]) if len(argv) > 1 else 1.0
    began = time.perf_counter()
    world = play(seed, years)
    took = time.perf_counter() - began
    print(f"seed {seed}: {years:g} years, {world.count:,} events in {took:.1f} s ({world.count / took:,.0f} a second)")
    for name, count in sorted(world.seen.items()):
        print(f"  {count:>9,}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
