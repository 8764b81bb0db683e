"""The screens: each gives the values of its template, from what the commands read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from host.doctor import doctor
from host.errors import CommandError
from host.mind import mind_commit, why
from host.repository import main_commit, open_repository, page_at
from host.review import CONFLICT, FREE, NEEDS_WORD, NOT_EXAMINED, PASSED, review
from host.runs import StepRow, last_runs, named, names_of, row_of, runs, steps_of
from host.screen import harmless
from host.serve.agents import Agent
from host.serve.calls import call
from host.serve.diffs import files_of
from host.serve.stream import is_streamed
from host.serve.timeline import timeline
from host.skills import listed
from host.status import lines_of
from host.talk import Report, all_reports
from host.tasks import tasks
from infra.cell.mind.memory import PATHS, memory_of
from infra.keep.repository.page_text import RECORD
from infra.shared import comms
from infra.shared.comms import CommsError
from infra.shared.conversation import TASK
from infra.shared.repository.tip import read_file

REPORTS_SHOWN, FACTS_SHOWN, RUNS_SHOWN, STEPS_SHOWN, LAST_STEPS = 50, 200, 50, 300, 5
Screen = Callable[[Agent, str, Mapping[str, str]], dict[str, Any]]
"""`screen(agent, item, query)`: `item` is what the address says behind the screen's name."""


def _now(agent: Agent, item: str, query: Mapping[str, str]) -> dict[str, Any]:
    """What waits for an answer, what is under way, what was reported last."""
    reports, status = reports_of(agent), agent.status()
    money = status.budget
    labels = money.labels.items() if money else ()
    return {
        "report": reports[-1] if reports else None,
        "directives": agent.known("directives", ("repository",), lambda: _open_directives(agent)),
        "steps": agent.known("last steps", ("runs",), lambda: last_steps(agent)) if status.life else (),
        "money": money,
        "labels": [("directives" if label == TASK else label, usd) for label, usd in labels],
    }


def _open_directives(agent: Agent) -> list[comms.Directive]:
    git = open_repository(agent.home)
    try:
        return list(comms.open_directives(page_at(git, main_commit(git))))
    except CommsError:
        return []


def last_steps(agent: Agent) -> list[StepRow]:
    """Of the run that goes on."""
    name, branch = _last_run(agent)
    steps = _steps(agent, branch, name)[0] if name else []
    return [] if _has_ended(steps) else steps[-LAST_STEPS:]


def _last_run(agent: Agent) -> tuple[str, str]:
    """Its name and its branch; names begin with the time."""
    return max(((name, branch) for branch, name in names_of(agent.home)), default=("", ""))


def _has_ended(steps: list[StepRow]) -> bool:
    return bool(steps) and steps[-1].kind == "ended"


class Evidenced(NamedTuple):
    """A report as a person reads it: the claim, and what the keep recorded under it."""

    at: str
    title: str
    claim: str
    """The agent's own words."""
    record: tuple[tuple[str, str], ...]
    """What the keep saw: what, and how much of it."""

    @property
    def has_evidence(self) -> bool:
        """Whether the keep saw any commit or any test."""
        facts = dict(self.record)
        return any(facts.get(what, "none") != "none" for what in ("commits", "tests run by the keep"))


def _reports(agent: Agent, item: str, query: Mapping[str, str]) -> dict[str, Any]:
    found = reports_of(agent)
    return {"reports": found[: -REPORTS_SHOWN - 1 : -1], "total": len(found)}


def reports_of(agent: Agent) -> list[Evidenced]:
    """The oldest first."""
    return agent.known(
        "reports", ("repository",), lambda: [evidenced(each) for each in all_reports(open_repository(agent.home))]
    )


def evidenced(report: Report) -> Evidenced:
    """The record stands under a heading that no report can hold."""
    said, _, record = report.text.partition(f"\n{RECORD}\n")
    claim = said.partition("\n")[2].strip()
    lines = (line.removeprefix("- ").partition(": ") for line in record.splitlines() if line.startswith("- "))
    return Evidenced(report.time, report.title, claim, tuple(_fact(what, how) for what, _, how in lines))


def _fact(what: str, how: str) -> tuple[str, str]:
    """A line of the record such as `commits: none`; those of one part name themselves by their first word."""
    if how:
        return what, how
    return ("since", what.removeprefix("since ")) if what.startswith("since ") else ("calls", what)


