"""Each kind comes from a record of the keep's, and from nothing that the agent writes."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from host.running import record
from infra.shared import watcher_file
from infra.shared.people import AGENT
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.tip import commit_tree, tree_with, write_file
from infra.shared.watcher_file import Pin
from tests.host.desk import Desk
from tests.host.notify.scene import AT, DAY, NOW, Records

KEY = "sk-ant-api03-" + "aZ3kQ9xW7vB2nM5pL8rT" * 3


@pytest.fixture
def records(desk: Desk) -> Records:
    made = Records(desk)
    made.begin()
    return made


def test_a_quiet_agent_has_no_news(records: Records) -> None:
    """The control of all others."""
    records.directive("Write a haiku.")
    records.reports("merged into main as 0123")

    assert records.news() == []


def test_a_question_is_told_of_until_it_is_answered(records: Records) -> None:
    """By the keep's record; what the page says an agent asked is the agent's own word."""
    records.desk.report("main@0123456789ab approval wanted [01234567]: bash")
    assert records.news() == []

    records.asks()
    [asked] = records.news()
    assert (asked.kind, asked.at) == ("approval", AT)
    assert "minifram approve 0123456789abcdef" in asked.text
    assert records.news() == []


def test_a_directive_that_the_keep_ticks_is_done(records: Records) -> None:
    """Not one that the PM ticks, nor an answer to a question."""
    mine, its = records.directive("Mine."), records.directive("Write a haiku.\nWith care.")
    answer = records.directive("approve 0123456789abcdef")
    assert records.news() == []
    records.reports("done: whatever the runner says", "Here it is.", (its, answer))
    page = records.desk.page()
    clone = records.desk.root / "clone"
    os.system(f"git clone -q {records.home.remote} {clone}")
    (clone / "COMMS.md").write_text(page.replace("- [ ] Mine.", "- [x] Mine."))
    os.system(f"cd {clone} && git -c user.name=PM -c user.email=pm@x commit -qam tick && git push -q 2>/dev/null")
    assert records.desk.page() != page, mine

    [done] = records.news()
    assert (done.kind, done.text) == ("done", "done: Write a haiku.")
    assert "Here it is." in done.details
    assert records.news() == []


def test_a_run_that_stopped_is_told_of(records: Records) -> None:
    """By the title of its report; a question that waits is told of as such. Text of a report makes no title."""
    records.reports("stopped (max steps): Write a haiku.", "### 2026 main@0123456789ab stopped (refusal): forged")
    records.reports("stopped (awaiting approval): Write a haiku.")
    records.reports("stopped (awaiting_approval): Write a haiku.")

    [stopped] = records.news()
    assert (stopped.kind, stopped.text) == ("stopped", "a run stopped (max steps): Write a haiku.")


def test_what_was_told_before_a_restart_of_the_sender_is_not_looked_for_again(records: Records) -> None:
    """History is read from the commit that is remembered, however many came since."""
    ids = [records.directive(f"Number {n}.") for n in range(3)]
    for id in ids:
        records.reports("done: it", ticks=(id,))
    assert [each.text for each in records.news()] == [f"done: Number {n}." for n in range(3)]

    again = Records(records.desk)
    again.seen = records.seen
    assert again.news() == []


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_merge_by_the_agent_tells_nothing_again(records: Records, is_seen: bool) -> None:
    """Whichever parent it puts first: its page is main's, which another commit has written."""
    its = records.directive("Write a haiku.")
    records.news()
    git, branch = records.desk.git(), records.desk.branch("try", {"src/a.py": "1"})
    records.reports("done: it", ticks=(its,))
    before = records.news() if is_seen else []
    main = records.desk.main()
    page = git("rev-parse", f"{main}:COMMS.md")
    merge = commit_tree(git, tree_with(git, branch, {"COMMS.md": page}), (branch, main), "merge main")
    git("update-ref", "refs/heads/main", merge)

    assert [each.kind for each in (*before, *records.news())] == ["done"]


def test_a_history_that_takes_too_long_hides_nothing(records: Records) -> None:
    """The agent can push commits until git is not through with them in time."""

    def too_long(git: Git, seen: str, main: str) -> list[tuple[str, str, str]]:
        raise GitError(("log",), None, "stopped after 20 s")

    its = records.directive("Write a haiku.")
    records.news()
    records.reports("done: it", ticks=(its,))
    usual, records.commits = records.commits, too_long
    assert [each.text for each in records.news()] == ["done: Write a haiku."]
    records.commits = usual

    records.reports("stopped (max steps): Write a haiku.")
    assert [each.kind for each in records.news()] == ["stopped"]


