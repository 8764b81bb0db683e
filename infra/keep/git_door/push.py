"""Facts about one ref of a push that waits in quarantine; each is asked when a rule needs it, and once. Nothing is
judged here.

Everything is bounded, because the agent chose what git is asked about: answers and memory have a greatest size, all
calls of one push share one deadline, and of what it brings one file is held at a time."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from infra.shared.branches import MAIN
from infra.shared.people import Person
from infra.shared.repository.changes import COMPARE, Change, changes, parse_raw
from infra.shared.repository.git import EMPTY_TREE, Git, GitError, GitLimits, resolve_commit
from infra.shared.repository.page_text import PAGE
from infra.shared.secret_shapes import Found, find_secrets

HEADS, TAGS = "refs/heads/", "refs/tags/"
MAIN_REF = HEADS + MAIN
MAX_REFS = 50
"""In one push."""
MAX_COMMITS = 10_000
"""New ones on one ref."""
MAX_BYTES = 256 << 20
"""Of all that a ref brings, unpacked."""
INSPECTION_SECONDS = 60.0
"""For all git calls of one push together."""
LIMITS = GitLimits(answer_bytes=32 << 20)
QUARANTINE = ("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")
"""githooks(5): where the objects of a push are until it is accepted."""

_MAX_LINE_BYTES = 4096
_LINE = re.compile(r"([0-9a-f]{40}) ([0-9a-f]{40}) (.+)", re.DOTALL)


class TooLarge(Exception):
    """The push cannot be looked at whole; says why."""


class RefUpdate(NamedTuple):
    ref: str
    old: str | None
    """The commit it is at, as the client says; None for a new ref."""
    new: str | None
    """The object it would be at; None for a deletion."""


def read_updates(content: bytes) -> list[RefUpdate]:
    """What the push wants to change, by pre-receive's input. Raises ValueError for too much, or another format."""
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    if len(lines) > MAX_REFS or len(content) > MAX_REFS * _MAX_LINE_BYTES:
        raise ValueError(f"the push changes over {MAX_REFS} refs; push only the branches you need, a few at a time")
    return [_update(line.decode(errors="replace")) for line in lines]


def _update(line: str) -> RefUpdate:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"git gave the line {line[:200]!r}; expected '<old sha1> <new sha1> <ref>'")
    old, new, ref = match.groups()
    return RefUpdate(ref, old if old.strip("0") else None, new if new.strip("0") else None)


class Repository(NamedTuple):
    git: Git
    """With what was pushed."""
    kept: Git
    """As it is without."""
    waiting: Git | None
    """The push alone; None when it brings no objects."""

    def strays(self, pushes: Iterable[Push]) -> bool:
        """Whether it brings files that no commit of it has: they would count as let in when one comes for them."""
        all_of_them = ("cat-file", "--batch-all-objects", "--batch-check", "--buffer", "--unordered")
        listed = self.waiting(*all_of_them).splitlines() if self.waiting else []
        strays = {line[:40] for line in listed if line[41:45] == "blob"}.difference(*(push.brought for push in pushes))
        return any(type == "missing" for type, _ in _checked(self.kept, strays).values())


def repository(directory: str, environment: Mapping[str, str], memory_bytes: int) -> Repository:
    """`environment` is the hook's own, which says where the quarantine is. The time for all calls begins now."""
    incoming = {name: environment[name] for name in QUARANTINE if environment.get(name)}
    limits = LIMITS._replace(memory_bytes=memory_bytes)
    kept = Git(directory, env={"GIT_DIR": directory}, limits=limits).within(INSPECTION_SECONDS)
    waiting = {"GIT_OBJECT_DIRECTORY": incoming["GIT_OBJECT_DIRECTORY"]} if "GIT_OBJECT_DIRECTORY" in incoming else {}
    return Repository(kept.with_env(**incoming), kept, kept.with_env(**waiting) if waiting else None)


class Commit(NamedTuple):
    id: str
    author: Person
    committer: Person
    changes: tuple[Change, ...]
    """Files that differ from all of its parents: a merge changes nothing that a parent had so."""


class CarriedSecret(NamedTuple):
    """A secret that a push carries; never its value."""

    kind: str
    """In words that fit behind "holds"."""
    place: str
    """In words that fit behind the secret: `in 'a', line 3`."""
    commit: str
    """The oldest one that holds it; empty for what is in none."""
    path: str = ""


