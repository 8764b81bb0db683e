"""What `services.yaml` declares; pure, but for `read`."""

from __future__ import annotations

import os
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from infra.shared.paths import SERVICES
from infra.shared.safe_files import whole_file

MOST_BYTES = 64 * 1024
MOST_SERVICES = 8
EXAMPLE = "{name: web, command: [python, -m, http.server, 8000], directory: src/web}"
_Word = Annotated[str, Meta(pattern=r"\A[^\0]*\Z")]


class Service(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9_-]{0,39}\Z")]
    command: Annotated[tuple[_Word, ...], Meta(min_length=1, max_length=100)]
    directory: _Word = "."
    """From the top of the checkout."""

    def __post_init__(self) -> None:
        plain = os.path.normpath(self.directory)
        if os.path.isabs(plain) or plain.split(os.sep)[0] == os.pardir:
            raise ValueError(f"directory is {self.directory[:80]!r}, not a path below the checkout")
        if not self.command[0]:
            raise ValueError("the first word of command must be a program")


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    services: Annotated[tuple[Service, ...], Meta(max_length=MOST_SERVICES)] | None = ()


class Declared(NamedTuple):
    services: tuple[Service, ...] = ()
    problem: str = ""
    """Why the file cannot be used; empty when it can."""


def read(directory: str) -> Declared:
    """What the file there declares; nothing when there is none."""
    path = os.path.join(directory, SERVICES)
    if not os.path.lexists(path):
        return Declared()
    try:
        return declared(whole_file(path, MOST_BYTES))
    except (OSError, ValueError) as error:
        return Declared(problem=f"{SERVICES} cannot be read: {error}")


def declared(content: bytes) -> Declared:
    from infra.shared.yaml_words import words_of  # here, because few agents have such a file

    try:
        raw = words_of(content.decode())  # without aliases: a few of them stand for any number of values
        services = msgspec.convert({} if raw is None else raw, _File).services or ()
    except msgspec.ValidationError as error:
        return Declared(problem=f"{SERVICES}: {error}; expected 'services', a list of entries such as {EXAMPLE}")
    except ValueError as error:
        return Declared(problem=f"{SERVICES} is not YAML: {' '.join(str(error).split())[:300]}")
    if len({service.name for service in services}) < len(services):
        return Declared(problem=f"{SERVICES}: a name comes twice; each service needs one of its own")
    return Declared(services)
