"""Facts about one ref of a push that waits in quarantine; each is asked when a rule needs it, and once. Nothing is
judged here.

Everything is bounded, because the agent chose what git is asked about: answers and memory have a greatest size, all
calls of one push share one deadline, and of what it brings one file is held at a time."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from infra.keep.repository.changed_files import changes
from infra.shared.branches import MAIN
from infra.shared.paths import PAGE
from infra.shared.people import Person
from infra.shared.repository.changes import COMPARE, Change, parse_raw
from infra.shared.repository.git import EMPTY_TREE, Git, GitError, GitLimits
from infra.shared.safe_files import whole_file
from infra.shared.secret_shapes import find_secrets

HEADS = "refs/heads/"
MAIN_REF = HEADS + MAIN
MAX_REFS = 50
"""In one push."""
MAX_MIB = 256
"""Of all files that a ref brings, unpacked."""
INSPECTION_SECONDS = 60.0
"""For all git calls of one push together."""
LIMITS = GitLimits(answer_bytes=32 << 20)

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
    updates = list[RefUpdate]()
    for line in (each.decode(errors="replace") for each in lines):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"git gave the line {line[:200]!r}; expected '<old sha1> <new sha1> <ref>'")
        old, new, ref = match.groups()
        updates.append(RefUpdate(ref, old if old.strip("0") else None, new if new.strip("0") else None))
    return updates


class Repository:
    """As a push finds it, and with what it brings. The time for all git calls begins now."""

    def __init__(self, directory: str, quarantine: str, memory_bytes: int) -> None:
        """`quarantine`: where the new objects are (githooks(5)); empty when there are none."""
        limits = LIMITS._replace(memory_bytes=memory_bytes)
        objects = json.dumps(f"{directory}/objects", ensure_ascii=False)  # in git's list of them a colon would end it
        incoming = {"GIT_OBJECT_DIRECTORY": quarantine, "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects}
        self.kept = Git(directory, env={"GIT_DIR": directory}, limits=limits).within(INSPECTION_SECONDS)
        self.git = self.kept.with_env(**incoming) if quarantine else self.kept
        self._waiting = self.kept.with_env(GIT_OBJECT_DIRECTORY=quarantine) if quarantine else None

    @functools.cached_property
    def refs(self) -> Mapping[str, str]:
        """Branches, and where each is."""
        listed = self.kept("for-each-ref", "--format=%(refname) %(objectname)", HEADS).splitlines()
        return {ref: id for ref, id in (line.rsplit(" ", 1) for line in listed)}

    @functools.cached_property
    def new_files(self) -> Mapping[str, int]:
        """Id and bytes of each file that the push brings. What the repository has already was let in by the PM, or is
        judged on its own branch."""
        words = ("cat-file", "--buffer", "--batch-check=%(objectname) %(objectsize) %(objecttype)")
        told = self._waiting(*words, "--batch-all-objects", "--unordered").splitlines() if self._waiting else []
        brought = {id: int(size) for id, size, type in (line.split(" ") for line in told) if type == "blob"}
        asked = "".join(f"{id}\n" for id in brought).encode()
        there = self.kept(*words, stdin=asked).splitlines() if asked else []
        return {line[:40]: brought[line[:40]] for line in there if line.endswith(" missing")}

    def strays(self, pushes: Iterable[Push]) -> bool:
        """Whether it brings files that no commit of it has: they would count as let in when one comes for them."""
        return bool(set(self.new_files).difference(*(push.files for push in pushes)))


class Commit(NamedTuple):
    id: str
    parents: tuple[str, ...]
    author: Person
    committer: Person
    changes: Sequence[Change]
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
        self._there, self.git, self.kept, self.refs = repository, repository.git, repository.kept, repository.refs
        self.ref, self.old, self.new = update.ref, update.old, update.new or ""
        self._blob_bytes, self._known = blob_bytes, known

    @property
    def main(self) -> str | None:
        return self.refs.get(MAIN_REF)

    @functools.cached_property
    def stands_for(self) -> str:
        """What a symbolic ref stands for: receiving a push to it, git would move that other one."""
        try:
            content = whole_file(f"{self.kept.directory}/{self.ref}", _MAX_LINE_BYTES)
        except OSError:  # it is packed, or new
            return ""
        return content[4:].decode(errors="replace").strip() if content.startswith(b"ref:") else ""

    def comes_from(self, commit: str) -> bool:
        """That commit stays in its history."""
        is_parent = commit == self.new or any(commit in each.parents for each in self.commits)
        return is_parent or self.git.ok("merge-base", "--is-ancestor", commit, self.new)

    @functools.cached_property
    def base(self) -> str:
        """What the ref is compared with: where it is, or else main."""
        return self.old or self.main or EMPTY_TREE

    @functools.cached_property
    def changed(self) -> Mapping[str, Change]:
        """Files that differ between the base and what it would be at, by path."""
        return changes(self.git, self.base, self.new)

    @functools.cached_property
    def commits(self) -> tuple[Commit, ...]:
        """Those that no ref has, the oldest first: a rebase that mends one mends those above."""
        self.changed  # noqa: B018 - asked first: of a tree of trees without end a listing fails early, a log does not
        words = ("log", "--topo-order", "--reverse", "--root", "-c", "-r", *COMPARE)
        found, latest = list[Commit](), list[Change]()
        for each in parse_raw(self.git.raw(*words, *_HEADER, self.new, "--not", "--all", "--")):
            if isinstance(each, Change):
                latest.append(each)
            elif match := _HEADED.fullmatch(each):
                latest = []
                id, parents, *names = match.groups()
                found.append(Commit(id, tuple(parents.split()), Person(*names[:2]), Person(*names[2:]), latest))
            else:
                raise ValueError(f"git log gave {each[:200]!r}; expected the id of a commit, or a change")
        return tuple(found)

    @functools.cached_property
    def files(self) -> Mapping[str, tuple[str, str]]:
        """New files by id: the oldest commit that holds one, and its path there."""
        return {
            change.id: (commit.id, change.path)
            for commit in reversed(self.commits)
            for change in reversed(commit.changes)
            if change.id in self._there.new_files and change.mode
        }

    @property
    def large(self) -> Iterator[tuple[str, int]]:
        """Path and bytes of new files over the limit."""
        sizes = ((path, self._there.new_files[id]) for id, (_, path) in self.files.items())
        return ((path, size) for path, size in sizes if size > self._blob_bytes)

    @property
    def texts(self) -> Mapping[str, bytes]:
        """Each of these commits as git stores it: header, and message."""
        return self._read[0]

    @property
    def found(self) -> Iterable[CarriedSecret]:
        """Secrets in names, messages and new files, but for what the same file, or the page, held before."""
        return self._read[1]

    @functools.cached_property
    def _read(self) -> tuple[Mapping[str, bytes], Iterable[CarriedSecret]]:
        named = find_secrets(self.ref.encode(errors="replace"), self._known)
        hits = [CarriedSecret(hit.kind, "in its name", "") for hit in named]
        for commit in self.commits:
            for path in [each.path for each in commit.changes if each.mode]:
                names = find_secrets(path.encode(errors="surrogateescape"), self._known)
                hits += [CarriedSecret(hit.kind, f"in the name of {path!r}", commit.id, path) for hit in names]
        texts = dict[str, bytes]()
        for id, text in self._contents():
            commit_id, path = self.files.get(id, (id, ""))
            if not path:
                texts[id] = text
            hits += self._in(text, commit_id, path)
        return texts, dict.fromkeys(hits)

    def _in(self, text: bytes, commit: str, path: str) -> Iterator[CarriedSecret]:
        """Of a file, or of the commit itself where there is no path."""
        for hit in find_secrets(text, self._known):
            if text[hit.start : hit.end] not in self._text_before(path or PAGE):
                line = text.count(b"\n", 0, hit.start) + 1
                place = f"in {path!r}, line {line}" if path else "in its message, or the name of who made it"
                yield CarriedSecret(hit.kind, place, commit, path)

    def _text_before(self, path: str) -> bytes:
        """A file as the push found it: what the PM has in it, such as in a directive, is not the agent's to mend."""
        try:
            return self.kept.raw("cat-file", "blob", f"{self.base}:{path}")
        except GitError:  # it is not there, or is not a file, or larger than files are
            return b""

    def _contents(self) -> Iterator[tuple[str, bytes]]:
        """Id and content of each commit, and of each new file that is not too large."""
        files = {id: self._there.new_files[id] for id in self.files if self._there.new_files[id] <= self._blob_bytes}
        if (mib := sum(files.values()) >> 20) > MAX_MIB:
            raise TooLarge(f"what it brings is {mib} MiB unpacked, over the limit of {MAX_MIB}")
        asked, held = "".join(f"{id}\n" for id in (*(each.id for each in self.commits), *files)).encode(), bytearray()
        with contextlib.closing(self.git.pieces("cat-file", "--batch", "--buffer", stdin=asked)) as pieces:
            for piece in pieces if asked else ():
                held += piece
                while (end := held.find(b"\n")) >= 0:
                    id, _, size = held[:end].decode().split(" ")
                    behind = end + 1 + int(size)
                    if len(held) <= behind:
                        break
                    yield id, bytes(held[end + 1 : behind])
                    del held[: behind + 1]
        if held:
            raise ValueError("git cat-file ended before it had shown all objects of the push")


GITLINK = "160000"
"""The mode of a submodule."""
# As the commit has them: another encoding can be read as other names by another git.
_HEADER = ("--encoding=none", "--format=%H%n%P%n%an%n%ae%n%cn%n%ce")
_HEADED = re.compile(r"([0-9a-f]{40})\n([0-9a-f ]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)")
