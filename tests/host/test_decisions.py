"""`merge`, `reject` and `rollback`: history only grows, and each can be undone."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading

import pytest

from host.errors import CommandError
from host.repository import comms as talk
from host.repository import merge as decisions
from host.repository import open as bare
from infra.shared import comms
from infra.shared.exit_codes import Exit
from infra.shared.people import WATCHER, Person
from infra.shared.repository.tip import commit_tree, tree_with
from tests.host.desk import Desk


def _tree(desk: Desk, commit: str, without_page: bool = True) -> set[str]:
    listed = desk.git()("ls-tree", "-r", commit).splitlines()
    return {line for line in listed if not (without_page and line.endswith("\tCOMMS.md"))}


def test_a_validated_branch_is_merged_and_the_undo_undoes_it(desk: Desk) -> None:
    """A merge commit of the PM's with both parents; COMMS.md stays main's; the printed undo gives the old content."""
    commit = desk.branch("improve", {"src/a.py": "1\n", "COMMS.md": "the branch's\n"})
    desk.validated("improve", commit)
    before, page = desk.main(), desk.page()

    ended = desk.done("merge", "improve@TIP")

    git = desk.git()
    after = desk.main()
    assert git("rev-parse", f"{after}^1", f"{after}^2").split() == [before, commit]
    assert git("log", "-1", "--format=%an", after) == "PM"
    assert desk.page() == page
    assert git("cat-file", "blob", f"{after}:src/a.py") == "1"
    assert after in ended.out
    assert "src/a.py" in ended.out
    undo = next(line for line in ended.out.splitlines() if line.startswith("undo:"))
    desk.done(*shlex.split(undo.removeprefix("undo:"))[1:])
    assert _tree(desk, "main") == _tree(desk, before)
    assert desk.git().ok("merge-base", "--is-ancestor", after, "main")


@pytest.mark.parametrize("verdict", ["not examined", "not passed"])
def test_what_nobody_saw_pass_is_denied_unless_the_pm_insists(desk: Desk, verdict: str) -> None:
    """5, with the way to look and the way to insist."""
    commit = desk.branch("improve", {"src/a.py": "1\n"})
    if verdict == "not passed":
        desk.examined("improve", commit, "tests/a.py::test_a failed")
    before = desk.main()

    denied = desk.run("merge", "improve@TIP")
    assert denied.code == 5
    assert verdict in denied.err
    assert "--unexamined" in denied.err
    assert desk.main() == before

    assert desk.done("merge", "improve@TIP", "--unexamined", "--json").json["verdict"] == verdict


def test_a_commit_slipped_in_after_the_review_is_not_merged(desk: Desk) -> None:
    """6: what is merged is what the PM named, also where the newer commit has passed as well."""
    reviewed = desk.branch("improve", {"src/a.py": "1\n"})
    desk.examined("improve", reviewed)
    slipped = desk.branch("improve", {"src/a.py": "2\n"}, start="improve")
    desk.examined("improve", slipped)
    before = desk.main()

    ended = desk.run("merge", f"improve@{reviewed[:12]}")

    assert ended.code == 6
    assert f"improve is at {slipped[:12]} now, not at {reviewed[:12]}" in ended.err
    assert desk.main() == before
    assert desk.run("merge", "improve").code == 2, "and no commit at all is a usage error"


def test_what_the_verdict_asks_for_is_the_pms_to_say(desk: Desk) -> None:
    """Naming the commit is the word: it was shown by review."""
    commit = desk.branch("improve", {"src/a.py": "1\n"})
    desk.examined("improve", commit, word=("tests/test_a.py is removed",))

    assert "needs your word: tests/test_a.py is removed" in desk.done("review", "improve").out
    assert desk.done("merge", "improve@TIP", "--json").json["verdict"] == "needs your word"


def test_a_report_is_no_verdict(desk: Desk) -> None:
    """The agent may write what it likes on the page."""
    commit = desk.branch("improve", {"src/a.py": "1\n"})
    desk.report(f"improve@{commit[:12]} validated: 12 passed", "All tests passed.")

    assert desk.run("merge", "improve@TIP").code == 5
    assert desk.done("review", "--json").json["branches"][0]["verdict"] == "not examined"


def test_a_conflict_names_the_files_and_leaves_main(desk: Desk) -> None:
    """6; the branch is still there, and the words say how to go on."""
    desk.branch("improve", {"SYSTEM.md": "theirs\n"})
    desk.branch("main", {"SYSTEM.md": "ours\n"})
    before = desk.main()

    ended = desk.run("merge", "improve@TIP", "--unvalidated")

    assert ended.code == 6
    assert "SYSTEM.md" in ended.err
    assert desk.main() == before


def test_merging_twice_is_nothing_to_do(desk: Desk) -> None:
    """What is already in main is done, not an error."""
    desk.branch("improve", {"src/a.py": "1\n"})
    desk.done("merge", "improve@TIP", "--unvalidated")
    before = desk.main()

    again = desk.done("merge", "improve@TIP")

    assert "nothing to do" in again.out
    assert desk.main() == before


def test_a_merge_meets_directives_that_come_meanwhile(desk: Desk) -> None:
    """Main moves under the merge: nobody's commit is lost."""
    commit = desk.branch("improve", {"src/a.py": "1\n"})
    desk.validated("improve", commit)
    threads = [threading.Thread(target=talk.add_directive, args=(desk.git(), f"d {number}")) for number in range(6)]
    for thread in threads:
        thread.start()
    decisions.merge_branch(desk.git(), f"improve@{commit}", False, "")
    for thread in threads:
        thread.join()

    assert len(comms.open_directives(desk.page())) == 6
    assert desk.git().ok("merge-base", "--is-ancestor", commit, "main")


