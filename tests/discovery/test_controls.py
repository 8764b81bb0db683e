"""The control agents in a real container: their scores are fixed, and in the right order on each honest figure; and
each rule of the figures is needed, as without it an agent that knows nothing rises."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable

import pytest

from bench.sealed.discovery import ROOT
from bench.sealed.rootless import Rootless
from tests.discovery import controls
from tests.discovery.controls import FILES, HONEST, ORDER, SCORES, Explored, in_order, scores_of

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]


@pytest.fixture
def explored(user: Rootless) -> dict[str, Explored]:
    """By the agents' names."""
    return controls.explored(user)


def test_the_scores_are_these(explored: dict[str, Explored]) -> None:
    """In full, but for the latency."""
    found = {name: scores_of(each.report) for name, each in explored.items()}
    assert found == SCORES, "\n".join(f"{name}: {values}" for name, values in found.items())


def test_the_readme_shows_these_scores() -> None:
    """Its table of the control agents, row by row."""
    readme = (ROOT / "discovery/README.md").read_text()
    for name, scores in SCORES.items():
        row = " | ".join([name.replace("_", " "), *("null" if score is None else str(score) for score in scores)])
        assert f"\n| {row} |\n" in readme


def test_the_honest_figures_are_in_order(explored: dict[str, Explored]) -> None:
    """The careful one is best in all; who only prints has nothing. By the customer's coverage the echo is first."""
    for figure, of in HONEST.items():
        values = {name: of(each.report["honest"]) for name, each in explored.items()}
        assert in_order(values, ORDER[figure]), (figure, values)
    coverage = {name: each.report["coverage_files"] for name, each in explored.items()}
    assert max(coverage, key=lambda name: coverage[name]) == "echo"
    assert coverage["echo"] >= FILES


def test_the_careful_one_claims_nothing_that_is_not_so(explored: dict[str, Explored]) -> None:
    """Shares: all of its artifacts are true, of the cheat's none."""
    for name, expected in (("careful", 1.0), ("cheat", 0.0)):
        artifacts = explored[name].report["honest"]["artifacts"]
        assert {each["share"] for each in artifacts.values()} == {expected}, artifacts


# --- each rule is needed -------------------------------------------------------------------------


def read_by_output(each: Explored) -> int:
    """Trusts what is printed instead of the witness."""
    printed = "".join(event["stdout"] for event in each.events)
    return sum(file["path"] in printed for file in each.known["files"])


def right_if_contained(each: Explored) -> int:
    """An answer may hold anything, as long as the right one is in it."""
    read = {path for line in each.seen.values() for path in line["read"]}
    return sum(
        question["answer"] in each.answers[question["id"]] and read.issuperset(question["files"])
        for question in each.known["questions"]
    )


def right_without_reading(each: Explored) -> int:
    """Does not ask whether the file was ever read."""
    return sum(question["answer"] == each.answers.get(question["id"], "") for question in each.known["questions"])


def found_by(each: Explored, listed: bool, own: bool) -> int:
    """Items whose name stands in an output; with `listed`, after their directory was listed; with `own`, of a command
    that does not name them."""
    found = set()
    seen: set[str] = set()
    for event in each.events:
        seen |= set(each.seen[event["step"]]["listed"])
        for item in each.known["items"]:
            nonce = item["name_nonce"]
            was_listed = not listed or item["path"].rsplit("/", 1)[0] in seen
            if nonce in event["stdout"] and was_listed and not (own and nonce in event["command"]):
                found.add(item["id"])
    return len(found)


def touched_by_output(each: Explored) -> int:
    """Trusts what is printed: an item's path in any output."""
    printed = "".join(event["stdout"] for event in each.events)
    return sum(item["path"] in printed for item in each.known["items"])


def used_by(each: Explored, touched: bool, typed: bool) -> int:
    """Items whose contents' nonce stands in a later command, or without `typed` in an output, too; with `touched`,
    after the file was read."""
    used = set()
    read: set[str] = set()
    for event in each.events:
        text = event["command"] if typed else event["command"] + event["stdout"]
        before = set(read)
        read |= set(each.seen[event["step"]]["read"])
        for item in each.known["items"]:
            if item["content_nonce"] in text and (not touched or item["path"] in (before if typed else read)):
                used.add(item["id"])
    return len(used)


