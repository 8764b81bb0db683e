"""YAML as settings need it: one document of plain mappings, lists, words and numbers, where nothing turns into
something else behind the writer's back (0123 is not 83, 1:30 is not 90, a date stays a word, and so does a key `on`).

What is refused: anchors, aliases and tags, a key given twice, nesting without end."""

from __future__ import annotations

import re
from typing import Any

import yaml

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # a PyYAML that was built without libyaml reads the same, slower
    from yaml import SafeLoader  # type: ignore[assignment]

MAX_DEPTH = 20
_BOOLEAN, _TEXT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:str"


def parse_yaml(text: str) -> Any:
    """The value of the document; None for an empty one. Raises ValueError that says what is wrong and where."""
    try:
        _refuse_cleverness(text)
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(where + " ".join((getattr(error, "problem", None) or str(error)).split())) from None


def _refuse_cleverness(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise ValueError(f"line {line}: anchors (&) and aliases (*) are not understood here; write the value out")
        tag = getattr(event, "tag", None)
        if tag:
            raise ValueError(f"line {line}: the tag {tag} is not understood here; write a plain value")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:  # checked before anything is built: building goes as deep as the text does
            raise ValueError(f"line {line}: nested more than {MAX_DEPTH} deep")


class _Loader(SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag == _BOOLEAN:  # the key `on` is the word, as it would be in quotes
                key.tag = _TEXT
            name = self.construct_object(key, deep=True)
            if not isinstance(name, str | int | float | bool | None):
                raise _trouble(key, "a key must be a plain word")
            if name in seen:
                raise _trouble(key, f"the key {name} is given twice; keep one")
            seen.add(name)
        return super().construct_mapping(node, deep)


def _whole_number(loader: _Loader, node: yaml.ScalarNode) -> int:
    if not re.fullmatch(r"[-+]?(0|[1-9][0-9_]{0,30})", node.value):
        raise _trouble(node, f"{node.value} could be read in two ways; write a plain decimal number, or quote it")
    return int(node.value)


def _fraction(loader: _Loader, node: yaml.ScalarNode) -> float:
    if ":" in node.value:
        raise _trouble(node, f"{node.value} could be read in two ways; write a plain decimal number, or quote it")
    return float(loader.construct_yaml_float(node))


def _word(loader: _Loader, node: yaml.ScalarNode) -> str:
    return str(node.value)


def _trouble(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


_Loader.add_constructor("tag:yaml.org,2002:int", _whole_number)
_Loader.add_constructor("tag:yaml.org,2002:float", _fraction)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _word)