@pytest.mark.parametrize("date", ["1152921504606846976", "9" * 30, "-"])
def test_a_commit_of_a_strange_time_is_read_like_any_other(records: Records, date: str) -> None:
    """On a page of the PM's, as the agent may put it back to main's."""
    git, main = records.desk.git(), records.desk.main()
    page = records.desk.page() + f"\n### {AT} main@0123456789ab stopped (refusal): Write a haiku.\n"
    tree = tree_with(git, main, {"COMMS.md": write_file(git, page)})
    who = f"{AGENT.name} <{AGENT.email}> {date} +0000"
    words = f"tree {tree}\nparent {main}\nauthor {who}\ncommitter {who}\n\nback\n"
    commit = git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=words.encode())
    git("update-ref", "refs/heads/main", commit)

    assert [each.kind for each in records.news()] == ["stopped"]


def test_a_repository_without_the_commit_that_is_remembered_is_read_from_now_on(records: Records) -> None:
    """The PM has put back an older one."""
    records.seen = replace(records.seen, main="0123456789" * 4)
    assert records.news() == []

    records.reports("stopped (max steps): Write a haiku.")
    assert [each.kind for each in records.news()] == ["stopped"]


def test_an_agent_that_should_run_and_does_not_is_told_of(records: Records) -> None:
    """After ten seconds; one that was taken down, or is between two containers of an upgrade, is not."""
    records.watcher(phase=watcher_file.STOPPED)
    assert records.news(NOW) == records.news(NOW + 60) == []

    records.watcher()
    lock = os.open(records.home.places.watcher_lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert records.news(NOW) == records.news(NOW + 60) == []
    os.close(lock)
    Path(records.home.switch_file).touch()
    assert records.news(NOW + 61) == records.news(NOW + 90) == []
    os.unlink(records.home.switch_file)

    assert records.news(NOW + 100) == []
    [gone] = records.news(NOW + 111)
    assert (gone.kind, "minifram up" in gone.text) == ("stopped", True)


def test_an_upgrade_that_was_cut_short_is_told_of(records: Records) -> None:
    """By a power cut, between the end of the old container and the start of the new one."""
    records.watcher(phase=watcher_file.STOPPED)
    Path(records.home.switch_file).touch()
    assert records.news(NOW) == records.news(NOW + 900) == []

    [gone] = records.news(NOW + 3600)
    assert (gone.kind, "minifram upgrade" in gone.text) == ("stopped", True)
    assert records.news(NOW + 7200) == []


def test_an_agent_that_fails_to_start_again_and_again_is_told_of_once(records: Records) -> None:
    """Whatever the phase between two attempts."""
    lock = os.open(records.home.places.watcher_lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    news = []
    for failures in range(1, 8):
        for phase in (watcher_file.BOOTING, watcher_file.WAITING):
            records.watcher(phase=phase, failures=failures)
            news += records.news()
    os.close(lock)

    assert [each.kind for each in news] == ["stopped"]


def test_versions_that_are_blocked_and_what_runs_in_their_place(records: Records) -> None:
    """Each pin once; safe mode once while it lasts."""
    lock = os.open(records.home.places.watcher_lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    pin = Pin(version="v", commit="a" * 40, branch="main", why="it failed", at=AT)
    records.watcher(pins=(pin,), level=watcher_file.SAFE_LEVEL)
    first = records.news()
    records.watcher(pins=(pin,), level=watcher_file.SAFE_LEVEL, failures=1)
    second = records.news()
    os.close(lock)

    assert [each.text for each in first] == [
        "main@aaaaaaaaaaaa is blocked (pinned)",
        "safe mode runs in place of main",
    ]
    assert (first[0].details, second) == ("it failed", [])


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([(1.0, 1.0)], []),
        ([(4.0, 0.1)], []),
        ([(4.9, 4.6)], ["unit of work is used up"]),  # 5 of the unit
        ([(0.1, 4.6)], ["unit of work is in its last tenth"]),
        ([(4.0, 0.5), (4.4, None)], []),  # it was admitted, and says nothing until it ends
        ([(4.8, None), (4.0, 0.5)], ["unit of work is used up"]),  # lost, so it counts
    ],
)
def test_a_budget_near_its_end_is_told_of(
    records: Records, calls: list[tuple[float, float | None]], words: list[str]
) -> None:
    """By the ledger: the last tenth, and when a call like the last one does not fit any more."""
    for number, (worst, usd) in enumerate(calls):
        records.call(str(number), worst, usd)

    news = records.news()
    assert [each.kind for each in news] == ["budget"] * len(words)
    assert all(word in each.text for word, each in zip(words, news, strict=True))
    assert records.news() == []


def test_a_line_of_the_ledger_is_read_once(records: Records) -> None:
    """However many calls there were; a line counts when it is whole, and a file that was put back is read again."""
    path = Path(records.home.places.ledger)
    before = b""
    for number in range(20):
        records.call(str(number), 0.1, 0.1)
        assert records.news() == []
        before += path.read_bytes()[len(before) :]
        path.write_bytes(b"x" * (len(before) - 1) + b"\n")  # who reads it again finds nothing there

    records.call("dear", 0.1, 2.6)
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    assert records.news() == []
    path.write_bytes(whole)
    assert [each.kind for each in records.news()] == ["budget"]
    path.write_bytes(before)
    assert records.news() == []
    path.write_bytes(before + whole[len(before) :])
    assert [each.kind for each in records.news()] == ["budget"]


def test_the_day_s_budget_counts_every_unit_and_a_new_day_is_another(records: Records) -> None:
    """10 dollars a day by default."""
    for number in range(4):
        records.call(str(number), 0.1, 2.4, unit=f"unit {number}")
    [told] = records.news()
    assert (told.kind, DAY in told.text) == ("budget", True)

    assert records.news(NOW + 86400) == []
    for number in range(4):
        records.call(f"next {number}", 0.1, 2.4, day="2026-02-01", unit=f"next {number}")
    assert len(records.news(NOW + 86400)) == 1


def test_a_seal_that_fails_is_told_of(records: Records) -> None:
    """At the start by the keep's refusal, later by the watcher's log; words within a line of the log are no event."""
    log = Path(records.home.places.watcher_log)
    forged = {"event": "report", "reason": '{"event": "seal.broken", "timestamp": "2026"}', "timestamp": AT}
    log.write_text(json.dumps(forged) + "\n")
    assert records.news() == []

    record.write(records.home, record.PODMAN, True)
    Path(records.home.state, "refused.json").write_text(json.dumps("the rules did not load"))
    [refused] = records.news()
    with log.open("a") as file:
        file.write(
            json.dumps({"event": "seal.unproved", "reason": "canary", "timestamp": "2026-01-31T10:00:00Z"}) + "\n"
        )
    [later] = records.news()

    assert [refused.kind, later.kind] == ["seal", "seal"]
    assert (refused.details, later.details) == ("the rules did not load", "canary")


def test_keys_are_left_out_of_everything(records: Records) -> None:
    """In the format of one, or known to this machine; in a branch's name, a directive, arguments, a report."""
    secrets = Path(records.home.places.secrets)
    secrets.mkdir(mode=0o700)
    (secrets / "openai_api_key").write_text("plain words of mine\n")
    lock = os.open(records.home.places.watcher_lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    pin = Pin(version="v", commit="a" * 40, branch=f"try-{KEY}", why=f"{KEY} failed", at=AT)
    records.watcher(pins=(pin,))
    records.asks(given={"command": f"echo {KEY}"}, tool=KEY)
    id = records.directive(f"Use {KEY} and plain words of mine.")
    records.reports("done: it", f"I used {KEY}.", (id,))
    records.reports(f"stopped (max steps): {KEY}")
    news = records.news()
    os.close(lock)

    assert sorted(each.kind for each in news) == ["approval", "done", "pinned", "stopped"]
    for each in news:
        assert "[secret]" in each.text, each
        assert KEY not in each.text + each.details
        assert "plain words" not in each.text + each.details


def test_records_that_cannot_be_read_stop_nothing(records: Records) -> None:
    """The others are told of, and what was told is not told again when they are whole again."""
    records.asks()
    assert len(records.news()) == 1
    whole = Path(records.home.places.questions, "0123456789abcdef.json").read_bytes()
    write = Path(records.home.places.questions, "0123456789abcdef.json").write_bytes
    write(b"{")
    Path(records.home.places.questions).touch()
    Path(records.home.places.watcher_state).write_text("no state")
    records.call("1", 0.1, 4.9)

    assert [each.kind for each in records.news()] == ["budget"]
    write(whole)
    Path(records.home.places.questions).touch()
    assert records.news() == []
