"""What git says about a push that waits in quarantine: facts for `decide`, nothing is judged here.

Everything is bounded, because the agent chose what git is asked about: answers have a greatest size, and all calls
of one push share one deadline."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import IO, NamedTuple

from infra.keep.git_door import objects
from infra.keep.git_door.decide import HEADS, MAIN_REF, MAX_COMMITS, MAX_REFS, Commit, File, Leak, Update
from infra.keep.git_door.entries import DirectoryEntry, problem_with_entry, problems_with_tree, shown
from infra.keep.git_door.examined import change_of_main
from infra.keep.git_door.leaks import leaks_of_commit, leaks_of_object
from infra.keep.git_door.mind_change import change_of_mind
from infra.keep.git_door.objects import Suspects, TooLarge
from infra.keep.git_door.pages import wrong_in
from infra.keep.git_door.rules import Rules
from infra.keep.git_door.setup import memory_bytes
from infra.keep.git_door.tags import TAGS
from infra.keep.taint import TRAILER
from infra.shared.people import Person
from infra.shared.repository.changes import COMPARE, changes, parse_raw
from infra.shared.repository.git import EMPTY_TREE, Git, GitError, GitLimits, TooMuch
from infra.shared.repository.page_text import PAGES
from infra.shared.secret_shapes import find_secrets

INSPECTION_SECONDS = 60.0
"""For all git calls of one push together."""
LIMITS = GitLimits(answer_bytes=32 << 20)
QUARANTINE = ("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")
"""githooks(5): where the objects of a push are until it is accepted."""

_MAX_LINE_BYTES = 4096
_LINE = re.compile(r"([0-9a-f]{40}) ([0-9a-f]{40}) (.+)", re.DOTALL)


def read_updates(stream: IO[bytes]) -> list[Update]:
    """What the push wants to change, by pre-receive's input. Raises ValueError for too much, or another format."""
    content = stream.read(MAX_REFS * _MAX_LINE_BYTES + 1)
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    if len(lines) > MAX_REFS or len(content) > MAX_REFS * _MAX_LINE_BYTES:
        raise ValueError(f"the push changes over {MAX_REFS} refs; push only the branches you need, a few at a time")
    return [_update(line.decode(errors="replace")) for line in lines]


def _update(line: str) -> Update:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"git gave the line {line[:200]!r}; expected '<old sha1> <new sha1> <ref>'")
    old, new, ref = match.groups()
    return Update(ref, old if old.strip("0") else None, new if new.strip("0") else None)


class Pushed(NamedTuple):
    """The repository with what was pushed, as it is without, and what was pushed alone."""

    git: Git
    kept: Git
    quarantine: Git | None
    """None when no objects came with the push."""


def pushed(directory: str, environment: Mapping[str, str], blob_bytes: int) -> Pushed:
    """`environment` is the hook's own, which says where the quarantine is. The time for all calls begins now."""
    incoming = {name: environment[name] for name in QUARANTINE if environment.get(name)}
    alone = {name: value for name, value in incoming.items() if name != "GIT_ALTERNATE_OBJECT_DIRECTORIES"}
    limits = LIMITS._replace(memory_bytes=memory_bytes(blob_bytes))
    kept = Git(directory, env={"GIT_DIR": directory}, limits=limits).within(INSPECTION_SECONDS)
    return Pushed(kept.with_env(**incoming), kept, kept.with_env(**alone) if "GIT_OBJECT_DIRECTORY" in alone else None)


def inspect_all(
    repository: Pushed, updates: list[Update], rules: Rules, known: tuple[bytes, ...], now: float
) -> list[Update]:
    """Everything that the rules may ask about a push; `known` are secrets, `now` is in seconds since the epoch. Raises
    GitError, ValueError."""
    there = _refs_there(repository.kept, updates)
    updates = [
        update._replace(refs_there=there, stands_for=_stands_for(repository.kept, update.ref)) for update in updates
    ]
    try:
        suspects = _suspects(repository, updates, rules, known)
    except (TooMuch, TooLarge) as error:
        return [update._replace(unseen=_unseen(error)) for update in updates]
    for at, update in enumerate(updates):
        try:
            found = _inspect(repository, update, update.new, suspects, now) if update.new else update
        except TooMuch as error:
            found = update._replace(unseen=_unseen(error))
        named = [Leak(hit.kind, "in its name") for hit in find_secrets(update.ref.encode(errors="replace"), known)]
        updates[at] = found._replace(leaks=(*named, *found.leaks))
    if updates and any(suspects):  # what is left is needed by none of the commits
        hits = [hit for each in suspects.hits.values() for hit in each]
        first = updates[0]
        updates[0] = first._replace(
            large_files=(*first.large_files, *(File("", size) for size in suspects.large.values())),
            leaks=(*first.leaks, *(Leak(hit.kind, "in something that no commit of it needs") for hit in hits)),
            odd=(*first.odd, *(problem for problems in suspects.odd.values() for problem in problems)),
        )
    return updates


