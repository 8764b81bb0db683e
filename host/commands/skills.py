"""`minifram skills`: what the agent has learned to do, and the PM's word on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from host.commands.options import agent_option, command
from host.context import Context
from host.display import Screen, counted, harmless, one_line, plain

if TYPE_CHECKING:
    from host.agent.skills import SkillShown
    from host.repository.skills import SkillMoved


@click.group("skills", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def skills(ctx: click.Context, as_json: bool) -> None:
    """The agent's skills: state, version, uses, failures, and what keeps a candidate from being promoted.

    \b
    Examples:
      minifram skills
      minifram skills show csv-sum
      minifram skills promote csv-sum
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(listed, as_json=as_json)


skills.params.append(agent_option())


@command
def listed(context: Context, screen: Screen) -> None:
    """List the skills, as 'minifram skills' alone does."""
    from host.agent.skills import read_records, shown
    from host.repository.open import open_repository
    from host.repository.skills import all_problems, mind_commit
    from infra.shared.settings_file import read_settings

    home = context.initialised()
    git = open_repository(home)
    settings = read_settings(home.settings)
    found, read = shown(git, mind_commit(git), read_records(home), settings.mind, settings.exploration)
    problems = all_problems(read)
    screen.show({"skills": plain(found), "problems": problems}, list(_lines(found)) or "no skills", verbatim=True)
    for problem in problems:
        screen.advise(one_line(problem, 400))


def _lines(found: list[SkillShown]) -> Iterator[str]:
    width = max((len(each.name) for each in found), default=0)
    for each in found:
        rating = f", confidence {each.confidence:.2f}" if each.confidence is not None else ""
        follows = f" · replaced by {one_line(each.successor, 80)}" if each.successor else ""
        record = f"{counted(each.uses, 'use')}, {counted(each.failures, 'failure')}{rating}"
        yield f"{each.status:<10} {each.name:<{width}} {each.version:<8} {record}{follows}"
        for lack in each.lacking:
            yield f"{'':<10} {'':<{width}} lacks {one_line(lack, 200)}"


@command
@click.argument("name")
def show(context: Context, screen: Screen, name: str) -> None:
    """Show a skill: its gate with the evidence, its uses, and its text. NAME may be STATE/NAME."""
    from host.agent.skills import gate_of, read_records
    from host.repository.open import open_repository
    from host.repository.skills import find_skill, mind_commit, read_skills
    from infra.shared.settings_file import read_settings

    home = context.initialised()
    git = open_repository(home)
    commit = mind_commit(git)
    read = read_skills(git, commit)
    skill = find_skill(read, name)
    records = read_records(home)
    settings = read_settings(home.settings)
    judged = gate_of(git, commit, skill, read, records, settings.mind, settings.exploration)
    record = records.of(skill.reference)

    def lines() -> Iterator[str]:
        yield f"{skill.reference}  {one_line(skill.description, 400)}"
        for condition in judged.conditions:
            mark = screen.good("met") if condition.met else screen.bad("lacks")
            places = f"  {', '.join(condition.evidence[-3:])}" if condition.evidence else ""
            yield f"  {mark:<5} {condition.name:<17} {one_line(condition.why, 300)}{places}"
        for use in record.uses[-10:]:
            how = {True: "succeeded", False: screen.bad("failed"), None: "says nothing"}[use.succeeded]
            yield f"  use   {one_line(use.at, 24)} run {one_line(use.run, 60)} {how}  {use.place}"
        yield ""
        yield harmless(skill.text)

    told = {"skill": skill.reference, "gate": plain(judged.conditions), "uses": plain(record.uses), "text": skill.text}
    screen.show(told, lines(), verbatim=True)


@command
@click.argument("name")
def promote(context: Context, screen: Screen, name: str) -> None:
    """Make a candidate a learned skill by your word, whatever its gate lacks: a commit of yours on the branch mind.

    A failed or deprecated skill can be taken back in the same way. A learned one of the same name is deprecated, with
    a pointer to this one.
    """
    from host.repository.open import open_as_pm
    from host.repository.skills import promote as promoted

    context.initialised()
    _moved(screen, promoted(open_as_pm(context), name))


@command
@click.argument("name")
@click.option("--successor", default="", metavar="STATE/NAME@VERSION", help="What is to be used instead.")
def retire(context: Context, screen: Screen, name: str, successor: str) -> None:
    """Deprecate a learned skill, or a candidate: it is kept, and not used by default."""
    from host.repository.open import open_as_pm
    from host.repository.skills import retire as retired

    context.initialised()
    _moved(screen, retired(open_as_pm(context), name, successor))


def _moved(screen: Screen, done: SkillMoved) -> None:
    screen.show(plain(done), [f"{done.skill} → {done.to}  {done.commit[:12]}"])
    for problem in done.overridden:
        screen.advise(f"it is promoted in spite of this: {one_line(problem, 300)}")


listed.name = "list"
for _each in (listed, show, promote, retire):
    skills.add_command(_each)