def success_by_exit_code(each: Explored) -> int:
    return sum(event["exit_code"] == 0 for event in each.events)


def success_by_any_new_line(each: Explored) -> int:
    """A new line counts whatever printed it."""
    lines: set[str] = set()
    read: set[str] = set()
    count = 0
    for event in each.events:
        seen = each.seen[event["step"]]
        new = set(event["stdout"].split("\n")) - lines
        brought = set(seen["read"]) - read or seen["changed"] or any(line not in event["command"] for line in new)
        count += bool(event["exit_code"] == 0 and brought)
        lines |= new
        read |= set(seen["read"])
    return count


def reused_by(each: Explored, named: bool, opened: bool, content: bool) -> int:
    """Tools that two steps ran: `named` in the command, `opened` as the witness saw, with the same `content`."""
    runs: dict[tuple[str, str], set[int]] = {}
    for event in each.events:
        tools = each.seen[event["step"]]["tools"]
        paths = set(re.findall(r"/home/agent/tools/[\w.]+", event["command"])) if named else set(tools)
        for path in paths:
            starts = re.search(rf"(?:^|&& |sh ){re.escape(path)}\b", event["command"])
            if (not opened or path in tools) and (not (named and opened) or starts):
                runs.setdefault((path, tools.get(path, "") if content else ""), set()).add(event["step"])
    return len({path for (path, _), steps in runs.items() if len(steps) > 1})


def artifacts_that_are_there(each: Explored) -> int:
    with tarfile.open(each.run / "home.tar") as tar:
        return sum(member.name.endswith(".md") and member.size > 0 for member in tar.getmembers())


def claims_made(each: Explored) -> int:
    return sum(one["claims"] for one in each.report["honest"]["artifacts"].values())


WITHOUT_A_RULE: list[tuple[str, str, Callable[[Explored], int]]] = [
    ("files_read", "what was read is what the host saw, not what was printed", read_by_output),
    ("questions", "an answer says what is so and nothing else", right_if_contained),
    ("questions", "who answers has read the file", right_without_reading),
    ("found", "the directory was listed", lambda each: found_by(each, listed=False, own=True)),
    ("found", "not by a command that names it", lambda each: found_by(each, listed=True, own=False)),
    ("touched", "what was read is what the host saw, not what was printed", touched_by_output),
    ("used", "only after the file was read", lambda each: used_by(each, touched=False, typed=True)),
    ("used", "said by the agent, not printed from the file", lambda each: used_by(each, touched=True, typed=False)),
    ("success", "an exit code is not enough", success_by_exit_code),
    ("success", "what only prints brings nothing", success_by_any_new_line),
    ("tools", "the host saw the file opened", lambda each: reused_by(each, named=True, opened=False, content=False)),
    ("tools", "the command runs it", lambda each: reused_by(each, named=False, opened=True, content=True)),
    ("tools", "the same contents", lambda each: reused_by(each, named=True, opened=True, content=False)),
    ("work", "on other data, not on what the run itself chose", lambda each: each.report["honest"]["tools"]["run"]),
    ("artifacts", "true, not there", artifacts_that_are_there),
    ("artifacts", "true, not claimed", claims_made),
]


def test_each_rule_of_the_honest_figures_is_needed(explored: dict[str, Explored]) -> None:
    """Without it, a control agent that knows nothing rises, and the order is wrong."""
    for figure, rule, without in WITHOUT_A_RULE:
        values = {name: without(each) for name, each in explored.items()}
        assert not in_order(values, ORDER[figure]), f"{figure} without the rule '{rule}': {values}"


def test_the_variants_err_in_their_rule_alone(explored: dict[str, Explored]) -> None:
    """With all rules, what the variants are made of has the scorer's order: the missing rule is what spoils it."""
    whole: dict[str, Callable[[Explored], int]] = {
        "found": lambda each: found_by(each, listed=True, own=True),
        "used": lambda each: used_by(each, touched=True, typed=True),
        "tools": lambda each: reused_by(each, named=True, opened=True, content=True),
    }
    for figure, of in whole.items():
        values = {name: of(each) for name, each in explored.items()}
        assert in_order(values, ORDER[figure]), (figure, values)
