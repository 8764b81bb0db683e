"""Which conftests and settings of pytest act on more tests than those beside them. Pure.

Main's tests run with main's own conftests and settings, so a branch cannot change how it is judged. It can change how
the versions after it are: a hook in any conftest may drop or rewrite every test of a later run. A reviewer would look
at such a change, so it needs the PM's word. A name can be hidden from this; see SPEC_EXAMINATION on what a verdict
does not claim."""

from __future__ import annotations

import ast
import posixpath
import tomllib
from collections.abc import Iterator

_HIDDEN = ("exec", "eval", "globals", "setattr", "__import__", "import_module", "vars", "locals", "*")
_HIDDEN_ATTRIBUTES = ("__dict__", "import_module")
"""Ways for a module to get a hook that its text does not name."""


def acts_elsewhere(path: str, before: bytes | None, after: bytes | None) -> str:
    """What the change of this conftest or settings file does beyond its folder, in words for the PM; empty for nothing.

    `before` and `after` are its content on main and in the branch; None where it is not there."""
    if path.endswith(".toml"):
        if (old := _pytest_table(before)) is not None and old == _pytest_table(after):
            return ""
        return f"{path} changes pytest's settings"
    if not posixpath.basename(path).startswith("conftest"):
        return f"{path} changes pytest's settings"
    names = sorted({*_reaching(before), *_reaching(after)})
    return f"{path} has {', '.join(names[:5])}, which can act on all tests" if names else ""


def _pytest_table(content: bytes | None) -> object:
    """What the file tells pytest; None when that cannot be read."""
    try:
        found = tomllib.loads((content or b"").decode())
    except ValueError:
        return None
    tool = found.get("tool")
    return {"tool": tool.get("pytest") if isinstance(tool, dict) else tool, "top": found.get("pytest")}


def _reaching(content: bytes | None) -> Iterator[str]:
    try:
        tree = ast.parse(content or b"")
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        yield "code that cannot be read"
        return
    for node in ast.walk(tree):
        hidden: tuple[str, ...] = ()
        match node:
            case ast.Name(id=name) | ast.alias(name=name):
                hidden = _HIDDEN
            case ast.Attribute(attr=name):
                hidden = _HIDDEN_ATTRIBUTES
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.Constant(value=str(name)):
                pass
            case _:
                continue
        names = (name, (node.asname or "") if isinstance(node, ast.alias) else "")
        yield from (repr(each[:80]) for each in names if each.startswith("pytest_") or each in hidden)
