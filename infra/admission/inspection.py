"""What git says about a push that waits in quarantine: facts for `decide`, nothing is judged here.

Everything is bounded, because the agent chose what git is asked about: no call unfolds a tree path by path,
answers have a greatest size, and all calls of one push share one deadline."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from typing import IO, NamedTuple

from infra.admission.bounded_git import BoundedGit, TooMuch
from infra.admission.decide import HEADS, MAIN_REF, MAX_COMMITS, MAX_REFS, PAGE, Commit, File, Update
from infra.admission.rules import Autonomy, Rules
from infra.repository.git import Git

INSPECTION_SECONDS = 60.0
"""For all git calls of one push together."""
QUARANTINE = ("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")
"""githooks(5): where the objects of a push are until it is accepted."""

_MAX_LINE_BYTES = 4096
_SHA = re.compile(r"[0-9a-f]{40}")
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
    """The repository with what was pushed, and as it is without."""

    git: Git
    kept: Git


def pushed(directory: str, environment: Mapping[str, str], deadline: float) -> Pushed:
    """`environment` is the hook's own, which tells where the quarantine is; `deadline` is monotonic."""
    env = {"GIT_DIR": directory}  # this repository or none
    quarantine = {name: environment[name] for name in QUARANTINE if environment.get(name)}
    return Pushed(BoundedGit(directory, deadline, env | quarantine), BoundedGit(directory, deadline, env))


def inspect(repository: Pushed, line: RefLine, rules: Rules) -> Update:
    """Everything that the rules may ask about this line. Raises GitError."""
    update = Update(line.ref, line.old, line.new)
    if line.new is None:
        return update
    try:
        return _inspect(repository, update, line.new, rules)
    except TooMuch as error:
        return update._replace(unseen=str(error))


def _inspect(repository: Pushed, update: Update, new: str, rules: Rules) -> Update:
    git, old, is_main = repository.git, update.old, update.ref == MAIN_REF
    at_most = f"--max-count={MAX_COMMITS + 1}"

    # A commit stands alone on its line, any other object is followed by a space and its path.
    listed = git.raw("rev-list", "--objects", at_most, new, "--not", "--all", "--").split(b"\n")
    commits = [line.decode() for line in listed if line and b" " not in line]
    objects = [line.partition(b" ") for line in listed if b" " in line]

    names = [new, f"{new}^{{commit}}", *(name.decode() for name, _, _ in objects)]
    pages = [f"{commit}:{PAGE}" for commit in (old, new) if commit] if is_main else []
    answers = _look_up(git, names, pages)
    tip, peeled, sizes = answers.kinds[0], answers.kinds[1], answers.kinds[2:]
    if (tip if update.ref.startswith(HEADS) else peeled).type != "commit":
        return update._replace(names_commit=False)

    moved: list[str] = []
    if is_main and old and rules.autonomy is not Autonomy.MERGE:
        moved = git("rev-list", at_most, f"{old}..{new}", "--").split()
    if max(len(commits), len(moved)) > MAX_COMMITS:
        return update._replace(unseen=f"the push brings over {MAX_COMMITS} commits at once")
    described = _describe(git, dict.fromkeys([*commits, *moved]))

    large = [
        (name.decode(), File(path.decode(errors="replace"), kind.size))
        for (name, _, path), kind in zip(objects, sizes, strict=True)
        if kind.type == "blob" and kind.size > rules.blob_bytes
    ]
    return update._replace(
        descends=old is None or git.ok("merge-base", "--is-ancestor", old, new),
        new_commits=tuple(described[id] for id in commits),
        moved_over=tuple(described[id] for id in moved),
        large_files=_without_kept(repository.kept, large),
        page_before=answers.pages[0] if is_main and old else None,
        page_after=answers.pages[-1] if is_main and _is_file(git, new) else None,
    )


def _is_file(git: Git, commit: str) -> bool:
    """COMMS.md is a regular file: a link has a text as well, which nobody would ever read."""
    return git("ls-tree", commit, "--", PAGE).startswith("100")


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
        texts.append(content.decode(errors="replace") if kind.type == "blob" else None)
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
    words = ("--root", "-m", "--always", "--raw", "--no-renames", "--ignore-submodules=none", "-z")
    answer = git.raw("diff-tree", "--stdin", *words, stdin=asked.encode()).decode(errors="replace")

    commit = ""
    differences: dict[str, list[_Difference]] = {}
    fields = iter(answer.split("\0"))
    for field in fields:
        if field.startswith(":"):  # :<mode> <mode> <id> <id> <letter>; the name is the next field
            differences[commit][-1].add(next(fields), deleted=field.endswith("D"))
        elif _SHA.fullmatch(field):  # once for each parent
            commit = field
            differences.setdefault(commit, []).append(_Difference())
        elif field:
            raise ValueError(f"git diff-tree gave {field[:200]!r}; expected the id of a commit, or a change")
    return {id: _commit(id, each) for id, each in differences.items()}


class _Difference:
    """Between a commit and one of its parents."""

    def __init__(self) -> None:
        self.touched: set[str] = set()
        self.present: set[str] = set()

    def add(self, name: str, deleted: bool) -> None:
        self.touched.add(name)
        if not deleted:
            self.present.add(name)


def _commit(id: str, differences: list[_Difference]) -> Commit:
    touched = frozenset[str]().union(*(each.touched for each in differences))
    return Commit(id, touched, touched.intersection(*(each.present for each in differences)))


def _without_kept(kept: Git, files: list[tuple[str, File]]) -> tuple[File, ...]:
    """The files whose content the repository does not have yet; git may list what only older commits hold."""
    if not files:
        return ()
    kinds = _look_up(kept, [name for name, _ in files], []).kinds
    return tuple(file for (_, file), kind in zip(files, kinds, strict=True) if kind.type == "missing")
