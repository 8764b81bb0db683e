"""What the demo is made of, seen here in a moment: the code that its scripted model changes is there to be changed, and
README's picture of it holds its words."""

from __future__ import annotations

import ast
import html
import re
from pathlib import Path

import pytest

from tests.whole.owner import POLITER

ROOT = Path(__file__).parent.parent.parent
SCRIPTS = {"demo.yaml": (ROOT / "infra/keep/model_door/demo.yaml").read_text(), "owner.py": POLITER}
PATCH = re.compile(r'path = Path\("([^"]+)"\)(.*?)path\.write_text', re.DOTALL)


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_line_that_is_replaced_stands_there_once(script: str) -> None:
    """In each piece of Python that reads a file, counts lines in it and writes it again."""
    patches = PATCH.findall(SCRIPTS[script])
    counted = 0
    for path, body in patches:
        text = (ROOT / path).read_text()
        for name in re.findall(r"text\.count\((\w+)\) == 1", body):
            [line] = re.findall(rf"^\s*{name} = (.+)$", body, re.MULTILINE)
            assert text.count(ast.literal_eval(line)) == 1, (path, line)
            counted += 1
    assert counted >= len(patches) > 0


def test_the_picture_has_the_demo_s_steps() -> None:
    """README's picture is kept by hand: each step that the demo announces stands in it."""
    source = next(ROOT.glob("host/**/demo.py")).read_text()
    steps = re.findall(r'title\(f?"([a-z]\. [^"{]+)', source)
    svg = html.unescape((ROOT / "docs/demo.svg").read_text())
    assert len(steps) >= 4
    assert [step for step in steps if step not in svg] == []
