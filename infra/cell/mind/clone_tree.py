"""What the mind's clone holds, as trees of git: what of it may be pushed, and how it is merged with the branch."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from infra.cell.mind.items import conflicted
from infra.cell.mind.merge import MergedText, merge_texts
from infra.cell.mind.mind import MindContext
from infra.shared.files import make_directories
from infra.shared.mind import inbox_edits, layout
from infra.shared.mind.layout import is_below
from infra.shared.mind.loss import holdings, losses
from infra.shared.mind.questions import new_question
from infra.shared.mind.sections import document_of
from infra.shared.redacted_file import RedactedFile
from infra.shared.repository.changes import COMPARE, Change, parse_raw
from infra.shared.repository.git import EMPTY_TREE, Git, GitError, resolve_commit
from infra.shared.repository.tip import TreeEntry, read_file, tree_with_entries, write_file
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted_bytes

PUT_BACK: Final = f"{layout.SCRATCH}/put-back"
MOST_NAMED: Final = 20
_GITLINK, _PLAIN = "160000", ("100644", "100755")
_CONFLICTS = "# What lost a merge\n\nBoth sides had changed it; the version of the branch stands in its place.\n\n"
_NOT_HERE = tuple(f":(exclude){path}" for path in layout.NOT_COMMITTED)


class KeptAside(NamedTuple):
    """A file that was as it may not be pushed: its version in the branch stands in its place again."""

    path: str
    why: str
    at: str
    """Where it lies now; empty when it was only missing."""


class _Lost(NamedTuple):
    path: str
    section: str
    entry: TreeEntry
    """Without a mode: the text of a section."""


def staged(git: Git, tip: str | None) -> str:
    """The tree of what lies in the clone, but for what is never committed. Raises GitError."""
    _drop_links(git)  # git would look into them, and run by their settings
    try:
        git("add", "--all", "--", ".", *_NOT_HERE)
    except GitError as error:
        if error.is_machines:
            raise
        inner = tuple(f":(exclude){path}" for path in _repositories_in(git.directory))
        with contextlib.suppress(GitError):  # what it can be given it has taken; the rest stays in the clone
            git("add", "--all", "--ignore-errors", "--", ".", *_NOT_HERE, *inner)
    git("reset", "--quiet", tip or EMPTY_TREE, "--", *layout.NOT_COMMITTED)
    _drop_links(git)
    return git("write-tree")


def _drop_links(git: Git) -> None:
    links = [path for path, mode in _modes(git).items() if mode == _GITLINK]
    if links:
        git("rm", "--quiet", "--cached", "-r", "--force", "--", *links)


def _modes(git: Git) -> dict[str, str]:
    listed = git.raw("ls-files", "--stage", "-z").decode(errors="surrogateescape").split("\0")
    return {path: words.split()[0] for words, _, path in (line.partition("\t") for line in listed if line)}


def _repositories_in(root: str) -> list[str]:
    """Folders that are repositories of their own: git would take them for submodules."""
    found = []
    for directory, folders, _ in os.walk(root):
        if directory != root and ".git" in os.listdir(directory):
            found.append(os.path.relpath(directory, root))
            folders.clear()
        if ".git" in folders:
            folders.remove(".git")
    return found


def move(git: Git, before: str, after: str) -> None:
    """The work tree, which is as `before`, becomes as `after`. Raises GitError, also when a file changed meanwhile."""
    git("symbolic-ref", "HEAD", "refs/heads/mind")
    git("read-tree", "-m", "-u", before, after)


def merged_tree(git: Git, base: str | None, ours: str, tip: str, today: str, note: Callable[..., object]) -> str:
    """`ours`, which came from `base`, on top of the branch's tip. Raises GitError."""
    if base == tip:
        return ours
    # Of a base that is not known, our changes are those of the tip, and nothing counts as taken out.
    own, theirs = _changes(git, base or tip, ours), _changes(git, base, tip) if base else {}
    entries, kept = dict[str, TreeEntry | None](), list[_Lost]()
    for path, change in own.items():
        other = theirs.get(path)
        entry = TreeEntry(change.mode, change.id) if change.mode else None
        if is_below(path, layout.PM_ONLY) or (base is None and entry is None):
            continue
        if (base and other is None) or not (base or change.mode_before):
            entries[path] = entry
            continue
        before = change.id_before if base and change.mode_before else ""
        their = TreeEntry(other.mode, other.id) if other else TreeEntry(change.mode_before, change.id_before)
        if entry and entry != their:
            _merge_file(git, path, before if base else None, entry, their, entries, kept)
    if kept:
        _keep(git, today, kept, tip, entries)
        told = [f"{each.path} {each.section}".strip() for each in kept]
        note("mind.merged", kept=told[:MOST_NAMED], at=conflicts_file(today))
    return tree_with_entries(git, tip, entries) if entries else git("rev-parse", f"{tip}^{{tree}}")