def _review(agent: Agent, item: str, query: Mapping[str, str]) -> dict[str, Any]:
    """The branches that await the PM; one of them with its change, what the keep saw, and the decision."""

    def read() -> dict[str, Any]:
        done = call(review, agent.context, branch=item or None, stat=False, examine=False)
        if not item:
            return {"branches": done.value["branches"]}
        found = done.value
        verdict = found["branch"]["verdict"]
        return {
            "template": "branch.html",
            "found": found,
            "files": files_of(found["diff"]),
            "tests": [path for path in found["branch"]["files"] if path.startswith("tests/")],
            "may_merge": verdict in (PASSED, NEEDS_WORD, FREE),
            "may_be_examined": verdict == NOT_EXAMINED,
            "conflicts": verdict == CONFLICT,
        }

    return agent.known(("review", item), ("repository", "settings", "watcher", "web"), read)


def _runs(agent: Agent, item: str, query: Mapping[str, str]) -> dict[str, Any]:
    """The runs; one of them with its steps, the calls with arguments and results, its cost, and its replay; beside one
    that goes on, what the browser shows."""
    if not item:
        return {"runs": agent.known("runs", ("runs", "money"), lambda: last_runs(agent.home, RUNS_SHOWN)[::-1])}
    branch, name = named(agent.home, item)
    steps, total = agent.known(("run", name), ("runs",), lambda: _steps(agent, branch, name))
    usd = agent.known(("paid", name), ("money",), lambda: agent.money().of_run(name))
    goes_on = agent.status().life and not _has_ended(steps) and _last_run(agent) == (name, branch)
    return {
        "template": "run.html",
        "name": name,
        "branch": branch,
        "steps": steps,
        "left_out": total - len(steps),
        "usd": usd,
        "is_live": goes_on and is_streamed(agent),
        "replay": call(runs, agent.context, run=name, number=1, replays=True) if query.get("replay") else None,
    }


def _steps(agent: Agent, branch: str, name: str) -> tuple[list[StepRow], int]:
    """The last of them, and how many there are."""
    rows = map(row_of, steps_of(agent.home, branch, name))
    found = [row for row in rows if row.words and row.kind in ("answered", "acted", "told", "ended")]
    return found[-STEPS_SHOWN:], len(found)


def _mind(agent: Agent, item: str, query: Mapping[str, str]) -> dict[str, Any]:
    """What the agent holds to be so and why, what contradicts, its skills and its tasks."""
    if item:
        done = call(why, agent.context, id=item)
        return {"template": "why.html", "id": item, "links": done.value["links"], "advice": done.advice}
    return agent.known("mind", ("repository", "mind"), lambda: _read_mind(agent))


def _read_mind(agent: Agent) -> dict[str, Any]:
    git = open_repository(agent.home)
    try:
        commit = mind_commit(git)
    except CommandError as none:
        return {"none": str(none)}
    found = memory_of({path: read_file(git, commit, path) or "" for path in PATHS.values()})
    facts = {each.id: each for each in found.every}
    contested = [each for each in found.every if each.status == "contested"]
    pairs = {tuple(sorted((each.id, other))) for each in contested for other in each.contradictions if other in facts}
    skills = call(listed, agent.context).value
    return {
        "none": "",
        "facts": [each for each in reversed(found.every) if each.status != "deprecated"][:FACTS_SHOWN],
        "total": len(found.every),
        "contested": [(facts[one], facts[other]) for one, other in sorted(pairs)],
        "problems": [str(each) for each in found.problems] + skills["problems"],
        "skills": skills["skills"],
        "tasks": call(tasks, agent.context, number=10).value["tasks"],
    }


def _status(agent: Agent, item: str, query: Mapping[str, str]) -> dict[str, Any]:
    """What `status` and `doctor` say, and the money."""
    # The doctor asks podman and the provider, which takes seconds: on a click.
    return {
        "lines": [harmless(line) for line in lines_of(agent.status(), time.time())],
        "money": agent.known("money", ("money",), lambda: agent.money().rows()),
        "web": agent.status().web,
        "doctor": call(doctor, agent.context).lines if item == "doctor" else None,
    }


SCREENS: Mapping[str, Screen] = {
    "now": _now,
    "reports": _reports,
    "review": _review,
    "timeline": timeline,
    "runs": _runs,
    "mind": _mind,
    "status": _status,
}
