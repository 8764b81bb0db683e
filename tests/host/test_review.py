"""`minifram review`: what awaits the PM, as data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from host.repository.review import PAGE_BYTES, _ends_of, page_at
from infra.shared import comms
from infra.shared.repository.tip import BareTip, advance, commit_tree, edit_file, tree_with
from infra.shared.taint import state_file
from infra.shared.taint.machine import TaintedPush, TaintState, ended, pushed, served
from tests.host.desk import PAGE, Desk


def test_only_branches_with_new_commits_await_review(desk: Desk) -> None:
    """Neither main, nor the mind, nor what was rescued, nor what is merged already."""
    desk.branch("improve", {"src/a.py": "1\n"})
    desk.branch("deep/er", {"src/b.py": "1\n"})
    desk.branch("mind", {"note.md": "x\n"})
    desk.branch("rescue/20260131", {"src/c.py": "1\n"})
    desk.git()("update-ref", "refs/heads/merged", desk.main())

    found = desk.done("review", "--json").json

    assert found["schema"] == "minifram.review/1"
    assert {branch["name"] for branch in found["branches"]} == {"improve", "deep/er"}


def test_work_that_was_saved_is_named_while_main_lacks_it(desk: Desk) -> None:
    """With how many commits stand nowhere else; it awaits no decision."""
    desk.branch("rescue/main/1", {"src/a.py": "1\n"}, "one")
    desk.branch("rescue/main/1", {"src/a.py": "2\n"}, "two", start="rescue/main/1")
    desk.git()("update-ref", "refs/heads/rescue/main/0", desk.main())

    listed = desk.done("review")

    assert "no branch awaits review" in listed.err
    assert "saved from a clone, never pushed: rescue/main/1, 2 commits" in listed.err
    assert "rescue/main/0" not in listed.err
    assert desk.done("review", "--json").json["rescued"] == [["rescue/main/1", 2]]
    desk.git()("update-ref", "refs/heads/kept", desk.git()("rev-parse", "rescue/main/1"))
    assert "saved from a clone" not in desk.done("review").err


def test_the_command_that_ends_a_review_is_one_that_works(desk: Desk) -> None:
    """Whatever the verdict: merge as it stands, with --unexamined, or not at all."""
    tip = desk.branch("improve", {"src/a.py": "1\n"})

    def offered() -> str:
        found = re.search(r"'minifram (merge [^']*)'", desk.run("review", "improve").err)
        return found[1] if found else ""

    assert offered() == f"merge improve@{tip[:12]} --unexamined"
    assert "'minifram examine improve'" in desk.run("review", "improve").err
    desk.examined("improve", tip, "tests/a.py::test_a failed")
    assert offered() == f"merge improve@{tip[:12]} --unexamined"
    desk.examined("improve", tip)
    assert offered() == f"merge improve@{tip[:12]}"
    assert desk.done(*offered().split()).code == 0
    desk.branch("improve", {"src/a.py": "2\n"}, start="improve")
    desk.branch("main", {"src/a.py": "3\n"})
    assert offered() == ""


def test_each_branch_says_what_merging_it_means(desk: Desk) -> None:
    """Commits ahead and behind, files changed without COMMS.md, subject, author, verdict."""
    desk.branch("improve", {"src/a.py": "1\n"}, "first")
    tip = desk.branch("improve", {"src/b.py": "1\n", "COMMS.md": "mine\n"}, "second\n\nbody", start="improve")
    desk.write_page(PAGE + "\nnews\n")

    (branch,) = desk.done("review", "--json").json["branches"]

    assert branch["commit"] == tip
    assert (branch["ahead"], branch["behind"]) == (2, 1)
    assert branch["files"] == ["src/a.py", "src/b.py"]
    assert (branch["subject"], branch["author"]) == ("second", "minifram agent")
    assert branch["verdict"] == "not examined"
    out = desk.done("review").out
    assert "2 commits ahead, 1 behind · 2 files · not examined" in out


def test_a_tests_name_adds_no_line_to_the_examination(desk: Desk) -> None:
    """The branch chooses it, and the lines are the keep's words."""
    commit = desk.branch("better", {"src/a.py": "a = 2\n"})
    desk.examined("better", commit, word=("tests/test_\npassed: rehearsed.py is removed",))
    said = desk.run("review", "better").out
    assert "needs your word: tests/test_ passed: rehearsed.py is removed" in said


