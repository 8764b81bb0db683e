"""`minifram skills`: what the agent has learned to do, and the PM's word on it, a commit on the branch mind.

What a candidate lacks, its daily review says (`logs/health/duties.json`)."""

from __future__ import annotations

from typing import Any, Final

import click

from host.cli import agent_option, command
from host.errors import conflict, not_found
from host.home import Context
from host.mind import mind_commit
from host.repository import edit_branch, open_as_pm, open_repository
from host.screen import Say, Shown, harmless, one_line
from infra.cell.mind.problems import MindProblem
from infra.cell.mind.skill_graph import graph_problems, problems_of
from infra.cell.mind.skill_index import lines_of
from infra.cell.mind.skill_moves import move_of
from infra.cell.mind.skills import (
    FILE,
    MOST_BYTES,
    MOST_FOLDER_BYTES,
    SKILLS,
    Skill,
    Skills,
    SkillStatus,
    WrongSkill,
    folder_hash,
    skills_of,
)
from infra.shared.branches import MIND
from infra.shared.mind.layout import SKILLS_INDEX
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.tip import DIRECTORY, TreeEntry, list_tree, read_file, tree_with_entries, write_file

MOST_SKILLS: Final = 2500
LISTS: Final = "'minifram skills list' lists them"
PROMOTABLE: Final = (SkillStatus.CANDIDATE, SkillStatus.FAILED, SkillStatus.DEPRECATED)
IN_USE: Final = (SkillStatus.LEARNED, SkillStatus.CANDIDATE)
PROMOTED_BY_PM: Final = 0.5
"""Confidence of a skill that has no record."""


@click.group("skills")
def skills() -> None:
    """The agent's skills: state, version and confidence.

    \b
    Examples:
      minifram skills list
      minifram skills show csv-sum
      minifram skills promote csv-sum
    """


skills.params.append(agent_option())


@command
def listed(context: Context, say: Say) -> Shown:
    """List the skills, and what is wrong with them."""
    git = open_repository(context.initialised())
    commit = mind_commit(git)
    read = read_skills(git, commit)
    confidence = {(line.directory, line.name): line.confidence for line in lines_of(_index(git, commit))}
    found = [
        {
            "name": each.name,
            "status": each.status.value,
            "version": str(each.version),
            "description": each.description,
            "confidence": confidence.get((each.status.directory, each.name)),
            "successor": each.successor,
        }
        for each in sorted(read.found, key=lambda each: (tuple(SkillStatus).index(each.status), each.name))
    ]
    problems = all_problems(read)
    width = max((len(each.name) for each in read.found), default=0)
    lines = [_line(each, width) for each in found] or ["no skills"]
    return Shown({"skills": found, "problems": problems}, lines, "\n".join(one_line(each, 400) for each in problems))


def _line(each: dict[str, Any], width: int) -> str:
    rating = "" if each["confidence"] is None else f"confidence {each['confidence']:.2f}"
    follows = f" · replaced by {one_line(each['successor'], 80)}" if each["successor"] else ""
    return f"{each['status']:<10} {each['name']:<{width}} {each['version']:<8} {rating}{follows}".rstrip()


@command
@click.argument("name")
def show(context: Context, say: Say, name: str) -> Shown:
    """Show a skill's text. NAME may be STATE/NAME."""
    git = open_repository(context.initialised())
    skill = _find(read_skills(git, mind_commit(git)), name)
    lines = [f"{skill.reference}  {one_line(skill.description, 400)}", "", harmless(skill.text)]
    return Shown({"skill": skill.reference, "text": skill.text}, lines)


@command
@click.argument("name")
def promote(context: Context, say: Say, name: str) -> Shown:
    """Make a candidate a learned skill by your word, whatever its gate lacks: a commit of yours on the branch mind.

    A failed or deprecated skill can be taken back in the same way. A learned one of the same name is deprecated, with
    a pointer to this one.
    """

    return _move(open_as_pm(context), name, PROMOTABLE, SkillStatus.LEARNED, "promote")


@command
@click.argument("name")
def retire(context: Context, say: Say, name: str) -> Shown:
    """Deprecate a learned skill, or a candidate: it is kept, and not used by default."""

    return _move(open_as_pm(context), name, IN_USE, SkillStatus.DEPRECATED, "retire")


