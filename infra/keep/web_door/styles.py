"""What inline styles and the plain rules of `<style>` say of how an element shows. Pure.

Read are the properties that hide text, in rules whose selectors are made of names, classes, ids and attributes. Not
read: sheets that are fetched, `@media` but for screens, variables, what scripts change. A browser alone knows those."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

MOST_CSS_CHARS = 1 << 18
MOST_VALUE_CHARS = 200
MOST_RULES = 300
"""Of those that could hide something, and of those that could show it again."""
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_TEXT = ("display", "visibility", "opacity", "font-size", "font", "color", "content-visibility", "text-indent")
_PLACE = ("position", "left", "top", "right", "bottom", "clip", "clip-path", "overflow", "transform")
_SIZE = ("width", "height", "max-width", "max-height")
_GROUND = ("background", "background-color", "background-image")
_WANTED = frozenset((*_TEXT, *_PLACE, *_SIZE, *_GROUND))
_INHERITED = frozenset(("visibility", "font-size", "font"))
_COLORS = frozenset(("color", *_GROUND))
_SIMPLE = re.compile(r"""(?:[a-zA-Z*][\w-]*)?(?:[.#][\w-]+|\[[\w-]+(?:[~|^$*]?=["']?[\w -]*["']?)?\])*""")
_COMBINED = re.compile(r"\s*>\s*|\s+")
_MOST_PARTS = 4
_SCREENS = re.compile(r"@(?:media\s+(?:all|screen|only screen)|layer\b[^{]*|supports\b[^{]*)\s*", re.IGNORECASE)

Style = Mapping[str, str]


class StyleRule(NamedTuple):
    selector: str
    weight: tuple[int, int, int]
    """Specificity: ids, classes, names."""
    style: Style


def declarations(text: str) -> dict[str, str]:
    """The properties that can hide, by name; `!important` stays at the end of the value."""
    found: dict[str, str] = {}
    for each in _COMMENT.sub(" ", text[:MOST_CSS_CHARS]).split(";"):
        name, colon, value = each.partition(":")
        name = name.strip().lower()
        if colon and name in _WANTED:
            value = " ".join(value[:MOST_VALUE_CHARS].lower().split())
            if "!important" in value or "!important" not in found.get(name, ""):
                found[name] = value
    return found


def rules(css: str) -> Iterator[StyleRule]:
    """In the order of the sheet, which the last of equal weight wins."""
    for prelude, body in _blocks(_COMMENT.sub(" ", css[:MOST_CSS_CHARS])):
        style = declarations(body)
        if not style:
            continue
        for selector in prelude.split(",")[:50]:
            selector = selector.strip()
            if _is_plain(selector):
                yield StyleRule(selector, _weight(selector), style)


def rules_that_hide(css: str) -> list[tuple[int, StyleRule]]:
    """With their places in the sheet: those that hide by themselves, those that undo that, and those of colours, which
    hide where two of them meet."""
    if not css.strip():
        return []
    hiding, others = list[tuple[int, StyleRule]](), list[tuple[int, StyleRule]]()
    for each in enumerate(rules(css)):
        (hiding if hides_all(each[1].style) else others).append(each)
    names = {name for _, rule in hiding for name in rule.style} | _INHERITED
    undoing = [each for each in others if names & each[1].style.keys()]
    colouring = [each for each in others if _COLORS & each[1].style.keys() and not names & each[1].style.keys()]
    return hiding + undoing + colouring


def _blocks(css: str) -> Iterator[tuple[str, str]]:
    """What stands before and between braces; those of a group that holds for screens are taken as if it were not
    there, and other groups are passed over."""
    at = depth = 0
    while (opened := css.find("{", at)) >= 0:
        prelude = css[at:opened].rpartition(";")[2].strip().lstrip("}").strip()
        if prelude.startswith("@"):
            if _SCREENS.fullmatch(prelude):
                at = opened + 1
                continue
            depth, at = 1, opened + 1
            for brace in re.finditer(r"[{}]", css[at:]):
                depth += 1 if brace[0] == "{" else -1
                if depth == 0:
                    at += brace.end()
                    break
            else:
                return
            continue
        closed = css.find("}", opened)
        if closed < 0:
            closed = len(css)
        yield prelude, css[opened + 1 : closed]
        at = closed + 1


def _is_plain(selector: str) -> bool:
    parts = _COMBINED.split(selector)
    return 0 < len(selector) <= 200 and len(parts) <= _MOST_PARTS and all(p and _SIMPLE.fullmatch(p) for p in parts)


def _weight(selector: str) -> tuple[int, int, int]:
    names = sum(1 for part in _COMBINED.split(selector) if part[:1].isalpha())
    return selector.count("#"), selector.count(".") + selector.count("["), names


# --- What a style says -----------------------------------------------------------------------------------------------

_LENGTH = re.compile(r"(-?[0-9]*\.?[0-9]+)\s*(px|pt|em|rem|ex|ch|vw|vh|%|cm|mm|in|pc|q)?")
_IN_PIXELS = {"px": 1, "pt": 4 / 3, "": 1, "em": 16, "rem": 16, "ex": 8, "ch": 8, "vw": 12, "vh": 8, "cm": 38, "mm": 4}
_IN_PIXELS |= {"in": 96, "pc": 16, "q": 1, "%": 10}
_FAR = 400.0
_FUNCTION = re.compile(r"(rgba?|hsla?)\(([^)]{1,80})\)")
_NAMED = {"white": "fff", "black": "000", "snow": "fffafa", "ivory": "fffff0", "whitesmoke": "f5f5f5", "red": "f00"}
_NAMED |= {"ghostwhite": "f8f8ff", "gray": "808080", "grey": "808080", "silver": "c0c0c0", "blue": "00f", "lime": "0f0"}
_NAMED |= {"green": "008000", "yellow": "ff0", "navy": "000080", "lightgray": "d3d3d3", "lightgrey": "d3d3d3"}

Color = tuple[int, int, int]


class Paint(NamedTuple):
    """What text inherits."""

    color: Color | None = (0, 0, 0)
    """None: not known."""
    ground: Color | None = (255, 255, 255)
    is_clear: bool = False
    """The text is transparent."""
    is_tiny: bool = False
    is_invisible: bool = False

    @property
    def shows(self) -> bool:
        if self.is_clear or self.is_tiny or self.is_invisible:
            return False
        if self.color is None or self.ground is None:
            return True
        return max(abs(one - other) for one, other in zip(self.color, self.ground, strict=True)) > 12


def hides_all(style: Style) -> bool:
    """Nothing within the element shows, whatever is said of it there."""
    if _value(style, "display") == "none" or _value(style, "content-visibility") == "hidden":
        return True
    if (opacity := _number(_value(style, "opacity"))) is not None and opacity <= 0.02:
        return True
    if _value(style, "position") in ("absolute", "fixed") and (_is_far(style) or _is_clipped(_value(style, "clip"))):
        return True
    if (indent := _pixels(_value(style, "text-indent"))) is not None and abs(indent) >= _FAR:
        return True
    if _is_clipped(_value(style, "clip-path")) or "scale(0)" in _value(style, "transform"):
        return True
    sizes = [_pixels(_value(style, name)) for name in _SIZE]
    is_cut = _value(style, "overflow") in ("hidden", "clip")
    return is_cut and any(size is not None and 0 <= size <= 1 for size in sizes)


def _is_far(style: Style) -> bool:
    left, top, right, bottom = (_pixels(_value(style, side)) or 0 for side in ("left", "top", "right", "bottom"))
    return min(left, top, right, bottom) <= -_FAR or max(left, top) >= 10 * _FAR


def painted(paint: Paint, style: Style) -> Paint:
    """How text shows in an element of this style, within one of that paint."""
    if visibility := _value(style, "visibility"):
        paint = paint._replace(is_invisible=visibility in ("hidden", "collapse"))
    size = _value(style, "font-size") or (found[0] if (found := _LENGTH.search(_value(style, "font"))) else "")
    if size and not (paint.is_tiny and (size.endswith(("%", "em")) and not size.endswith("rem"))):
        pixels = _pixels(size)
        relative = size.endswith("%") and pixels is not None and pixels > 10
        paint = paint._replace(is_tiny=pixels is not None and pixels < 2 and not relative)
    if value := _value(style, "color"):
        color, clear = _color(value)
        paint = paint._replace(color=color, is_clear=clear)
    ground = _value(style, "background-color") or _value(style, "background") or ""
    if "url(" in ground or "gradient(" in ground or _value(style, "background-image") not in ("", "none"):
        return paint._replace(ground=None)
    if ground and ground not in ("none", "transparent", "inherit", "initial", "unset"):
        color, clear = _color(ground)
        paint = paint if clear else paint._replace(ground=color)
    return paint


def _value(style: Style, name: str) -> str:
    return style.get(name, "").removesuffix("!important").strip()


def _is_clipped(value: str) -> bool:
    numbers = [float(each) for each in re.findall(r"-?[0-9]*\.?[0-9]+", value)[:8]]
    if value.startswith("rect"):
        return len(numbers) == 4 and (abs(numbers[0] - numbers[2]) <= 1 or abs(numbers[1] - numbers[3]) <= 1)
    if value.startswith("inset"):
        return bool(numbers) and numbers[0] >= 50
    return value.startswith("circle(0") or value.replace(" ", "") == "polygon(0000)"


def _number(value: str) -> float | None:
    found = _LENGTH.fullmatch(value)
    return None if found is None else float(found[1]) / (100 if found[2] == "%" else 1)


def _pixels(value: str) -> float | None:
    found = _LENGTH.fullmatch(value)
    return None if found is None else float(found[1]) * _IN_PIXELS[found[2] or ""]


def _color(value: str) -> tuple[Color | None, bool]:
    """And whether it is transparent; None for what is not known."""
    word = value.split(" ", 1)[0] if not value.startswith(("rgb", "hsl")) else value
    if word == "transparent":
        return None, True
    digits = word.removeprefix("#") if word.startswith("#") else _NAMED.get(word, "")
    if len(digits) in (3, 4):
        digits = "".join(2 * digit for digit in digits)
    if len(digits) in (6, 8) and re.fullmatch(r"[0-9a-f]+", digits):
        return (int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:6], 16)), digits[6:] == "00"
    if match := _FUNCTION.match(value):
        parts = [part for part in re.split(r"[\s,/]+", match[2].strip()) if part]
        numbers = [_number(part) for part in parts]
        clear = len(numbers) == 4 and numbers[3] is not None and numbers[3] <= 0.02
        if match[1].startswith("rgb") and len(numbers) >= 3 and all(number is not None for number in numbers[:3]):
            red, green, blue = (
                min(255, max(0, round((number or 0) * (255 if part.endswith("%") else 1))))
                for number, part in zip(numbers[:3], parts[:3], strict=True)
            )
            return (red, green, blue), clear
        if match[1].startswith("hsl") and len(numbers) >= 3 and numbers[2] in (0.0, 1.0):
            level = 255 if numbers[2] else 0
            return (level, level, level), clear
        return None, clear
    return None, False
