"""What skills ask of each other: dependencies that are missing, lead to themselves, or go round in a circle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infra.cell.mind.problems import MindProblem
from infra.cell.mind.semver import Dependency
from infra.cell.mind.skills import STATUS_OF, Skill, Skills, SkillStatus

_USABLE = (SkillStatus.CORE, SkillStatus.LEARNED)


def graph_problems(skills: Skills) -> tuple[MindProblem, ...]:
    """In the order of the skills. Deprecated and failed ones may depend on anything: nobody runs them."""
    alive = [skill for skill in skills.found if skill.status not in (SkillStatus.DEPRECATED, SkillStatus.FAILED)]
    problems = [problem for skill in alive for problem in _missing(skill, skills)]
    problems += [
        MindProblem(circle[0].path, _line(circle[0], circle[1 % len(circle)]), _words(circle))
        for circle in _circles(alive, skills)
    ]
    for skill in alive:
        other = skills.find(skill.name, SkillStatus.CORE)
        if other and skill.status is not SkillStatus.CORE:
            problems.append(MindProblem(skill.path, 2, f"a core skill has the name {skill.name!r}; give it another"))
    return tuple(problems)


def problems_of(skill: Skill, skills: Skills) -> tuple[MindProblem, ...]:
    """Those that keep this one from being promoted."""
    return tuple(problem for problem in graph_problems(skills) if problem.path == skill.path)


def found_by(dependency: Dependency, skills: Skills) -> Skill | None:
    """The skill that it names, in its state, or in `learned` for what has been promoted since."""
    status = STATUS_OF[dependency.directory]
    states = (status, SkillStatus.LEARNED) if status is SkillStatus.CANDIDATE else (status,)
    found = skills.find(dependency.name, *states)
    return found if found and dependency.takes(found.version) else None


def _missing(skill: Skill, skills: Skills) -> Iterator[MindProblem]:
    for dependency in skill.dependencies:
        if found_by(dependency, skills):
            continue
        other = skills.find(dependency.name)
        if other is None:
            what = "which is not there"
        elif other.status in _USABLE and dependency.directory == other.status.directory:
            what = f"and {other.version} is there; ask for a version of that major number, or bring the other up"
        else:
            what = f"which is {other.reference}; name that, or another skill"
        yield MindProblem(skill.path, _line(skill, dependency), f"it depends on {dependency}, {what}")


def _circles(alive: Sequence[Skill], skills: Skills) -> Iterator[list[Skill]]:
    """Each once, beginning with its first skill by path. No recursion: a chain may have any length."""
    state: dict[str, int] = {}
    for start in alive:
        if state.get(start.path):
            continue
        way: list[tuple[Skill, Iterator[Dependency]]] = [(start, iter(start.dependencies))]
        state[start.path] = 1
        while way:
            skill, rest = way[-1]
            dependency = next(rest, None)
            if dependency is None:
                state[skill.path] = 2
                way.pop()
                continue
            other = found_by(dependency, skills)
            if other is None or state.get(other.path) == 2:
                continue
            if state.get(other.path) == 1:
                circle = [each for each, _ in way]
                circle = circle[next(at for at, each in enumerate(circle) if each.path == other.path) :]
                first = min(range(len(circle)), key=lambda at: circle[at].path)
                yield circle[first:] + circle[:first]
                continue
            state[other.path] = 1
            way.append((other, iter(other.dependencies)))


def _words(circle: Sequence[Skill]) -> str:
    if len(circle) == 1:
        return f"it depends on itself, {circle[0].reference}; take that out"
    names = " → ".join(each.reference for each in (*circle, circle[0]))
    return f"its dependencies lead back to it ({names}); take one of them out"


def _line(skill: Skill, dependency: Dependency | Skill) -> int:
    """Where it stands in the file."""
    name = f"/{dependency.name}@"
    at = skill.text.find(name)
    return skill.text.count("\n", 0, at) + 1 if at >= 0 else 1
