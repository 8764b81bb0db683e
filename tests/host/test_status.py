"""`minifram status`: one screen, up or down."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import psutil

from host.agent import status as status_module
from host.agent.status import read_status
from host.running.watcher import glimpse
from infra.shared import watcher_file
from infra.shared.mind.duties import DUTIES, STATE, DutyState, due, to_json
from infra.shared.running_code import running_code
from infra.shared.settings_file import read_settings
from infra.shared.status_file import WORKING, RunnerStatus, write_status
from infra.shared.watcher_file import BootRecord, Trouble, WatcherFile
from tests.host.desk import Desk

AT = "2026-01-31T10:42:12.345Z"
NOW = 1_769_856_200.0  # 2026-01-31T10:43:20Z

KEYS = {
    "duties",
    "mind",
    "quiet",
    "web",
    "taint",
    "schema",
    "agent",
    "running",
    "pid",
    "phase",
    "since",
    "until",
    "preparing",
    "sandbox",
    "egress",
    "autonomy",
    "model",
    "branch",
    "commit",
    "subject",
    "level",
    "rung",
    "main",
    "outdated",
    "make_way_by",
    "is_led",
    "failures",
    "pins",
    "retry_asked",
    "untold",
    "life",
    "examining",
    "boots",
    "last_report",
    "open_directives",
    "awaiting_review",
    "awaiting_approval",
    "budget",
    "troubles",
    "orphan",
    "remote",
}


def _remember(desk: Desk, **fields: object) -> None:
    """What the last watcher wrote."""
    boots = tuple(
        BootRecord(
            id=f"{number:032x}",
            branch="main" if number % 2 else "improve",
            commit=desk.main(),
            reason=f"reason {number}",
            started_at=AT,
            outcome="died" if number == 6 else "left",
            detail="exit status 1" if number == 6 else "",
        )
        for number in range(7)
    )
    told = {"phase": watcher_file.RUNNING, "since": AT, "branch": "main", "commit": desk.main(), "boots": boots}
    state = WatcherFile(**(told | fields))  # type: ignore[arg-type]
    Path(desk.home().places.watcher_state).write_bytes(watcher_file.encode(state))


def _ledger(desk: Desk, *lines: dict[str, object]) -> None:
    Path(desk.home().places.ledger).write_text("".join(json.dumps(line) + "\n" for line in lines))


def _call(id: str, usd: float, tokens: int, day: str = "2026-01-31", settle: bool = True) -> list[dict[str, object]]:
    same = {"time": f"{day}T00:00:00.000Z", "day": day, "id": id, "unit": "u", "provider": "scripted", "model": "m"}
    opened = same | {"event": "opened", "worst_usd": usd * 2, "worst_tokens": tokens * 2}
    used = {"input_tokens": tokens, "output_tokens": 0, "cache_write_tokens": 0, "cache_read_tokens": 0}
    settled = same | {"event": "settled", "usd": usd, "duration_ms": 1} | used
    return [opened, settled] if settle else [opened]


def test_a_new_agent_is_down_and_says_what_comes_next(desk: Desk) -> None:
    """Not running is 3, and the screen is printed all the same."""
    ended = desk.run("status")

    assert ended.code == 3
    assert "down" in ended.out
    assert "minifram up" in ended.out
    assert desk.main()[:12] in ended.out
    assert "none yet" in ended.out


def test_an_examination_that_is_asked_for_is_shown_until_its_verdict(desk: Desk) -> None:
    """The keep takes the request away when it is done."""
    commit = desk.branch("improve", {"src/a.py": "1\n"})
    desk.git()("update-ref", "refs/minifram/examine/improve", commit)
    assert "examining improve, asked for or under way" in " ".join(desk.run("status").out.split())
    assert desk.run("status", "--json").json["examining"] == ["improve"]

    desk.git()("update-ref", "-d", "refs/minifram/examine/improve")
    assert desk.run("status", "--json").json["examining"] == []


def test_a_running_agent_on_one_screen(desk: Desk) -> None:
    """Branch, commit, phase and since when, last boots, unit, report, branches, budget, troubles."""
    assert desk.call("up").code == 0
    commit = desk.branch("improve", {"src/a.py": "1\n"})
    desk.validated("improve", commit)
    desk.done("tell", "build a thing")
    checkout = Path(desk.home().places.bot) / "main" / "minifram" / "logs"
    checkout.mkdir(parents=True)
    write_status(
        str(checkout / "life.json"),
        RunnerStatus(
            WORKING, AT, "build a thing", 12, "", "the model door refused", "for your word", "web running", "OBSERVE"
        ),
    )

    ended = desk.run("status")

    assert ended.code == 0, ended
    for words in (
        "process sandbox (not isolated)",
        "running",
        "watcher pid",
        f"main @ {desk.git()('rev-parse', 'main~1')[:12]} init agent",
        "build a thing · working",
        "12 steps, OBSERVE",
        "the model door refused",
        "waits      for your word",
        "services   web running",
        "1 open",
        "improve (passed)",
        "today $0.00 of $10.00",
    ):
        assert words in ended.out, (words, ended.out)
    assert len(ended.out.splitlines()) <= 24

    assert "main has other code" not in ended.out  # only COMMS.md has moved
    desk.branch("improve", {"infra/cell/new.py": "1\n"}, start="improve")
    desk.done("merge", "improve@TIP", "--unvalidated")
    assert f"main has other code ({desk.main()[:12]})" in desk.run("status").out
    desk.branch("improve", {"src/b.py": "1\n"})
    desk.validated("improve", desk.git()("rev-parse", "improve"))
    commit = desk.git()("rev-parse", "improve")

    found = desk.run("status", "--json").json
    assert found.keys() == KEYS
    assert found["outdated"] is True
    assert found["schema"] == "minifram.status/1"
    assert found["running"] is True
    assert found["life"]["unit"] == "build a thing"
    assert found["awaiting_review"] == [{"name": "improve", "commit": commit, "verdict": "passed"}]


def test_after_a_killed_watcher_the_last_that_is_known_is_shown(desk: Desk) -> None:
    """The lock is the truth: a file that says running makes nothing run."""
    _remember(desk, troubles=(Trouble(at=AT, text="first"), Trouble(at=AT, text="second")))

    found = status_module.read_status(desk.home(), NOW)

    assert (found.running, found.phase, found.branch) == (False, "down", "main")
    assert found.life is None
    assert [boot.reason for boot in found.boots] == [f"reason {number}" for number in (6, 5, 4, 3, 2)]
    killed, *others = [trouble.text for trouble in found.troubles]
    assert (others, "killed, or the machine went down, in phase 'running'" in killed) == (["second", "first"], True)
    out = desk.run("status").out
    assert "died · reason 6 · exit status 1" in out
    assert "last: main" in out


def test_what_no_part_of_the_agent_tells_is_told(desk: Desk) -> None:
    """A full disk, a watcher of other code than is installed; an orderly end is no trouble."""
    home, running = desk.home(), WatcherFile(phase=watcher_file.RUNNING, since=AT, code=running_code())
    assert list(status_module._untold(home, running, is_running=True)) == []
    assert list(status_module._untold(home, WatcherFile(phase=watcher_file.STOPPED, since=AT), is_running=False)) == []

    [other] = status_module._untold(home, WatcherFile(code="0123456789ab"), is_running=True)
    assert "another version of minifram is installed than runs" in other
    Path(home.switch_file).touch()
    [upgrade] = status_module._untold(home, running, is_running=True)
    assert "an upgrade is under way, or was cut short" in upgrade
    os.unlink(home.switch_file)
    [full] = status_module._untold(home._replace(state="/proc"), running, is_running=True)
    assert full == "the disk is full: 0 MiB free for state (/proc)"


def test_budget_is_what_the_ledger_says_about_today(desk: Desk) -> None:
    """Settled calls count with what they took, open ones are reserved, other days and torn lines not at all."""
    settings = read_settings(desk.home().settings)
    yesterday = _call("a", 5.0, 100, day="2026-01-30")
    _ledger(desk, *yesterday, *_call("b", 0.25, 1000), *_call("c", 0.5, 10, settle=False))
    with open(desk.home().places.ledger, "a", encoding="utf-8") as file:
        file.write('{"event": "settl')

    spent = status_module.spent_today(desk.home(), settings, NOW)

    assert (spent.day, spent.usd, spent.tokens, spent.reserved_usd, spent.calls) == ("2026-01-31", 0.25, 1000, 1.0, 2)
    assert not spent.exhausted
    _ledger(desk, *_call("d", 10.0, 1))
    assert status_module.spent_today(desk.home(), settings, NOW).exhausted


def test_a_life_file_that_makes_no_sense_is_left_out(desk: Desk) -> None:
    """It is the agent's own claim: garbage costs one line of the screen, nothing else."""
    assert desk.call("up").code == 0
    for content in (
        "garbage",
        "[]",
        '{"schema": "minifram.life/1"}',
        '{"schema": "minifram.life/1", "doing": 3, "since": "x"}',
        '{"schema": "minifram.life/9", "doing": "working", "since": "x"}',
        '{"schema": "minifram.life/1", "doing": "' + "x" * 20_000 + '", "since": "x"}',
        "[" * 10_000,
    ):
        desk.log("main", "life.json", "").write_text(content)
        assert status_module.read_status(desk.home(), NOW).life is None, content
    assert desk.run("status").code == 0


