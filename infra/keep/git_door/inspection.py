"""What git says about a push that waits in quarantine: facts for `decide`, nothing is judged here.

Everything is bounded, because the agent chose what git is asked about: answers have a greatest size, and all calls
of one push share one deadline."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import IO, NamedTuple

from infra.keep.git_door import cargo
from infra.keep.git_door.cargo import Hit
from infra.keep.git_door.decide import HEADS, MAIN_REF, MAX_COMMITS, MAX_REFS, TAGS, Commit, File, Leak, Page, Update
from infra.keep.git_door.entries import Entry, problem_with_entry, problems_with_tree, shown
from infra.keep.git_door.examined import step_between
from infra.keep.git_door.leaks import leaks_of_commit, leaks_of_object
from infra.keep.git_door.pages import Wrong, wrong_in
from infra.keep.git_door.rules import Rules
from infra.shared.people import Person
from infra.shared.repository.bounded_git import BoundedGit, TooMuch
from infra.shared.repository.changes import EMPTY_TREE, Change, changes
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.page_text import PAGE, PAGES
from infra.shared.secret_shapes import find_secrets

INSPECTION_SECONDS = 60.0
"""For all git calls of one push together."""
QUARANTINE = ("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")
"""githooks(5): where the objects of a push are until it is accepted."""

_MAX_LINE_BYTES = 4096
_LINE = re.compile(r"([0-9a-f]{40}) ([0-9a-f]{40}) (.+)", re.DOTALL)


class RefLine(NamedTuple):
    """A line of pre-receive's input; None stands for no commit."""

    old: str | None
    new: str | None
    ref: str


def read_lines(stream: IO[bytes]) -> list[RefLine]:
    """What the push wants to change. Raises ValueError for too much, or for what is not git's format."""
    content = stream.read(MAX_REFS * _MAX_LINE_BYTES + 1)
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    if len(lines) > MAX_REFS or len(content) > MAX_REFS * _MAX_LINE_BYTES:
        raise ValueError(f"the push changes over {MAX_REFS} refs; push only the branches you need, a few at a time")
    return [_ref_line(line.decode(errors="replace")) for line in lines]


def _ref_line(line: str) -> RefLine:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"git gave the line {line[:200]!r}; expected '<old sha1> <new sha1> <ref>'")
    old, new, ref = match.groups()
    return RefLine(None if not old.strip("0") else old, None if not new.strip("0") else new, ref)


class Pushed(NamedTuple):
    """The repository with what was pushed, as it is without, and what was pushed alone."""

    git: Git
    kept: Git
    quarantine: BoundedGit | None
    """None when no objects came with the push."""


def pushed(directory: str, environment: Mapping[str, str], deadline: float) -> Pushed:
    """`environment` is the hook's own, which tells where the quarantine is; `deadline` is monotonic."""
    env = {"GIT_DIR": directory}  # this repository or none
    incoming = {name: environment[name] for name in QUARANTINE if environment.get(name)}
    alone = {name: value for name, value in incoming.items() if name != "GIT_ALTERNATE_OBJECT_DIRECTORIES"}
    return Pushed(
        BoundedGit(directory, deadline, env | incoming),
        BoundedGit(directory, deadline, env),
        BoundedGit(directory, deadline, env | alone) if "GIT_OBJECT_DIRECTORY" in alone else None,
    )


def inspect_all(repository: Pushed, lines: list[RefLine], rules: Rules, known: tuple[bytes, ...]) -> list[Update]:
    """Everything that the rules may ask about a push; `known` are secrets. Raises GitError, ValueError."""
    there = _refs_there(repository, lines)
    updates = [Update(line.ref, line.old, line.new, there, _stands_for(repository, line.ref)) for line in lines]
    try:
        suspect = _suspect(repository, _bases(lines), rules, known)
    except TooMuch as error:
        return [update._replace(unseen=str(error)) for update in updates]
    for at, update in enumerate(updates):
        named = [Leak(hit.kind, "in its name") for hit in find_secrets(update.ref.encode(errors="replace"), known)]
        updates[at] = inspect(repository, update, rules, suspect)
        updates[at] = updates[at]._replace(leaks=(*named, *updates[at].leaks))
    if updates and (suspect.large or suspect.hits or suspect.odd):  # what is left is needed by none of the commits
        large = tuple(File("", size) for size in suspect.large.values())
        leaks = tuple(Leak(hit.kind, "in something that no commit of it needs") for hit in _flat(suspect.hits))
        odd = tuple(problem for problems in suspect.odd.values() for problem in problems)
        updates[0] = updates[0]._replace(
            large_files=updates[0].large_files + large, leaks=updates[0].leaks + leaks, odd=updates[0].odd + odd
        )
    return updates


class _Suspect(NamedTuple):
    """What came with the push and may be refused, by object; whoever finds out where it belongs takes it out."""

    large: dict[str, int]
    hits: dict[str, list[Hit]]
    odd: dict[str, list[str]]