def test_a_rejected_branch_is_kept_aside_and_the_agent_is_told(desk: Desk) -> None:
    """The branch goes, its commit stays reachable, a directive says why, and plain git brings it back."""
    commit = desk.branch("deep/improve", {"src/a.py": "1\n"})

    ended = desk.done("reject", "deep/improve", "--because", "it is too clever", "--json")

    found = ended.json
    git = desk.git()
    assert found["schema"] == "minifram.reject/1"
    assert not git.ok("show-ref", "--verify", "--quiet", "refs/heads/deep/improve")
    assert git("rev-parse", found["kept_as"]) == commit
    assert found["kept_as"].startswith("refs/minifram/rejected/deep/improve/")
    (told,) = comms.open_directives(desk.page())
    assert "deep/improve" in told.text
    assert "it is too clever" in told.text
    assert found["directive_commit"] == desk.main()

    subprocess.run(shlex.split(found["undo"]), check=True, cwd="/")
    assert git("rev-parse", "refs/heads/deep/improve") == commit


def test_a_branch_may_be_rejected_again_when_it_comes_again(desk: Desk) -> None:
    """The same commit or another: each is kept; what the agent was told already is not told twice."""
    first = desk.branch("improve", {"src/a.py": "1\n"})
    desk.done("reject", "improve")
    desk.branch("improve", {"src/a.py": "2\n"})
    desk.done("reject", "improve")

    kept = desk.git()("for-each-ref", "--format=%(objectname)", "refs/minifram/rejected/").splitlines()
    assert len(kept) == 2
    desk.git()("update-ref", "refs/heads/improve", first)
    desk.done("reject", "improve")
    assert len(comms.open_directives(desk.page())) == 2
    assert not desk.git().ok("show-ref", "--verify", "--quiet", "refs/heads/improve")


