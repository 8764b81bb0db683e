"""The skills of an agent as the PM sees and decides them: read from the branch mind, moved by a commit on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from host.errors import CommandError, conflict, not_found, usage
from infra.shared.branches import MIND
from infra.shared.exit_codes import Exit
from infra.shared.mind.layout import SKILLS_INDEX
from infra.shared.mind.problems import MindProblem
from infra.shared.mind.semver import Dependency
from infra.shared.mind.skill_graph import graph_problems, problems_of
from infra.shared.mind.skill_moves import move_of
from infra.shared.mind.skills import (
    FILE,
    MOST_BYTES,
    MOST_FOLDER_BYTES,
    MOST_FOLDER_FILES,
    SKILLS,
    STATUS_OF,
    Skill,
    Skills,
    SkillStatus,
    WrongSkill,
    folder_hash,
    skills_of,
)
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.tip import (
    DIRECTORY,
    BareTip,
    TreeEntry,
    advance,
    commit_tree,
    list_tree,
    read_file,
    tree_with_entries,
    write_file,
)

MIND_REF: Final = f"refs/heads/{MIND}"
MOST_SKILLS: Final = 500
LISTS: Final = "'minifram skills' lists them"
PROMOTED_BY_PM: Final = 0.5
"""Confidence of a skill that has no record."""


class SkillMoved(NamedTuple):
    skill: str
    """`candidates/csv-sum@0.1.0`."""
    to: str
    commit: str
    overridden: tuple[str, ...]
    """Problems that the PM's word outweighs."""


def mind_commit(git: Git) -> str:
    """Raises CommandError for an agent without a mind."""
    found = resolve_commit(git, MIND_REF)
    if found is None:
        raise not_found("this agent has no branch 'mind' yet; 'minifram up' gives it one")
    return found


def read_skills(git: Git, commit: str) -> Skills:
    """Raises GitError for what keeps all from being read."""
    files: dict[str, bytes | MindProblem] = {}
    for directory in STATUS_OF:
        there = list_tree(git, commit, f"{SKILLS}/{directory}/")
        for folder in sorted(path for path, entry in there.items() if entry.mode == DIRECTORY)[:MOST_SKILLS]:
            path = f"{folder}/{FILE}"
            entry = list_tree(git, commit, path).get(path)
            if entry is None:
                files[path] = MindProblem(path, 0, f"it is missing; expected a {FILE} in each folder")
                continue
            try:
                files[path] = git.saying_at_most(MOST_BYTES).raw("cat-file", "blob", entry.id)
            except GitError as error:
                files[path] = MindProblem(path, 0, f"it cannot be read ({error}); a skill is a small text file")
    return skills_of(files)


def find_skill(skills: Skills, named: str, *statuses: SkillStatus) -> Skill:
    """By its name, or as `learned/NAME[@VERSION]`. Raises CommandError."""
    directory, slash, rest = named.rpartition("/")
    name = rest.partition("@")[0]
    if slash and directory not in STATUS_OF:
        raise usage(f"{named!r} names no skill; expected NAME, or one of {', '.join(STATUS_OF)} and /NAME")
    found = skills.find(name, STATUS_OF[directory]) if slash else skills.find(name, *statuses)
    if found and "@" in rest and str(found.version) != rest.partition("@")[2]:
        raise not_found(f"{found.reference} is there, {named} is not")
    if found is None:
        broken = [str(each) for each in skills.problems if f"/{name}/" in each.path]
        kinds = f" among {', '.join(status.directory for status in statuses)}" if statuses else ""
        raise not_found(f"no skill {named!r}{kinds}; {broken[0] if broken else LISTS}")
    return found


def hash_of(git: Git, commit: str, skill: Skill) -> str:
    """Of its folder. Raises CommandError for one that is too large, GitError."""
    lines = git.raw("ls-tree", "-r", "-l", "-z", "--full-tree", commit, "--", f"{skill.folder}/").split(b"\0")
    files, size = dict[str, bytes](), 0
    for line in filter(None, lines):
        about, _, path = line.decode(errors="surrogateescape").partition("\t")
        _, kind, id, bytes_ = about.split()
        size += int(bytes_) if bytes_.isdigit() else 0
        if kind != "blob" or size > MOST_FOLDER_BYTES or len(files) >= MOST_FOLDER_FILES:
            raise CommandError(Exit.FAILURE, f"{skill.folder} is larger than a skill may be; make it smaller first")
        files[path.removeprefix(f"{skill.folder}/")] = git.raw("cat-file", "blob", id)
    return folder_hash(files)


