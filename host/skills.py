"""`minifram skills`: what the agent has learned to do, and the PM's word on it, a commit on the branch mind.

What a candidate lacks, its daily review says (an event of the duty `skill_review`)."""

from __future__ import annotations

from typing import Any, Final

import click

from host.cli import agent_option, command
from host.errors import not_found
from host.home import Context
from host.mind import mind_commit
from host.repository import edit_branch, open_as_pm, open_repository
from host.screen import Say, Shown, harmless, one_line
from infra.cell.mind.history import history_of
from infra.cell.mind.skill_gate import confidence
from infra.cell.mind.skills import (
    CANDIDATES,
    DEPRECATED,
    FAILED,
    FILE,
    LEARNED,
    MOST_BYTES,
    SKILLS,
    STATES,
    Skill,
    Skills,
    index_of,
    moved_to,
    skills_of,
)
from infra.shared.branches import MIND
from infra.shared.mind.layout import SKILLS_INDEX
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.tip import DIRECTORY, TreeEntry, list_tree, tree_with, write_file

MOST_SKILLS: Final = 2500
LISTS: Final = "'minifram skills list' lists them"
PROMOTABLE: Final = (CANDIDATES, FAILED, DEPRECATED)
IN_USE: Final = (LEARNED, CANDIDATES)


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
    home = context.initialised()
    git, history = open_repository(home), history_of(home.places.events)
    read = read_skills(git, mind_commit(git))
    found = [
        {
            "name": each.head.name,
            "state": each.state,
            "version": each.head.version,
            "description": each.head.description,
            "confidence": round(confidence(each, history), 2),
            "successor": each.head.successor,
        }
        for each in read.of(*STATES)
    ]
    problems = all_problems(read)
    width = max((len(each.head.name) for each in read.found), default=0)
    lines = [_line(each, width) for each in found] or ["no skills"]
    return Shown({"skills": found, "problems": problems}, lines, "\n".join(one_line(each, 400) for each in problems))


def _line(each: dict[str, Any], width: int) -> str:
    follows = f" · replaced by {one_line(each['successor'], 80)}" if each["successor"] else ""
    rating = f"confidence {each['confidence']:.2f}"
    return f"{each['state']:<10} {each['name']:<{width}} {each['version']:<8} {rating}{follows}"


@command
@click.argument("name")
def show(context: Context, say: Say, name: str) -> Shown:
    """Show a skill's text. NAME may be STATE/NAME."""
    git = open_repository(context.initialised())
    skill = _find(read_skills(git, mind_commit(git)), name)
    lines = [f"{skill.reference}  {one_line(skill.head.description, 400)}", "", harmless(skill.text)]
    return Shown({"skill": skill.reference, "text": skill.text}, lines)


@command
@click.argument("name")
def promote(context: Context, say: Say, name: str) -> Shown:
    """Make a candidate a learned skill by your word, whatever its gate lacks: a commit of yours on the branch mind.

    A failed or deprecated skill can be taken back in the same way. A learned one of the same name is deprecated, with
    a pointer to this one.
    """

    return _move(context, name, PROMOTABLE, LEARNED, "promote")


@command
@click.argument("name")
def retire(context: Context, say: Say, name: str) -> Shown:
    """Deprecate a learned skill, or a candidate: it is kept, and not used by default."""

    return _move(context, name, IN_USE, DEPRECATED, "retire")


def read_skills(git: Git, commit: str) -> Skills:
    """Raises GitError for what keeps all from being read."""
    files: dict[str, bytes | OSError] = {}
    listed = git.raw("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, "--", f"{SKILLS}/")
    paths = listed.decode(errors="surrogateescape").split("\0")
    for path in [path for path in paths if path.count("/") == 3 and path.endswith(f"/{FILE}")][:MOST_SKILLS]:
        try:
            files[path] = git.saying_at_most(MOST_BYTES).raw("cat-file", "blob", f"{commit}:{path}")
        except GitError as error:
            files[path] = OSError(str(error))
    return skills_of(files)


def all_problems(found: Skills) -> list[str]:
    return [str(problem) for problem in (*found.problems, *found.graph_problems())]


def _find(found: Skills, named: str, *states: str) -> Skill:
    """By its name, or as `learned/NAME`. Raises CommandError."""
    state, _, name = named.rpartition("/")
    wanted = [each for each in states or STATES if state in ("", each)]
    if wanted and (skill := found.find(name, *wanted)):
        return skill
    broken = [str(each) for each in found.problems if f"/{name}/" in each.path]
    raise not_found(f"no skill {named!r} among {', '.join(states or STATES)}; {(broken or [LISTS])[0]}")


def _move(context: Context, name: str, among: tuple[str, ...], to: str, word: str) -> Shown:
    git, history = open_as_pm(context), history_of(context.initialised().places.events)
    mind_commit(git)
    was = moved = ""
    overridden: list[str] = []

    def change(seen: str) -> tuple[dict[str, TreeEntry | str | None], str]:
        nonlocal was, moved, overridden
        found = read_skills(git, seen)
        skill = _find(found, name, *among)
        moves = {skill: moved_to(skill, to)}
        was, moved = skill.reference, moves[skill].reference
        if to == LEARNED and (old := found.find(skill.head.name, LEARNED)):
            moves = {old: moved_to(old, DEPRECATED, moved), **moves}
        paths: dict[str, TreeEntry | str | None] = {}
        for source, target in moves.items():
            text = {FILE: write_file(git, target.text)}
            tree = tree_with(git, list_tree(git, seen, source.folder)[source.folder].id, text)
            paths |= {source.folder: None, target.folder: TreeEntry(DIRECTORY, tree)}
        kept = [each for each in found.found if each not in moves and each.folder not in paths]
        after = found._replace(found=tuple(sorted((*kept, *moves.values()), key=lambda each: each.path)))
        paths[SKILLS_INDEX] = index_of(after, lambda each: confidence(each, history))
        overridden = [str(each) for each in found.graph_problems() if each.path == skill.path and to == LEARNED]
        return paths, f"skill: {word} {was}\n\nIt is {moved} now. Decided by the PM.\n"

    _, commit = edit_branch(git, MIND, change)
    advice = "\n".join(f"it is promoted in spite of this: {one_line(each, 300)}" for each in overridden)
    value = {"skill": was, "to": moved, "commit": commit, "overridden": overridden}
    return Shown(value, f"{was} → {moved}  {commit[:12]}", advice)


for _each, _name in ((listed, "list"), (show, "show"), (promote, "promote"), (retire, "retire")):
    skills.add_command(_each, _name)