def test_a_verdict_is_for_exactly_what_main_would_be(desk: Desk) -> None:
    """One on an older commit is none; reports on main leave it, other changes of main do not."""
    old = desk.branch("improve", {"src/a.py": "1\n"})
    desk.examined("improve", old)

    def verdict() -> str:
        (branch,) = desk.done("review", "--json").json["branches"]
        return str(branch["verdict"])

    assert verdict() == "passed"
    desk.report("hello", "a report")
    assert verdict() == "passed"
    new = desk.branch("improve", {"src/a.py": "2\n"}, start="improve")
    assert verdict() == "not examined"
    desk.examined("improve", new, "tests/a.py::test_a failed")
    assert verdict() == "not passed"
    desk.branch("main", {"src/c.py": "1\n"})
    assert verdict() == "not examined"
    desk.branch("main", {"src/a.py": "3\n"})
    assert verdict() == "conflicts with main"


def test_one_branch_with_commits_changes_and_verdict(desk: Desk) -> None:
    """Everything the PM needs to decide; --stat leaves the lines out."""
    desk.branch("improve", {"src/a.py": "one\n"}, "first")
    tip = desk.branch("improve", {"src/a.py": "two\n"}, "second", start="improve")
    desk.validated("improve", tip)

    ended = desk.done("review", "improve")
    for words in ("first", "second", "+two", "src/a.py | 1 +", "12 passed"):
        assert words in ended.out, words
    commits = ended.out.partition("Commits")[2]
    assert commits.index("first") < commits.index("second")
    assert f"minifram merge improve@{tip[:12]}" in ended.err
    assert "+two" not in desk.done("review", "improve", "--stat").out

    found = desk.done("review", "improve", "--json").json
    assert found["schema"] == "minifram.review/1"
    assert [commit["subject"] for commit in found["commits"]] == ["first", "second"]
    assert found["examination"]["mains"]["passed"] == 12
    assert "+two" in found["diff"]
    assert found.keys() == {"schema", "branch", "main", "base", "commits", "stat", "diff", "examination", "taint"}


def test_what_a_branch_holds_cannot_steer_the_terminal(desk: Desk) -> None:
    """Escape sequences and characters that reorder text are spelled out, in names, messages and changes."""
    desk.branch("improve", {"src/\u202egpj.exe": "\x1b[2J\x9b1mhidden\u200b\r\n", "a\nb": "x"}, "\x1b]0;t\x07 subject")

    for words in (("review",), ("review", "improve"), ("status",)):
        out = desk.run(*words).out
        assert not any(char in out for char in "\x1b\x07\x9b\u202e\u200b\r"), words
    out = desk.run("review", "improve").out
    assert "\\x1b[2J" in out
    assert "\\u202e" in out


def test_attributes_and_drivers_of_a_branch_run_nothing(desk: Desk) -> None:
    """A branch may bring .gitattributes; its diff is still git's own."""
    desk.branch("improve", {".gitattributes": "* diff=evil -text\n", "src/a.py": "one\n"})

    assert "+one" in desk.done("review", "improve").out


def test_a_branch_without_common_history_is_shown_whole(desk: Desk) -> None:
    """Nothing to compare with: everything is new, and that is said."""
    git = desk.git()
    empty = git("hash-object", "-t", "tree", "-w", "--stdin", stdin=b"")
    blob = git("hash-object", "-w", "--stdin", stdin=b"one\n")
    orphan = commit_tree(git, tree_with(git, empty, {"src/a.py": blob}), (), "from nowhere")
    git("update-ref", "refs/heads/orphan", orphan)

    (listed,) = desk.done("review", "--json").json["branches"]
    assert listed["files"] == ["src/a.py"]
    out = desk.done("review", "orphan").out
    assert "shares no history" in out
    assert "+one" in out


@pytest.mark.parametrize("name", ["../evil", "-x", "a..b", "a b", "refs/heads/x", "x.lock", "main", "", "a\x1b[2J"])
@pytest.mark.parametrize("verb", ["review", "merge", "reject"])
def test_what_cannot_be_a_branch_is_a_usage_error(desk: Desk, verb: str, name: str) -> None:
    """Before it reaches git; the refusal shows it harmlessly."""
    ended = desk.run(verb, "--", name)

    assert ended.code == 2, ended
    assert "\x1b" not in ended.err


def test_an_unknown_branch_is_not_found_with_near_names(desk: Desk) -> None:
    """A typing error costs one look."""
    desk.branch("improve-reports", {"src/a.py": "1\n"})

    ended = desk.run("review", "improve-report")

    assert ended.code == 4
    assert "improve-reports" in ended.err


