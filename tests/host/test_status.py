"""`minifram status`: one screen, up or down."""

from __future__ import annotations

import os
import time
from pathlib import Path

from msgspec import structs

from host.status import Status, read_status, untold
from infra.cell.mind.duties import DUTIES
from infra.keep import watcher_file
from infra.keep.ledger.budgets import spent_today
from infra.keep.running_code import running_code
from infra.keep.watcher_file import BootRecord, Instant, Outcome, Phase, Runner, State, Trouble
from infra.shared.clock import timestamp
from infra.shared.mind.event import EventMetadata
from tests.host.desk import Desk, pay
from tests.shared.mind.events import event_of, write_events

AT = "2026-01-31T10:42:12.345Z"
SINCE = Instant(1.0, 1_769_856_132.345)
NOW = 1_769_856_200.0  # 2026-01-31T10:43:20Z


def test_a_new_agent_is_down_and_says_what_comes_next(desk: Desk) -> None:
    """In ten lines at most. Not running is 3, and the screen is printed all the same."""
    ended = desk.run("status")

    assert ended.code == 3
    for words in ("down · 'minifram up' starts it", desk.main()[:12], "none yet"):
        assert words in ended.out
    assert len(ended.out.splitlines()) <= 10


def test_of_a_repository_that_cannot_be_read_nothing_is_claimed(desk: Desk) -> None:
    desk.branch("improve", {"spec/a.py": "1\n"})
    desk.git()("update-ref", "-d", "refs/heads/main")
    assert "review     cannot be read" in desk.run("status").out
    assert desk.run("status", "--json").json["awaiting_review"] is None


def test_a_running_agent_on_one_screen(desk: Desk) -> None:
    """Branch, commit, phase and since when, last boots, work, report, branches, budget, troubles."""
    assert desk.call("up").code == 0
    commit = desk.branch("improve", {"spec/a.py": "1\n"})
    desk.examined("improve", commit)
    desk.done("tell", "build a thing")
    life = desk.works(12, "", "the model door refused", "for your word", "web running", "OBSERVE")

    ended = desk.run("status")

    assert ended.code == 0, ended
    for words in (
        *("process sandbox (not isolated)", "running", "watcher pid", "main @ "),
        *("build a thing · working", "12 steps, OBSERVE", "the model door refused", "waits      for your word"),
        *("services   web running", "1 open", "improve (passed)", "today $0.00 of $10.00"),
    ):
        assert words in ended.out, (words, ended.out)

    assert "main has other code" not in ended.out  # only COMMS.md has moved
    desk.branch("improve", {"infra/cell/new.py": "1\n"}, start="improve")
    desk.done("merge", "improve@TIP", "--unexamined")
    assert f"main has other code ({desk.main()[:12]})" in desk.run("status").out
    commit = desk.branch("improve", {"spec/b.py": "1\n"})
    desk.examined("improve", commit)

    found = desk.run("status", "--json").json
    assert found.keys() == {"schema", *Status._fields}
    assert (found["outdated"], found["running"], found["life"]["about"]) == (True, True, "build a thing")
    assert found["awaiting_review"] == [{"name": "improve", "commit": commit, "verdict": "passed"}]
    life.write_text("[" * 10_000)
    assert read_status(desk.home(), NOW).life is None


def test_after_a_killed_watcher_the_last_that_is_known_is_shown(desk: Desk) -> None:
    """The lock is the truth: a file that says running makes nothing run."""
    boots = tuple(
        BootRecord(
            boot_id=f"{number:032x}",
            branch="main",
            commit=desk.main(),
            reason=f"reason {number}",
            started_at=AT,
            outcome=Outcome.DIED,
            detail="exit status 1",
        )
        for number in range(7)
    )
    runner = Runner(boot_id="0" * 32, branch="main", commit=desk.main())
    troubles = (Trouble(at=AT, text="first"), Trouble(at=AT, text="second"))
    state = State(phase=Phase.RUNNING, since=SINCE, runner=runner, boots=boots, troubles=troubles)
    Path(desk.home().places.watcher_state).write_bytes(watcher_file.encode(state))

    found = read_status(desk.home(), NOW)

    assert (found.running, found.phase, found.branch) == (False, "down", "main")
    assert found.life is None
    assert [boot.reason for boot in found.boots] == [f"reason {number}" for number in (6, 5, 4)]
    killed, *others = [trouble.text for trouble in found.troubles]
    assert (others, "killed, or the machine went down, in phase 'running'" in killed) == (["second", "first"], True)
    out = desk.run("status").out
    assert "died · reason 6 · exit status 1" in out
    assert "last: main" in out


