from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infra.shared.mind import health
from infra.shared.mind.health import (
    FAIL,
    NOTE,
    OK,
    WARN,
    CoherenceFacts,
    HealthCheck,
    LoggingFacts,
    LoopFacts,
    SandboxFacts,
    SkillFacts,
)
from tests.shared.rows import each_row

SEALED = SandboxFacts(
    at="2026-01-31T10:00:00Z",
    contained=True,
    system="Linux",
    uid=1000,
    link="/bot/mind",
    mind_writable=True,
    free_bytes=9 << 30,
)
FACTS = {name: getattr(SEALED, name) for name in SEALED.__struct_fields__}
DAY = 86_400.0


@each_row(
    "changes,level,words",
    [
        ({}, OK, "sealed, uid 1000, 9 GiB free"),
        ({"link": ""}, OK, "sealed"),
        ({"system": "Darwin"}, FAIL, "the system is Darwin, expected Linux"),
        ({"contained": False}, FAIL, "it does not run in the container"),
        ({"uid": 0}, FAIL, "uid 0"),
        ({"capabilities": 1}, FAIL, "capabilities 0x1"),
        ({"root_writable": True}, FAIL, "the root file system can be written"),
        ({"remote_writable": True}, FAIL, "the repository can be written"),
        ({"mind_writable": False}, FAIL, "the mind cannot be written"),
        ({"link": "/etc"}, FAIL, "/agent leads to /etc, expected /bot/mind"),
        ({"free_bytes": 1 << 20}, FAIL, "1 MiB free, expected 100"),
    ],
)
def test_a_sandbox_is_as_expected_or_says_what_is_not(changes: dict[str, object], level: str, words: str) -> None:
    found = health.sandbox(SandboxFacts(**(FACTS | changes)), True, "/bot/mind")
    assert (found.level, words in found.words) == (level, True), found


def test_without_a_container_less_is_expected() -> None:
    facts = SandboxFacts(**(FACTS | {"contained": False, "uid": 0, "root_writable": True, "remote_writable": True}))
    assert "not isolated" in health.sandbox(facts, False, "/x").words
    assert health.sandbox(None, False, "/x").level == NOTE


@each_row(
    "found,level,words",
    [
        (health.logging(LoggingFacts(3, "2026-01-31", ()), 7), OK, "3 events, the last at 2026-01-31"),
        (health.logging(LoggingFacts(0, "", ()), 7), FAIL, "their record is gone"),
        (health.logging(LoggingFacts(0, "", (), False), 7), NOTE, "no event yet"),
        (health.logging(LoggingFacts(3, "", ("a", "b", "c", "d")), 7), FAIL, "a; b; c; and 1 more"),
        (health.logging(LoggingFacts(3, "", (), True, 7.0), 7), WARN, "nothing was promoted for 7 days"),
        (health.logging(LoggingFacts(3, "", (), True, 6.9), 7), OK, ""),
        (health.coherence(CoherenceFacts(0, 0, ())), OK, "0 contradictions, 0 contested beliefs"),
        (health.coherence(CoherenceFacts(1, 2, ())), NOTE, "1 contradictions, 2 contested beliefs"),
        (health.coherence(CoherenceFacts(0, 0, ("beliefs.md:3: no",))), WARN, "beliefs.md:3: no"),
        (health.task_loop(LoopFacts(False, False, 9.0, 1.0)), NOTE, "not running"),
        (health.task_loop(LoopFacts(True, False, None, 600.0)), NOTE, "has not looked yet"),
        (health.task_loop(LoopFacts(True, False, 1800.0, 600.0)), OK, "looked 1800 s ago, every 600 s"),
        (health.task_loop(LoopFacts(True, False, 1801.0, 600.0)), FAIL, "it hangs"),
        (health.task_loop(LoopFacts(True, True, 5000.0, 600.0)), OK, "a run is under way"),
        (
            health.skill_system(SkillFacts(1, 2, 3, 4, ())),
            OK,
            "2 learned, 1 candidates pending, 3 failed, 4 deprecated",
        ),
        (health.skill_system(SkillFacts(0, 0, 0, 0, ("x",))), WARN, "x"),
    ],
)
def test_each_check_says_what_it_found(found: HealthCheck, level: str, words: str) -> None:
    assert (found.level, words in found.words) == (level, True), found


TIMES = st.none() | st.floats(0, 100 * DAY)


@given(TIMES, TIMES, TIMES, st.floats(0, 100 * DAY))
def test_quiet_is_only_a_mind_with_events_and_no_promotion_since(
    promoted: float | None, first: float | None, last: float | None, now: float
) -> None:
    days = health.days_quiet(promoted, first, last, now)
    assert days >= 0
    if first is None or last is None or (promoted is not None and promoted >= last):
        assert days == 0
    if first is not None and last is not None and first < last <= now and (promoted is None or promoted < first):
        assert days == (now - first) / DAY
