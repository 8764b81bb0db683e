"""YAML of plain mappings, lists and words: what type a word has is the schema's to say, so 0123, 1:30, `on` and `no`
are no traps. Anchors, aliases, tags, a key given twice and nesting without end are refused."""

from __future__ import annotations

from typing import Any

import yaml

MAX_DEPTH = 20
_QUOTED = ("'", '"', "|", ">")


class _Words(yaml.CBaseLoader):
    def construct_scalar(self, node: yaml.ScalarNode) -> Any:
        return None if node.style not in _QUOTED and node.value in ("", "~", "null") else node.value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _problem("a key must be a plain word", key)
            if key.value in names:
                raise _problem(f"the key {key.value} is given twice; keep one", key)
            names.add(key.value)
        return super().construct_mapping(node, deep)


def words_of(text: str) -> Any:
    """The one document; None for an empty one, and for a value that is left out. Raises ValueError with the line."""
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.CBaseLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise _problem("anchors (&) and aliases (*) are not understood here; write the value out", event)
            if tag := getattr(event, "tag", None):
                raise _problem(f"the tag {tag} is not understood here; write a plain value", event)
            if depth > MAX_DEPTH:  # before anything is built: building goes as deep as the text does
                raise _problem(f"nested more than {MAX_DEPTH} deep", event)
        return yaml.load(text, _Words)  # noqa: S506 - it builds words alone
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ValueError(f"line {mark.line + 1 if mark else 1}: {error.problem}") from None
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise ValueError(" ".join(str(error).split())) from None


def _problem(words: str, at: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=words, problem_mark=at.start_mark)
