"""What the screens show of an agent, as a browser without JavaScript reads it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from host.serve.agents import Agent
from host.serve.diffs import files_of, zone_of
from host.serve.money import Money
from host.serve.screens import SCREENS, evidenced, last_steps
from host.talk import Report
from infra.cell.loop.record import Told
from tests.host.desk import Desk
from tests.host.serve.served import RECORD, REPORT, Served, furnish, key_in, serving
from tests.host.test_hostile import HARMFUL, ORDERS, STEERING
from tests.host.test_runs import a_run, transcript
from tests.shared.rows import each_row

ZONES = (
    ("infra/keep/taint.py", "keep"),
    ("infra/watcher.py", "keep"),
    ("infra/cell/cell.py", "cell"),
    ("infra/runner.py", "cell"),
    ("infra/shared/boot.py", "shared"),
    ("tests/cell/test_x.py", "test"),
    ("SYSTEM.md", "steers it"),
    ("src/infra/keep/x.py", "own work"),
)


@each_row("path, zone", ZONES)
def test_a_file_lies_in_a_zone(path: str, zone: str) -> None:
    assert zone_of(path) == zone


def test_each_screen_is_there_and_small(served: Served) -> None:
    with served.program() as program:
        for path in [
            "/",
            *(f"/a/agent/{name}" for name in SCREENS),
            "/a/agent/review/improve",
            "/a/agent/mind/B-000001",
        ]:
            first, answer = program.get(path), program.get(path)  # the second is what was kept of the first
            assert (first.status_code, answer.status_code) == (200, 200), path
            assert len(answer.content) < 60_000, path


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", ("agent", "2 wait for you")),
        ("/a/agent/now", ("improve", "build a thing", "primes", "$10.00")),
        ("/a/agent/reports", ("the parser", "primes", "the agent&#39;s word alone", "2 on main (+38 -0 lines)")),
        (
            "/a/agent/review/improve",
            ("infra/cell/b.py", "cell · new · +3", "12 passed, 0 failed", "1 changed: tests/test_b.py"),
        ),
        ("/a/agent/timeline", ("main now", "improve")),
        ("/a/agent/mind", ("B-000001", "The port of the test server is 8080.")),
        ("/a/agent/mind/B-000001", ("it names no evidence",)),
        ("/a/agent/status", ("Money by day", "process sandbox")),
    ],
)
def test_a_screen_shows(served: Served, path: str, words: tuple[str, ...]) -> None:
    with served.program() as program:
        text = program.get(path).text
        for each in words:
            assert each in text, each


@pytest.mark.parametrize(
    "path", ["/a/nobody/now", "/a/../now", "/a/agent/nothing", "/a/agent/review/none", "/static/x"]
)
def test_what_is_not_there_is_said_so(served: Served, path: str) -> None:
    with served.program() as program:
        answer = program.get(path)
        assert answer.status_code in (404, 422)
        assert "validation_error" in answer.text


def test_evidence_is_what_the_keep_recorded() -> None:
    """A claim is what stands above its record; without a commit and a test it is the agent's word alone."""
    heading = "### 2026-01-31T10:42:12.345Z main@0123abc done: primes"
    with_record = evidenced(Report("2026", "done", f"{heading}\n\n{REPORT}{RECORD}"))
    assert with_record.claim == REPORT.strip()
    assert dict(with_record.record)["commits"] == "2 on main (+38 -0 lines)"
    assert with_record.has_evidence
    for without in (RECORD.replace("2 on main (+38 -0 lines)", "none"), ""):
        assert not evidenced(Report("2026", "done", f"{heading}\n\n{REPORT}{without}")).has_evidence


def test_a_form_that_is_sent_twice_acts_once(desk: Desk) -> None:
    """Also at the same time, and also when the directive was done meanwhile: its key says that it is the same."""
    with serving(desk) as served, served.browser() as browser:
        key = key_in(browser.get("/a/agent/now").text, "tell")
        fields = {"text": "write a haiku", "key": key, "back": "/a/agent/now"}
        first = browser.post("/a/agent/act/tell", data=fields)
        desk.write_page(desk.page().replace("- [ ] write a haiku", "- [x] write a haiku"))
        again = browser.post("/a/agent/act/tell", data=fields)
        assert first.headers["location"] == again.headers["location"]
        assert "told" in browser.get(first.headers["location"]).text
        assert desk.page().count("write a haiku") == 1


@pytest.mark.parametrize("key", ["x.y", "x&done=agent.tell.1", "x\r\ny", "x" * 65])
def test_a_key_is_nobody_elses(served: Served, key: str) -> None:
    """It stands behind the agent and the act: one that could name another's result is refused."""
    with served.browser() as browser:
        answer = browser.post("/a/agent/act/retry", data={"key": key})
        assert (answer.status_code, "key is of letters" in answer.text) == (422, True)


def test_a_branch_is_reviewed_merged_and_rolled_back(desk: Desk) -> None:
    furnish(desk)
    before = desk.main()
    with serving(desk) as served, served.browser() as browser:

        def act(page: str, name: str, **fields: str) -> str:
            """Send the form of a page; gives the page that follows."""
            text = browser.get(page).text
            form = next(each for each in re.findall(r"<form.*?</form>", text, re.S) if f"/act/{name}" in each)
            hidden = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
            return str(browser.get(browser.post(f"/a/agent/act/{name}", data=hidden | fields).headers["location"]).text)

        assert "merged" in act("/a/agent/review/improve", "merge")
        assert "infra/cell/b.py" in desk.git()("ls-tree", "-r", "--name-only", "main")
        assert "rolled back" in act("/a/agent/timeline", "rollback", ref=before)
        assert "infra/cell/b.py" not in desk.git()("ls-tree", "-r", "--name-only", "main")
        desk.branch("other", {"src/a.py": "1\n"})
        assert "rejected" in act("/a/agent/review/other", "reject", because="not now")
        assert "not now" in desk.page()
        refused = act("/a/agent/now", "tell", text=" ")
        assert "validation_error" in refused