def conflicts_file(today: str) -> str:
    return f"{layout.ARCHIVE}/conflicts-{today}.md"


def _merge_file(
    git: Git,
    path: str,
    base: str | None,
    ours: TreeEntry,
    theirs: TreeEntry,
    entries: dict[str, TreeEntry | None],
    kept: list[_Lost],
) -> None:
    """Both sides changed it. `base`: the blob that both come from, empty for none, None when that is not known."""
    if not path.endswith(".md") or {ours.mode, theirs.mode} - {"", *_PLAIN}:
        kept.append(_Lost(path, "", ours))
        return
    our, their = _text(git, ours.id), _text(git, theirs.id) if theirs.mode else ""
    if "\0" in our + their:
        kept.append(_Lost(path, "", ours))
        return
    before = None if base is None else _text(git, base) if base else ""
    # The inbox is the PM's: what we change of it is that tasks leave it.
    merged = (
        MergedText(inbox_edits.merged(before or "", our, their))
        if path == layout.INBOX
        else merge_texts(before, our, their)
    )
    if merged.text != their:
        entries[path] = TreeEntry(theirs.mode or ours.mode, write_file(git, merged.text))
    kept += [_Lost(path, each.id, TreeEntry("", write_file(git, each.text))) for each in merged.kept]


def _text(git: Git, blob: str) -> str:
    return git.raw("cat-file", "blob", blob).decode(errors="surrogateescape")


def _keep(git: Git, today: str, kept: Iterable[_Lost], tip: str, entries: dict[str, TreeEntry | None]) -> None:
    """Texts as sections of one file of that day, other files beside it."""
    name = conflicts_file(today)
    text = read_file(git, tip, name) or _CONFLICTS
    for path, id, entry in kept:
        heading = f"{path} {id} {entry.id[:12]}".replace("  ", " ")
        if entry.mode:
            aside = f"{layout.ARCHIVE}/conflicts-{today}/{entry.id[:12]}/{path}"
            entries[aside] = entry
            text += f"## {heading}\n\nKept whole: `{aside}`\n\n"
        elif document_of(text).find(heading) is None:
            lost = _text(git, entry.id).rstrip()
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", lost)), default=0))
            text += f"## {heading}\n\n{fence}\n{lost}\n{fence}\n\n"
    entries[name] = TreeEntry("100644", write_file(git, text))


def _changes(git: Git, before: str, after: str) -> dict[str, Change]:
    told = git.raw("diff-tree", "-r", *COMPARE, before, after, "--")
    return {each.path: each for each in parse_raw(told) if isinstance(each, Change)}


# What may not be pushed


def is_as(git: Git, tip: str) -> bool:
    """Whether the clone holds nothing that the branch does not have. Raises GitError."""
    return resolve_commit(git, "HEAD") == tip and not _changed_files(git, tip)


def keep_aside(
    context: MindContext,
    tip: str,
    name: str,
    tainted: bool,
    lost: Collection[str] = (),
    noted: bool = False,
) -> list[KeptAside]:
    """Put back, in the clone, what the door would not take from an agent that is tainted or not, and keep it beside.
    `noted`: but for the memory of notes, which the door judges (`layout.NOTED`).
    `lost`: where the door said that too much is gone. Raises GitError, OSError."""
    git = context.git
    base = _own_base(git, tip)
    changed = _changed_files(git, base)
    if not changed:
        return []

    def problem_with(path: str) -> str:
        waits = tainted and layout.is_guarded_in_mind(path) and not (noted and path in layout.NOTED)
        return _problem_with(git.directory, path, waits) or _problem_with_orders(git, base, path, tainted)

    why = {path: problem for path in changed if (problem := problem_with(path))}
    found = _put_back(git, base, why, name)
    found += _put_back(git, base, _wiped(git, base, changed, lost), name)
    for path in changed:
        if path not in why and _redact(f"{git.directory}/{path}"):
            found.append(KeptAside(path, "held a secret, which is taken out", ""))
    return found


def _own_base(git: Git, tip: str) -> str:
    """What the clone's files were made from, as the branch had it."""
    try:
        return git("merge-base", "HEAD", tip)
    except GitError as error:
        if error.is_machines:
            raise
        return tip


def _changed_files(git: Git, base: str) -> list[str]:
    """What differs from the base in the clone, but for what is never committed. Raises GitError."""
    tracked = git.raw("diff", "--name-only", "-z", "--no-renames", base, "--")
    new = git.raw("ls-files", "--others", "--exclude-standard", "-z")
    paths = (tracked + new).decode(errors="surrogateescape").split("\0")
    return [path for path in dict.fromkeys(paths) if path and not is_below(path, layout.NOT_COMMITTED)]


