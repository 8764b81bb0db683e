"""Years of supervision in a minute: the real `decide` in a played world with a clock of its own. Versions that are bad
in their own ways, outages, hops, rollbacks, stops, and a watcher that is killed at any moment, with its file as it lay
on the disk then. Everything comes from one seed; a broken rule is told with it."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from infra.keep.supervision.decide import events, succession
from infra.keep.supervision.decide.decision import decide
from infra.keep.supervision.decide.events import Event
from infra.keep.supervision.memory import resumed
from infra.keep.watcher_file import Instant, Level, Patience, Phase, Request, Runner, State, Version

YEAR = 365 * 86400.0
PATIENCE = Patience()
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
LEADS = (events.Launch, events.Start, events.RollBack)
"""What may begin a runner; never two at once."""
OTHER = "f" * 32
OF_NOBODY: tuple[Event, ...] = (
    events.Served(OTHER),
    events.Died(OTHER, "SIGKILL"),
    events.TimeIsUp(),
    events.Observed("a limit", "much was written"),
    events.MustEnd(OTHER, "too much"),
    events.MindDrifted(""),
)
LAUNCHES = (events.Ready, events.NotLaunched, events.RolledBack)
ANSWERS = (events.Started, events.Ready, events.Launched, events.NotLaunched, events.RolledBack)
"""Come in the phase that waits for them, and in no other; but a watcher may begin with whatever phase was written."""
SOON = 1800.0
UNHURRIED = 60.0
"""For one that must be ended more than once."""
MOST_FAILURES = 6
"""Of a bad version before it is pinned: its tries, and those that a killed watcher could not note."""
CUT_SHORT = "ended with its watcher"


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

    def death(self) -> float | None:
        own = None if self.nature.dies_after is None else self.began + self.nature.dies_after
        return min((moment for moment in (own, self.ends_at) if moment is not None), default=None)


@dataclass
class Play:
    """One world."""

    seed: int
    decide: Decide = decide
    count: int = 0
    """Of events."""
    now: float = 0.0
    state: State = field(default_factory=State)
    """It lies on the disk as well: what was not written down was not decided."""
    alive: Alive | None = None
    outage_until: float = 0.0
    natures: dict[str, Nature] = field(default_factory=dict)
    main: Version = field(default_factory=Version)
    goods: tuple[Version, ...] = ()
    """As the repository has them."""
    taken_back: set[str] = field(default_factory=set)
    main_since: float = 0.0
    outdated_since: float | None = None
    failures: Counter[str] = field(default_factory=Counter)
    """Of each version, since it was last allowed to be tried."""
    seen: Counter[str] = field(default_factory=Counter)
    asked: dict[str, Request] = field(default_factory=dict)
    """Requests by identity that nothing has come of yet."""
    carried: Counter[str] = field(default_factory=Counter)
    """Attempts to carry out a request."""
    told: int = 0
    retry_wanted: bool = False
    """By the PM, who sees a good version pinned for boots that were cut short."""
    preparing: tuple[float, Event] | None = None
    """When a preparation ends, and how."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.inbox: deque[Event] = deque()
        self.serial = 0
        self.move_main(GOOD)
        self.restart()

    # The world.

    def number(self) -> int:
        self.serial += 1
        return self.serial

    def new_version(self, nature: Nature | None = None) -> Version:
        made = Version(f"{self.number():040x}", f"version-{self.serial}")
        kinds, weights = zip(*NATURES, strict=True)
        self.natures[made.id] = nature or self.chance.choices(kinds, weights)[0]
        return made

    def move_main(self, nature: Nature | None = None) -> None:
        self.main, self.main_since = self.new_version(nature), self.now

    def report_on_main(self) -> None:
        """A commit that changes no version."""
        self.main = replace(self.main, commit=f"{self.number():040x}")

    @property
    def outage(self) -> bool:
        return self.now < self.outage_until

    def nature_of(self, version: str) -> Nature:
        return self.natures.get(version, GOOD)

    def main_seen(self) -> Event:
        return events.MainSeen(self.main, self.goods)

    # The watcher.

    def follow(self, event: Event) -> None:
        """Decide, remember, act: as `infra.watcher` does."""
        self.count += 1
        before, now = self.state, instant_at(self.now)
        self.seen[f"{before.phase.value} {type(event).__name__}"] += 1
        after, actions = self.decide(before, event, now)
        if self.chance.random() < 0.0005:  # killed before it could remember: the decision was never made
            self.restart()
            return
        self.state = after
        if isinstance(event, events.RetryAsked):
            self.retry_wanted = False
        if isinstance(event, events.Asked):
            self.note_request(event.request)
        if isinstance(event, events.Ready) and before.request and actions:
            self.carried[before.request.identity] += 1
            if before.request.identity and self.carried[before.request.identity] > 1:
                raise Broken(f"{before.request} is carried out again")
        self.check(before, event, actions)
        for good in after.goods:
            if good not in self.goods and good not in before.goods:
                self.taken_back.discard(good.id)
        if not isinstance(event, events.MainSeen) and after.goods != before.goods:
            self.goods = tuple(good for good in after.goods if good in self.goods or good not in before.goods)
        for action in actions:
            if self.chance.random() < 0.0003:  # killed with the decision remembered and not acted upon
                self.restart()
                return
            self.act(action)

    def act(self, action: events.Action) -> None:
        match action:
            case events.Launch():
                self.drop_launches()
                self.launch(action)
            case events.Start(runner):
                self.start(runner)
            case events.End(firmly=True) if self.alive:
                self.alive.ends_at = self.now + self.chance.uniform(0.0, 0.1)
            case events.End() if self.alive:
                if self.state.failed and not self.outage:
                    self.count_failure(self.alive.runner.version)
                patient = self.chance.random() < 0.8
                self.alive.ends_at = self.now + self.chance.uniform(0.0, 5.0) if patient else self.alive.ends_at
            case events.RollBack(target):
                self.drop_launches()
                if self.outage or self.chance.random() < 0.1:
                    self.inbox.append(events.RolledBack(target, problem="it cannot be"))
                else:
                    self.move_main(GOOD)
                    self.inbox += [self.main_seen(), events.RolledBack(target, self.main.commit)]
            case events.Leave():
                self.inbox.clear()
            case events.Tell():
                self.told += 1
                self.report_on_main()

    def drop_launches(self) -> None:
        self.preparing = None
        self.inbox = deque(each for each in self.inbox if not isinstance(each, LAUNCHES))

    def launch(self, action: events.Launch) -> None:
        if self.alive:
            raise Broken("a second runner would be launched beside the first")
        if self.outage and self.chance.random() < 0.7:
            self.inbox.append(events.NotLaunched(action.branch, "no space left"))
            return
        version = action.branch if action.level is Level.BRANCH else action.version.id
        if action.level is Level.GOOD and version in self.taken_back:
            raise Broken(f"version {version}, which the PM took back, stands in for main")
        pin = self.state.pin_of(version)
        if pin and action.level is Level.BRANCH:
            self.inbox.append(events.NotLaunched(action.branch, "pinned"))
            return
        if pin:
            raise Broken(f"{action.level.value}: version {version} is pinned ({pin.why}) and launched")
        commit = action.version.commit or f"{self.number():040x}"
        runner = Runner(
            boot_id=f"{self.number():032x}",
            branch=action.branch,
            commit=commit,
            level=action.level,
            version=version,
            made_for=action.made_for,
        )
        ready = events.Ready(runner, action.reason)
        if action.level is not Level.BRANCH:
            self.inbox.append(ready)
            return
        # An environment and a rehearsal: some bad versions are found out by it, and a good one never is.
        answer: Event = ready
        if self.outage:
            answer = events.NotLaunched(runner.branch, "there was no place for it")
        elif self.nature_of(version).serves_after is None and self.chance.random() < 0.9:
            answer = events.NotLaunched(runner.branch, "it does not come up", runner, "words")
        self.preparing = self.now + self.chance.expovariate(1 / 20.0), answer

    def start(self, wanted: Runner) -> None:
        if self.alive:
            raise Broken("a second runner would be started beside the first")
        if self.outage and self.chance.random() < 0.1:
            self.inbox.append(events.NotLaunched(wanted.branch, "no process"))
            return
        self.alive = Alive(wanted, self.nature_of(wanted.version), self.now)
        self.inbox.append(events.Launched(wanted.boot_id, self.number()))

    def count_failure(self, version: str) -> None:
        """Bad versions fail a known number of times and no more."""
        self.failures[version] += 1
        if version and self.failures[version] > MOST_FAILURES:
            raise Broken(f"bad version {version} ({self.nature_of(version)}) failed {self.failures[version]} times")

    def restart(self) -> None:
        """The watcher is gone, without a word, and the runner with it; another begins with what lay on the disk."""
        self.alive, self.preparing, self.outdated_since = None, None, None
        self.now += self.chance.uniform(0.1, 2.0)
        self.state = resumed(self.state, PATIENCE)
        # A signal whose file was not deleted is claimed again.
        self.inbox = deque([self.main_seen(), *map(events.Asked, self.asked.values()), events.Started()])
        self.inbox += [events.RetryAsked()] if self.retry_wanted else []

    # What happens by itself.

    def note_request(self, request: Request) -> None:
        """Claimed and decided upon: from now on the watcher's memory answers for it."""
        known = self.state.request
        pending = known is not None and known.identity == request.identity
        dropped = any(f"{request.name} {request.target} was dropped" in each.text for each in self.state.troubles)
        if not (pending or dropped or self.state.handled == request.identity):
            raise Broken(f"the request {request} was lost")
        self.asked.pop(request.identity, None)

    def ask(self, name: str, target: str, leaves: bool = True) -> None:
        """`leaves`: it is the runner's own word, which then mostly goes."""
        request = Request(name=name, target=target, identity=f"1:{self.number()}:1")
        self.asked[request.identity] = request
        self.inbox.append(events.Asked(request))
        if leaves and self.alive and self.alive.served and self.chance.random() < 0.9:  # none signals before SUCCESS
            self.alive.ends_at = self.now + self.chance.uniform(0.0, 9.0)

    def next_moment(self) -> float:
        moments = [self.now + self.chance.expovariate(1 / 200.0)]
        moments += [self.state.deadline] if self.state.deadline is not None else []
        moments += [self.preparing[0]] if self.preparing else []
        if self.alive:
            moments.append(self.alive.death() or moments[0])
            if not self.alive.served and self.alive.nature.serves_after is not None:
                moments.append(self.alive.began + self.alive.nature.serves_after)
        return max(self.now, min(moments))

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
        self.now = self.next_moment()
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
        death, serves = alive.death(), alive.nature.serves_after
        if not alive.served and serves is not None and self.now >= alive.began + serves and not self.outage:
            alive.served = True
            self.inbox.append(events.Served(alive.runner.boot_id))
        if death is not None and self.now >= death:
            self.alive = None
            if (alive.ends_at is None or alive.ends_at > death) and not self.outage:
                self.count_failure(alive.runner.version)
            how = self.chance.choice(["exit status 0", "exit status 1", "SIGKILL"])
            outage, outside = "the disk was full" if self.outage else "", alive.killed and alive.ends_at == death
            self.inbox.append(events.Died(alive.runner.boot_id, how, "words", alive.served, outage, outside))

    def surprise(self) -> None:
        chance = self.chance.random()
        if chance < 0.02:
            self.move_main()
            self.inbox.append(self.main_seen())
            makes_way = self.alive and self.alive.served and self.alive.runner.level is not Level.BRANCH
            if makes_way and self.chance.random() < 0.7:
                self.ask("bootstrap", "main")  # the runner sees that main holds other code
        elif chance < 0.10:
            self.report_on_main()
            if self.goods and self.chance.random() < 0.05:
                gone = {good.id for good in self.goods if self.chance.random() < 0.5}
                self.taken_back |= gone
                self.goods = tuple(good for good in self.goods if good.id not in gone)
            self.inbox.append(self.main_seen())
        elif chance < 0.16 and (self.alive or self.preparing):
            candidate = self.new_version()
            self.ask("bootstrap", self.chance.choice([candidate.id, candidate.id, "main"]))
        elif chance < 0.18:
            self.ask("rollback", "main~1")
        elif chance < 0.192:
            self.outage_until = self.now + self.chance.expovariate(1 / 600.0)
        elif chance < 0.20:
            self.restart()
        elif chance < 0.21:
            self.order()
        elif chance < 0.2113 and self.alive:
            self.inbox += [events.MindDrifted("boot/identity.md is another"), events.MindDrifted("")]
        elif chance < 0.212 and self.alive and not self.alive.nature.good:
            self.inbox.append(events.MustEnd(self.alive.runner.boot_id, "all processors for an hour"))
        elif chance < 0.60 and self.alive and self.outage:
            self.alive.ends_at = self.now
        elif chance < 0.30 and self.alive and any(good.id == self.alive.runner.version for good in self.state.goods):
            self.alive.ends_at, self.alive.killed = self.now, True  # three in a row are not rare
        else:
            self.follow(self.chance.choice([self.main_seen(), *OF_NOBODY]))

    def order(self) -> None:
        """By the PM."""
        if self.chance.random() < 0.5:
            self.inbox.appendleft(events.StopAsked())
            return
        self.failures.clear()
        self.inbox.appendleft(events.RetryAsked())

    def interrupt(self) -> None:
        """Something from outside comes before the answers to what was done are in."""
        chance = self.chance.random()
        if chance < 0.1:
            self.ask("bootstrap", self.new_version().id, leaves=False)
            self.inbox.rotate(1)
        elif chance < 0.2:
            self.order()
        else:
            self.inbox.appendleft(self.chance.choice([self.main_seen(), *OF_NOBODY]))

    # What must hold.

    def check(self, before: State, event: Event, actions: list[events.Action]) -> None:
        state = self.state
        leads = [each for each in actions if isinstance(each, LEADS)]
        if len(leads) > 1 or (leads and self.alive):
            raise Broken(f"{event}: {leads} with {self.alive}")
        if state.pins == () != before.pins:
            self.failures.clear()
        coming = leads or self.inbox or self.preparing or any(isinstance(each, events.Leave) for each in actions)
        if not (state.runner or coming or state.deadline is not None or state.phase is Phase.STOPPED):
            raise Broken(f"{event}: nothing is due any more in {state.phase}")
        timed = state.phase in (Phase.BOOTING, Phase.ENDING, Phase.WAITING)
        if timed and state.deadline is None and not self.inbox:
            raise Broken(f"{event}: nothing is due any more in {state.phase}")
        if state.active.pid and self.alive is None and not self.inbox:
            raise Broken(f"{event}: {state.runner} is said to be alive")
        if state.phase is Phase.STOPPED and (state.runner or self.alive):
            raise Broken("the watcher left a runner behind")
        for pin in state.pins:
            if pin not in before.pins and self.nature_of(pin.version).good:
                if CUT_SHORT not in pin.why:
                    raise Broken(f"{event}: the good version {pin.version} was pinned: {pin.why}")
                self.retry_wanted = True
                self.inbox.append(events.RetryAsked())
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
        calm = self.now - max(self.main_since, self.outage_until) > SOON
        if not calm or self.state.phase is not Phase.RUNNING or self.state.main != self.main or self.inbox:
            return
        level = self.state.active.level
        if level in (Level.GOOD, Level.SAFE) and self.nature_of(self.main.id).good:
            raise Broken(f"{level.value} runs although main is good")


def possible() -> set[tuple[str, str]]:
    """Phases and events that can meet; nothing happens to a watcher that has left."""
    begins = {(phase.value, "Started") for phase in (Phase.BOOTING, Phase.RUNNING, Phase.ENDING)}
    return begins | {
        (phase.value, kind.__name__)
        for phase in Phase
        for kind in Event.__args__
        if phase is not Phase.STOPPED and (phase is Phase.STARTING or kind not in ANSWERS)
    }


def play(seed: int, years: float, decide: Decide = decide) -> Play:
    """Raises Broken with the seed."""
    world = Play(seed, decide)
    try:
        while world.now < years * YEAR:
            world.step()
    except Exception as error:
        raise Broken(f"seed {seed}, event {world.count}, at {world.now:.1f} s: {error}") from error
    return world
