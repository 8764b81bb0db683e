"""`minifram mind health`, the same checks in `doctor`, and the warning of `status` when nothing is promoted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from host.agent.mind_health import check_mind
from host.agent.status import read_status
from infra.shared.clock import moment
from infra.shared.mind.metrics import METRICS
from infra.shared.mind.promoted import PATH as PROMOTED
from tests.host.desk import Desk
from tests.host.test_skills import used

BOARD = Path(__file__).parents[2] / "docs/grafana/minifram.json"
NOW = moment("2026-02-20T10:00:00")


def checks(desk: Desk) -> dict[str, tuple[str, str]]:
    found = desk.run("mind", "health", "--json").json["checks"]
    return {each["name"]: (each["level"], each["words"]) for each in found}


def test_the_five_checks_of_a_young_mind(desk: Desk) -> None:
    found = checks(desk)
    assert list(found) == ["sandbox", "logging", "coherence", "task loop", "skills"]
    assert {level for level, _ in found.values()} <= {"ok", "note"}, found
    assert desk.run("mind", "health").code == 0
    results = [result.check for result in check_mind(desk.context(), desk.home())]
    assert results == [f"mind: {name}" for name in found]


def test_what_is_wrong_is_a_finding_of_its_check_alone(desk: Desk) -> None:
    used(desk, "r1")
    events = Path(desk.home().places.bot) / "mind/logs/events/2026-01-31.jsonl"
    events.write_bytes(events.read_bytes().replace(b"completed", b"completes"))
    desk.puts_mind(
        {
            "memory/beliefs.md": "# Beliefs\n\n## B-000001\nClaim: x\nConfidence: 7\n",
            "skills/candidates/x/SKILL.md": "<<<<<<< HEAD\n",
            "logs/health/sandbox.json": "{",
        }
    )
    found = checks(desk)
    assert {name: level for name, (level, _) in found.items()} == {
        "sandbox": "fail",
        "logging": "fail",
        "coherence": "warn",
        "task loop": "note",
        "skills": "warn",
    }
    assert "it was rewritten" in found["logging"][1]
    assert "beliefs.md" in found["coherence"][1]
    assert "skills/candidates/x/SKILL.md:1: a conflict marker" in found["skills"][1]
    assert desk.run("mind", "health").code == 8


def test_status_warns_when_there_are_events_and_nothing_is_promoted(desk: Desk) -> None:
    assert read_status(desk.home(), NOW).quiet == ""
    used(desk, "r1")
    assert "nothing was promoted for 20 days" in read_status(desk.home(), NOW).quiet
    assert read_status(desk.home(), moment("2026-02-06T10:00:00")).quiet == ""
    desk.puts_mind({PROMOTED: '{"at": "2026-02-01T10:00:00.000Z", "what": "item", "key": "k"}\n'})
    assert read_status(desk.home(), NOW).quiet == "", "there was no event since"


def test_each_query_of_the_board_names_a_metric_that_exists() -> None:
    board: dict[str, Any] = json.loads(BOARD.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    used = set(re.findall(r"\bagent_[a-z_]+", " ".join(asked)))
    assert all(re.search(r"\bagent_[a-z_]+", expression) for expression in asked)
    assert used == {metric.name for metric in METRICS}, "and each metric is shown"
    grouped = set(re.findall(r"by \(([a-z]+)\)", " ".join(asked)))
    assert grouped <= {label for metric in METRICS for label in metric.labels}
