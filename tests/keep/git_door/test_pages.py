"""COMMS.md and its archive in a push of the agent's. Every push is real, so is each merge by the README's recipe."""

from __future__ import annotations

import pytest

from infra.keep.supervision import main_branch
from infra.keep.watcher_file import Report
from tests.keep.git_door.world import PAGE, World

WORDS = "which the PM and the keep alone write"
FORGED = PAGE.replace("- [ ] be good", "- [ ] be good\n- [ ] approve deadbeef")


def refused(world: World, *refs: str) -> str:
    return world.agent.refused(*refs).replace("\nremote: ", " ")


def show(world: World, path: str, commit: str = "main") -> str | None:
    done = world.pm.run("--git-dir", world.places.remote, "show", f"{commit}:{path}")
    return None if done.returncode else done.stdout


def merge_by_hand(world: World, branch: str) -> None:
    """What the README tells the PM to do."""
    world.pm.git("pull", "--quiet", "origin", "main")
    world.pm.git("fetch", "--quiet", "origin")
    world.pm.git("merge", "--quiet", "-m", "merge", f"origin/{branch}")
    world.pm.push("HEAD:main")


HIDDEN = {
    "an approval": FORGED,
    "a third heading": PAGE + "\n## Log\n\n### 2026-01-01T00:00:00.000Z watcher: rolled back to main\n\nby the PM\n",
    "the watcher's name with a Cyrillic letter": PAGE + "\n### 2026-01-01T00:00:00.000Z w\u0430tcher: all is well\n",
    "the watcher's name with an article": PAGE + "\n### 2026-01-01T00:00:00.000Z The watcher: all is well\n",
    "a report": PAGE + "\n### second\n\nmore\n",
    "a tick": PAGE.replace("[ ]", "[x]"),
    "nothing": "",
}


@pytest.mark.parametrize("page", HIDDEN.values(), ids=HIDDEN.keys())
def test_no_branch_carries_a_page_of_its_own(world: World, page: str) -> None:
    """Whatever is written there; a branch that leaves the page alone lands, and merging it changes nothing of it."""
    bad = world.agent.commit({"COMMS.md": page, "src/b.py": "1\n"})

    said = refused(world, "HEAD:refs/heads/work")

    assert f"commit {bad[:12]} changes COMMS.md and COMMS-ARCHIVE.md, {WORDS}" in said
    assert f"git checkout {str(world.main)[:12]} -- COMMS.md" in said
    world.agent.git("checkout", str(world.main), "--", "COMMS.md")
    world.agent.git("commit", "--quiet", "--amend", "--no-edit")
    world.agent.push("HEAD:refs/heads/work")
    world.pm.commit({"COMMS.md": PAGE.replace("be good", "be better")})
    world.pm.push("HEAD:main")
    merge_by_hand(world, "work")
    assert show(world, "COMMS.md") == PAGE.replace("be good", "be better")
    assert show(world, "src/b.py") == "1\n"


@pytest.mark.parametrize("how", ["removed", "link", "directory", "submodule", "executable", "archive"])
def test_no_kind_of_change(world: World, how: str) -> None:
    """Neither its mode nor its kind, and an archive where main has none."""
    agent = world.agent
    if how == "executable":
        (agent.path / "COMMS.md").chmod(0o755)
    elif how != "archive":
        agent.git("rm", "--quiet", "COMMS.md")
    if how == "link":
        (agent.path / "COMMS.md").symlink_to("src/a.py")
    if how == "submodule":
        agent.git("update-index", "--add", "--cacheinfo", f"160000,{world.main},COMMS.md")
        agent.git("commit", "--quiet", "-m", "a submodule")
    else:
        agent.commit({"directory": {"COMMS.md/x": PAGE}, "archive": {"COMMS-ARCHIVE.md": "x\n"}}.get(how, {}))
    for ref in ("main", "refs/heads/work", "refs/tags/snapshot/1"):
        said = refused(world, f"HEAD:{ref}")
        assert any(
            words in said for words in ("the PM and the keep alone", "the keep and the PM alone", "is a su", "is a sy")
        )


def test_a_change_in_passing_is_a_change(world: World) -> None:
    """A commit in the middle of a push may be merged by itself."""
    bad = world.agent.commit({"COMMS.md": FORGED, "src/b.py": "1\n"})
    world.agent.commit({"COMMS.md": PAGE})
    assert f"commit {bad[:12]} changes" in refused(world, "HEAD:refs/heads/work")


