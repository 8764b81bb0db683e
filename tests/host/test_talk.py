"""The PM's half of COMMS.md: `minifram tell`, `reports`, `approve` and `deny`."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from host import talk
from infra.keep import questions
from infra.keep.questions import Question
from infra.keep.repository.bare_tip import BareTip
from infra.keep.repository.page_text import RECORD
from infra.shared import approvals, comms
from infra.shared.repository.tip import advance, edit_file
from tests.cell.loop.waiting import wait_for
from tests.host.desk import Desk, pay


def _open(desk: Desk) -> list[str]:
    return [item.text for item in comms.open_directives(desk.page())]


def test_a_directive_is_a_commit_of_the_pms_on_main(desk: Desk) -> None:
    """It prints the commit; the page has it as an open item, and nothing else changed."""
    (desk.root / "pm" / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@x\n")
    before = desk.main()

    ended = desk.done("tell", "build\na thing", "--json")

    found = ended.json
    assert found["schema"] == "minifram.tell/1"
    assert found["commit"] == desk.main()
    assert found.keys() == {"schema", "commit", "id", "text", "report"}
    assert _open(desk) == ["build\na thing"]
    assert desk.git()("rev-list", "--format=%an %s", "--no-commit-header", f"{before}..main") == "Ada directive: build"
    assert desk.git()("diff", "--name-only", before, "main") == "COMMS.md"
    assert desk.done("tell", "more").out.split()[1] == desk.main()[:12]


def test_a_dash_reads_standard_input(desk: Desk) -> None:
    """For directives that are longer than a command line."""
    with desk.spawn("tell", "-", stdin=subprocess.PIPE) as process:
        process.communicate("first line\n\nsecond paragraph\n", timeout=30)
    assert _open(desk) == ["first line\n\nsecond paragraph"]


def test_words_that_cannot_be_a_directive_are_refused(desk: Desk) -> None:
    """Better now than a directive that the agent never sees."""
    before = desk.main()
    for text in ("", "  \n ", "a\0b", "~~all struck~~", "<!-- hidden -->", "x" * (talk.MAX_BYTES + 1)):
        assert desk.run("tell", text).code == 2, text[:9]
    assert desk.main() == before


def test_the_same_words_are_one_directive_while_it_is_open(desk: Desk) -> None:
    """For an agent that is down it waits, and that is said."""
    assert "the agent is not running" in desk.done("tell", "again").err
    told = desk.main()
    desk.done("tell", "again")
    assert desk.main() == told
    desk.write_page(comms.tick(desk.page(), tuple(item.id for item in comms.open_directives(desk.page()))))
    desk.done("tell", "again")
    assert _open(desk) == ["again"]


@pytest.mark.fault("F39")
def test_a_full_disk_loses_nothing_and_is_said(desk: Desk) -> None:
    """A limit on the size of files stands for the disk; main is as it was, and the next try works."""
    before = desk.main()

    ended = desk.call("tell", "too much", LAUNCH_WITH_FILES_OF_AT_MOST="0")

    assert ended.code == 1, ended
    assert ended.err.startswith("minifram: ")
    assert desk.main() == before
    assert desk.call("tell", "and now").code == 0


def _ends_run(desk: Desk, id: str, title: str, done: bool) -> None:
    """The runner's report on the directive with this id, with what the keep puts below each."""
    git = desk.git()

    def edit(page: str) -> str:
        text = f"{comms.ABOUT}00000000, {id}\n\nIt stands."
        page = comms.tick(page, (id,)) if done else page
        return comms.add_report(page, title, text, "2026-01-31T10:42:12.345Z", f"{RECORD}\n\n- commits: none")

    advance(BareTip(git), edit_file(git, "COMMS.md", edit, "report"))


@pytest.mark.parametrize(("done", "code"), [(True, 0), (False, 75)])
def test_waiting_prints_the_report_that_ends_a_run_on_this_directive(desk: Desk, done: bool, code: int) -> None:
    """It is found by the directive's id: another directive with the same first line has its own. One that stopped
    stays open, which is 75."""
    desk.call("up")
    desk.done("tell", "build a thing\nfor others")
    [other] = comms.open_directives(desk.page())
    with desk.spawn("tell", "--wait", "build a thing\nfor me") as process:
        wait_for(lambda: len(_open(desk)) == 2, "the directive")
        [mine] = [each for each in comms.open_directives(desk.page()) if each.id != other.id]
        _ends_run(desk, other.id, "main@0123456789ab done: build a thing", True)
        _ends_run(desk, mine.id, f"main@0123456789ab {'done' if done else 'stopped (x)'}: build a thing", done)
        out, err = process.communicate(timeout=30)

    assert process.returncode == code, err
    assert mine.id in out
    assert other.id not in out
    assert "done: build a thing" in err
    assert ("stays open" in err) is not done


def test_waiting_ends_without_an_agent_time_or_money(desk: Desk) -> None:
    """The directive stands. Nobody is there to do it: 3; it may still be done, only not yet: 75; not before the day
    ends or the PM raises the budget: 7. Ctrl-C ends only the waiting."""
    ended = desk.run("tell", "--wait", "x")
    assert ended.code == 3
    assert "minifram up" in ended.err
    desk.call("up")
    ended = desk.run("tell", "--wait", "--timeout", "0.3", "y", "--json")
    assert ended.code == 75
    assert ended.json["report"] is None
    with desk.spawn("tell", "--wait", "z") as process:
        wait_for(lambda: _open(desk) == ["x", "y", "z"], "the directive")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130

    pay(desk.home().places.ledger, 10.0, 1, time.strftime("%Y-%m-%d", time.gmtime()))
    ended = desk.run("tell", "--wait", "x")
    assert ended.code == 7
    assert "budget" in ended.err
    Path(desk.home().settings).write_text("sandbx: 1\n")
    assert desk.run("tell", "--wait", "not written").code == 2
    assert _open(desk) == ["x", "y", "z"]