def test_nothing_that_the_agent_wrote_steers_a_page(desk: Desk) -> None:
    """Characters that hide or reorder are spelled out, markup is text, a line of a megabyte is cut."""
    script = '"><script>alert(1)</script>'
    files = {
        f"src/{STEERING.replace('/', '')}x.py": ORDERS + STEERING,
        "src/long.py": "x" * (1 << 20),
        "a/b.py": script,
    }
    desk.branch("evil", files, f"{STEERING}{script}{ORDERS}")
    desk.report(f"{STEERING}{script} done", f"{ORDERS}{STEERING}{script}")
    desk.puts_mind(
        {"memory/beliefs.md": f"# Beliefs\n\n## B-000001\nClaim: {script} \u202e\nSubject: {script}\nAdded: ''\n"}
    )
    with serving(desk) as served, served.program() as program:
        for path in ["/", *(f"/a/agent/{name}" for name in SCREENS), "/a/agent/review/evil", "/a/agent/mind/B-000001"]:
            text = program.get(path).text
            assert "<script>alert" not in text, path
            assert not HARMFUL.search(text.replace("\n", "")), path
            assert max(map(len, text.split("\n"))) < 100_000, path


PATCH = """\
diff --git a/src/a.py b/src/a.py
index 1..2 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,3 @@ def f():
 same
-old
+new
\\ No newline at end of file
diff --git a/gone b/gone
deleted file mode 100644
index 1..0
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-was
diff --git a/x y b/x y
similarity index 100%
rename from x y
rename to z
"""


def test_a_patch_is_files_and_numbered_lines() -> None:
    changed, gone, renamed = files_of(PATCH)
    assert (changed.path, changed.change, changed.added, changed.removed) == ("src/a.py", "changed", 1, 1)
    assert [(each.kind, each.old, each.new) for each in changed.lines] == [
        ("note", "", ""),
        ("same", "1", "1"),
        ("del", "2", ""),
        ("add", "", "2"),
        ("note", "", ""),
    ]
    assert (gone.path, gone.change, gone.removed) == ("gone", "gone", 1)
    assert (renamed.path, renamed.change) == ("z", "renamed")


def test_the_last_steps_are_those_of_the_run_that_goes_on(desk: Desk) -> None:
    agent = Agent(desk.context())
    a_run(desk, "2026-01-31T104212.000Z-aaaaaaaa", ended=False)
    says, does = last_steps(agent)
    assert (says.id, says.kind, says.words) == ("1", "answered", "I look.")
    assert (does.id, does.kind, does.result, does.is_bad) == ("1.1", "acted", "failed (tool_timeout): oh", True)
    assert does.words.startswith('bash {"command": "echo ')
    transcript(desk, "2026-01-31T104212.000Z-aaaaaaaa").append(Told("1", own="Go on.", pm="Be quick."))
    assert last_steps(agent)[-1].words == "Go on.\nBe quick."
    a_run(desk, "2026-01-31T104213.000Z-bbbbbbbb")
    assert last_steps(agent) == []


def test_facts_are_read_again_when_their_files_have_changed(desk: Desk) -> None:
    agent = Agent(desk.context())
    read = iter(range(9))
    for expected, act in ((0, lambda: None), (0, lambda: desk.report("done", "x")), (1, lambda: None)):
        assert agent.known("fact", ("repository",), lambda: next(read)) == expected
        act()
        agent.look_again()


def test_what_cannot_be_looked_at_is_looked_at_again(desk: Desk) -> None:
    """A stream survives it, and tells when it is back."""
    agent, lock = Agent(desk.context()), Path(desk.home().places.watcher_lock)
    lock.unlink(missing_ok=True)
    there = agent.stamp(("watcher",))
    lock.symlink_to("elsewhere")
    agent.look_again()
    assert agent.stamp(("watcher",)) == (None,)
    lock.unlink()
    agent.look_again()
    assert agent.stamp(("watcher",)) == there


def test_money_is_counted_once_and_between_times(desk: Desk) -> None:
    path = desk.root / "ledger.jsonl"
    line = (
        '{{"event":"settled","time":"2026-01-31T0{0}:00:00.000Z","day":"2026-01-31","id":"{0}","provider":"p","model":"m",'
        '"run":"r{0}","input_tokens":1,"output_tokens":1,"cache_write_tokens":0,"cache_read_tokens":0,"usd":{0},'
        '"duration_ms":1}}\n'
    )
    path.write_text(line.format(1) + line.format(2)[:40])
    money = Money(str(path))
    assert money.read().rows()["day"][0].usd == 1
    path.write_text(line.format(1) + line.format(2) + line.format(4))
    money.read()
    assert (money.rows()["day"][0].usd, money.of_run("r2"), money.rows()["run"][0].name) == (7, 2, "r4")
    assert money.between("2026-01-31T01:00:00.000Z", "2026-01-31T03:00:00.000Z") == 2
    (desk.root / "restored").write_text(line.format(3) * 3)
    (desk.root / "restored").rename(path)  # another file of the same length
    assert money.read().rows()["day"][0].usd == 9