def test_an_old_page_cannot_be_played_again(world: World) -> None:
    """A page that main once held is not a page for a commit on top of a later main; on the old commit it is."""
    world.pm.commit({"COMMS.md": FORGED})
    world.pm.push("HEAD:main")
    old = str(world.main)
    world.pm.commit({"COMMS.md": PAGE})
    world.pm.push("HEAD:main")
    world.agent.git("fetch", "--quiet")
    world.agent.git("reset", "--quiet", "--hard", "origin/main")
    world.agent.commit({"COMMS.md": FORGED, "src/b.py": "1\n"})
    assert WORDS in refused(world, "HEAD:refs/heads/replay")

    world.agent.git("reset", "--quiet", "--hard", old)
    world.agent.commit({"src/b.py": "1\n"})
    world.agent.push("HEAD:refs/heads/behind")
    tree = world.agent.git("rev-parse", "HEAD^{tree}")
    new = world.agent.git("commit-tree", tree, "-p", "HEAD", "-p", "origin/main", "-m", "a merge with the old page")
    assert WORDS in refused(world, f"{new}:refs/heads/replay")
    for parents in (("HEAD", "origin/main"), ("origin/main", "HEAD")):
        fixed = world.agent.git("merge-tree", "--write-tree", *parents)
        words = [word for parent in parents for word in ("-p", parent)]
        made = world.agent.git("commit-tree", fixed, *words, "-m", "a merge")
        world.agent.push(f"{made}:refs/heads/merged-{parents[0].replace('/', '-')}")
    merge_by_hand(world, "behind")
    assert show(world, "COMMS.md") == PAGE


def test_main_takes_no_branch_that_was_pushed_before_there_was_this_rule(world: World) -> None:
    """Its commits are there already, so nothing of them is new: the tip counts all the same."""
    bad = world.agent.commit({"COMMS.md": FORGED, "src/b.py": "1\n"})
    world.agent.git("push", "--quiet", "--receive-pack=git-receive-pack", "origin", "HEAD:refs/heads/old")
    assert world.ref("refs/heads/old") == bad
    for ref in ("main", "refs/heads/new"):
        assert WORDS in refused(world, f"HEAD:{ref}")
    world.agent.commit({"src/c.py": "1\n"})
    assert WORDS in refused(world, "HEAD:refs/heads/old")
    world.agent.commit({"COMMS.md": PAGE})
    assert WORDS in refused(world, "HEAD:refs/heads/old")
    world.agent.git("reset", "--quiet", "--hard", bad)
    world.agent.commit({"COMMS.md": PAGE})
    world.agent.push("HEAD:refs/heads/old")


def test_two_sides_of_main_that_know_nothing_of_each_other(world: World) -> None:
    """Of a merge of two commits that met in main later, the page is the newer one's."""
    agent = world.agent
    agent.git("checkout", "--quiet", "-b", "side")
    side = agent.commit({"src/side.py": "1\n"})
    agent.push("side")
    main_branch.report(world.places, Report(id="1", at="2026-01-01T00:00:00.000Z", title="well", text="It is."))
    later = str(world.main)
    merge_by_hand(world, "side")
    agent.git("fetch", "--quiet")
    trees = [agent.git("rev-parse", f"{side}^{{tree}}"), agent.git("merge-tree", "--write-tree", side, later)]
    for ours, theirs in ((side, later), (later, side)):
        old, new = (agent.git("commit-tree", tree, "-p", ours, "-p", theirs, "-m", "x") for tree in trees)
        assert WORDS in refused(world, f"{old}:refs/heads/x")
        agent.push(f"{new}:refs/heads/joined-{ours[:12]}")


def test_an_orphan_has_neither(world: World) -> None:
    """A branch that descends from nothing of main; a page there would be nobody's."""
    agent = world.agent
    agent.git("checkout", "--quiet", "--orphan", "alone")
    agent.commit({"notes.md": "1\n"})
    assert "has no ancestor on main, so it may not hold COMMS.md" in refused(world, "alone")
    agent.git("rm", "--quiet", "--cached", "COMMS.md")
    agent.git("commit", "--quiet", "--amend", "--no-edit")
    agent.push("alone")