class Push:
    """One ref of a push; `new` is empty when it would be deleted, and then nothing else is asked. Each fact may raise
    GitError, TooLarge and ValueError."""

    def __init__(self, repository: Repository, update: RefUpdate, blob_bytes: int, known: tuple[bytes, ...]) -> None:
        """`known` are exact secrets."""
        self.git, self.kept, _ = repository
        self.ref, self.old, self.new = update.ref, update.old, update.new or ""
        self._blob_bytes, self._known = blob_bytes, known

    @property
    def tip(self) -> str:
        return f"{self.new}^{{commit}}" if self.tag else self.new

    @functools.cached_property
    def stands_for(self) -> str:
        """What a symbolic ref stands for: receiving a push to it, git would move that other one."""
        try:
            return self.kept("symbolic-ref", "--quiet", self.ref) if self.ref.startswith("refs/") else ""
        except GitError as error:
            if error.status == 1:
                return ""
            raise

    @functools.cached_property
    def tag(self) -> bytes:
        """The annotated tag itself; empty for what is none."""
        is_tag = self.ref.startswith(TAGS) and self.git("cat-file", "-t", self.new) == "tag"
        return self.git.raw("cat-file", "tag", self.new) if is_tag else b""

    @functools.cached_property
    def is_of_a_commit(self) -> bool:
        return self.tag.split(b"\n")[1:2] == [b"type commit"] or self.git("cat-file", "-t", self.new) == "commit"

    @functools.cached_property
    def descends(self) -> bool:
        """What the ref is at stays in its history."""
        return self.old is None or self.git.ok("merge-base", "--is-ancestor", self.old, self.tip)

    @functools.cached_property
    def main(self) -> str | None:
        return resolve_commit(self.kept, MAIN_REF)

    @functools.cached_property
    def base(self) -> str:
        """What the ref is compared with: where it is, or else main."""
        return self.old or self.main or EMPTY_TREE

    @functools.cached_property
    def changed(self) -> Mapping[str, Change]:
        """Files that differ between the base and what it would be at, by path."""
        return changes(self.git, self.base, self.tip)

    @property
    def present(self) -> Iterator[str]:
        """Those of them that would be there."""
        return (path for path, change in self.changed.items() if change.mode)

    @functools.cached_property
    def commits(self) -> tuple[Commit, ...]:
        """Those that no ref has, the oldest first: a rebase that mends one mends those above."""
        words = ("rev-list", "--topo-order", "--reverse", f"--max-count={MAX_COMMITS + 1}", self.tip)
        listed = self.git(*words, "--not", "--all", "--").split()
        if len(listed) > MAX_COMMITS:
            raise TooLarge(f"the push brings over {MAX_COMMITS} commits at once")
        asked = "".join(f"{id}\n" for id in listed).encode()
        how = ("--stdin", "--root", "-c", "-r", "--always", *COMPARE, *_HEADER)
        found = dict[str, tuple[Person, Person, list[Change]]]()
        latest = list[Change]()
        for each in parse_raw(self.git.raw("diff-tree", *how, stdin=asked)) if listed else ():
            if isinstance(each, Change):
                latest.append(each)
            elif header := _HEADED.fullmatch(each):
                latest = []
                found[header[1]] = Person(header[2], header[3]), Person(header[4], header[5]), latest
            else:
                raise ValueError(f"git diff-tree gave {each[:200]!r}; expected the id of a commit, or a change")
        return tuple(Commit(id, who, by, tuple(what)) for id, (who, by, what) in found.items())

    @functools.cached_property
    def texts(self) -> Mapping[str, bytes]:
        """Each of these commits as git stores it: header, and message."""
        if not self.commits:
            return {}
        return {id: text for id, _, text in self._contents([each.id for each in self.commits])}

    @functools.cached_property
    def brought(self) -> Mapping[str, tuple[str, str]]:
        """New files by id: the oldest commit that holds one, and its path there. What the repository has already was
        let in by the PM, or is judged on its own branch."""
        places = {
            change.id: (commit.id, change.path)
            for commit in reversed(self.commits)
            for change in reversed(commit.changes)
            if change.mode not in ("", GITLINK)
        }
        there = _checked(self.kept, places)
        return {id: place for id, place in places.items() if there[id][0] == "missing"}

    @functools.cached_property
    def _sizes(self) -> Mapping[str, int]:
        return {id: size for id, (_, size) in _checked(self.git, self.brought).items()}

    @functools.cached_property
    def large(self) -> tuple[tuple[str, int], ...]:
        """Path and bytes of new files over the limit."""
        over = ((self.brought[id][1], size) for id, size in self._sizes.items() if size > self._blob_bytes)
        return tuple(over)

    @functools.cached_property
    def found(self) -> tuple[CarriedSecret, ...]:
        """Secrets in names, messages and new files, but for what the same file, or the page, held before."""
        hits = [CarriedSecret(hit.kind, "in its name", "") for hit in self._secrets(self.ref.encode(errors="replace"))]
        hits += [CarriedSecret(hit.kind, "in its tag", "") for hit in self._secrets(self.tag)]
        for commit in self.commits:
            hits += self._in(self.texts[commit.id], "in its message, or the name of who made it", commit.id, PAGE, "")
            for path in [each.path for each in commit.changes if each.mode]:
                names = self._secrets(path.encode(errors="surrogateescape"))
                hits += [CarriedSecret(hit.kind, f"in the name of {path!r}", commit.id, path) for hit in names]
        for id, _, text in self._contents(id for id, size in self._sizes.items() if size <= self._blob_bytes):
            commit_id, path = self.brought[id]
            hits += self._in(text, f"in {path!r}, line {{line}}", commit_id, path, path)
        return tuple(dict.fromkeys(hits))

    def _in(self, text: bytes, place: str, commit: str, before: str, path: str) -> Iterator[CarriedSecret]:
        # In UTF-16 and UTF-32 there are zero bytes between the letters of a key.
        for wanted in [text, text.replace(b"\0", b"")] if b"\0" in text else [text]:
            for hit in self._secrets(wanted):
                if wanted[hit.start : hit.end] not in self._text_before(before):
                    line = wanted.count(b"\n", 0, hit.start) + 1
                    yield CarriedSecret(hit.kind, place.replace("{line}", str(line)), commit, path)

    def _secrets(self, text: bytes) -> list[Found]:
        return find_secrets(text, self._known)

    def _text_before(self, path: str) -> bytes:
        """A file as the push found it: what the PM has in it, such as in a directive, is not the agent's to mend."""
        try:
            text = self.kept.raw("cat-file", "blob", f"{self.base}:{path}")
        except GitError:  # it is not there, or is not a file, or larger than files are
            return b""
        return text + text.replace(b"\0", b"") if b"\0" in text else text

    def _contents(self, ids: Iterable[str]) -> Iterator[tuple[str, str, bytes]]:
        """Id, type and content of each of these objects."""
        wanted = list(ids)
        sizes = [size for _, size in _checked(self.git, wanted).values()]
        if sum(sizes) > MAX_BYTES:
            raise TooLarge(f"what it brings is {sum(sizes) >> 20} MiB unpacked, over the limit of {MAX_BYTES >> 20}")
        asked, held = "".join(f"{id}\n" for id in wanted).encode(), bytearray()
        with contextlib.closing(self.git.pieces("cat-file", "--batch", "--buffer", stdin=asked)) as pieces:
            for size in sizes:
                while (end := held.find(b"\n")) < 0 or len(held) < end + size + 2:
                    piece = next(pieces, b"")
                    if not piece:
                        raise ValueError("git cat-file ended before it had shown all objects of the push")
                    held += piece
                id, type, _ = held[:end].decode().split(" ")
                yield id, type, bytes(held[end + 1 : end + 1 + size])
                del held[: end + size + 2]


GITLINK = "160000"
"""The mode of a submodule."""
# As the commit has them: another encoding can be read as other names by another git.
_HEADER = ("--encoding=none", "--format=%H%n%an%n%ae%n%cn%n%ce")
_HEADED = re.compile(r"([0-9a-f]{40})\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)")


def _checked(git: Git, ids: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Type and bytes of each object; `missing` for what is not there."""
    asked = "".join(f"{id}\n" for id in ids).encode()
    if not asked:
        return {}
    lines = [line.split(" ") for line in git("cat-file", "--batch-check", "--buffer", stdin=asked).splitlines()]
    return {id: (type, int(size[0]) if size else 0) for id, type, *size in lines}
