"""What the PM protects stays the PM's, in every autonomy and by every way there is. Beside each refusal stands a push
that lands, and the PM's own by path, which always does."""

from __future__ import annotations

import pytest

from infra.keep.git_door.rollback import report, roll_back
from infra.keep.settings.schema import ProtectedSettings
from infra.keep.watcher_file import Report
from infra.shared.refused import TAINTED, refusals_in
from tests.keep.git_door.test_examined import body
from tests.keep.git_door.world import PAGE, World
from tests.shared.web_traces import WebTrace

FILES = ProtectedSettings(files=("SYSTEM.md", "spec/", "*.lock"))
WORDS = "is the PM's to change on main (protected.files has "


@pytest.fixture
def guarded(world: World) -> World:
    """Main holds protected files, and the agent has them."""
    world.pm.commit({"SYSTEM.md": "be good\n", "spec/SPEC_A.md": "must\n", "a/b.lock": "1\n"}, to="main")
    world.agent.git("pull", "--quiet")
    world.settings(protected=FILES)
    return world


def test_a_protected_file_is_not_changed_on_main(guarded: World) -> None:
    """Not even by an agent that may move main; on a branch it is a proposal."""
    guarded.agent.commit({"spec/new/x": "changed\n"})
    words = f"'spec/new/x' {WORDS}'spec/'); leave it as it is on main"
    guarded.judges({"HEAD:refs/heads/main": words, "HEAD:refs/heads/proposal": ""})
    guarded.pm.commit({"spec/new/x": "by the PM\n"}, to="main")


def ways(world: World, path: str) -> dict[str, str]:
    """Commits that would bring something else than main has to this path, by how."""
    git = world.agent.git
    listed = {line.partition("\t")[2]: f"{line}\n" for line in git("ls-tree", "HEAD").splitlines()}
    entry, other = listed[path], git("hash-object", "-w", "--stdin", stdin="other\n")
    changed = {path: entry.replace(entry.split()[2], other)}
    work = {"notes": f"100644 blob {other}\tnotes\n"}

    def commit(entries: dict[str, str], *parents: str) -> str:
        tree = git("mktree", stdin="".join((listed | entries).values()))
        return git("commit-tree", tree, *(word for each in parents for word in ("-p", each)), "-m", "x")

    one, two = commit(changed, "HEAD"), commit(work, "HEAD")
    cross = [commit(changed | work, each, rest) for each, rest in ((one, two), (two, one))]
    return {
        "changed": one,
        "removed": commit({path: ""}, "HEAD"),
        "moved": commit({path: entry.replace(path, "moved.md")}, "HEAD"),
        "mode": commit({path: entry.replace("100644", "100755")}, "HEAD"),
        "link": commit({path: entry.replace("100644", "120000")}, "HEAD"),
        "capitals": commit({"": entry.replace(path, path.swapcase())}, "HEAD"),
        "below later work": commit(changed | work, one),
        "second parent": cross[1],
        "criss-cross": commit(changed | work, *cross),
        "in the merge alone": commit(changed, "HEAD", two),
    }


@pytest.mark.attack("S50", "S53")
def test_no_way_round(world: World) -> None:
    """However a file becomes another one than main has: each rule about what main would hold speaks, and on a branch
    that of the page."""
    body(world)
    WebTrace(world.places).served()
    world.settings(protected=FILES)
    for path, ids in (("SYSTEM.md", {"protected", TAINTED, "examination"}), ("COMMS.md", {"page"})):
        for how, tip in ways(world, path).items():
            found = {each.id for each in refusals_in(world.judged(f"{tip}:refs/heads/main"))}
            assert ids - ({"examination"} if how == "capitals" else set()) <= found, (path, how, found)
            of_branch = {each.id for each in refusals_in(world.judged(f"{tip}:refs/heads/work"))}
            assert of_branch == (ids & {"page"} if how != "capitals" else set()), (path, how)


def test_the_page_is_not_protected_by_a_pattern(guarded: World) -> None:
    """With `*` protected the keep goes on reporting, and the agent builds on what the keep wrote."""
    guarded.settings(protected=ProtectedSettings(files=("*",)))
    (bad,) = guarded.agent.commits([{"src/b.py": "1\n"}])
    guarded.judges({f"{bad}:refs/heads/main": WORDS})
    report(guarded.places, Report(id="1", at="2026-01-01T00:00:00.000Z", title="all is well", text="It is."))
    guarded.agent.git("pull", "--quiet")
    guarded.agent.commit({}, to="main")


@pytest.mark.attack("S50")
def test_no_way_round_by_a_rollback(guarded: World) -> None:
    """The agent may ask the watcher for the tree of any commit; what is protected in it stays as it is on main."""
    good = str(guarded.main)
    guarded.agent.git("rm", "--quiet", "a/b.lock")
    guarded.agent.commit(
        {"SYSTEM.md": "be bad\n", "spec/new.md": "may\n", "src/b.py": "b = 1\n"}, to="HEAD:refs/heads/proposal"
    )

    roll_back(guarded.places, "proposal", "merge", "1", FILES.files)

    assert guarded.bare("diff", "--name-only", good, "main") == "src/b.py"
    roll_back(guarded.places, good, "merge", "2", FILES.files)
    assert guarded.bare("diff", "--name-only", good, "main") == ""
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
    assert [world.shown(name) for name in (*files, "COMMS.md")] == [None, None, "2\n", PAGE]