_TAINTED = "the agent has read the web; it waits for 'minifram trust'"
_MARKED = ("memory", "tasks", layout.SKILLS_INDEX)


def _problem_with(root: str, path: str, waits: bool) -> str:
    """Why it may not be pushed; empty when it may. `waits`: for the PM's trust."""
    if is_below(path, layout.PM_ONLY):
        return "the PM's alone"
    status = Below(root).status(path)
    if status is not None and stat.S_ISREG(status.st_mode):
        if status.st_size > layout.MOST_FILE_BYTES:
            return f"has {status.st_size:,} bytes, over the limit of {layout.MOST_FILE_BYTES:,}; shorten it"
        if is_below(path, _MARKED) and path.endswith(".md"):
            text = Below(root).tail(path, layout.MOST_FILE_BYTES).decode(errors="replace")
            if next(conflicted(text), 0):
                return "holds conflict markers of git"
    return _TAINTED if waits else ""


def _problem_with_orders(git: Git, base: str, path: str, tainted: bool) -> str:
    """What makes a later run begin."""
    if path != layout.INBOX and not (path == layout.OPEN_QUESTIONS and tainted):
        return ""
    here = Below(git.directory).tail(path, layout.MOST_FILE_BYTES).decode(errors="surrogateescape")
    before = read_file(git, base, path) or ""
    if path == layout.OPEN_QUESTIONS:
        found = new_question(before, here)
    else:
        answers = (f"{at}/{name}" for at in (layout.COMPLETED, layout.BLOCKED) for name in _names(git.directory, at))
        found = inbox_edits.problem_with_agents_inbox(before, here, inbox_edits.answered_in(answers))
    return _TAINTED if found and tainted else found


def _names(root: str, folder: str) -> list[str]:
    try:
        return os.listdir(f"{root}/{folder}")
    except OSError:
        return []


def _put_back(git: Git, base: str, why: Mapping[str, str], name: str) -> list[KeptAside]:
    """These files as the base has them, and what was there beside. Raises GitError, OSError."""
    found = list[KeptAside]()
    for path, words in why.items():
        source, at = f"{git.directory}/{path}", ""
        if os.path.lexists(source):
            # A name with a dot could be one that git reads.
            at = f"{layout.HELD if words is _TAINTED else PUT_BACK}/{name}/{path}".replace("/.", "/_")
            make_directories(os.path.dirname(f"{git.directory}/{at}"))
            os.replace(source, f"{git.directory}/{at}")
        found.append(KeptAside(path, words, at))
    if found:
        asked = "".join(f"{path}\0" for path in why).encode(errors="surrogateescape")
        how = ("--quiet", "--pathspec-from-file=-", "--pathspec-file-nul")
        git("--literal-pathspecs", "reset", *how, base, stdin=asked)
        there = [path for path in _listed(git, base) if path in why]
        git(
            *("checkout-index", "--quiet", "--force", "-z", "--stdin"),
            stdin="".join(f"{path}\0" for path in there).encode(errors="surrogateescape"),
        )
        for each in found:
            if each.at.startswith(f"{layout.HELD}/"):
                _redact(f"{git.directory}/{each.at}")
    return found


def _listed(git: Git, commit: str, *paths: str) -> list[str]:
    listed = git.raw("ls-tree", "-r", "-z", "--name-only", commit, "--", *paths)
    return [path for path in listed.decode(errors="surrogateescape").split("\0") if path]


def _wiped(git: Git, base: str, changed: Collection[str], lost: Collection[str]) -> dict[str, str]:
    """What would wipe the memory, as the door judges it too; of `lost`, what takes anything out."""
    below = Below(git.directory)

    def here(path: str) -> str:
        return below.tail(path, layout.MOST_FILE_BYTES).decode(errors="surrogateescape")

    skills = [
        os.path.relpath(f"{at}/{file}", git.directory)
        for at, _, files in os.walk(f"{git.directory}/skills")
        for file in files
    ]
    beliefs, items = (read_file(git, base, path) or "" for path in (layout.BELIEFS, layout.LONG_TERM))
    before = holdings(beliefs, items, _listed(git, base, "skills"))
    after = holdings(here(layout.BELIEFS), here(layout.LONG_TERM), skills)
    found = dict[str, str]()
    for path, words in losses(before, after, lost=lost):
        gone = [each for each in changed if is_below(each, (path,)) and (each == path or below.status(each) is None)]
        found |= dict.fromkeys(gone, f"{words} were gone; more than a third at once goes only by the PM's push")
    return found


def _redact(path: str) -> bool:
    """Whether there was something to take out. Raises OSError."""
    below = Below(os.path.dirname(path))
    piece = below.piece(os.path.basename(path), layout.MOST_FILE_BYTES, 0)
    if piece is None or redacted_bytes(piece.content) == piece.content:
        return False
    RedactedFile(path).replace(piece.content)
    return True