def read_skills(git: Git, commit: str) -> Skills:
    """Raises GitError for what keeps all from being read."""
    files: dict[str, bytes | MindProblem] = {}
    texts = [path for path in _paths(git, commit, SKILLS) if path.count("/") == 3 and path.endswith(f"/{FILE}")]
    for path in texts[:MOST_SKILLS]:
        try:
            files[path] = git.saying_at_most(MOST_BYTES).raw("cat-file", "blob", f"{commit}:{path}")
        except GitError as error:
            files[path] = MindProblem(path, 0, f"it cannot be read ({error}); a skill is a small text file")
    return skills_of(files)


def all_problems(found: Skills) -> list[str]:
    return [str(problem) for problem in (*found.problems, *graph_problems(found))]


def _find(found: Skills, named: str, *statuses: SkillStatus) -> Skill:
    """By its name, or as `learned/NAME`. Raises CommandError."""
    directory, _, name = named.rpartition("/")
    wanted = [each for each in statuses or SkillStatus if directory in ("", each.directory)]
    if wanted and (skill := found.find(name, *wanted)):
        return skill
    broken = [str(each) for each in found.problems if f"/{name}/" in each.path]
    kinds = ", ".join(status.directory for status in statuses or SkillStatus)
    raise not_found(f"no skill {named!r} among {kinds}; {(broken or [LISTS])[0]}")


def _move(git: Git, name: str, among: tuple[SkillStatus, ...], to: SkillStatus, word: str) -> Shown:
    mind_commit(git)
    was = moved = ""
    overridden: list[str] = []

    def change(seen: str) -> tuple[dict[str, TreeEntry | str | None], str]:
        nonlocal was, moved, overridden
        found = read_skills(git, seen)
        skill, index = _find(found, name, *among), _index(git, seen)
        is_learned = to is SkillStatus.LEARNED
        moves = []
        try:
            if is_learned and (old := found.find(skill.name, SkillStatus.LEARNED)):
                follows = f"{to.directory}/{skill.name}@{skill.version}"
                moves.append(move_of(old, SkillStatus.DEPRECATED, index, successor=follows))
                index = moves[0].listed
            hash = _hash(git, seen, skill) if is_learned else ""
            moves.append(move_of(skill, to, index, PROMOTED_BY_PM, hash))
        except WrongSkill as wrong:
            raise conflict(f"{wrong}; mend the front matter first") from None
        paths: dict[str, TreeEntry | str | None] = {SKILLS_INDEX: moves[-1].listed}
        for move in moves:
            text = {FILE: TreeEntry("", write_file(git, move.skill.text))}
            tree = tree_with_entries(git, list_tree(git, seen, move.source)[move.source].id, text)
            paths |= {move.source: None, move.target: TreeEntry(DIRECTORY, tree)}
        overridden = [str(each) for each in problems_of(skill, found)] if is_learned else []
        was, moved = skill.reference, moves[-1].skill.reference
        return paths, f"skill: {word} {was}\n\nIt is {moved} now. Decided by the PM.\n"

    _, commit = edit_branch(git, MIND, change)
    advice = "\n".join(f"it is promoted in spite of this: {one_line(each, 300)}" for each in overridden)
    value = {"skill": was, "to": moved, "commit": commit, "overridden": overridden}
    return Shown(value, f"{was} → {moved}  {commit[:12]}", advice)


def _hash(git: Git, commit: str, skill: Skill) -> str:
    """Of its folder. Raises GitError, also for one that is larger than a skill may be."""
    files, left = dict[str, bytes](), MOST_FOLDER_BYTES
    for path in _paths(git, commit, skill.folder):
        content = git.saying_at_most(left).raw("cat-file", "blob", f"{commit}:{path}")
        files[path.removeprefix(f"{skill.folder}/")] = content
        left -= len(content)
    return folder_hash(files)


def _paths(git: Git, commit: str, folder: str) -> list[str]:
    """All files below it."""
    listed = git.raw("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, "--", f"{folder}/")
    return [path for path in listed.decode(errors="surrogateescape").split("\0") if path]


def _index(git: Git, commit: str) -> str:
    return read_file(git, commit, SKILLS_INDEX) or ""


for _each, _name in ((listed, "list"), (show, "show"), (promote, "promote"), (retire, "retire")):
    skills.add_command(_each, _name)
