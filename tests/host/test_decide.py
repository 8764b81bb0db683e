"""`merge`, `reject`, `rollback` and `retry`: history only grows, and each can be undone."""

from __future__ import annotations

import shlex
import subprocess
import threading
import time
from pathlib import Path

import pytest
from msgspec import structs

from host import decide
from host.repository import git_on
from host.review import UNSEALED, have_examined
from infra.keep import watcher_file
from infra.keep.code import version_of
from infra.keep.repository.bare_tip import KNOWN_GOOD, RETRY_REF
from infra.keep.verdicts import refs
from infra.keep.watcher_file import BootRecord, Instant, Level, Phase, Runner, State, Strikes, Version
from infra.shared import comms
from infra.shared.people import WATCHER, Person
from infra.shared.repository.tip import commit_tree, tree_with
from tests.cell.loop.waiting import wait_for
from tests.host.desk import Desk

AT = "2026-01-31T10:42:12.345Z"


def _tree(desk: Desk, commit: str) -> set[str]:
    """What it holds, without the page."""
    return {line for line in desk.git()("ls-tree", "-r", commit).splitlines() if not line.endswith("\tCOMMS.md")}


# Merge.


def test_a_validated_branch_is_merged_and_the_undo_undoes_it(desk: Desk) -> None:
    """A merge commit of the PM's with both parents; COMMS.md stays main's; the printed undo gives the old content; a
    second merge is nothing to do."""
    commit = desk.branch("improve", {"spec/a.py": "1\n", "COMMS.md": "the branch's\n"})
    desk.examined("improve", commit)
    before, page = desk.main(), desk.page()

    ended = desk.done("merge", "improve@TIP")

    git, after = desk.git(), desk.main()
    assert git("rev-parse", f"{after}^1", f"{after}^2").split() == [before, commit]
    assert git("log", "-1", "--format=%an", after) == "PM"
    assert desk.page() == page
    assert git("cat-file", "blob", f"{after}:spec/a.py") == "1"
    assert after in ended.out
    assert "spec/a.py" in ended.out
    assert "nothing to do" in desk.done("merge", "improve@TIP").out
    assert desk.main() == after
    undo = next(line for line in ended.out.splitlines() if line.startswith("undo:"))
    desk.done(*shlex.split(undo.removeprefix("undo:"))[1:])
    assert _tree(desk, "main") == _tree(desk, before)
    assert desk.git().ok("merge-base", "--is-ancestor", after, "main")


@pytest.mark.parametrize("verdict", ["not examined", "not passed"])
def test_what_nobody_saw_pass_is_denied_unless_the_pm_insists(desk: Desk, verdict: str) -> None:
    """5, with the way to look and the way to insist; a report of the agent's is no verdict."""
    commit = desk.branch("improve", {"spec/a.py": "1\n"})
    desk.report(f"improve@{commit[:12]} validated: 12 passed", "All tests passed.")
    if verdict == "not passed":
        desk.examined("improve", commit, "tests/a.py::test_a failed")
    before = desk.main()

    denied = desk.run("merge", "improve@TIP")
    assert denied.code == 5
    assert verdict in denied.err
    assert "--unexamined" in denied.err
    assert desk.main() == before

    assert UNSEALED in desk.run("review", "improve").err, "the process sandbox proves nothing"
    assert desk.done("merge", "improve@TIP", "--unexamined", "--json").json["verdict"] == verdict


def test_a_commit_slipped_in_after_the_review_is_not_merged(desk: Desk) -> None:
    """6: what is merged is what the PM named, also where the newer commit has passed as well."""
    reviewed = desk.branch("improve", {"spec/a.py": "1\n"})
    desk.examined("improve", reviewed)
    slipped = desk.branch("improve", {"spec/a.py": "2\n"}, start="improve")
    desk.examined("improve", slipped)
    before = desk.main()

    ended = desk.run("merge", f"improve@{reviewed[:12]}")

    assert ended.code == 6
    assert f"improve is at {slipped[:12]} now, not at {reviewed[:12]}" in ended.err
    assert desk.main() == before
    assert desk.run("merge", "improve").code == 2, "and no commit at all is a usage error"


def test_the_pms_own_branch_needs_no_examination(desk: Desk) -> None:
    """What the PM committed is the PM's word; one commit of the agent's among them, and it is not."""
    git = git_on(desk.home().remote, Person("PM", "pm@example.org"))
    tree = tree_with(git, desk.main(), {"spec/own.py": git("hash-object", "-w", "--stdin", stdin=b"1\n")})
    own = commit_tree(git, tree, (desk.main(),), "mine")
    git("update-ref", "refs/heads/own", own)
    assert f"'minifram merge own@{own[:12]}'" in desk.done("review", "own").err
    desk.branch("mixed", {"spec/agents.py": "1\n"}, start=own)

    assert desk.run("merge", "mixed@TIP").code == 5
    saved = commit_tree(git_on(desk.home().remote, WATCHER), tree, (desk.main(),), "what the agent left")
    git("update-ref", "refs/heads/saved", saved)
    assert desk.run("merge", f"saved@{saved}").code == 5
    assert desk.done("merge", f"own@{own}", "--json").json["verdict"] == "not examined"


