"""The map that an agent reads to change itself (`infra/cell/README.md`): each of its changes is made on a branch, which
the agent hops with, and is main's in the end. Its body has one small test, so that the hop is what takes the time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from infra.shared import comms
from tests.whole.owner import Owner

ROOT = Path(__file__).parents[2]
CHANGES = (
    ("infra/cell/work/report.py", "The model ended its turn without a word.", "It said nothing."),
    ("infra/cell/tools/bash.py", "END_SECONDS = 5.0", "END_SECONDS = 6.0"),
    ("infra/cell/mind/learn.py", "BELIEF_VALIDATIONS: Final = 2", "BELIEF_VALIDATIONS: Final = 3"),
    ("infra/cell/mind/context.py", "FRAME_BYTES: Final = 200", "FRAME_BYTES: Final = 210"),
    ("infra/cell/policy/gate.py", 'INSTEAD = "Do something else', 'INSTEAD = "Do another thing'),
    ("infra/cell/waits.py", "AGAIN: Final = (1, 6, None)", "AGAIN: Final = (1, 5, None)"),
    ("infra/cell/loop/context.py", "KEPT_STEPS = 4", "KEPT_STEPS = 5"),
    (
        "infra/cell/life/live.py",
        "(Directives(tasks), *(() if cell.boot.is_safe_mode else (tasks, Questions(cell, tasks))))",
        "(*(() if cell.boot.is_safe_mode else (tasks, Questions(cell, tasks))), Directives(tasks))",
    ),
    ("SYSTEM.md", "# Who you are", "# Who you are, and what"),
    ("infra/cell/protocol/operations.py", "MOST_OPERATIONS: Final = 200", "MOST_OPERATIONS: Final = 150"),
    ("infra/cell/mind/duties.py", "AGAIN_SECONDS: Final = 3600.0", "AGAIN_SECONDS: Final = 1800.0"),
    ("infra/cell/run/briefing.py", '"# Now"', '"# Here and now"'),
)
"""The file of each row, and what is made otherwise in it."""
SHELL = """
set -e
bot=$(cd ../.. && pwd)
git clone -q "$(git remote get-url origin)" "$bot/{name}/minifram"
cd "$bot/{name}/minifram"
git checkout -q -b {name}
python - <<'END'
from pathlib import Path
path = Path({path!r})
text = path.read_text()
assert text.count({old!r}) == 1
path.write_text(text.replace({old!r}, {new!r}))
END
git commit -qam "{name}"
git push -q -u origin {name}
"""


def test_each_row_of_the_map_is_tried() -> None:
    """With its file, and at the place that the change is made at."""
    rows = [line for line in (ROOT / "infra/cell/README.md").read_text().splitlines() if line.startswith("| ")][1:13]
    for row, (path, old, _) in zip(rows, CHANGES, strict=True):
        assert path in row
        assert (ROOT / path).read_text().count(old) == 1, path


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_each_change_of_the_map_is_hopped_with(owner: Owner) -> None:
    scenes = []
    for number, (path, old, new) in enumerate(CHANGES):
        name = f"row-{number}"
        when = {"directive": f"Change row {number} of"}
        merged = [{"text": f"Row {number} is merged."}]
        scenes.append(
            {"name": f"{name} after", "when": when | {"comms": f"{name}@[0-9a-f]+ merged"}, "replies": merged}
        )
        made = {"name": "bash", "input": {"command": SHELL.format(name=name, path=path, old=old, new=new)}}
        hop = {"name": "bootstrap", "input": {"branch": name}}
        scenes.append({"name": name, "when": when, "replies": [{"tools": [made]}, {"tools": [hop]}]})
    owner.minifram("init", "--sandbox", "process")
    (owner.settings.parent / "script.yaml").write_text(yaml.safe_dump({"scenes": scenes}))
    model = {"provider": "scripted", "name": "script.yaml"}
    owner.settings.write_text(yaml.safe_dump({"sandbox": "process", "model": model}))
    owner.make_clone()
    owner.keep_one_test()
    owner.minifram("up")
    for number, (path, _, new) in enumerate(CHANGES):
        owner.minifram("tell", f"Change row {number} of the map.")
        owner.told(f"Row {number} is merged.", 120)
        owner.git("pull", "-q")
        assert new in (owner.clone / path).read_text(), path
    done = [report for report in comms.reports(owner.page()) if re.search(r"Row \d+ is merged", report)]
    assert done
    assert '"outcome":"failed"' not in (owner.directory / "state/minifram/agent/watcher.json").read_text()
