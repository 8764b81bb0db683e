"""`minifram tell` and `minifram reports`: the PM's half of COMMS.md."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import threading
import time
from collections import Counter

import pytest

from host.repository import comms as talk
from host.repository import open as bare
from infra.shared import comms
from infra.shared.clock import timestamp
from infra.shared.people import AGENT, Person
from infra.shared.repository.git import Git
from infra.shared.repository.tip import BareTip, CloneTip, advance, edit_file
from tests.host.desk import PAGE, Desk, wait_for


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
    assert found.keys() == {"schema", "commit", "id", "text", "sections_put_back", "report"}
    assert _open(desk) == ["build\na thing"]
    assert desk.git()("rev-list", "--format=%an %s", "--no-commit-header", f"{before}..main") == "Ada directive: build"
    assert desk.git()("diff", "--name-only", before, "main") == "COMMS.md"
    assert desk.done("tell", "more").out.split()[1] == desk.main()[:12]


def test_a_dash_reads_standard_input(desk: Desk) -> None:
    """For directives that are longer than a command line."""
    process = desk.spawn("tell", "-", stdin=subprocess.PIPE)
    with process:
        out, err = process.communicate("first line\n\nsecond paragraph\n", timeout=30)

    assert process.returncode == 0, err
    assert out.startswith("told")
    assert _open(desk) == ["first line\n\nsecond paragraph"]


@pytest.mark.parametrize(
    "text",
    ["", "  \n ", "a\0b", "~~all struck~~", "<!-- hidden -->", "x" * (talk.MAX_BYTES + 1)],
    ids=lambda text: text[:9],
)
def test_words_that_cannot_be_a_directive_are_refused(desk: Desk, text: str) -> None:
    """Better now than a directive that the agent never sees."""
    before = desk.main()

    ended = desk.run("tell", text)

    assert ended.code == 2, ended
    assert desk.main() == before


@pytest.mark.parametrize(
    "text",
    ["## a heading", "- [x] done?", "--help me", "<!-- note --> then words", "```\ncode\n```", "ünï 漢字", "a\r\nb"],
)
def test_strange_words_are_one_open_directive(desk: Desk, text: str) -> None:
    """Whatever the PM writes becomes one item and no section, comment or option."""
    desk.done("tell", "--", text)

    assert len(_open(desk)) == 1
    assert comms.reports(desk.page()) == []


def test_a_directive_for_an_agent_that_is_down_waits_and_says_so(desk: Desk) -> None:
    """It is on the page all the same; with a watcher there is nothing to say."""
    asleep = desk.run("tell", "when you wake")
    desk.call("up")
    awake = desk.run("tell", "now")

    assert (asleep.code, awake.code) == (0, 0)
    assert "the agent is not running" in asleep.err
    assert awake.err == ""
    assert _open(desk) == ["when you wake", "now"]


def test_the_same_words_twice_are_a_conflict(desk: Desk) -> None:
    """They would be done as one; once the first is done they may come again."""
    desk.done("tell", "again")
    assert desk.run("tell", "again").code == 6
    desk.write_page(comms.tick(desk.page(), tuple(item.id for item in comms.open_directives(desk.page()))))

    desk.done("tell", "again")

    assert _open(desk) == ["again"]


@pytest.mark.parametrize(
    "page", ["", "# COMMS\nwords\n", "## Reports\n\n### t x\n\nold\n", "## Directives\n- [ ] old\n"]
)
def test_missing_sections_are_put_back_and_nothing_is_lost(desk: Desk, page: str) -> None:
    """The same commit adds them, and the command says so."""
    desk.write_page(page)

    ended = desk.done("tell", "new")

    assert "put back" in ended.err
    assert "new" in _open(desk)
    for line in page.split("\n"):
        assert line in desk.page()
    assert "put back" not in desk.done("tell", "newer").err


def test_no_directive_and_no_report_is_lost_in_a_race(desk: Desk) -> None:
    """Several PMs tell while the agent pushes reports from its own clone: everything arrives, once."""
    subprocess.run(["git", "clone", "--quiet", desk.home().remote, str(desk.root / "clone")], check=True)
    clone = Git(str(desk.root / "clone"), AGENT)
    failed: list[Exception] = []

    def pm(name: str) -> None:
        git = bare.open_repository(desk.home(), Person(name, "pm@x"))
        try:
            for number in range(4):
                talk.add_directive(git, f"{name} {number}")
        except Exception as error:
            failed.append(error)

    def agent() -> None:
        try:
            for number in range(4):

                def edit(page: str, number: int = number) -> str:
                    return comms.add_report(page, f"r {number}", "x", "2026-01-31T10:42:12.345Z")

                advance(CloneTip(clone), edit_file(clone, "COMMS.md", edit, "report"))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=pm, args=(name,)) for name in ("a", "b", "c")]
    threads.append(threading.Thread(target=agent))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    assert Counter(_open(desk)) == Counter(f"{name} {number}" for name in "abc" for number in range(4))
    assert [report.title for report in talk.reports(desk.git())] == [f"r {number}" for number in range(4)]


def test_a_full_disk_loses_nothing_and_is_said(desk: Desk) -> None:
    """A limit on the size of files stands for the disk; main is as it was, and the next try works."""
    before = desk.main()

    ended = desk.call("tell", "too much", LAUNCH_WITH_FILES_OF_AT_MOST="0")

    assert ended.code == 1, ended
    assert "Traceback" not in ended.err
    assert "minifram: " in ended.err
    assert desk.main() == before
    assert desk.call("tell", "and now").code == 0


def test_waiting_prints_the_report_on_this_directive(desk: Desk) -> None:
    """Other reports are progress; the one that says done is the result."""
    desk.call("up")
    with desk.spawn("tell", "--wait", "build a thing") as process:
        wait_for(lambda: _open(desk) == ["build a thing"])
        desk.report("main@0123456789ab done: something else")
        git = desk.git()

        def edit(page: str) -> str:
            ticked = comms.tick(page, tuple(item.id for item in comms.open_directives(page)))
            return comms.add_report(
                ticked, "main@0123456789ab done: build a thing", "It stands.", "2026-01-31T10:42:12.345Z"
            )

        advance(BareTip(git), edit_file(git, "COMMS.md", edit, "report"))
        out, err = process.communicate(timeout=30)

    assert process.returncode == 0, err
    assert "done: build a thing" in out
    assert "It stands." in out
    assert "something else" in err
    assert "something else" not in out


def test_waiting_needs_a_running_agent(desk: Desk) -> None:
    """The directive stands, but nobody is there to do it: 3."""
    ended = desk.run("tell", "--wait", "x")

    assert ended.code == 3
    assert "minifram up" in ended.err
    assert _open(desk) == ["x"]


def test_waiting_ends_in_time_with_try_again(desk: Desk) -> None:
    """75: it may still be done, only not yet."""
    desk.call("up")
    ended = desk.run("tell", "--wait", "--timeout", "0.3", "x", "--json")

    assert ended.code == 75
    assert ended.json["report"] is None
    assert "not done yet" in ended.err


def test_waiting_on_a_used_up_budget_is_7(desk: Desk) -> None:
    """Nothing will be done before the day ends or the PM raises the budget."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    same = {"time": "t", "day": day, "id": "a", "unit": "u", "provider": "p", "model": "m"}
    used = {"input_tokens": 1, "output_tokens": 0, "cache_write_tokens": 0, "cache_read_tokens": 0}
    lines = [
        same | {"event": "opened", "worst_usd": 10.0, "worst_tokens": 1},
        same | {"event": "settled", "usd": 10.0, "duration_ms": 1} | used,
    ]
    with open(desk.home().places.ledger, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    desk.call("up")

    ended = desk.run("tell", "--wait", "x")

    assert ended.code == 7
    assert "budget" in ended.err
    assert "used up" in desk.run("status").out


def test_waiting_on_an_agent_that_sleeps_over_its_budget_is_7(desk: Desk) -> None:
    """A call can be refused long before the budget is used up; what it said before the directive does not count."""
    desk.call("up")

    def life(since: float) -> None:
        text = json.dumps({"schema": "minifram.life/1", "doing": "sleeping", "last_error": "budget_exhausted: x"})
        desk.log("main", "life.json", "").write_text(text[:-1] + f', "since": "{timestamp(since)}"}}')

    life(time.time() - 60)
    assert desk.run("tell", "--wait", "--timeout", "0.3", "early").code == 75
    life(time.time() + 60)
    assert desk.run("tell", "--wait", "late").code == 7


def test_ctrl_c_while_waiting_is_130_and_the_directive_stays(desk: Desk) -> None:
    """Only the waiting ends."""
    desk.call("up")
    with desk.spawn("tell", "--wait", "x") as process:
        wait_for(lambda: _open(desk) == ["x"])
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)

    assert process.returncode == 130
    assert _open(desk) == ["x"]


