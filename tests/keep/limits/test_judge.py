"""The judge over whole series of samples: what is told or cut, who is ended, and who is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.limits.judge import Bounds, Finding, Log, Memory, Remedy, Sample, Volume, after_cut, judge

MIB, GIB = 1 << 20, 1 << 30
WINDOW = 1800.0
ROOMY = Volume("/bot", 100 * GIB, 900_000, 1_000_000)
BEGINNING = Sample("b" * 32, cores=2.0, cpu_seconds=100.0, ledger_bytes=7)
Remedies = list[Remedy]


class Series:
    """One agent over time; what is said to be cut is cut."""

    def __init__(self, limits: Bounds | None = None, **first: object) -> None:
        self.limits, self.at, self.last = limits or Bounds(), 1000.0, BEGINNING._replace(**first)  # type: ignore[arg-type]
        self.memory, self.found = judge(Memory(), self.last, self.at, self.limits)

    def look(self, seconds: float = 30.0, cores: float = 0.0, calls: int = 0, **changed: object) -> list[Finding]:
        """`seconds` later, in which the agent used `cores` processors and called the model so often."""
        self.at += seconds
        used, ledger = self.last.cpu_seconds + cores * seconds, self.last.ledger_bytes + calls
        self.last = self.last._replace(cpu_seconds=used, ledger_bytes=ledger)._replace(**changed)  # type: ignore[arg-type]
        self.memory, self.found = judge(self.memory, self.last, self.at, self.limits)
        return self.found

    def looks(self, seconds: float, cores: float = 0.0) -> list[Finding]:
        """Each 30 s for so long; gives all that was found."""
        return [finding for _ in range(int(seconds // 30)) for finding in self.look(cores=cores)]

    def logs(self, *sizes: int, boot_id: str = BEGINNING.boot_id) -> Remedies:
        """What follows from logs of these MiB."""
        logs = tuple(log(size, f"{number}.log") for number, size in enumerate(sizes))
        return remedies(self.look(logs=logs, boot_id=boot_id))


def remedies(found: list[Finding]) -> Remedies:
    return [finding.remedy for finding in found]


def log(mib: int, name: str = "errors.log") -> Log:
    return Log(f"main/minifram/logs/{name}", mib * MIB)


def record(mib: int) -> Log:
    return log(mib, "a record")._replace(is_record=True)


@pytest.mark.fault("F56")
def test_a_runaway_is_told_after_one_window_and_ended_after_two() -> None:
    """All processors and no model call; one that is not ended is named again after each further window."""
    series = Series()
    assert series.looks(WINDOW - 30, cores=2) == []
    (told,) = series.look(cores=2)
    assert (told.rule, told.remedy) == ("cpu", Remedy.TELL)
    assert series.looks(WINDOW - 30, cores=2) == []
    (end,) = series.look(cores=2)
    assert (end.rule, end.remedy) == ("cpu", Remedy.END)
    assert "2.00 of 2 processors for 1800 s" in end.text
    assert remedies(series.looks(WINDOW, cores=2)) == [Remedy.END]


@pytest.mark.fault("F56")
def test_a_long_build_is_no_runaway() -> None:
    """15 minutes on all processors, many times over with model calls between; nor 45 minutes and then rest."""
    series = Series()
    for _ in range(4):
        assert series.looks(900, cores=2) + series.look(cores=0.1, calls=1) == []
    assert remedies(series.looks(2700, cores=2) + series.looks(3600)) == [Remedy.TELL]
    assert remedies(series.looks(2 * WINDOW, cores=2)) == [Remedy.TELL], "a window of rest forgives"


@pytest.mark.parametrize("bounds", [{"bash_seconds": 7200.0}, {"validation_seconds": 7200.0}])
def test_no_command_within_its_own_limit_is_a_runaway(bounds: dict[str, float]) -> None:
    """A PM who lets commands run for hours lets them take the processors for hours."""
    assert Series(Bounds(**bounds)).looks(7170, cores=2) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fraction", "cores", "is_runaway"), [(0.95, 1.8, False), (0.95, 1.95, True), (0.5, 1.1, True), (0.95, 0.2, False)]
)
def test_what_all_processors_are(fraction: float, cores: float, is_runaway: bool) -> None:
    """`cpu_fraction` of those that the agent may use, whatever others take."""
    assert (Remedy.END in remedies(Series(Bounds(cpu_fraction=fraction)).looks(2 * WINDOW, cores))) is is_runaway


def test_another_boot_is_judged_for_itself() -> None:
    """Neither what the one before it took nor what its logs held counts."""
    series = Series()
    series.looks(2 * WINDOW - 30, cores=2)
    assert series.look(cores=2, boot_id="c" * 32, logs=(log(30),)) == []
    assert series.logs(30 + 11, boot_id="c" * 32) == [Remedy.CUT]
    assert series.logs(30 + 22, boot_id="d" * 32) == []


def test_a_log_that_explodes_is_cut_and_then_its_writer_ended() -> None:
    """By rate: 20 MiB a minute are allowed, so 10 between two samples."""
    series = Series()
    assert series.logs(10) == []
    assert series.logs(21) == [Remedy.CUT]
    cut = series.found[0].log
    assert cut == log(21, "0.log")
    series.memory = after_cut(series.memory, cut)
    assert series.logs(11, 1) == [Remedy.END]
    assert "grew by 11534336 bytes in 30 s" in series.found[0].text


def test_a_burst_is_forgiven() -> None:
    """What is kept of a log that was cut is no growth, and one that could not be cut does not grow by that."""
    series = Series()
    assert series.logs(50) == [Remedy.CUT]
    series.memory = after_cut(series.memory, log(50))
    assert series.logs(0, 1) == []
    assert series.logs(50) == [Remedy.CUT]
    assert series.logs(50) == []


@pytest.mark.fault("F57")
def test_many_logs_count_together_and_a_renamed_one_is_the_same() -> None:
    """Neither spreading nor rotating hides it; rotating alone is no growth."""
    series = Series(logs=(log(15),))
    assert series.logs(0, 15) == []
    assert series.logs(3, 15, 3, 3, 3) == [Remedy.CUT]
    assert series.found[0].log == log(15, "1.log")


def test_a_large_log_is_cut_however_slowly_it_grew() -> None:
    """And nobody is ended for it, also when it cannot be cut."""
    series = Series(logs=(log(61), log(60, "other.log")))
    for _ in range(5):
        assert (remedies(series.found), series.found[0].log) == ([Remedy.CUT], log(61))
        series.look()


def test_a_record_is_never_cut() -> None:
    """What a run is resumed from counts with the rest; another log is cut in its place, or the PM is told."""
    series = Series()
    (cut,) = series.look(logs=(record(50), log(1)))
    assert cut.log == log(1)
    series = Series()
    assert remedies(series.look(logs=(record(100),))) == [Remedy.TELL]
    assert remedies(series.look(logs=(record(150),))) == [Remedy.END]
    assert series.look() == [], "its size alone ends nobody"


@pytest.mark.parametrize(
    ("volume", "is_short"),
    [
        (ROOMY, False),
        (ROOMY._replace(free=255 * MIB), True),
        (ROOMY._replace(inodes_free=49_999), True),
        (ROOMY._replace(inodes_free=50_000), False),
        (ROOMY._replace(inodes=0, inodes_free=0), False),
    ],
)
@pytest.mark.fault("F41")
def test_a_short_disk_is_told(volume: Volume, is_short: bool) -> None:
    """In bytes or in files; nobody is ended, however long it stays so."""
    series = Series()
    for _ in range(5):
        found = series.look(volumes=(volume,))
        assert [(each.rule, each.remedy) for each in found] == [("disk", Remedy.TELL)] * is_short


_looks = st.tuples(st.floats(0, 200), st.floats(0, 2), st.integers(0, 1), st.integers(0, 99), st.booleans())


@given(st.lists(_looks, max_size=80))
def test_an_end_always_follows_what_was_told(looks: list[tuple[float, float, int, int, bool]]) -> None:
    """Whatever happens in whatever order: the rule that ends a boot has told or cut something of this boot before."""
    series, warned = Series(Bounds(cpu_seconds=90, bash_seconds=90, validation_seconds=90)), set[str]()
    for seconds, cores, calls, size, is_another in looks:
        warned = set() if is_another else warned
        boot_id = series.last.boot_id + "b" * is_another
        for finding in series.look(seconds, cores, calls, logs=(log(size),), boot_id=boot_id):
            assert finding.remedy is not Remedy.END or finding.rule in warned
            warned.add(finding.rule)
