"""The settings in words: the commented file that `minifram init` writes, and what `minifram config` shows.

Names, types, defaults and meanings all come from `infra/shared/settings.py` itself: its docstrings are read from
its source, so there is one place to change. Which line of the PM's file set a key comes from the YAML parser."""

from __future__ import annotations

import ast
import difflib
import functools
import itertools
import json
import types
import typing
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec
import yaml

from infra.shared import boot, model_settings, notify_settings
from infra.shared import settings as contract
from infra.shared.section import Section
from infra.shared.settings import Settings
from infra.shared.settings_file import SettingsError, parse_settings


class Entry(NamedTuple):
    """One key of the settings."""

    key: str
    """With dots: `limits.bash_seconds`."""
    value: Any
    default: Any
    origin: str
    """`default`, or the file and line that set it."""
    type: str
    meaning: str


def entries(settings: Settings, lines: dict[str, int], source: str) -> list[Entry]:
    """Every key with its value; `lines` says where the file set one."""
    meanings = _meanings()

    def of(section: Section, default: Section | None, where: str) -> Iterator[Entry]:
        for field in msgspec.structs.fields(type(section)):
            key = f"{where}{field.name}"
            value = getattr(section, field.name)
            standard = getattr(default, field.name) if default is not None else None
            if isinstance(value, Section):
                yield from of(value, standard, f"{key}.")
            elif value and isinstance(value, dict) and isinstance(next(iter(value.values())), Section):
                for name, inner in value.items():
                    yield from of(inner, None, f"{key}.{name}.")
            else:
                origin = f"{source}:{lines[key]}" if key in lines else "default"
                meaning = meanings.get((type(section).__name__, field.name), "")
                yield Entry(key, _plain(value), _plain(standard), origin, _type_words(field.type), meaning)

    return list(of(settings, Settings(), ""))


def flat(settings: Settings) -> dict[str, Any]:
    """Key -> value, as JSON reads it back, so that comparing finds changes only."""
    return dict(json.loads(json.dumps({entry.key: entry.value for entry in entries(settings, {}, "")})))


def explained(path: str) -> list[Entry]:
    """Every key of the settings file at `path`. Raises SettingsError that names all that is wrong with it."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings {path} cannot be read ({error}); an empty file means all defaults") from None
    return entries(parse_settings(text, path), set_lines(text), path)


def chosen(known: list[Entry], key: str | None) -> list[Entry]:
    """The entries of one key or section; all for None."""
    if key is None:
        return known
    return [entry for entry in known if entry.key == key or entry.key.startswith(f"{key}.")]


def unknown_key(known: list[Entry], key: str) -> str:
    near = difflib.get_close_matches(key, [entry.key for entry in known], n=3, cutoff=0.4)
    return f"no such setting: {key!r}; " + (f"near: {', '.join(near)}" if near else "see 'minifram config'")


def set_lines(text: str) -> dict[str, int]:
    """Key -> line of the settings file, for what it sets. Text that is not a YAML mapping sets nothing."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return {}
    return dict(_lines(node, ""))


def file_text(agent: str, chosen: dict[str, str]) -> str:
    """A whole `minifram.yaml`: `chosen` keys are set, all others are shown with their defaults."""
    lines = [
        f"# Settings of the minifram agent {agent!r}. They are the PM's; the agent has no say in them.",
        "# A key behind '# ' has the value shown: its default. To set it, take the '# ' away and change the value.",
        "# 'minifram config' shows every value and where it came from; 'minifram restart' puts changes into effect.",
    ]
    section = ""
    for entry in entries(Settings(), {}, ""):
        head, _, name = entry.key.rpartition(".")
        if head != section:
            section = head
            lines += ["", f"{head}:"]
        elif not head:
            lines.append("")
        value = yaml.safe_dump(chosen.get(entry.key, entry.default), default_flow_style=True, width=1000)
        shown = value.removesuffix("\n").removesuffix("\n...")
        indent, off = "  " if head else "", "" if entry.key in chosen else "# "
        meaning = f"{entry.meaning} " if entry.meaning else ""
        lines += [f"{indent}## {meaning}({entry.type})", f"{indent}{off}{name}: {shown}"]
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> Any:
    """A list of sections as the file has it: without what is not given."""
    if not isinstance(value, tuple) or not any(isinstance(item, Section) for item in value):
        return value
    return [{name: inner for name, inner in msgspec.to_builtins(item).items() if inner} for item in value]


def _lines(node: yaml.Node | None, where: str) -> Iterator[tuple[str, int]]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        name = f"{where}{key.value}"
        yield name, key.start_mark.line + 1
        yield from _lines(value, f"{name}.")


@functools.cache
def _meanings() -> dict[tuple[str, str], str]:
    """(class, field) -> the docstring under the field. Limits that go to the runner are described there."""
    found = _field_docstrings(boot) | _field_docstrings(contract)
    found |= _field_docstrings(model_settings) | _field_docstrings(notify_settings)
    handed_on = {("LimitSettings", name): text for (owner, name), text in found.items() if owner == "Limits"}
    return handed_on | found


def _field_docstrings(module: types.ModuleType) -> dict[tuple[str, str], str]:
    with open(str(module.__file__), encoding="utf-8") as file:
        classes = [item for item in ast.parse(file.read()).body if isinstance(item, ast.ClassDef)]
    return {
        (owner.name, field.target.id): " ".join(after.value.value.split())
        for owner in classes
        for field, after in itertools.pairwise(owner.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    }


_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", types.NoneType: "nothing"}


def _type_words(shape: Any) -> str:
    origin = typing.get_origin(shape)
    if origin is Literal:
        return "one of " + ", ".join(typing.get_args(shape))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_words(part) for part in typing.get_args(shape))
    if origin is dict:
        return "a mapping of names to values"
    if origin is tuple:
        return f"a list of {_type_words(typing.get_args(shape)[0])}"
    if isinstance(shape, type) and issubclass(shape, contract.PolicyRule):
        return "rule"
    return _WORDS.get(shape, getattr(shape, "__name__", str(shape)))