def test_reports_are_shown_newest_last(desk: Desk) -> None:
    """The last ones, whole; --json gives their parts."""
    assert "no reports yet" in desk.done("reports").err
    for number in range(4):
        desk.report(f"title {number}", f"words \x1b[2J {number}")

    out = desk.done("reports", "-n", "2").out
    assert out.index("title 2") < out.index("title 3")
    assert "title 1" not in out
    assert "\x1b" not in out

    found = desk.done("reports", "-n", "1", "--json").json
    assert found["total"] == 4
    [report] = found["reports"]
    assert (report["title"], report["time"]) == ("title 3", "2026-01-31T10:42:12.345Z")
    assert "words" in report["text"]
    desk.write_page("# COMMS\n")
    ended = desk.run("reports")
    assert ended.code == 4
    assert "## Reports" in ended.err, "the words say which heading to add"


def test_following_reports_gives_each_new_one(desk: Desk) -> None:
    """As one JSON object a line when asked for."""
    desk.report("old")
    with desk.spawn("reports", "-f", "--json") as process:
        assert process.stdout is not None
        for title in ("old", "new"):
            [report] = json.loads(process.stdout.readline())["reports"]
            assert report["title"] == title
            desk.report("new")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130


# Answers to calls.

ID, OTHER = "ab12cd340123ffff", "0123abcd0123abcd"
AT = "2026-01-31T10:42:12.345Z"


def recorded(desk: Desk, id: str, tool: str = "bash", **given: Any) -> Question:
    """The keep holds a question."""
    question = Question(
        id=id,
        call=approvals.call_hash(tool, given),
        tool=tool,
        input=given,
        why="rule 1",
        branch="main",
        commit="12" * 20,
        asked_at=AT,
    )
    questions.record(desk.home().places.questions, question)
    return question


def test_an_answer_is_a_line_of_the_pms(desk: Desk) -> None:
    """One commit each; the words of a denial go with it, on one line. Status shows what waits, and how to answer it."""
    assert desk.done("approve").out == "nothing waits for your answer\n"
    recorded(desk, ID, command="touch a")
    assert f"minifram approve {ID}" in desk.run("status").out
    [asking] = desk.run("status", "--json").json["awaiting_approval"]
    assert (asking["id"], asking["tool"], asking["at"]) == (ID, "bash", AT)
    assert desk.done("approve", "--json").json["waiting"] == [asking]
    recorded(desk, OTHER, command="touch b")

    assert f"approve {ID}" in desk.done("approve", ID.upper()).out
    told = desk.done("deny", OTHER, "use\nmktemp", "--json").json

    assert told["schema"] == "minifram.deny/1"
    assert (told["commit"], told["id"]) == (desk.main(), OTHER)
    assert told["directive_id"] in {each.id for each in comms.open_directives(desk.page())}
    assert told["call"]["call"] == '{"command": "touch b"}'
    answers = approvals.open_answers(desk.page())
    assert (answers[ID].approved, answers[OTHER].approved, answers[OTHER].why) == (True, False, "use mktemp")
    assert desk.run("status", "--json").json["awaiting_approval"] == []


def test_what_is_approved_is_shown_from_the_keeps_record(desk: Desk) -> None:
    """Whatever the page says of that id, with nothing hidden and no key."""
    key = "ghp_" + "aZ3kQ9xW1mB7vN5tR2pL8sD4fG6hJ0cY3uEq"
    recorded(desk, ID, command=f"rm -rf / \x1b[2J\u202e {key}")
    desk.report(approvals.title("main", desk.main(), ID, "bash"), "    ls")

    out = desk.done("approve").out
    assert desk.done("approve", ID).out.endswith(out)
    assert "rm -rf / \\u001b[2J\\u202e" in out
    assert "main@121212121212" in out
    assert key not in out
    assert f"what looks like a key is left out; the whole call is in {desk.home().places.questions}/{ID}.json" in out
    assert "ls" not in out.split()


def test_only_what_waits_is_answered(desk: Desk) -> None:
    """An id that is on no record is not found, though a report says so; one that was answered is a conflict."""
    recorded(desk, ID, command="x")
    desk.report(approvals.title("main", desk.main(), OTHER, "bash"), "May I?")
    before = desk.main()

    unknown = desk.run("approve", OTHER)
    assert unknown.code == 4
    assert f"{ID} (bash)" in unknown.err
    assert desk.run("approve", ID[:8]).code == 4
    assert desk.main() == before

    desk.done("deny", ID)
    again = desk.run("approve", ID)
    assert again.code == 6
    assert "denied already" in again.err


def test_a_record_that_is_none_answers_nothing(desk: Desk) -> None:
    """It is named, and the status shows the rest."""
    recorded(desk, ID, command="x")
    other_call = Path(desk.home().places.questions, f"{ID}.json").read_bytes().replace(b'"x"', b'"y"')
    for content in (b"{}", b"x" * 2_000_000, other_call):
        Path(desk.home().places.questions, f"{ID}.json").write_bytes(content)
        ended = desk.run("approve", ID)
        assert ended.code == 6
        assert f"{ID}.json" in ended.err
    assert f"{ID}.json" in desk.run("status").out