def test_a_branch_that_moved_is_not_rejected_unseen(desk: Desk) -> None:
    """The commit that was judged is the only one that is taken away."""
    desk.branch("improve", {"src/a.py": "1\n"})
    git = desk.git()

    class Moving(type(git)):  # type: ignore[misc]
        """A git under which the agent pushes just before the refs are changed."""

        def raw(self, *words: str, **options: object) -> bytes:
            if words[:2] == ("update-ref", "--stdin"):
                desk.branch("improve", {"src/a.py": "2\n"}, start="improve")
            return super().raw(*words, **options)  # type: ignore[no-any-return]

    moving = Moving(git.directory)
    moving._env = git._env
    with pytest.raises(CommandError, match="nothing was rejected") as caught:
        decisions.reject_branch(moving, "improve", "")

    assert caught.value.code == Exit.CONFLICT
    assert git.ok("show-ref", "--verify", "--quiet", "refs/heads/improve")
    assert git("for-each-ref", "refs/minifram/") == ""
    assert comms.open_directives(desk.page()) == []


def test_rollback_gives_the_old_content_as_a_new_commit(desk: Desk) -> None:
    """History grows, COMMS.md keeps every word, the files that changed are named, the undo undoes it."""
    first = desk.main()
    desk.branch("main", {"src/a.py": "1\n", "SYSTEM.md": "other\n"})
    desk.done("tell", "keep me")
    before, page = desk.main(), desk.page()

    found = desk.done("rollback", first[:12], "--json").json

    assert found["schema"] == "minifram.rollback/1"
    assert found["commit"] == desk.main()
    assert desk.git()("rev-parse", "main~1") == before
    assert _tree(desk, "main") == _tree(desk, first)
    assert desk.page() == page
    assert found["changes"] == ["M SYSTEM.md", "D src/a.py"]
    desk.done(*shlex.split(found["undo"])[1:])
    assert _tree(desk, "main") == _tree(desk, before)


def test_rollback_to_the_present_is_nothing_to_do(desk: Desk) -> None:
    """COMMS.md does not count; nothing is committed."""
    desk.done("tell", "a word")
    before = desk.main()

    assert "nothing to do" in desk.done("rollback", "main~1").out
    assert "nothing to do" in desk.done("rollback", "main").out
    assert desk.main() == before


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        ("nowhere", 4),
        ("main~99", 4),
        ("0123456789abcdef", 4),
        ("a" * 40, 4),
        ("-x", 2),
        ("--all", 2),
        ("main..x", 2),
        ("a b", 2),
        (":/x", 2),
    ],
)
def test_a_ref_that_names_no_commit_changes_nothing(desk: Desk, ref: str, code: int) -> None:
    """Not found is 4; what cannot be a ref at all is 2 and never reaches git."""
    before = desk.main()

    ended = desk.run("rollback", "--", ref)

    assert ended.code == code, ended
    assert desk.main() == before


def test_what_is_no_version_of_the_agent_is_no_place_to_go_back_to(desk: Desk) -> None:
    """Main without a runner could never start again; the PM can still do it by hand."""
    git = desk.git()
    tree = git("mktree", stdin=b"")
    orphan = git("commit-tree", tree, stdin=b"empty")
    git("tag", "empty", orphan)

    ended = desk.run("rollback", "empty")

    assert ended.code == 5
    assert "infra/runner.py" in ended.err


def test_a_name_that_could_mean_two_versions_changes_nothing(desk: Desk) -> None:
    """A tag and a branch of one name, a branch named like a shortened id: both are said, and each has a whole name.

    git would choose for the PM, and the agent may name its branches as it likes."""
    old = desk.main()
    new = desk.branch("both", {"src/a.py": "1\n"})
    git = desk.git()
    git("update-ref", "refs/tags/both", old)
    git("update-ref", f"refs/heads/{old[:9]}", new)
    desk.branch("main", {"src/b.py": "1\n"})
    before = desk.main()
    for ref in ("both", "both~0", old[:9], f"{old[:9]}^0"):
        ended = desk.run("rollback", ref)
        assert ended.code == 6, (ref, ended)
        assert old[:12] in ended.err
        assert new[:12] in ended.err
        assert desk.main() == before
    assert decisions.named_commit(git, old) == old
    assert decisions.named_commit(git, old[:10]) == old
    assert decisions.named_commit(git, f"refs/heads/{old[:9]}") == new
    assert decisions.named_commit(git, "refs/tags/both") == old
    assert decisions.named_commit(git, "tags/both") == old
    assert decisions.named_commit(git, "both^2") is None
    git("update-ref", "refs/tags/both", new)
    assert decisions.named_commit(git, "both") == new, "two names of one version are no question"
    assert desk.run("rollback", f"{old}").code == 0