# Examination.


def test_an_examination_is_asked_for_by_a_ref(desk: Desk) -> None:
    """With nobody there to make it, it stays asked for (3); what is not a branch is refused."""
    commit = desk.branch("improve", {"spec/a.py": "1\n"})

    ended = desk.run("review", "improve", "--examine")

    assert ended.code == 3
    assert "examined at the next start" in ended.err
    assert desk.git()("rev-parse", "refs/minifram/examine/improve") == commit
    assert desk.run("review", "other", "--examine").code == 4
    assert desk.run("review", "--examine").code == 2


def test_an_examination_may_last_longer_than_one_look_of_git(desk: Desk) -> None:
    """Each look has a time limit of its own; the wait ends when the keep has dealt with the request."""
    assert desk.call("up").code == 0
    commit = desk.branch("improve", {"spec/a.py": "1\n"})
    git, ended = desk.git().within(1.0), list[object]()
    ask = lambda: ended.append(have_examined(desk.home(), git, "improve", 60.0, lambda _: None))  # noqa: E731
    waiting = threading.Thread(target=ask)
    waiting.start()
    wait_for(lambda: ("improve", commit) in refs.requests(desk.git()), "the request")
    time.sleep(1.0)  # the limit of the look that began it is over
    refs.forget_request(desk.git(), "improve", commit)
    waiting.join(30)
    assert ended == [None]


# Reject.


def test_a_rejected_branch_is_kept_aside_and_the_agent_is_told(desk: Desk) -> None:
    """The branch goes, its commit stays reachable, a directive says why, and plain git brings it back. When it comes
    again it may be rejected again, and what the agent was told already is not told twice."""
    commit = desk.branch("deep/improve", {"spec/a.py": "1\n"})

    found = desk.done("reject", "deep/improve", "--because", "it is too clever", "--json").json

    git = desk.git()
    assert not git.ok("show-ref", "--verify", "--quiet", "refs/heads/deep/improve")
    assert found["kept_as"].startswith("refs/minifram/rejected/deep/improve/")
    assert git("rev-parse", found["kept_as"]) == commit
    (told,) = comms.open_directives(desk.page())
    assert "deep/improve" in told.text
    assert "it is too clever" in told.text
    assert found["directive_commit"] == desk.main()

    subprocess.run(shlex.split(found["undo"]), check=True, cwd="/")
    assert git("rev-parse", "refs/heads/deep/improve") == commit
    desk.done("reject", "deep/improve", "--because", "it is too clever")
    assert comms.open_directives(desk.page()) == [told]


# Roll back.


def test_rollback_gives_the_old_content_as_a_new_commit(desk: Desk) -> None:
    """History grows, COMMS.md keeps every word, the files that changed are named, the undo undoes it; to the present
    there is nothing to do."""
    first = desk.main()
    desk.branch("main", {"spec/a.py": "1\n", "SYSTEM.md": "other\n"})
    desk.done("tell", "keep me")
    before, page = desk.main(), desk.page()
    assert "nothing to do" in desk.done("rollback", "main~1").out, "the page does not count"
    assert desk.main() == before

    desk.git()("update-ref", f"{KNOWN_GOOD}/older", first)
    desk.git()("update-ref", f"{KNOWN_GOOD}/taken-back", before)

    found = desk.done("rollback", first[:12], "--json").json

    assert found["commit"] == desk.main()
    assert desk.git()("rev-parse", "main~1") == before
    assert _tree(desk, "main") == _tree(desk, first)
    assert desk.page() == page
    assert found["changes"] == ["M SYSTEM.md", "D spec/a.py"]
    assert found["undo"] == f"minifram rollback {before}"
    desk.done(*shlex.split(found["undo"])[1:])
    assert _tree(desk, "main") == _tree(desk, before)
    assert desk.git()("for-each-ref", "--format=%(refname)", KNOWN_GOOD) == f"{KNOWN_GOOD}/older"
    elsewhere = desk.done("rollback", first, "--agent", "agent", "--json", MINIFRAM_AGENT="second").json
    assert elsewhere["undo"].endswith(" --agent agent")


def test_a_ref_that_names_no_version_changes_nothing(desk: Desk) -> None:
    """What is neither main nor one commit's id is 4 and never reaches git; what has no runner could not start: 5."""
    git, before = desk.git(), desk.main()
    empty = git("commit-tree", git("mktree", stdin=b""), stdin=b"empty")
    git("tag", "v1", before)
    rows = {empty: 5} | dict.fromkeys(("v1", "main~99", "0123456789abcdef", "a" * 40, "-x", "main..x", ":/x", ""), 4)
    for ref, code in rows.items():
        assert desk.run("rollback", "--", ref).code == code, ref
    assert desk.main() == before


