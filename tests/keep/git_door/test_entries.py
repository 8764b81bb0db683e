"""Tree entries and tags that the door does not take, wherever in a push they stand. Beside each refusal stands the same
push in a form that lands."""

from __future__ import annotations

import pytest

from infra.keep.folding import folded
from infra.keep.git_door.entries import DirectoryEntry, entries_of, problems_with_tree
from infra.shared.people import AGENT
from tests.keep.git_door.raw import COMMIT, TREE, commit_of, id_of, pack, plain, push
from tests.keep.git_door.world import World, told_of


def commit_with(world: World, *lines: str, parent: str = "HEAD", below: str = "") -> str:
    """A commit whose tree has these entries more, as `mktree` reads them, at the top or in a new directory."""
    if below:
        inner = world.agent.git("mktree", "--missing", "-z", stdin="".join(f"{line}\0" for line in lines))
        lines = (f"040000 tree {inner}\t{below}",)
    listed = world.agent.git("ls-tree", "-z", parent).split("\0")
    stdin = "".join(f"{line}\0" for line in [*filter(None, listed), *lines])
    tree = world.agent.git("mktree", "--missing", "-z", stdin=stdin)
    return world.agent.git("commit-tree", tree, "-p", parent, "-m", "x")


def blob(world: World) -> str:
    return world.agent.git("rev-parse", "HEAD:src/a.py")


ODD = [
    ("160000 commit {main}\tvendor", "'vendor' is a submodule"),
    ("120000 blob {blob}\t.gitattributes", "'.gitattributes' is a symbolic link"),
    ("120000 blob {blob}\t.GitIgnore", "'.GitIgnore' is a symbolic link"),
    ("100644 blob {blob}\tcase 100644 blob {blob}\tCase", "'Case' and 'case' are one name"),
    ("100644 blob {blob}\tstra\u00dfe 100644 blob {blob}\tSTRASSE", "are one name"),
    ("100644 blob {blob}\tx 100644 blob {blob}\tx\u200d", "are one name"),
]


def test_odd_entries_are_refused(world: World) -> None:
    """At the top and in a directory, at the tip of a push and in the middle of it; each on a branch of its own."""
    odd, fine, words_of = list[str](), list[str](), list[str]()
    for lines, words in ODD:
        given = lines.format(main=world.main, blob=blob(world)).replace(" 100644 blob", "\n100644 blob").split("\n")
        for below in ("", "deep"):
            odd.append(commit_with(world, *given, below=below))
            words_of.append(words)
            name = given[0].partition("\t")[2]
            fine.append(commit_with(world, f"100644 blob {blob(world)}\t{name}", below=below))

    clean = [world.agent.git("commit-tree", "HEAD^{tree}", "-p", each, "-m", "as if nothing had been") for each in odd]
    for tips in (odd, clean):
        said = world.agent.refused(*(f"{tip}:refs/heads/{number}" for number, tip in enumerate(tips)))
        for number, words in enumerate(words_of):
            told = told_of(said, f"refs/heads/{number}")
            assert words in told
            assert "git rebase" in told
        assert words_of[0] in world.agent.refused(f"{tips[0]}:refs/heads/main")
    world.agent.push(*(f"{commit}:refs/heads/fine-{number}" for number, commit in enumerate(fine)))


def test_who_did_what_is_not_the_agents_to_rename(world: World) -> None:
    """`.mailmap` would show the agent's commits as the PM's; it is not taken, nor is `.gitmodules`."""
    names = (".mailmap", ".MailMap", ".gitmodules", ".GITMODULES", ".mailmap\u200d", ".mailmap.")
    made = world.agent.commits({name: "PM <pm@example.invalid> <agent@minifram.invalid>\n"} for name in names)
    clean = [world.agent.git("commit-tree", "HEAD^{tree}", "-p", odd, "-m", "removed") for odd in made]
    for tips in (made, clean):
        said = world.agent.refused(*(f"{tip}:refs/heads/{number}" for number, tip in enumerate(tips)))
        for number in range(len(names)):
            assert "is not taken at the top of the repository" in told_of(said, f"refs/heads/{number}")
        assert "is not taken at the top of the repository" in world.agent.refused(f"{tips[0]}:refs/heads/main")
    world.agent.commit({"src/project/.mailmap": "A <a@b.invalid>\n", ".mailmaps": "\n"})
    world.agent.push("main")


def test_what_is_there_already_may_stay(world: World) -> None:
    """The PM's own submodule and twins do not stand in the way of the agent's work beside them; a merge brings them."""
    main = commit_with(
        world, f"160000 commit {world.main}\tvendor", f"100644 blob {blob(world)}\tREADME", parent="HEAD"
    )
    both = commit_with(world, f"100644 blob {blob(world)}\treadme", parent=main)
    world.agent.git("push", "--quiet", "--receive-pack=git-receive-pack", world.places.remote, f"{both}:main")
    more = commit_with(world, f"100644 blob {blob(world)}\tnews", parent=both)
    world.agent.push(f"{more}:refs/heads/main")
    other = commit_with(world, f"160000 commit {world.main}\tother", parent=more)
    assert "'other' is a submodule" in world.agent.refused(f"{other}:refs/heads/main")