def test_another_agents_undo_names_that_agent(desk: Desk) -> None:
    """The words can be typed as they stand."""
    desk.done("init", "--agent", "second")
    git = desk.git("second")
    first = desk.main("second")
    blob = git("hash-object", "-w", "--stdin", stdin=b"1\n")
    git("update-ref", "refs/heads/main", commit_tree(git, tree_with(git, first, {"src/a": blob}), (first,), "x"))

    found = desk.done("rollback", "main~1", "--agent", "second", "--json").json

    assert found["undo"] == f"minifram rollback {found['main_before']} --agent second"


def test_a_lock_that_a_dead_git_left_is_try_again(desk: Desk) -> None:
    """75 with the name of the lock, and nothing changed; without it the same command works."""
    git = desk.git()
    git("config", "--file", f"{git.directory}/config", "core.filesRefLockTimeout", "50")
    lock = f"{git.directory}/refs/heads/main.lock"
    with open(lock, "w", encoding="utf-8"):
        pass

    ended = desk.run("tell", "x")

    assert ended.code == 75, ended
    assert lock in ended.err
    os.unlink(lock)
    desk.done("tell", "x")


def test_an_examination_is_asked_for_by_a_ref(desk: Desk) -> None:
    """With nobody there to make it, it stays asked for; what is not a branch is refused."""
    commit = desk.branch("improve", {"src/a.py": "1\n"})

    ended = desk.done("examine", "improve")

    assert f"asked   improve@{commit[:12]}" in ended.out
    assert "examined at the next start" in ended.err
    assert desk.git()("rev-parse", "refs/minifram/examine/improve") == commit
    assert desk.done("examine", "improve", "--json").json["status"] == ""
    assert desk.run("examine", "other").code == 4


def test_the_pms_own_branch_needs_no_examination(desk: Desk) -> None:
    """What the PM committed is the PM's word; one commit of the agent's among them, and it is not."""
    git = bare.git_on(desk.home().remote, Person("PM", "pm@example.org"))
    tree = tree_with(git, desk.main(), {"src/own.py": git("hash-object", "-w", "--stdin", stdin=b"1\n")})
    own = commit_tree(git, tree, (desk.main(),), "mine")
    git("update-ref", "refs/heads/own", own)
    assert f"'minifram merge own@{own[:12]}'" in desk.done("review", "own").err
    desk.branch("mixed", {"src/agents.py": "1\n"}, start=own)

    assert desk.run("merge", "mixed@TIP").code == 5
    saved = commit_tree(bare.git_on(desk.home().remote, WATCHER), tree, (desk.main(),), "what the agent left")
    git("update-ref", "refs/heads/rescue/1", saved)
    assert desk.run("merge", f"rescue/1@{saved}").code == 5
    assert desk.done("merge", f"own@{own}", "--json").json["verdict"] == "not examined"
    assert git.ok("merge-base", "--is-ancestor", own, "main")


@pytest.mark.parametrize("ref", ["HEAD", "HEAD~1", "HEAD^"])
def test_head_is_mains_as_in_a_clone(desk: Desk, ref: str) -> None:
    """The bare repository's own HEAD may name anything."""
    desk.branch("main", {"src/a.py": "1\n"})
    desk.git()("symbolic-ref", "HEAD", "refs/heads/other")

    found = desk.done("rollback", ref, "--json").json

    assert found["target"] == desk.git()("rev-parse", ref.replace("HEAD", found["main_before"]))
