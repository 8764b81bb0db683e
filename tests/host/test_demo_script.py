"""What the demo is made of, seen here in a moment: the code that its scripted model changes is there to be changed, and
README's picture of it holds its words."""

from __future__ import annotations

import ast
import html
import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
import regex

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


def test_the_picture_holds_the_demo_s_words() -> None:
    """Each line of the SVG is one that the demo prints, cut at most; every step is there; the script draws it again."""
    loader = SourceFileLoader("picture", str(ROOT / "scripts/picture"))
    spec = spec_from_loader("picture", loader)
    assert spec
    picture = module_from_spec(spec)
    loader.exec_module(picture)
    titles, said = picture.words()
    svg = (ROOT / "docs/demo.svg").read_text()
    prompt, *lines = [html.unescape(text) for text in re.findall(r"<text [^>]*>([^<]*)</text>", svg)]

    assert prompt == "$ minifram demo"
    seen = set()
    for line in lines:
        clock = picture.CLOCK.match(line)
        assert clock, line
        text, is_cut = line[clock.end() :].removeprefix("  ").removesuffix("…"), line.endswith("…")
        fits = [each for each in [*titles, *said] if regex.fullmatch(each.pattern, text, partial=is_cut)]
        assert fits, f"the demo does not say {text!r}; run: make picture"
        seen.update(fits)
    assert {each.pattern for each in titles} <= {each.pattern for each in seen}
    assert picture.drawn([(line, 'class="title"' in tag) for tag, line in _texts(svg)[1:]]) == svg


def _texts(svg: str) -> list[tuple[str, str]]:
    return [(tag, html.unescape(text)) for tag, text in re.findall(r"<text ([^>]*)>([^<]*)</text>", svg)]
