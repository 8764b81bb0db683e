"""What an upgrade does next, from the journal and the containers that are there: pure, and cut short anywhere."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.agent import switch_files
from host.container.switching import (
    Facts,
    Held,
    Journal,
    SwitchStep,
    next_step,
    puts_memory_back,
    to_bring,
    was_forgotten,
)
from host.container.words import Image, names
from host.errors import CommandError
from host.paths import problem_with_agent_name
from tests.host.desk import Desk

OLD, NEW = Image("localhost/minifram:old", "old"), Image("localhost/minifram:new", "new")
JOURNAL = Journal("0" * 16, "2026-01-31T10:42:12.345Z", OLD, NEW)
REMEMBERED = "what the old watcher knew"


class Cut(Exception):
    """The command was killed here."""


@dataclass
class World:
    """Containers, memory and journal, as a switch finds and leaves them."""

    serves: dict[str, bool]
    can_be_made: bool
    named: Held | None
    dies: bool = False
    """What does not serve ends at once."""
    aside: Held | None = None
    memory: str = REMEMBERED
    journal: Journal | None = JOURNAL
    started_with: list[tuple[str, str]] = field(default_factory=list)
    """Version and memory of each start."""

    def reboot(self) -> None:
        self.named = self.named and self.named._replace(runs=False)
        self.aside = self.aside and self.aside._replace(runs=False)

    def run(self, cuts: list[int]) -> None:
        """The command from its start; it is killed when the first number of `cuts` is counted down."""
        verdict: str | None = None
        begun = False
        left = cuts.pop(0) if cuts else -1

        def tick() -> None:
            nonlocal left
            assert (self.named is not None and self.named.runs) + (self.aside is not None and self.aside.runs) <= 1
            if left == 0:
                raise Cut
            left -= 1

        for _ in range(60):
            assert self.journal is not None
            tick()
            step = next_step(self.journal, Facts(self.named, self.aside, verdict, begun))
            match step:
                case SwitchStep.STOP_OLD:
                    self.named = Held("old", False)
                case SwitchStep.COPY_MEMORY:
                    self.journal = self.journal._replace(memory=self.memory)
                case SwitchStep.SET_ASIDE:
                    assert self.named == Held("old", False)
                    self.named, self.aside = None, self.named
                case SwitchStep.STOP_ASIDE:
                    assert self.aside
                    self.aside = self.aside._replace(runs=False)
                case SwitchStep.BEGIN_NEW:
                    self.named, verdict, begun = None, None, False
                    tick()
                    if self.can_be_made:
                        self.named = Held("new", False)
                        tick()
                        self._start()
                        begun = True
                    else:
                        verdict = "it cannot be made"
                case SwitchStep.AWAIT_NEW | SwitchStep.AWAIT_OLD:
                    assert self.named
                    assert self.named.runs or begun
                    verdict = "" if self.serves[self.named.version] else "it does not work"
                case SwitchStep.FINISH:
                    self.aside = None
                    tick()
                    self.journal = None
                    return
                case SwitchStep.TURN_BACK:
                    self.journal, verdict, begun = self.journal._replace(why="no reason"), None, False
                case SwitchStep.REMOVE_NEW:
                    begun = False
                    assert self.named
                    self.named = self.named._replace(runs=False)
                    tick()
                    self.named = None
                case SwitchStep.PUT_BACK:
                    self._put_memory_back()
                    tick()
                    self.named, self.aside = self.aside, None
                case SwitchStep.MAKE_OLD:
                    self._put_memory_back()
                    tick()
                    self.named = Held("old", False)
                    verdict = None
                    tick()
                    self._start()
                    begun = True
                case SwitchStep.START_OLD:
                    self._start()
                    begun = True
                case SwitchStep.CLOSE:
                    self.aside = None
                    tick()
                    self.journal = None
                    return
        raise AssertionError("it does not come to an end")

    def _start(self) -> None:
        assert self.named
        self.named = self.named._replace(runs=self.serves[self.named.version] or not self.dies)
        self.started_with.append((self.named.version, self.memory))
        if self.named.version == "new":
            self.memory = "what the new watcher knows"

    def _put_memory_back(self) -> None:
        assert self.journal
        assert not (self.named and self.named.runs)
        if self.journal.memory is not None:
            self.memory = self.journal.memory


@given(
    serves=st.fixed_dictionaries({"old": st.booleans(), "new": st.booleans()}),
    can_be_made=st.booleans(),
    cuts=st.lists(st.integers(0, 20), max_size=6),
    reboots=st.lists(st.booleans(), max_size=6),
    pruned=st.booleans(),
    dies=st.booleans(),
)
def test_a_switch_ends_with_one_container_however_often_it_is_cut_short(
    serves: dict[str, bool], can_be_made: bool, cuts: list[int], reboots: list[bool], pruned: bool, dies: bool
) -> None:
    """Never two run; the new one stays when it serves, else the old one with its memory; also without what was set
    aside, and over reboots."""
    world = World(serves, can_be_made, Held("old", True), dies=dies)
    while world.journal:
        try:
            world.run(cuts)
        except Cut:
            if reboots and reboots.pop():
                world.reboot()
            if pruned and world.aside and not world.aside.runs:  # `podman system prune`
                world.aside = None

    good = can_be_made and serves["new"]
    assert world.named == (Held("new", True) if good else Held("old", serves["old"] or not dies))
    assert world.aside is None
    assert all(memory == REMEMBERED for version, memory in world.started_with if version == "old")
    if good:
        assert world.memory != REMEMBERED


@pytest.mark.parametrize("dies", [False, True])
def test_a_switch_in_peace_goes_straight(dies: bool) -> None:
    """Each step once, for either end; one that ends at once is not started again and again."""

    def steps(serves_new: bool) -> list[tuple[str, str]]:
        world = World({"old": True, "new": serves_new}, True, Held("old", True), dies=dies)
        world.run([])
        return world.started_with

    assert steps(True) == [("new", REMEMBERED)]
    assert steps(False) == [("new", REMEMBERED), ("old", REMEMBERED)]


@pytest.mark.parametrize(
    ("named", "aside", "memory", "expected"),
    [
        (Held("old", True), None, None, False),  # nothing was touched
        (Held("old", True), None, REMEMBERED, False),  # it came back, and goes on remembering
        (None, Held("old", False), REMEMBERED, True),
        (Held("new", True), Held("old", False), REMEMBERED, True),
        (Held("new", True), None, REMEMBERED, False),  # it served, and was all but noted
        (Held("new", True), Held("old", False), None, False),
    ],
)
def test_who_gives_a_switch_up_puts_back_what_only_the_new_watcher_remembers(
    named: Held | None, aside: Held | None, memory: str | None, expected: bool
) -> None:
    """A watcher that was not found to serve yet has its memory undone, and no other."""
    assert puts_memory_back(JOURNAL._replace(memory=memory), Facts(named, aside)) is expected


def test_a_kept_memory_is_brought_where_today_s_cannot_be_read() -> None:
    """An older watcher reads its own schema alone; where it is the same, the newest memory is the best."""
    one, two = '{"schema": "minifram.watcher/1"}', '{"schema": "minifram.watcher/2"}'

    assert to_bring(one, two) == one
    assert to_bring(one, one + " ") is None
    assert to_bring("", two) is None
    assert to_bring(one, "no JSON") == one
    assert to_bring("[]", "{") is None


def test_what_a_watcher_forgets_is_said() -> None:
    """Pins, untold reports and the number of good versions; of a memory that makes no sense, nothing."""
    pin = {"branch": "main", "commit": "c" * 40, "why": "it hangs"}
    memory = {"known_good": [{}, {}], "pins": [pin], "untold": [{"title": "watcher: x failed", "text": "because"}]}

    words = was_forgotten(json.dumps(memory))

    assert words.splitlines()[0].startswith("- 2 earlier versions")
    assert f"main@{'c' * 12}: it hangs" in words
    assert "watcher: x failed: because" in words
    assert was_forgotten('{"known_good": [], "pins": "none", "untold": [7]}') == "- never reported: None: None"
    assert was_forgotten("{") == was_forgotten("[]") == was_forgotten("") == ""


def test_journal_and_note_read_back_as_they_were_written(desk: Desk) -> None:
    """With any bytes that a memory holds; what cannot be read is refused with the way out."""
    home = desk.home()
    assert switch_files.read_journal(home) is None
    assert switch_files.read_done(home) is None
    os.makedirs(home.state, exist_ok=True)
    with open(home.places.watcher_state, "wb") as file:
        file.write(b'{"odd": "\xff\xfe"}\n')
    memory = switch_files.read_memory(home)
    journal = JOURNAL._replace(memory=memory, bring="", why="because", level="main")
    done = switch_files.Done(JOURNAL.at, OLD, NEW, memory)

    switch_files.write_journal(home, journal)
    switch_files.write_done(home, done)

    assert (switch_files.read_journal(home), switch_files.read_done(home)) == (journal, done)
    os.unlink(home.places.watcher_state)
    switch_files.write_memory(home, memory)
    with open(home.places.watcher_state, "rb") as file:
        assert file.read() == b'{"odd": "\xff\xfe"}\n'
    switch_files.write_memory(home, "")
    assert switch_files.read_memory(home) == ""
    for content in ("{", "[]", '{"schema": "minifram.switch/9"}', '{"schema": "minifram.switch/1", "old": 1}'):
        with open(home.switch_file, "w") as text:
            text.write(content)
        with pytest.raises(CommandError, match="minifram down"):
            switch_files.read_journal(home)
    assert "upgrade" in desk.run("status").out
    switch_files.remove_journal(home)
    assert "upgrade" not in desk.run("status").out


def test_what_is_set_aside_has_no_agent_s_name() -> None:
    """Another agent could have any name with a dash."""
    aside = names("blue").aside

    assert aside.startswith("minifram-blue")
    assert problem_with_agent_name(aside.removeprefix("minifram-"))
    assert not problem_with_agent_name("blue-before")