def test_a_life_file_behind_a_link_is_not_read(desk: Desk) -> None:
    """Neither a linked file nor a linked directory on the way leads out of the agent's tree; a pipe does not block."""
    secret = desk.root / "secret"
    secret.mkdir()
    write_status(str(secret / "life.json"), RunnerStatus(WORKING, AT, "a secret of the PM's"))
    logs = Path(desk.home().places.bot) / "main" / "minifram" / "logs"
    logs.parent.mkdir(parents=True)
    assert desk.call("up").code == 0

    logs.symlink_to(secret)
    assert "secret" not in desk.run("status").out
    logs.unlink()
    logs.mkdir()
    (logs / "life.json").symlink_to(secret / "life.json")
    assert "secret" not in desk.run("status").out
    (logs / "life.json").unlink()
    os.mkfifo(logs / "life.json")
    assert desk.run("status").code == 0
    (logs / "life.json").unlink()
    write_status(str(logs / "life.json"), RunnerStatus(WORKING, AT, "its own unit"))
    assert "its own unit" in desk.run("status").out


def test_what_cannot_be_read_is_a_trouble_and_the_rest_is_shown(desk: Desk) -> None:
    """Bad settings, a garbled state and a page without sections: each a line, none of them the end."""
    Path(desk.home().settings).write_text("autonomy: full\n")
    Path(desk.home().places.watcher_state).write_text("garbage")
    desk.write_page("# nothing here\n")

    ended = desk.run("status")

    assert ended.code == 3
    assert "autonomy" in ended.out
    assert "not a watcher state" in ended.out
    assert "no section" in ended.out
    assert desk.main()[:12] in ended.out