def test_an_old_branch_brings_no_submodule_to_main(world: World) -> None:
    """What a branch held before there was this rule is on no push's list of new objects, and is judged all the same."""
    old = commit_with(world, f"160000 commit {world.main}\tvendor")
    world.agent.git("push", "--quiet", "--receive-pack=git-receive-pack", world.places.remote, f"{old}:refs/heads/old")
    assert "'vendor' is a submodule" in world.agent.refused(f"{old}:refs/heads/main")


@pytest.mark.parametrize("mode", [b"160777", b"120777", b"0120000", b"20000"])
def test_modes_that_git_rounds(world: World, mode: bytes) -> None:
    """Git reads a mode by its type alone, and takes a type that it does not know for a submodule."""
    tree = mode + b" .gitattributes\0" + bytes.fromhex(blob(world))
    content = commit_of(id_of("tree", tree), str(world.main))
    said = push(world, "refs/heads/work", id_of("commit", content), pack([plain(COMMIT, content), plain(TREE, tree)]))
    assert "is a symbolic link" in said or "is a submodule" in said or "unpack" in said
    assert world.ref("refs/heads/work") is None


def test_a_tag_tells_who_made_it(world: World) -> None:
    """An annotated snapshot shows its tagger before the commit."""
    forged = {"GIT_COMMITTER_NAME": "PM", "GIT_COMMITTER_EMAIL": "pm@example.invalid"}
    world.agent.git("tag", "--annotate", "-m", "good", "snapshot/1", **forged)
    assert "another tagger than minifram agent" in world.agent.refused("refs/tags/snapshot/1")
    world.agent.git("tag", "--force", "--annotate", "-m", "good", "snapshot/1")
    world.agent.push("refs/tags/snapshot/1")


@pytest.mark.parametrize("first", [True, False])
def test_a_commit_has_one_committer(world: World, first: bool) -> None:
    """Git goes by the last one, other programs by the first, and `git log --format=fuller` shows both."""
    content = commit_of(world.agent.git("rev-parse", "HEAD^{tree}"), str(world.main))
    us, pm = (
        f"committer {AGENT.name} <{AGENT.email}> 1 +0000\n".encode(),
        b"committer PM <pm@example.invalid> 1 +0000\n",
    )
    assert us in content
    forged = content.replace(us, pm + us if first else us + pm)
    said = push(world, "refs/heads/work", id_of("commit", forged), pack([plain(COMMIT, forged)]))
    assert "names more than one committer" in said or "the committer of commit" in said
    assert "ok refs/heads/work" in push(
        world, "refs/heads/work", id_of("commit", content), pack([plain(COMMIT, content)])
    )


def test_a_commit_is_in_utf_8(world: World) -> None:
    """Names in other encodings are others to a git that knows the encoding than to one that does not."""
    content = commit_of(world.agent.git("rev-parse", "HEAD^{tree}"), str(world.main)).replace(b"+0000", b"-0000")
    author = f"author {AGENT.name} <{AGENT.email}>".encode()
    assert author in content
    for name in (b"UTF-7", b"utf7", b"ISO-8859-1"):
        forged = content.replace(author, b"author +AFA-M <pm@example.invalid>")
        forged = forged.replace(b"\n\n", b"\nencoding " + name + b"\n\n", 1)
        said = push(world, "refs/heads/work", id_of("commit", forged), pack([plain(COMMIT, forged)]))
        assert "another encoding than UTF-8" in said
    content = content.replace(b"\n\n", b"\nencoding UTF-8\n\n", 1)
    said = push(world, "refs/heads/work", id_of("commit", content), pack([plain(COMMIT, content)]))
    assert "ok refs/heads/work" in said


def test_names_that_one_file_system_takes_for_one() -> None:
    """Letters' size and form, what has no width, dots and blanks at the end; other names stay apart."""
    same = [".mailmap", ".MAILMAP", ".mail\u200dmap", ".mailmap ", ".mailmap.", ".\uff4dailmap"]
    assert len({folded(name) for name in same}) == 1
    assert len({folded(name) for name in ["a", "\u00e1", "b", ".a", "...", " "]}) == 6
    assert (
        problems_with_tree(
            [
                DirectoryEntry(0o100644, "a"),
                DirectoryEntry(0o100755, "b"),
                DirectoryEntry(0o120000, "c"),
                DirectoryEntry(0o40000, "d"),
            ]
        )
        == []
    )


def test_a_tree_is_read_as_git_wrote_it() -> None:
    """Ids may hold zero bytes and blanks."""
    tree = b"100644 a b\0" + b"\0 " * 10 + b"40000 c\0" + b"x" * 20
    assert list(entries_of(tree)) == [DirectoryEntry(0o100644, "a b"), DirectoryEntry(0o40000, "c")]
