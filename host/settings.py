"""`minifram config`, and the commented file that `minifram init` writes.

Names and defaults come from the settings' own classes, and what a setting means from the docstring below its
field, so there is one place to change."""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import click
import msgspec
import yaml

from host.cli import command
from host.errors import not_found
from host.home import AgentPaths, Context
from host.model_reach import problem_in_sandbox
from host.running import PROCESS
from host.screen import Say, Shown, faint, harmless, strong
from infra.keep.settings.check import FROM_ENVIRONMENT, read_settings, variables
from infra.keep.settings.models import SCRIPTED
from infra.keep.settings.schema import ModelSettings, Settings
from infra.shared.exit_codes import Exit
from infra.shared.yaml_words import words_of


class Entry(NamedTuple):
    """One setting."""

    key: str
    """With dots: `limits.bash_seconds`."""
    value: Any
    default: Any
    origin: str
    """`default`, or the file or variable that sets it."""
    meaning: str


@command
@click.argument("key", required=False)
def config(context: Context, say: Say, key: str | None) -> Shown:
    """Each setting: its value, where that came from, and its meaning. KEY is one, or a section of them.
    Exits with 8 when the model of these settings cannot work.

    \b
    Examples:
      minifram config
      minifram config limits.bash_seconds
    """
    home = context.initialised()
    settings, known = explained(home.settings)
    found = [entry for entry in known if key is None or entry.key == key or entry.key.startswith(f"{key}.")]
    if not found:
        near = difflib.get_close_matches(str(key), [entry.key for entry in known], n=3, cutoff=0.4)
        hint = f"near: {', '.join(near)}" if near else "see 'minifram config'"
        raise not_found(f"no such setting: {key!r}; {hint}")
    problem = problem_with_model(home, settings.model, settings.sandbox)
    lines = (line for entry in found for line in _lines(entry))
    value = {"file": home.settings, "settings": found}
    return Shown(value, lines, problem or "", Exit.FINDINGS if problem else Exit.OK)


def _lines(entry: Entry) -> Iterator[str]:
    default = f", default {_shown(entry.default)}" if entry.origin != "default" else ""
    origin = "default" if not default else f"set in {entry.origin}{default}"
    yield f"{strong(entry.key)}: {harmless(_shown(entry.value))}   {faint(origin)}"
    yield f"    {entry.meaning}"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def explained(path: str) -> tuple[Settings, list[Entry]]:
    """The settings in a file. Raises SettingsError that names all that is wrong with it."""
    settings = read_settings(path)
    with open(path, encoding="utf-8") as file:
        origins = dict.fromkeys(_keys(words_of(file.read())), path)
    if settings.web.browser == "on":
        origins |= {FROM_ENVIRONMENT[name]: f"${name}" for name in variables(os.environ)}
    return settings, entries(settings, origins)


def entries(settings: Settings, origins: Mapping[str, str] = MappingProxyType({})) -> list[Entry]:
    """Every setting with its value; `origins`: where each is set that is not left at its default."""

    def below(section: msgspec.Struct, default: msgspec.Struct, where: str) -> Iterator[Entry]:
        meanings = _docstrings(type(section))
        for field in msgspec.structs.fields(type(section)):
            key, value, standard = f"{where}{field.name}", getattr(section, field.name), getattr(default, field.name)
            if isinstance(value, msgspec.Struct):
                yield from below(value, standard, f"{key}.")
            else:
                origin, meaning = origins.get(key, "default"), meanings.get(field.name, "")
                yield Entry(key, msgspec.to_builtins(value), msgspec.to_builtins(standard), origin, meaning)

    return list(below(settings, Settings(), ""))


def file_text(agent: str, chosen: Mapping[str, str]) -> str:
    """A whole `minifram.yaml`: `chosen` keys are set, all others are shown with their defaults."""
    lines = [
        f"# Settings of the minifram agent {agent!r}. They are the PM's; the agent has no say in them.",
        "# A key behind '# ' has the value shown: its default. To set it, take the '# ' away and change the value.",
        "# 'minifram config' shows every value and where it came from; 'minifram restart' puts changes into effect.",
    ]
    before: list[str] = []
    for head, group in itertools.groupby(entries(Settings()), lambda entry: entry.key.rpartition(".")[0]):
        parts = head.split(".") if head else []
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, parts, strict=False))
        inside = len(list(same))  # a section within the one before
        lines += ["", *(f"{'  ' * depth}{part}:" for depth, part in enumerate(parts) if depth >= inside)]
        before = parts
        for entry in group:
            value = yaml.safe_dump(chosen.get(entry.key, entry.default), default_flow_style=True, width=1000)
            shown = value.removesuffix("\n").removesuffix("\n...")
            indent, off = "  " * len(parts), "" if entry.key in chosen else "# "
            lines += [f"{indent}## {entry.meaning}", f"{indent}{off}{entry.key.rpartition('.')[2]}: {shown}"]
    return "\n".join(lines) + "\n"


def problem_with_model(home: AgentPaths, model: ModelSettings, sandbox: str) -> str | None:
    """Why a model of these settings cannot work in `sandbox`; None when it may."""
    path = os.path.join(os.path.dirname(home.settings), model.name or "")
    if model.provider == SCRIPTED and model.name and sandbox == PROCESS and not os.path.isfile(path):
        return f"model.name is {model.name}; expected a file, found none at {path}"
    return problem_in_sandbox(model, sandbox)


def _keys(raw: object, where: str = "") -> Iterator[str]:
    for name, value in raw.items() if isinstance(raw, dict) else ():
        yield f"{where}{name}"
        yield from _keys(value, f"{where}{name}.")


@functools.cache
def _docstrings(owner: type) -> dict[str, str]:
    """Field -> the docstring below it."""
    [body] = (item.body for item in ast.parse(inspect.getsource(owner)).body if isinstance(item, ast.ClassDef))
    return {
        field.target.id: " ".join(after.value.value.split())
        for field, after in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr)
        if isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    }