def _unseen(error: TooMuch | TooLarge) -> str:
    if isinstance(error, TooLarge):
        return str(error)
    return f"what it brings takes git over {LIMITS.answer_bytes >> 20} MiB to describe"


def _suspects(repository: Pushed, updates: list[Update], rules: Rules, known: tuple[bytes, ...]) -> Suspects:
    """What came with the push and may be refused; `_inspect` takes out what it finds the place of."""
    if repository.quarantine is None:
        return Suspects({}, {}, {})
    brought = objects.pushed_objects(repository.quarantine)
    found = objects.search(repository.quarantine, brought, known, rules.blob_bytes)
    # A push may bring what is there already; that was let in by the PM, or before there were such rules.
    ids = [id for each in found for id in each]
    there = {each.id for each in _look_up(repository.kept, ids) if each.type != "missing"} if ids else set[str]()
    for each in found:
        for id in there.intersection(each):
            del each[id]
    # A directory that the agent changes is a new tree, also where the PM put a submodule into it.
    existing = _existing_problems(repository.kept, updates) if found.odd else set()
    left = {id: [each for each in problems if each not in existing] for id, problems in found.odd.items()}
    return found._replace(odd={id: problems for id, problems in left.items() if problems})


def _existing_problems(kept: Git, updates: list[Update]) -> set[str]:
    """What is wrong already with the directories that the push builds on: main's, and those of each branch that it
    moves, by its name, as the old id is the client's word."""
    moved = [each.ref for each in updates if each.old and each.ref.startswith(HEADS) and each.ref != MAIN_REF]
    directories: dict[str, list[DirectoryEntry]] = defaultdict(list)
    for base in (MAIN_REF, *moved):
        if not kept.ok("cat-file", "-e", base):
            continue
        listed = kept.raw("ls-tree", "-r", "-t", "-z", "--full-tree", base).decode(errors="surrogateescape")
        for line in filter(None, listed.split("\0")):
            words, _, path = line.partition("\t")
            directory, _, name = path.rpartition("/")
            directories[f"{base}:{directory}"].append(DirectoryEntry(int(words[:6], 8), name))
    return {problem for entries in directories.values() for problem in problems_with_tree(entries)}


def _refs_there(kept: Git, updates: list[Update]) -> int:
    """How many branches and tags there are with those that are to be created; 0 when none is."""
    created = sum(update.old is None for update in updates)
    return created + len(kept("for-each-ref", "--format=x", HEADS, TAGS).split()) if created else 0


def _stands_for(kept: Git, ref: str) -> str:
    """What a symbolic ref stands for. Receiving a push to it, git would move that other one."""
    if not ref.startswith("refs/"):
        return ""
    try:
        return kept("symbolic-ref", "--quiet", ref)
    except GitError as error:
        if error.status == 1:
            return ""
        raise


