"""Reads `minifram.yaml`: YAML text to `Settings`, or every problem in it, one line each."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin
from urllib.parse import urlsplit

import msgspec
import yaml

from infra.keep.model_settings import (
    MAX_NEXT_MODELS,
    ModelSettings,
    NextModel,
    Price,
    problems_with_keys,
)
from infra.keep.protection import MAX_PATTERNS, problem_with_branch_pattern, problem_with_file_pattern
from infra.keep.section import Section
from infra.keep.settings import ProtectedSettings, Settings, WebSettings, policy_of
from infra.shared.host_names import problem_with_host_name
from infra.shared.plain_yaml import parse_yaml
from infra.shared.policy import problem_with_size, problems_with_rules

MOST_NAMES = 500
QUERY = "{query}"
_EXAMPLE = "such as https://search.example.org/search?q={query}&format=json"


class SettingsError(ValueError):
    """A settings file that cannot be understood; the text names the key, what was expected and what to do."""


def parse_settings(text: str, source: str = "minifram.yaml") -> Settings:
    """Settings from YAML text. Raises SettingsError with all that is wrong, a line for each problem."""
    try:
        raw = parse_yaml(text)
    except ValueError as error:
        raise SettingsError(f"{source} cannot be understood: {error}") from None
    try:
        settings = _settings(raw, source)
    except SettingsError as error:
        found = dict.fromkeys(problem for part in _parts(raw) for problem in _problem(part, source))
        found |= dict.fromkeys(_problem_with_addresses(raw, source))
        raise SettingsError("\n".join(found) or str(error)) from None
    problems = _told_of_keys(settings.model, source)
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _problem_with_addresses(raw: Any, source: str) -> Iterator[str]:
    """No setting of `model` alone shows where keys go, so what tells it is looked at together, without the others."""
    model = raw.get("model") if isinstance(raw, dict) else None
    if isinstance(model, dict):
        then = model.get("then")
        models = [model, *(one for one in (then if isinstance(then, list) else ()) if isinstance(one, dict))]
        first, *others = ({key: one[key] for key in ("provider", "base_url") if key in one} for one in models)
        try:
            alone = msgspec.convert({**first, "then": others}, ModelSettings)
        except msgspec.ValidationError:
            return  # told already
        yield from _told_of_keys(alone, source)


def _told_of_keys(model: ModelSettings, source: str) -> list[str]:
    return [f"{source}: model: {problem}" for problem in problems_with_keys(model)]


def _parts(raw: Any) -> Iterator[dict[Any, Any]]:
    """`raw` once for each setting that it holds, with that one alone in it."""
    for key, value in raw.items() if isinstance(raw, dict) else ():
        if not isinstance(value, dict) or not value:
            yield {key: value}
            continue
        for name, inner in value.items():
            # Rules are known by their numbers, and all that is wrong with them is named together.
            yield from ({key: {name: one}} for one in ([inner] if key == "policy" else _singly(inner)))


def _singly(value: Any) -> Iterator[Any]:
    """Each entry of a list, or of a mapping, by itself."""
    if isinstance(value, dict) and value:
        yield from ({name: inner} for name, inner in value.items())
    elif isinstance(value, list) and value:
        yield from ([inner] for inner in value)
    else:
        yield value


def _problem(part: dict[Any, Any], source: str) -> Iterator[str]:
    try:
        _settings(part, source)
    except SettingsError as error:
        yield str(error)


def _settings(raw: Any, source: str) -> Settings:
    """Raises SettingsError with the first thing that is wrong."""
    known = _known_keys({} if raw is None else raw, Settings, "", source)
    rules = known.get("policy", {}).get("rules", [])
    problems = [f"{source}: policy.{problem}" for problem in problems_with_rules(rules)]
    if problems:
        raise SettingsError("\n".join(problems))
    try:
        settings = msgspec.convert(known, Settings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{source}: {_told(error, known)}") from None
    _refuse_bad_numbers(settings, "", source)
    _refuse_bad_patterns(settings.protected, source)
    if wrong := tuple(_problems_with_web(settings.web)):
        raise SettingsError("\n".join(f"{source}: {problem}" for problem in wrong))
    too_long = problem_with_size(policy_of(settings))
    if too_long:
        raise SettingsError(f"{source}: policy.rules: {too_long}")
    return settings


def read_settings(path: str) -> Settings:
    """Settings from a file. Raises SettingsError, also when it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_settings(file.read(), path)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings {path} cannot be read ({error}); an empty file means all defaults") from None