def _suspect(repository: Pushed, bases: list[str], rules: Rules, known: tuple[bytes, ...]) -> _Suspect:
    if repository.quarantine is None:
        return _Suspect({}, {}, {})
    objects = cargo.brought(repository.quarantine)
    large = {each.id: each.size for each in objects if each.type == "blob" and each.size > rules.blob_bytes}
    hits = cargo.secrets_in(repository.quarantine, (each for each in objects if each.id not in large), known)
    odd = cargo.odd_in(repository.quarantine, objects)
    # A push may bring what is there already; that was let in by the PM, or before there were such rules.
    there = _there_already(repository.kept, [*large, *hits, *odd])
    return _Suspect(
        {id: size for id, size in large.items() if id not in there},
        {id: found for id, found in hits.items() if id not in there},
        _new_in(repository.kept, bases, {id: found for id, found in odd.items() if id not in there}),
    )


def _bases(lines: list[RefLine]) -> list[str]:
    """What the push builds on: main, and each branch that it moves, by its name, as the old id is the client's word."""
    return [MAIN_REF, *(line.ref for line in lines if line.old and line.ref.startswith(HEADS) and line.ref != MAIN_REF)]


def _new_in(kept: Git, bases: list[str], odd: dict[str, list[str]]) -> dict[str, list[str]]:
    """Without the problems that a base has as well: a directory that the agent changes is a new tree, also where the
    PM put a submodule into it."""
    if not odd:
        return {}
    standing = {problem for base in bases if kept.ok("cat-file", "-e", base) for problem in _standing(kept, base)}
    return {id: left for id, found in odd.items() if (left := [each for each in found if each not in standing])}


def _standing(kept: Git, commit: str) -> set[str]:
    """What is wrong with the directories of a commit."""
    directories: dict[str, list[Entry]] = defaultdict(list)
    listed = kept.raw("ls-tree", "-r", "-t", "-z", "--full-tree", commit).decode(errors="surrogateescape")
    for line in filter(None, listed.split("\0")):
        words, _, path = line.partition("\t")
        directory, _, name = path.rpartition("/")
        directories[directory].append(Entry(int(words[:6], 8), name))
    return {problem for entries in directories.values() for problem in problems_with_tree(entries)}


def _flat(hits: Mapping[str, list[Hit]]) -> list[Hit]:
    return [hit for each in hits.values() for hit in each]


def _refs_there(repository: Pushed, lines: list[RefLine]) -> int:
    """How many branches and tags there are with those that are to be created; 0 when none is."""
    created = sum(line.old is None for line in lines)
    if not created:
        return 0
    return created + len(repository.kept("for-each-ref", "--format=x", HEADS, TAGS).split())


def _stands_for(repository: Pushed, ref: str) -> str:
    """What a symbolic ref stands for. Receiving a push to it, git would move that other one."""
    if not ref.startswith("refs/"):
        return ""
    try:
        return repository.kept("symbolic-ref", "--quiet", ref)
    except GitError as error:
        if error.status == 1:
            return ""
        raise


def inspect(repository: Pushed, update: Update, rules: Rules, suspect: _Suspect) -> Update:
    """Everything that the rules may ask about this ref. Raises GitError."""
    if update.new is None:
        return update
    try:
        return _inspect(repository, update, update.new, rules, suspect)
    except TooMuch as error:
        return update._replace(unseen=str(error))


def _inspect(repository: Pushed, update: Update, new: str, rules: Rules, suspect: _Suspect) -> Update:
    git, old, is_main = repository.git, update.old, update.ref == MAIN_REF
    at_most = f"--max-count={MAX_COMMITS + 1}"

    # A commit stands alone on its line, any other object is followed by a space and its path.
    listed = git.raw("rev-list", "--objects", at_most, new, "--not", "--all", "--").split(b"\n")
    commits = [line.decode() for line in listed if line and b" " not in line]
    objects = {line[:40].decode(): line[41:].decode(errors="replace") for line in listed if b" " in line}

    pages = [f"{commit}:{PAGE}" for commit in (old, new) if commit] if is_main else []
    base = old or MAIN_REF
    answers = _look_up(git, [new, f"{new}^{{commit}}", base], pages)
    tip, peeled, based = answers.kinds
    if (tip if update.ref.startswith(HEADS) else peeled).type != "commit":
        return update._replace(names_commit=False)

    if len(commits) > MAX_COMMITS:
        return update._replace(unseen=f"the push brings over {MAX_COMMITS} commits at once")
    described = _describe(git, commits)
    changed = changes(git, base if based.type == "commit" else EMPTY_TREE, new)

    leaks = [
        leak for id in commits if id in suspect.hits for leak in leaks_of_commit(git, id, suspect.hits.pop(id), base)
    ]
    for id in [id for id in suspect.hits if id in objects]:
        leaks += leaks_of_object(git, id, objects[id], suspect.hits.pop(id), commits, base)
    found = [(objects[id], suspect.odd.pop(id)) for id in [*suspect.odd] if id in objects]
    odd = [f"{problem} (in directory {shown(path)})" if path else problem for path, each in found for problem in each]
    # What other branches have already is in no quarantine.
    arrived = [Entry(int(change.mode, 8), path.rpartition("/")[2]) for path, change in changed.items() if change.mode]
    odd += [problem for entry in arrived if (problem := problem_with_entry(entry))]
    return update._replace(
        descends=old is None or git.ok("merge-base", "--is-ancestor", old, new),
        new_commits=tuple(described[id] for id in commits),
        changed=tuple(changed),
        present=tuple(path for path, change in changed.items() if change.mode),
        large_files=tuple(File(objects[id], suspect.large.pop(id)) for id in [*suspect.large] if id in objects),
        leaks=tuple(leaks),
        odd=tuple(odd),
        step=step_between(repository, old, new, changed) if is_main and old else update.step,
        page=_page(answers.pages, changed) if is_main and old else None,
        wrong_page=_wrong_page(repository, new, [described[id] for id in commits]),
    )