def test_what_the_agent_wrote_cannot_steer_the_screen(desk: Desk) -> None:
    """Its unit, its reports and its branch names are data."""
    desk.report("\x1b[2Jwiped \u202eback", "x")
    desk.branch("improve", {"src/a.py": "1\n"}, "\x1b]0;title\x07")

    out = desk.run("status").out

    assert "\x1b" not in out
    assert "\u202e" not in out


def test_a_runner_that_outlived_its_watcher_is_shown(desk: Desk) -> None:
    """The agent is down by the lock, and yet something of it works: the PM must know. A pid used anew is not it."""
    with subprocess.Popen(["sleep", "60"]) as runner:
        started = psutil.Process(runner.pid).create_time()
        _remember(desk, runner_pid=runner.pid, runner_started=started)
        shown, down = desk.run("status"), desk.run("down")
        _remember(desk, runner_pid=runner.pid, runner_started=started - 10)
        another = desk.run("status", "--json")
        runner.kill()

    assert (shown.code, down.code, another.code) == (3, 3, 3)
    for said in (shown.out, down.err):
        assert f"its runner (pid {runner.pid}) lives on" in said
        assert "'minifram up' takes it over" in said
    assert another.json["orphan"] == 0


def test_of_a_watcher_of_another_version_what_runs_is_known(desk: Desk) -> None:
    """The command can be newer than the image: phase and level are read by the file's own names, and no more."""
    kept = {
        "phase": "running",
        "branch": "main",
        "commit": "c" * 40,
        "boot_id": "b",
        "rung": "last good",
        "failures": 2,
    }
    path = Path(desk.home().places.watcher_state)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schema": "minifram.watcher/9", "boots": "of another kind"} | kept))

    found = glimpse(desk.home())

    assert found is not None
    assert (found.schema, found.phase, found.level, found.failures) == ("minifram.watcher/9", "running", "last good", 2)
    assert found.boots == ()


def test_the_minds_duties_are_shown_when_done_and_when_due(desk: Desk) -> None:
    """From the branch mind alone; a state that cannot be read is one of the troubles."""
    _, _, daily, *_ = due({}, NOW)
    state = DutyState().with_done(daily, NOW, "12 events")
    state = state.with_failure(daily._replace(duty=DUTIES[-1], period="2026-W04"), NOW, "no space left")
    desk.puts_mind({STATE: to_json(state).decode()})
    shown = read_status(desk.home(), NOW + 3600).duties
    assert [each.name for each in shown] == [duty.name for duty in DUTIES]
    done, failed = shown[2], shown[-1]
    assert (done.period, done.next, done.result) == ("2026-01-30", "2026-02-01T00:00Z", "12 events")
    assert (failed.period, failed.next, failed.failed) == ("", "now", "no space left")
    text = desk.run("status").out
    assert "daily summary: 2026-01-30 done at 2026-01-31T10:43:20.000Z" in text
    assert "weekly review: summary, coherence: never done, due now · failed: no space left" in text

    desk.puts_mind({STATE: "<<<<<<< HEAD"})
    broken = read_status(desk.home(), NOW)
    assert broken.duties == ()
    assert STATE in broken.troubles[0].text