def _known_keys(raw: Any, shape: type[Section], where: str, source: str) -> dict[str, Any]:
    """`raw` without the sections that are left empty. Raises SettingsError for a key that is not known."""
    if not isinstance(raw, dict):
        name = where.rstrip(".") or "the file"
        found = "nothing" if raw is None else type(raw).__name__
        raise SettingsError(f"{source}: {name} must be a mapping of keys to values, found {found}")
    fields = {field.name: field.type for field in msgspec.structs.fields(shape)}
    known = {}
    for key, value in raw.items():
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, n=1)
            hint = f"did you mean {where}{near[0]}?" if near else f"known here: {', '.join(fields)}"
            raise SettingsError(f"{source}: unknown key {where}{key}; {hint}")
        known[key] = value
        inner, name = fields[key], f"{where}{key}"
        if get_origin(inner) is Literal and value not in get_args(inner):
            raise SettingsError(f"{source}: {name} is {value!r}; expected one of {', '.join(get_args(inner))}")
        words = get_args(get_args(inner)[0]) if get_origin(inner) is tuple else ()
        if strange := [each for each in value if each not in words] if words and isinstance(value, list) else []:
            raise SettingsError(f"{source}: {name} holds {strange[0]!r}; expected some of {', '.join(words)}")
        if isinstance(inner, type) and issubclass(inner, Section):
            known[key] = {} if value is None else _known_keys(value, inner, f"{name}.", source)
        elif get_args(inner)[-1:] == (Price,):
            known[key] = _known_keys_of_prices(value, name, source)
        elif get_args(inner)[:1] == (NextModel,):
            known[key] = _known_keys_of_next(value, name, source)
    return known


def _known_keys_of_next(raw: Any, where: str, source: str) -> Any:
    if not isinstance(raw, list):
        return [] if raw is None else raw
    if len(raw) > MAX_NEXT_MODELS:
        raise SettingsError(f"{source}: {where} has {len(raw)} models; at most {MAX_NEXT_MODELS}")
    return [_known_keys(model, NextModel, f"{where}[{place}].", source) for place, model in enumerate(raw)]


def _known_keys_of_prices(raw: Any, where: str, source: str) -> Any:
    if not isinstance(raw, dict):
        return {} if raw is None else raw
    return {model: _known_keys(price, Price, f"{where}.{model}.", source) for model, price in raw.items()}


def _told(error: msgspec.ValidationError, raw: Any) -> str:
    """msgspec's error, with the key first and the value found."""
    message, _, path = str(error).rpartition(" - at `$.")
    if not message:
        return str(error)
    path = path.rstrip("`")
    for key in path.split("."):
        raw = raw.get(key) if isinstance(raw, dict) else None
    found = "" if raw is None or isinstance(raw, dict) else f" is {repr(raw)[:80]};"
    return f"{path}{found or ':'} {message[:1].lower()}{message[1:]}"


def _refuse_bad_patterns(protected: ProtectedSettings, source: str) -> None:
    for name, patterns, problem_with in (
        ("files", protected.files, problem_with_file_pattern),
        ("branches", protected.branches, problem_with_branch_pattern),
    ):
        if len(patterns) > MAX_PATTERNS:
            raise SettingsError(f"{source}: protected.{name} has {len(patterns)} patterns; at most {MAX_PATTERNS}")
        for problem in filter(None, map(problem_with, patterns)):
            raise SettingsError(f"{source}: protected.{name}: {problem}")


def _refuse_bad_numbers(section: Section, where: str, source: str) -> None:
    for name in section.__struct_fields__:
        value = getattr(section, name)
        if isinstance(value, Section):
            _refuse_bad_numbers(value, f"{where}{name}.", source)
        elif isinstance(value, dict):
            for key, inner in value.items():
                _refuse_bad_numbers(inner, f"{where}{name}.{key}.", source)
        elif isinstance(value, tuple):
            for place, inner in enumerate(value):
                if isinstance(inner, Section):
                    _refuse_bad_numbers(inner, f"{where}{name}[{place}].", source)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            free = isinstance(section, Price) and value == 0
            if not (free or 0 < value < 1e12):
                raise SettingsError(f"{source}: {where}{name} is {value}; expected a number above 0 and below 1e12")


def _problems_with_web(web: WebSettings) -> Iterator[str]:
    """Each with its key."""
    for key, names in (("allowed_domains", web.allowed_domains), ("package_hosts", web.package_hosts)):
        if len(names) > MOST_NAMES:
            yield f"web.{key} has {len(names)} names; at most {MOST_NAMES}"
        yield from (f"web.{key}: {problem}" for problem in map(problem_with_host_name, names) if problem)
    if web.search_url is not None and (problem := _problem_with_search(web.search_url)):
        yield f"web.search_url is {web.search_url[:200]!r}: {problem}; expected something {_EXAMPLE}"


def _problem_with_search(url: str) -> str:
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return "it holds a character that no address has"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"it is not an address ({error})"
    if parts.scheme not in ("http", "https") or not host:
        return "it is no http or https address"
    if "@" in parts.netloc:
        return "it holds a user name or password, which every result would show"
    if QUERY not in parts.path + parts.query or QUERY in parts.netloc:
        return f"it must hold {QUERY} behind the host, where the words go"
    return ""


def settings_of_web_door(path: str) -> bytes:
    """As much of the PM's settings as it works with: the rest may hold a key. Raises OSError."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        parse_settings(text, path)
    except (SettingsError, UnicodeDecodeError) as error:
        raise OSError(str(error)) from None
    whole = parse_yaml(text) or {}
    return yaml.safe_dump({name: whole[name] for name in ("policy", "web") if name in whole}).encode()