def _wrong_page(repository: Pushed, new: str, commits: list[Commit]) -> Wrong | None:
    main, tip = resolve_commit(repository.kept, MAIN_REF), resolve_commit(repository.git, new)
    touched = {commit.id: not commit.touched.isdisjoint(PAGES) for commit in commits}
    return wrong_in(repository.git, main, tip, touched) if tip else None


def _page(texts: list[str | None], changed: Mapping[str, Change]) -> Page | None:
    """COMMS.md, when it differs: a link has a text as well, which nobody would ever read, so its mode counts."""
    if PAGE in changed:
        return Page(texts[0], texts[-1] if changed[PAGE].mode.startswith("100") else None)
    return Page(texts[0], None) if any(path.startswith(f"{PAGE}/") for path in changed) else None


class _Kind(NamedTuple):
    type: str
    """git's word for the object, or `missing`."""
    size: int


class _Answers(NamedTuple):
    kinds: list[_Kind]
    pages: list[str | None]


def _look_up(git: Git, names: list[str], pages: list[str]) -> _Answers:
    """Type and size of each of `names`, and the text of each of `pages`, in one call."""
    questions = [f"info {name}\n" for name in names] + [f"contents {page}\n" for page in pages]
    answer = io.BytesIO(git.raw("cat-file", "--batch-command", stdin="".join(questions).encode()))
    kinds = [_kind(answer.readline()) for _ in names]
    texts: list[str | None] = []
    for _ in pages:
        kind = _kind(answer.readline())
        content = answer.read(kind.size + 1)[:-1] if kind.type != "missing" else b""
        texts.append(content.decode(errors="surrogateescape") if kind.type == "blob" else None)
    return _Answers(kinds, texts)


def _kind(line: bytes) -> _Kind:
    """`<id> <type> <size>`, or `<what was asked> missing`."""
    words = line.decode(errors="replace").split()
    return _Kind(words[1], int(words[2])) if len(words) == 3 else _Kind("missing", 0)


def _describe(git: Git, ids: Iterable[str]) -> dict[str, Commit]:
    """What each commit does at the top of its tree; one level, because a tree of trees can have endless paths."""
    asked = "".join(f"{id}\n" for id in ids)
    if not asked:
        return {}
    words = ("--root", "-m", "--always", "--raw", "--no-renames", "--ignore-submodules=none", "-z", *_HEADER)
    answer = git.raw("diff-tree", "--stdin", *words, stdin=asked.encode()).decode(errors="replace")

    commit = ""
    people: dict[str, tuple[Person, Person]] = {}
    differences: dict[str, list[_Difference]] = {}
    fields = iter(answer.split("\0"))
    for field in fields:
        field = field.removeprefix("\n")  # there is one between a header and the first change
        if field.startswith(":"):  # :<mode> <mode> <id> <id> <letter>; the name is the next field
            differences[commit][-1].add(next(fields), deleted=field.endswith("D"))
        elif header := _HEADED.fullmatch(field):  # once for each parent
            commit = header[1]
            people[commit] = Person(header[2], header[3]), Person(header[4], header[5])
            differences.setdefault(commit, []).append(_Difference())
        elif field:
            raise ValueError(f"git diff-tree gave {field[:200]!r}; expected the id of a commit, or a change")
    return {id: _commit(id, each, people[id]) for id, each in differences.items()}


# As the commit has them: another encoding can be read as other names by another git.
_HEADER = ("--encoding=none", "--format=%H%n%an%n%ae%n%cn%n%ce")
_HEADED = re.compile(r"([0-9a-f]{40})\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)")


class _Difference:
    """Between a commit and one of its parents."""

    def __init__(self) -> None:
        self.touched: set[str] = set()
        self.present: set[str] = set()

    def add(self, name: str, deleted: bool) -> None:
        self.touched.add(name)
        if not deleted:
            self.present.add(name)


def _commit(id: str, differences: list[_Difference], people: tuple[Person, Person]) -> Commit:
    touched = frozenset[str]().union(*(each.touched for each in differences))
    return Commit(id, touched, touched.intersection(*(each.present for each in differences)), *people)


def _there_already(kept: Git, ids: list[str]) -> set[str]:
    """Those of the objects that the repository has without the push."""
    if not ids:
        return set()
    kinds = _look_up(kept, ids, []).kinds
    return {id for id, kind in zip(ids, kinds, strict=True) if kind.type != "missing"}