def _inspect(repository: Pushed, update: Update, new: str, suspects: Suspects, now: float) -> Update:
    """Everything that the rules may ask about this ref. Raises GitError."""
    git, old, is_main = repository.git, update.old, update.ref == MAIN_REF

    # A commit stands alone on its line, any other object is followed by a space and its path.
    words = ("rev-list", "--objects", f"--max-count={MAX_COMMITS + 1}", new, "--not", "--all", "--")
    listed = git.raw(*words).split(b"\n")
    commits = [line.decode() for line in listed if line and b" " not in line]
    paths = {line[:40].decode(): line[41:].decode(errors="replace") for line in listed if b" " in line}

    base = old or MAIN_REF
    tip, commit, based, main = _look_up(git, [new, f"{new}^{{commit}}", base, MAIN_REF])
    if (tip if update.ref.startswith(HEADS) else commit).type != "commit":
        return update._replace(names_commit=False)
    if len(commits) > MAX_COMMITS:
        return update._replace(unseen=f"the push brings over {MAX_COMMITS} commits at once")
    described = _describe(git, commits)
    new_commits = tuple(described[id] for id in commits)
    changed = changes(git, base if based.type == "commit" else EMPTY_TREE, new)

    leaks = []
    for id in [id for id in commits if id in suspects.hits]:
        leaks += leaks_of_commit(git, id, suspects.hits.pop(id), base)
    for id in [id for id in suspects.hits if id in paths]:
        leaks += leaks_of_object(git, id, paths[id], suspects.hits.pop(id), commits, base)
    odd = []
    for id in [id for id in suspects.odd if id in paths]:
        where = f" (in directory {shown(paths[id])})" if paths[id] else ""
        odd += [f"{problem}{where}" for problem in suspects.odd.pop(id)]
    present = [change for change in changed.values() if change.mode]
    # What other branches have already is in no quarantine.
    arrived = (DirectoryEntry(int(change.mode, 8), change.path.rpartition("/")[2]) for change in present)
    odd += [problem for entry in arrived if (problem := problem_with_entry(entry))]

    grep = f"--grep=^[[:space:]]*{TRAILER}[[:space:]]*:"
    trusting = git("rev-list", "--max-count=1", "-i", grep, new, "--not", "--all", "--") if commits else ""
    touched = {each.id: not each.touched.isdisjoint(PAGES) for each in new_commits}
    return update._replace(
        descends=old is None or git.ok("merge-base", "--is-ancestor", old, new),
        new_commits=new_commits,
        trusting=trusting,
        changed=tuple(changed),
        present=tuple(change.path for change in present),
        large_files=tuple(File(paths[id], suspects.large.pop(id)) for id in [*suspects.large] if id in paths),
        leaks=tuple(leaks),
        odd=tuple(odd),
        main_change=change_of_main(repository, old, new, changed) if is_main and old else update.main_change,
        mind=change_of_mind(git, repository.kept, update.ref, old, new, changed, now),
        wrong_page=wrong_in(git, main.id if main.type == "commit" else None, commit.id, touched),
    )


class _Object(NamedTuple):
    id: str
    type: str
    """git's word, or `missing`."""


def _look_up(git: Git, names: list[str]) -> list[_Object]:
    asked = "".join(f"{name}\n" for name in names).encode()
    answer = git.raw("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked).decode(errors="replace")
    return [_Object(*line.split(" ")) for line in answer.splitlines()]


def _describe(git: Git, ids: Iterable[str]) -> dict[str, Commit]:
    """What each commit does at the top of its tree; one level, because a tree of trees can have endless paths."""
    asked = "".join(f"{id}\n" for id in ids)
    if not asked:
        return {}
    answer = git.raw("diff-tree", "--stdin", "--root", "-m", "--always", *COMPARE, *_HEADER, stdin=asked.encode())
    commit = ""
    people: dict[str, tuple[Person, Person]] = {}
    differences: dict[str, list[dict[str, bool]]] = {}
    for each in parse_raw(answer):
        if not isinstance(each, str):
            differences[commit][-1][each.path] = bool(each.mode)
        elif header := _HEADED.fullmatch(each):  # once for each parent
            commit = header[1]
            people[commit] = Person(header[2], header[3]), Person(header[4], header[5])
            differences.setdefault(commit, []).append({})
        else:
            raise ValueError(f"git diff-tree gave {each[:200]!r}; expected the id of a commit, or a change")
    return {id: _commit(id, each, people[id]) for id, each in differences.items()}


# As the commit has them: another encoding can be read as other names by another git.
_HEADER = ("--encoding=none", "--format=%H%n%an%n%ae%n%cn%n%ce")
_HEADED = re.compile(r"([0-9a-f]{40})\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)")


def _commit(id: str, differences: list[dict[str, bool]], people: tuple[Person, Person]) -> Commit:
    """`differences`: for each parent, the names that differ, and whether each is there now."""
    touched = frozenset(name for each in differences for name in each)
    introduced = frozenset(name for name in touched if all(each.get(name) for each in differences))
    return Commit(id, touched, introduced, *people)