def test_reports_are_shown_newest_last(desk: Desk) -> None:
    """The last ones, whole; --json gives their parts."""
    for number in range(4):
        desk.report(f"title {number}", f"words \x1b[2J {number}")

    out = desk.done("reports", "-n", "2").out
    assert out.index("title 2") < out.index("title 3")
    assert "title 1" not in out
    assert "\x1b" not in out

    found = desk.done("reports", "-n", "1", "--json").json
    assert found["schema"] == "minifram.reports/1"
    assert found["total"] == 4
    assert found["reports"][0]["title"] == "title 3"
    assert found["reports"][0]["time"] == "2026-01-31T10:42:12.345Z"
    assert "words" in found["reports"][0]["text"]


def test_following_reports_gives_each_new_one(desk: Desk) -> None:
    """As one JSON object a line when asked for."""
    desk.report("old")
    with desk.spawn("reports", "-f", "--json") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["title"] == "old"
        desk.report("new")
        assert json.loads(process.stdout.readline())["title"] == "new"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130


def test_a_page_without_reports_section_is_not_found(desk: Desk) -> None:
    """The words say which heading to add; 'tell' would put it back."""
    desk.write_page("# COMMS\n")

    ended = desk.run("reports")

    assert ended.code == 4
    assert "## Reports" in ended.err
    desk.write_page(PAGE)
    assert "no reports yet" in desk.done("reports").err


def test_standard_input_that_is_no_utf8_survives(desk: Desk) -> None:
    """Bytes come as they were or as a mark, never as a crash."""
    words = talk.directive_text("-", lambda: io.BytesIO(b"caf\xe9").read())
    told = talk.add_directive(desk.git(), words)
    assert told.commit == desk.main()
    assert len(comms.open_directives(desk.page())) == 1
