"""`minifram review`: what awaits the PM, as data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.shared.exit_codes import Exit
from infra.shared.repository.tip import commit_tree, tree_with
from tests.host.desk import PAGE, Desk
from tests.shared.web_traces import EVIL, WebTrace


def test_the_command_that_ends_a_review_is_one_that_works(desk: Desk) -> None:
    """Whatever the verdict: merge as it stands, with --unexamined, or not at all."""
    tip = desk.branch("improve", {"spec/a.py": "1\n"})

    def offered() -> str:
        found = re.search(r"'minifram (merge [^']*)'", desk.run("review", "improve").err)
        return found[1] if found else ""

    assert offered() == f"merge improve@{tip[:12]} --unexamined"
    assert "'minifram review improve --examine'" in desk.run("review", "improve").err
    elsewhere = desk.run("review", "improve", "--agent", "agent", MINIFRAM_AGENT="second").err
    assert "'minifram review improve --agent agent --examine'" in elsewhere
    desk.examined("improve", tip, "tests/a.py::test_a failed")
    assert offered() == f"merge improve@{tip[:12]} --unexamined"
    desk.examined("improve", tip)
    assert offered() == f"merge improve@{tip[:12]}"
    desk.examined("improve", tip, word=("tests/test_a.py is removed",))
    assert offered() == f"merge improve@{tip[:12]}", "to name the commit that review has shown is the PM's word"
    assert desk.done(*offered().split(), "--json").json["verdict"] == "needs your word"
    desk.branch("improve", {"spec/a.py": "2\n"}, start="improve")
    desk.branch("main", {"spec/a.py": "3\n"})
    assert offered() == ""
    before, ended = desk.main(), desk.run("merge", "improve@TIP", "--unexamined")
    assert (ended.code, desk.main()) == (6, before)
    assert "both changed spec/a.py" in ended.err


def test_each_branch_says_what_merging_it_means(desk: Desk) -> None:
    """Commits ahead and behind, files changed without COMMS.md, subject, author, verdict. Neither the mind nor what is
    merged already awaits review."""
    desk.branch("mind", {"note.md": "x\n"})
    desk.git()("update-ref", "refs/heads/merged", desk.main())
    desk.branch("improve", {"spec/a.py": "1\n"}, "first")
    tip = desk.branch("improve", {"spec/b.py": "1\n", "COMMS.md": "mine\n"}, "second\n\nbody", start="improve")
    desk.write_page(PAGE + "\nnews\n")

    (branch,) = desk.done("review", "--json").json["branches"]

    expected = {"commit": tip, "ahead": 2, "behind": 1, "files": ["spec/a.py", "spec/b.py"], "subject": "second"}
    expected |= {"author": "minifram agent", "verdict": "not examined"}
    assert expected.items() <= branch.items()
    assert "2 commits ahead, 1 behind · 2 files · not examined" in desk.done("review").out


def test_a_verdict_is_for_exactly_what_main_would_be(desk: Desk) -> None:
    """One on an older commit is none; what main has got since leaves it, unless the agent is made of that."""
    old = desk.branch("improve", {"infra/a.py": "1\n"})
    desk.examined("improve", old)

    def verdict() -> str:
        (branch,) = desk.done("review", "--json").json["branches"]
        return str(branch["verdict"])

    assert verdict() == "passed"
    desk.report("hello", "a report")
    assert verdict() == "passed"
    new = desk.branch("improve", {"infra/a.py": "2\n"}, start="improve")
    assert verdict() == "not examined"
    desk.examined("improve", new, "tests/a.py::test_a failed")
    assert verdict() == "not passed"
    desk.branch("main", {"src/c.py": "1\n"})
    assert verdict() == "not passed"
    desk.branch("main", {"infra/c.py": "1\n"})
    assert verdict() == "not examined"
    desk.branch("main", {"infra/a.py": "3\n"})
    assert verdict() == "conflicts with main"


def test_one_branch_with_commits_changes_and_verdict(desk: Desk) -> None:
    """Everything the PM needs to decide; --stat leaves the lines out. The names of tests, which the branch chooses, add
    no line to the keep's words."""
    desk.branch("improve", {"spec/a.py": "one\n"}, "first")
    tip = desk.branch("improve", {"spec/a.py": "two\n"}, "second", start="improve")
    desk.examined("improve", tip, word=("tests/test_\npassed: rehearsed.py is removed",))

    out = desk.done("review", "improve").out
    for words in ("first", "second", "+two", "spec/a.py | 1 +", "12 passed", "tests/test_ passed: rehearsed.py is"):
        assert words in out, words
    commits = out.partition("Commits")[2]
    assert commits.index("first") < commits.index("second")
    assert "+two" not in desk.done("review", "improve", "--stat").out

    found = desk.done("review", "improve", "--json").json
    assert [commit["subject"] for commit in found["commits"]] == ["first", "second"]
    assert found["examination"]["mains"]["passed"] == 12
    assert "+two" in found["diff"]
    assert found.keys() == {"schema", "branch", "main", "base", "commits", "stat", "diff", "examination", "taint"}