def test_what_no_part_of_the_agent_tells_is_told() -> None:
    """A watcher of other code than is installed; an orderly end is no trouble."""
    running = State(phase=Phase.RUNNING, since=SINCE, code=running_code())
    assert list(untold(running, is_running=True)) == []
    assert list(untold(State(phase=Phase.STOPPED, since=SINCE), is_running=False)) == []

    [other] = untold(State(code="0123456789ab"), is_running=True)
    assert "another version of minifram is installed than runs" in other


def test_budget_is_what_the_ledger_says_about_today(desk: Desk) -> None:
    """Settled calls count with what they took, open ones are reserved, other days and torn lines not at all."""
    ledger = desk.home().places.ledger
    pay(ledger, 5.0, 100, "2026-01-30", id="a")
    pay(ledger, 0.25, 1000, "2026-01-31", id="b")
    pay(ledger, 0.5, 10, "2026-01-31", id="c", settle=False)
    with open(ledger, "a") as file:
        file.write('{"event": "settl')
    spent = spent_today(ledger, 10.0, NOW)
    assert (spent.day, spent.usd, spent.tokens, spent.reserved_usd, spent.calls) == ("2026-01-31", 0.25, 1000, 1.0, 2)
    assert not spent.exhausted
    os.unlink(ledger)
    pay(ledger, 10.0, 1, "2026-01-31")
    assert spent_today(ledger, 10.0, NOW).exhausted


def test_what_cannot_be_read_is_a_trouble_and_the_rest_is_shown(desk: Desk) -> None:
    """Bad settings, a garbled state and a page without sections: each a line, none of them the end."""
    Path(desk.home().settings).write_text("autonomy: full\n")
    Path(desk.home().places.watcher_state).write_text("garbage")
    desk.write_page("# nothing here\n")

    ended = desk.run("status")

    assert ended.code == 3
    for words in ("autonomy", "not a watcher state", "no section", desk.main()[:12]):
        assert words in ended.out
    assert ended.out.startswith("agent      agent · its settings cannot be read\n"), "no default stands in for them"


def test_duties_that_failed_are_shown(desk: Desk) -> None:
    """Those that were never due are not, nor what failed long ago."""
    for name, at in ((DUTIES[-1].name, time.time()), (DUTIES[0].name, NOW - 90 * 86_400)):
        details = {"entry": "dutystep", "name": name, "period": "2026-W04", "state": "failed", "words": "no space left"}
        event = structs.replace(event_of(at=timestamp(at)), metadata=EventMetadata(details=details))
        write_events(desk.home().places.events, [event])
    assert f"\nmind       {DUTIES[-1].name} failed: no space left\n" in (shown := desk.run("status").out)
    assert DUTIES[0].name not in shown


def test_all_agents_a_line_each(desk: Desk) -> None:
    """Version, state, money and what waits, by the same status; one that cannot be read hides no other."""
    assert desk.call("up").code == 0
    commit = desk.branch("improve", {"spec/a.py": "1\n"})
    desk.done("tell", "build a thing")
    for name in ("broken", "second"):
        desk.done("init", "--agent", name, "--sandbox", "process")
    Path(desk.home("second").settings).write_text("autonomy: full\n")

    code, shown = (ended := desk.run("status", "--all")).code, ended.out.splitlines()
    found = desk.run("status", "--all", "--json").json
    assert (code, [line.split()[0] for line in shown]) == (3, ["agent", "broken", "second"])
    assert f"main@{desk.main()[:12]}" not in shown[1], "it never started"
    for words, line in (
        ("running for ", shown[0]),
        ("main@", shown[0]),
        ("  $0.00 of $10.00  1 review, 1 directive open", shown[0]),
        ("down  ", shown[1]),
        ("never started  ", shown[1]),
        ("unknown", shown[2]),
    ):
        assert words in line, shown
    one = desk.run("status", "--json").json
    assert found["agents"][0].keys() == one.keys() - {"schema"}
    assert found["agents"][0]["awaiting_review"][0]["commit"] == commit

    Path(desk.home("broken").remote, "config").write_text("[core]\n\tfsmonitor = touch /tmp/x\n")
    ended = desk.run("status", "--all")
    assert (ended.code, len(ended.out.splitlines())) == (1, 3)
    assert "cannot be read  " in ended.out.splitlines()[1]
    assert "remote.git/config is" in desk.run("status", "--all", "--json").json["agents"][1]["error"]


def test_without_an_agent_all_are_none(tmp_path: Path) -> None:
    """What makes one is named."""
    (bare := Desk(tmp_path)).write_project()
    assert "'minifram init' makes one" in bare.done("status", "--all").out
    assert bare.done("status", "--all", "--json").json["agents"] == []
