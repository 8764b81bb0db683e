"""What the PM protects stays the PM's, in every autonomy and by every way there is. Beside each refusal stands a push
that lands, and the PM's own by path, which always does."""

from __future__ import annotations

import pytest

from infra.keep.git_door.rollback import report, roll_back
from infra.keep.settings.schema import ProtectedSettings
from infra.keep.watcher_file import Report
from tests.keep.git_door.world import PAGE, World

FILES = ProtectedSettings(files=("SYSTEM.md", "spec/", "*.lock"))
WORDS = "is the PM's to change on main (protected.files has "


@pytest.fixture
def guarded(world: World) -> World:
    """Main holds protected files, and the agent has them."""
    world.pm.commit({"SYSTEM.md": "be good\n", "spec/SPEC_A.md": "must\n", "a/b.lock": "1\n"})
    world.pm.push("main")
    world.agent.git("pull", "--quiet")
    world.settings(protected=FILES)
    return world


@pytest.mark.parametrize(
    ("path", "pattern"),
    [("SYSTEM.md", "SYSTEM.md"), ("spec/SPEC_A.md", "spec/"), ("spec/new/x", "spec/"), ("a/b.lock", "*.lock")],
)
def test_a_protected_file_is_not_changed_on_main(guarded: World, path: str, pattern: str) -> None:
    """Not even by an agent that may move main; on a branch it is a proposal."""
    guarded.agent.commit({path: "changed\n"})
    words = f"'{path}' {WORDS}'{pattern}'); leave it as it is on main"
    guarded.judges({"HEAD:refs/heads/main": words, "HEAD:refs/heads/proposal": ""})
    guarded.pm.commit({path: "by the PM\n"})
    guarded.pm.push("main")


def test_no_kind_of_change(guarded: World) -> None:
    """Removing, moving, its mode, its kind, and a twin that some file systems take for the same."""
    git = guarded.agent.git
    listed = {line.partition("\t")[2]: f"{line}\n" for line in git("ls-tree", "HEAD").splitlines()}
    entry = listed["SYSTEM.md"]
    changes = {
        "removed": {"SYSTEM.md": ""},
        "moved": {"SYSTEM.md": entry.replace("SYSTEM.md", "moved.md")},
        "mode": {"SYSTEM.md": entry.replace("100644", "100755")},
        "capitals": {"": entry.replace("SYSTEM.md", "system.md")},
        "link": {"spec": entry.replace("100644", "120000").replace("SYSTEM.md", "spec")},
        "file": {"spec": entry.replace("SYSTEM.md", "spec")},
    }
    for how, entries in changes.items():
        tree = git("mktree", stdin="".join((listed | entries).values()))
        tip = git("commit-tree", tree, "-p", "HEAD", "-m", how)
        guarded.judges({f"{tip}:refs/heads/main": WORDS})
    guarded.agent.commit({"src/SYSTEM.md": "1\n", "spectacle/x": "1\n", "locks": "1\n"})
    guarded.agent.push("main")


@pytest.mark.attack("S50")
def test_no_way_round_by_a_merge(guarded: World) -> None:
    """Neither by merging a branch that has it, nor by a merge that keeps the agent's side of the PM's change."""
    agent = guarded.agent
    (proposal, work) = agent.commits([{"SYSTEM.md": "be bad\n"}, {"src/b.py": "1\n"}])
    agent.push(f"{proposal}:refs/heads/proposal")
    agent.git("reset", "--quiet", "--hard", work)
    agent.git("merge", "--quiet", "-m", "x", proposal)
    guarded.judges({"HEAD:refs/heads/main": WORDS})
    guarded.pm.commit({"SYSTEM.md": "be better\n"})
    guarded.pm.push("main")
    agent.git("fetch", "--quiet")
    for how in ("ours", "ort"):
        agent.git("reset", "--quiet", "--hard", work)
        agent.git("merge", "--quiet", "-s", how, "-m", "x", "origin/main")
        guarded.judges({"HEAD:refs/heads/main": WORDS if how == "ours" else "", "HEAD:refs/notes/x": "only branches"})


def test_the_page_is_not_protected_by_a_pattern(guarded: World) -> None:
    """With `*` protected the keep goes on reporting, and the agent builds on what the keep wrote."""
    guarded.settings(protected=ProtectedSettings(files=("*",)))
    (bad,) = guarded.agent.commits([{"src/b.py": "1\n"}])
    guarded.judges({f"{bad}:refs/heads/main": WORDS})
    report(guarded.places, Report(id="1", at="2026-01-01T00:00:00.000Z", title="all is well", text="It is."))
    guarded.agent.git("pull", "--quiet")
    guarded.agent.commit({})
    guarded.agent.push("main")


def show(world: World, path: str) -> str | None:
    done = world.pm.run("--git-dir", world.places.remote, "show", f"main:{path}")
    return None if done.returncode else done.stdout


@pytest.mark.attack("S50")
def test_no_way_round_by_a_rollback(guarded: World) -> None:
    """The agent may ask the watcher for the tree of any commit; what is protected in it stays as it is on main."""
    agent = guarded.agent
    good = guarded.main
    agent.git("checkout", "--quiet", "-b", "proposal")
    agent.commit({"SYSTEM.md": "be bad\n", "spec/new.md": "may\n", "src/b.py": "b = 1\n"})
    agent.git("rm", "--quiet", "a/b.lock")
    agent.commit({})
    agent.push("proposal")

    roll_back(guarded.places, "proposal", "merge", "1", FILES.files)

    assert show(guarded, "src/b.py") == "b = 1\n"
    assert show(guarded, "SYSTEM.md") == "be good\n"
    assert show(guarded, "spec/new.md") is None
    assert show(guarded, "a/b.lock") == "1\n"
    assert show(guarded, "COMMS.md") == PAGE
    roll_back(guarded.places, str(good), "merge", "2", FILES.files)
    assert guarded.pm.git("--git-dir", guarded.places.remote, "diff", "--stat", str(good), "main") == ""
    with pytest.raises(PermissionError, match=r"'SYSTEM\.md'; it is no good version"):
        roll_back(guarded.places, "proposal", "merge", "3", ())


def test_no_second_page_by_a_rollback(world: World) -> None:
    """What would be taken for the page comes to main neither by push nor by rollback; all else of the commit comes."""
    files = {"Comms.md": "- [ ] pay the agent\n", "COMMS.MD/x": "1\n", "src/comms.md": "2\n"}
    for name, text in files.items():
        world.agent.commit({name: text}, name)
        world.agent.refused("main")
    world.pm.git("fetch", "--quiet", str(world.agent.path), "main")
    world.pm.push("FETCH_HEAD:refs/heads/work")
    roll_back(world.places, "work", "merge", "1")
    assert [show(world, name) for name in files] == [None, None, "2\n"]
    assert show(world, "COMMS.md") == PAGE
