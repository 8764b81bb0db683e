"""Reads `minifram.yaml`: YAML text to a value of the schema, or every problem in it, one line each."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import msgspec
from msgspec import Meta

from infra.keep.settings.schema import Settings
from infra.shared.safe_files import whole_file
from infra.shared.text import cut
from infra.shared.yaml_words import words_of


class SettingsError(ValueError):
    """A settings file that cannot be understood; a line for each problem: the key, what was found and expected."""


def read_settings(path: str) -> Settings:
    """Settings from a file. Raises SettingsError, also when it cannot be read."""
    try:
        content = whole_file(os.path.realpath(path)).decode()  # the PM may keep the file elsewhere, behind a link
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings {path} cannot be read ({error}); an empty file means all defaults") from None
    return parse_settings(content, path)


FROM_ENVIRONMENT = {
    "BROWSER_POOL_SIZE": "web.pool_size",
    "BROWSER_STREAM_ENABLED": "web.stream.enabled",
    "BROWSER_STREAM_QUALITY": "web.stream.quality",
    "BROWSER_STREAM_MAX_WIDTH": "web.stream.max_width",
    "AGENT_GHOST_ENABLED": "web.ghost.enabled",
    "AGENT_GHOST_AUTO_TRIGGER": "web.ghost.auto_trigger",
    "AGENT_GHOST_VISION_PROVIDER": "web.ghost.vision_provider",
    "AGENT_GHOST_MAX_IMAGE_WIDTH": "web.ghost.max_image_width",
}
"""Variables that win over the file, by the setting that each is."""


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Those of them that are set: whoever reads the settings needs them, too."""
    return {name: environ[name] for name in FROM_ENVIRONMENT if name in environ}


def parse_settings(text: str, source: str = "minifram.yaml", environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from YAML text, and from variables. Raises SettingsError with all that is wrong."""
    problems: list[str] = []
    try:
        settings = checked(words_of(text), Settings, "", problems)
    except ValueError as error:
        raise SettingsError(f"{source} cannot be understood: {error}") from None
    problems = [f"{source}: {problem}" for problem in problems]
    # Where there is no browser, variables with such names are another program's.
    given = variables(environ) if settings and settings.web.browser == "on" else {}
    for variable, word in given.items():
        settings = _with_variable(settings, FROM_ENVIRONMENT[variable].split("."), variable, word, problems)
    if problems:
        raise SettingsError("\n".join(problems))
    return cast(Settings, settings)


def _with_variable(whole: Any, key: list[str], variable: str, word: str, problems: list[str]) -> Any:
    name, *below = key
    if below:
        value = _with_variable(getattr(whole, name), below, variable, word, problems)
    else:
        [field] = [each for each in msgspec.structs.fields(whole) if each.name == name]
        value = checked(word, field.type, variable, problems)
    return msgspec.structs.replace(whole, **{name: value})


def settings_of_web_door(path: str) -> bytes:
    """As much of the PM's settings as it works with: the rest may hold a key. Raises OSError."""
    try:
        settings = read_settings(path)
    except SettingsError as error:
        raise OSError(str(error)) from None
    given = {"sandbox": settings.sandbox, "policy": settings.policy, "web": settings.web}
    return msgspec.json.encode(given)  # JSON is YAML


def checked(raw: Any, kind: Any, where: str, problems: list[str]) -> Any:
    """`raw` as one of `kind`; all that is wrong with it is added to `problems`. Entries of lists count from 1, as rules
    do wherever they are named."""
    base, metas = (get_args(kind)[0], kind.__metadata__) if get_origin(kind) is Annotated else (kind, ())
    origin, inner = get_origin(base), get_args(base)
    if isinstance(base, type) and issubclass(base, msgspec.Struct):
        return _struct({} if raw is None else raw, base, where, problems)
    if origin is Literal and raw not in inner:
        problems.append(f"{where} is {_shown(raw)}; expected one of {', '.join(inner)}")
        return None
    if origin in (tuple, dict) and raw is None:
        return origin()
    try:
        value = msgspec.convert(raw, Annotated[_OUTSIDE.get(origin, base), Meta(), *metas], strict=False)
    except msgspec.ValidationError as error:
        told = next((f"expected {meta.description}" for meta in metas if meta.description), str(error))
        problems.append(f"{where} is {_shown(raw)}; {told[:1].lower()}{told[1:]}")
        return None
    if origin is tuple:
        return tuple(checked(each, inner[0], f"{where}.{number}", problems) for number, each in enumerate(value, 1))
    if origin is dict:
        return {key: checked(each, inner[1], f"{where}.{key}", problems) for key, each in value.items()}
    for meta in metas:
        if meta.extra and value is not None and (told := meta.extra["problem_with"](value)):
            problems.append(f"{where}: {told}")
    return value


_OUTSIDE: dict[Any, Any] = {tuple: list, dict: dict}
"""What a value is looked at as before what it holds is."""


def _struct(raw: Any, kind: type[msgspec.Struct], where: str, problems: list[str]) -> Any:
    if not isinstance(raw, dict):
        problems.append(f"{where or 'the file'} must be a mapping of keys to values, found {_shown(raw)}")
        return None
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    above, before, values = f"{where}." if where else "", len(problems), {}
    for key, value in raw.items():
        if key in fields:
            values[key] = checked(value, fields[key].type, f"{above}{key}", problems)
        else:
            near = difflib.get_close_matches(str(key), fields, n=1)
            hint = f"did you mean {above}{near[0]}?" if near else f"known here: {', '.join(fields)}"
            problems.append(f"unknown key {above}{key}; {hint}")
    problems += [f"{above}{name} is missing" for name, field in fields.items() if field.required and name not in raw]
    try:
        return kind(**values) if len(problems) == before else None
    except ValueError as error:  # what it says of several keys together
        problems += [f"{above}{line}" for line in str(error).splitlines()]
        return None


def _shown(raw: Any) -> str:
    return "nothing" if raw is None else cut(repr(raw), 80)