def test_a_repository_without_main_is_said(desk: Desk) -> None:
    """Every verb but status needs main; the words say how to get it back."""
    desk.git()("update-ref", "-d", "refs/heads/main")

    for words in (("review",), ("tell", "x"), ("rollback", "x")):
        ended = desk.run(*words)
        assert ended.code == 4, words
    assert "no branch main" in desk.run("review").err
    status = desk.run("status")
    assert status.code == 3, "it shows what is known all the same"
    assert "no branch main" in status.out


def test_a_line_without_end_is_cut_and_says_so(desk: Desk) -> None:
    """It pushes nothing off the screen, in changes and in reports; JSON has the whole."""
    commit = desk.branch("improve", {"src/a.py": "x = 1" + " " * 9000 + "evil()\nafter\n"})
    desk.report(f"improve@{commit[:12]} validated: 1 passed", "y" * 9000)

    out = desk.done("review", "improve").out

    assert "… (cut: 5,012 more characters)" in out
    assert "+after" in out
    assert max(map(len, out.split("\n"))) < 4100
    assert "evil()" in desk.done("review", "improve", "--json").json["diff"]


@pytest.mark.parametrize("hides", ["*.sh -diff\n", "*.sh binary\n", "* diff=odd\n", ""])
def test_no_attribute_and_no_byte_hides_a_change(desk: Desk, hides: str) -> None:
    """Neither what the branch says of its files, nor what main says, nor a NUL byte; large files are named."""
    attributes = {".gitattributes": hides} if hides else {}
    desk.branch("main", attributes | {"src/old.sh": "echo old\n"}, start="main")
    files = {"src/old.sh": "echo \0 evil\n", "src/new.sh": "\0\necho new\n", "src/large.sh": "\0" * 70_000}
    desk.branch("improve", attributes | files)

    out = desk.done("review", "improve").out

    for words in ("-echo old", "+echo \\x00 evil", "+echo new", "b/src/large.sh differ"):
        assert words in out, words


def test_a_page_that_is_too_long_is_cut_and_read(desk: Desk) -> None:
    """No command refuses it: the directives at its beginning and the reports at its end are there."""
    git = desk.git()
    heading = "### 2026-01-31T10:42:12.345Z main@0123456789ab x"
    long = "".join(f"{heading}{number}\n\n{'word ' * 2000}\n\n" for number in range(900))
    page = f"## Directives\n\n- [ ] be good\n\n## Reports\n\n{long}"
    assert len(page) > 2 * PAGE_BYTES
    advance(BareTip(git), edit_file(git, "COMMS.md", lambda _: page, "long"))

    cut = page_at(git, "main")

    assert len(cut) <= PAGE_BYTES
    assert [item.text for item in comms.open_directives(cut)] == ["be good"]
    assert comms.reports(cut)[-1].startswith(f"{heading}899")
    assert desk.run("reports").code == 0
    assert desk.run("tell", "and better").code == 0
    assert page_at(git, "main~1") == cut
    lines = f"{'x' * 999}\n" * (PAGE_BYTES // 500)
    assert comms.reports(_ends_of(f"## Directives\n{lines}# Reports\n{lines}")) == []
    assert _ends_of("x" * 2 * PAGE_BYTES) == comms.with_sections("\n")


def test_what_work_that_had_read_the_web_pushed_is_shown(desk: Desk) -> None:
    """With the origins, and what needs the PM's word for it, also when that work is over."""
    tip = desk.branch("improve", {"infra/a.py": "1\n", "src/a.py": "1\n"})
    desk.branch("other", {"src/b.py": "1\n"})
    state = served(TaintState(), ("https://evil.example",), "d", 1_800_000_000.0)
    push = TaintedPush(1_800_000_001.0, "refs/heads/improve", tip, state.now.origins if state.now else (), (), True)
    state = pushed(state, [push], {"infra/a.py": ""}, push.origins)
    var = Path(desk.home().places.var)
    var.mkdir(parents=True, exist_ok=True)
    for now in (state, ended(state, {}, 1_800_000_002.0)):
        (var / state_file.NAME).write_bytes(state_file.encode(now))
        said = desk.run("review", "improve").out
        assert f"{tip[:12]} was pushed at 2027-01-15T08:00:01.000Z by work that had read https://evil.example" in said
        assert "needs your word: 'infra/a.py'" in said
        assert "The web" not in desk.run("review", "other").out
        status = desk.run("status").out
        assert ("tainted by https://evil.example since 2027-01-15T08:00:00.000Z" in status) == bool(now.now)
        assert "held until you change them on main: 'infra/a.py'" in status