def test_a_branch_named_like_a_version_is_not_taken_for_it(desk: Desk) -> None:
    """The agent pushes a branch that is named like the version to which the PM is about to return."""
    good = desk.main()
    desk.branch("main", {"spec/a.py": "two\n"})
    evil = desk.branch(good[:10], {"infra/runner.py": "evil\n"})
    git = desk.git()
    assert git("rev-parse", "--verify", "--quiet", f"{good[:10]}^{{commit}}") == evil, "the control"
    for ref in (good[:10], f"{good[:10]}~0", good, "main~1", "HEAD~1"):
        assert decide.named_commit(git, ref) == good, ref
    desk.done("rollback", good[:10])
    assert git("rev-parse", f"{good}:infra") == git("rev-parse", "main:infra")


# Retry.


def remember(desk: Desk, **fields: object) -> None:
    """What the last watcher wrote; it had seen main as it is now."""
    seen = version_of(desk.git(), desk.main())
    boot = BootRecord(
        boot_id="0" * 32, branch="main", commit=seen.commit, reason="start", started_at=AT, level=Level.GOOD
    )
    told = State(phase=Phase.RUNNING, main=seen, boots=(boot,), since=Instant(1.0, 1_769_856_132.345))
    state = structs.replace(told, **fields)
    Path(desk.home().places.watcher_state).write_bytes(watcher_file.encode(state))


def test_with_nothing_pinned_retry_says_so_and_changes_nothing(desk: Desk) -> None:
    """0, whether a watcher has ever written anything or not; what cannot be read is a trouble in words."""
    for _ in range(2):
        assert "nothing is pinned" in desk.done("retry").out
        assert desk.git()("for-each-ref", "refs/minifram/") == ""
        remember(desk)
    Path(desk.home().places.watcher_state).write_text("garbage")
    ended = desk.run("retry")
    assert ended.code == 1
    assert "watcher.json" in ended.err


def test_retry_leaves_a_request_for_the_watcher(desk: Desk) -> None:
    """The ref is made at main's commit, also where one lies packed, which no watcher sees."""
    seen = version_of(desk.git(), desk.main())
    pin = Strikes(
        count=2, pinned=True, version=seen.id, commit=seen.commit, branch="main", why="it died: SIGKILL", at=AT
    )
    evil = structs.replace(pin, why="\x1b[2J\u202eback " + "x" * 5000, branch="\x1b]0;t\x07" + "y" * 500)
    remember(desk, strikes=(evil, pin))
    for _ in range(2):
        ended = desk.done("retry")
        assert f"pinned  main@{desk.main()[:12]} since {AT}: it died" in ended.out
        assert "\\u202e" in ended.out
        assert max(map(len, ended.out.splitlines())) < 700
        assert "at the next start: 'minifram up'" in ended.out
        assert Path(desk.home().remote, RETRY_REF).read_text() == f"{desk.main()}\n"
        desk.git()("pack-refs", "--all")
    found = desk.done("retry", "--json").json
    assert (found["asked"], found["running"]) == (True, False)


def test_why_main_does_not_run_is_said_with_what_to_do() -> None:
    """Which version is active or next instead."""
    main, good, older = (Version(commit=name * 40, id=name) for name in "abc")
    pinned = Strikes(count=2, pinned=True, version="a", commit=main.commit, branch="main", why="it died", at=AT)
    state = State(main=main, strikes=(pinned,), goods=(good, older), runner=Runner(level=Level.SAFE))
    said = decide.trouble_with_main(state, running=False)
    for words in ("it died", "last good is next", f"minifram rollback {'b' * 12}", "minifram retry"):
        assert words in said
    assert "safe mode is active instead" in decide.trouble_with_main(state, running=True)
    lost = State(main=main, strikes=(pinned, structs.replace(pinned, version="b")), goods=(good, older))
    assert f"minifram rollback {'c' * 12}" in decide.trouble_with_main(lost, running=False)
    other = Strikes(count=2, pinned=True, version="x", commit="x", branch="try", why="it died", at=AT)
    assert decide.trouble_with_main(State(main=main, strikes=(other,)), running=True) == ""
    unpinned = State(main=main, runner=Runner(level=Level.SAFE))
    assert "minifram restart" in decide.trouble_with_main(unpinned, running=True)


def test_the_newest_pins_are_shown_a_line_each() -> None:
    """And how many more there are."""
    pin = Strikes(count=2, pinned=True, version="v", commit="c" * 40, branch="try", why="reason\nmore", at=AT)
    lines = list(decide.shown([pin] * 7))
    assert lines[0] == f"try@cccccccccccc since {AT}: reason"
    assert (len(lines), lines[-1]) == (6, "and 2 more, see 'minifram status --json'")