def test_a_branch_without_common_history_is_shown_whole(desk: Desk) -> None:
    """Nothing to compare with: everything is new, and that is said."""
    git = desk.git()
    empty = git("hash-object", "-t", "tree", "-w", "--stdin", stdin=b"")
    blob = git("hash-object", "-w", "--stdin", stdin=b"one\n")
    orphan = commit_tree(git, tree_with(git, empty, {"spec/a.py": blob}), (), "from nowhere")
    git("update-ref", "refs/heads/orphan", orphan)

    (listed,) = desk.done("review", "--json").json["branches"]
    assert listed["files"] == ["spec/a.py"]
    out = desk.done("review", "orphan").out
    assert "shares no history" in out
    assert "+one" in out


def test_what_cannot_be_a_branch_is_a_usage_error(desk: Desk) -> None:
    """Before it reaches git; the refusal shows it harmlessly."""
    for name in ("../evil", "-x", "a..b", "x.lock", "main", "", "a\x1b[2J"):
        for words in (("review", "--", name), ("merge", "--", f"{name}@0123456789ab"), ("reject", "--", name)):
            ended = desk.run(*words)
            assert ended.code == 2, (words, ended)
            assert "\x1b" not in ended.err
    assert desk.run("review", "unknown").code == 4


def test_a_repository_without_main_is_said(desk: Desk) -> None:
    """Every verb but status needs main; the words say how to get it back."""
    desk.git()("update-ref", "-d", "refs/heads/main")
    for words, code in ((("review",), 4), (("tell", "x"), 4), (("status",), 3)):
        ended = desk.run(*words)
        assert ended.code == code, words
        assert "no branch main" in ended.out + ended.err


def test_a_line_without_end_is_cut_and_says_so(desk: Desk) -> None:
    """It pushes nothing off the screen; JSON has the whole."""
    desk.branch("improve", {"spec/a.py": "x = 1" + " " * 9000 + "evil()\nafter\n"})
    out = desk.done("review", "improve").out
    assert "… (cut: 5,012 more characters)" in out
    assert "+after" in out
    assert max(map(len, out.split("\n"))) < 4100
    assert "evil()" in desk.done("review", "improve", "--json").json["diff"]


@pytest.mark.parametrize("hides", ["*.sh -diff\n", "*.sh binary\n", "* diff=odd\n", ""])
def test_no_attribute_and_no_byte_hides_a_change(desk: Desk, hides: str) -> None:
    """Neither what the branch says of its files, nor what main says, nor a NUL byte."""
    attributes = {".gitattributes": hides} if hides else {}
    desk.branch("main", attributes | {"spec/old.sh": "echo old\n"}, start="main")
    files = {"spec/old.sh": "echo \0 evil\n", "spec/new.sh": "\0\necho new\n"}
    desk.branch("improve", attributes | files)

    out = desk.done("review", "improve").out

    for words in ("-echo old", "+echo \\x00 evil", "+echo new"):
        assert words in out, words


def test_that_the_agent_is_tainted_is_shown_until_the_pm_trusts(desk: Desk) -> None:
    """With the origins, and at a branch with what needs the PM's word."""
    desk.branch("improve", {"infra/a.py": "1\n", "src/a.py": "1\n"})
    desk.branch("other", {"src/b.py": "1\n"})
    assert "nothing to trust" in desk.run("trust").out
    Path(desk.home().places.var).mkdir(parents=True, exist_ok=True)
    WebTrace(desk.home().places).served(EVIL)
    assert f"needs your word: 'infra/a.py' changes, and the agent has read the web ({EVIL})" in (
        desk.run("review", "improve").out
    )
    assert "The web" not in desk.run("review", "other").out
    assert f"tainted by {EVIL} since " in desk.run("status").out
    assert f"trusted: tainted by {EVIL} since " in desk.run("trust").out
    assert "tainted" not in desk.run("status").out
    assert "The web" not in desk.run("review", "improve").out


def test_trust_says_that_the_agent_is_tainted_still(desk: Desk) -> None:
    """A page was served while the clock was ahead: until that moment has come, no word of the PM's covers it."""
    Path(desk.home().places.var).mkdir(parents=True, exist_ok=True)
    WebTrace(desk.home().places).served(EVIL, ago=-3600.0)
    ended = desk.run("trust")
    assert ended.code == Exit.FAILURE
    assert f"still tainted by {EVIL} since 2" in ended.out
    assert "trusted" not in ended.out
    assert "Run 'minifram trust' after 2" in ended.err
    assert "the clock was ahead" in ended.err
    assert desk.run("trust", "--json").json["tainted"] is True