def promote(git: Git, named: str) -> SkillMoved:
    """A candidate becomes a learned skill by the PM's word. Raises CommandError, GitError."""

    def find(skills: Skills) -> Skill:
        skill = find_skill(skills, named, SkillStatus.CANDIDATE, SkillStatus.FAILED, SkillStatus.DEPRECATED)
        if skill.status in (SkillStatus.CORE, SkillStatus.LEARNED):
            raise conflict(f"{skill.reference} is in use already; nothing was changed")
        return skill

    return _move(git, find, SkillStatus.LEARNED, "promote", "")


def retire(git: Git, named: str, successor: str) -> SkillMoved:
    """A learned skill, or a candidate, is deprecated. Raises CommandError, GitError."""

    def find(skills: Skills) -> Skill:
        skill = find_skill(skills, named, SkillStatus.LEARNED, SkillStatus.CANDIDATE)
        if skill.status is SkillStatus.CORE:
            raise usage(f"{skill.reference} is yours: edit {skill.folder} on the branch mind by git")
        if skill.status not in (SkillStatus.LEARNED, SkillStatus.CANDIDATE):
            raise conflict(f"{skill.reference} is not in use; nothing was changed")
        return skill

    if successor:
        try:
            Dependency.of(successor)
        except ValueError as error:
            raise usage(f"--successor: {error}") from None
    return _move(git, find, SkillStatus.DEPRECATED, "retire", successor)


def _move(git: Git, find: Callable[[Skills], Skill], to: SkillStatus, word: str, successor: str) -> SkillMoved:
    mind_commit(git)
    done: list[SkillMoved] = []

    def next_commit(seen: str) -> str:
        skills = read_skills(git, seen)
        skill = find(skills)
        entries: dict[str, TreeEntry | None] = {}
        index = read_file(git, seen, SKILLS_INDEX) or ""
        try:
            old = skills.find(skill.name, SkillStatus.LEARNED) if to is SkillStatus.LEARNED else None
            if old:
                follows = f"{to.directory}/{skill.name}@{skill.version}"
                away = move_of(old, SkillStatus.DEPRECATED, index, successor=follows)
                entries |= _entries(git, seen, old.folder, away.target, away.skill)
                index = away.listed
            hash = hash_of(git, seen, skill) if to is SkillStatus.LEARNED else ""
            move = move_of(skill, to, index, PROMOTED_BY_PM, hash, successor)
        except WrongSkill as wrong:
            raise conflict(f"{wrong}; mend the front matter first") from None
        entries |= _entries(git, seen, skill.folder, move.target, move.skill)
        entries[SKILLS_INDEX] = TreeEntry("", write_file(git, move.listed))
        problems = problems_of(skill, skills) if to is SkillStatus.LEARNED else ()
        message = f"skill: {word} {skill.reference}\n\nIt is {move.skill.reference} now. Decided by the PM.\n"
        commit = commit_tree(git, tree_with_entries(git, seen, entries), (seen,), message)
        done.append(SkillMoved(skill.reference, move.skill.reference, commit, tuple(map(str, problems))))
        return commit

    commit = advance(BareTip(git, MIND), next_commit)
    return done[-1]._replace(commit=commit)


def _entries(git: Git, seen: str, source: str, target: str, skill: Skill) -> dict[str, TreeEntry | None]:
    """The folder at its new place, with the SKILL.md as it is then."""
    folder = list_tree(git, seen, source)[source]
    tree = tree_with_entries(git, folder.id, {FILE: TreeEntry("", write_file(git, skill.text))})
    return {source: None, target: TreeEntry(DIRECTORY, tree)}


def all_problems(skills: Skills) -> list[str]:
    return [str(problem) for problem in (*skills.problems, *graph_problems(skills))]
