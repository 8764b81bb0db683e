"""Reads home.tar, the agent's home as the container's engine packed it. Nothing is unpacked onto the host.

The standard library's reader follows sparse maps and headers of any size, and has looped for ever over crafted ones;
this one knows the few kinds of entry that engines write, and ends after the last byte."""

from __future__ import annotations

import io
import posixpath
from pathlib import Path

from run_files import Unreadable, open_regular
from run_values import ARTIFACTS, HOME, TOOLS, Home, HomeFile

BLOCK = 512
TAR_BYTES = 64 << 20
ENTRIES = 100_000
HEADER_BYTES = 1 << 20
"""Of the names and settings that stand before one entry."""
KEPT_BYTES, TOOLS_KEPT = 1 << 20, 256
"""Of each file of which the content matters, and how many tools."""
REGULAR, HARD_LINK, DIRECTORY, PAX, LONG_NAME, LONG_LINK = b"0\0007", b"1", b"5", b"x", b"L", b"K"


def read_home(path: Path) -> Home | None:
    """The home, or None when the run has none. An entry with a name that leads out of the home is left out, and told.
    Raises Unreadable."""
    file = open_regular(path)
    if file is None:
        return None
    with file:
        content = file.read(TAR_BYTES + 1)
    if len(content) > TAR_BYTES:
        raise Unreadable(f"{path.name} is too large; expected at most {TAR_BYTES} bytes")
    return _Reader(io.BytesIO(content), path.name).all()


class _Reader:
    def __init__(self, file: io.BytesIO, name: str) -> None:
        self._file, self._name = file, name
        self._files: dict[str, HomeFile] = {}
        self._others: set[str] = set()
        self._warnings: list[str] = []
        self._tools = 0

    def all(self) -> Home:
        settings: dict[str, str] = {}
        for _ in range(ENTRIES):
            header = self._file.read(BLOCK)
            if len(header) < BLOCK or header == bytes(BLOCK):
                if not header or len(header) < BLOCK:
                    self._warn("it is cut; what was read is scored")
                break
            size = _number(header[124:136])
            if _number(header[148:156]) != sum(header) - sum(header[148:156]) + 8 * 32 or size is None:
                if not self._files and not self._others:
                    raise Unreadable(f"{self._name} is no tar archive")
                self._warn("an entry is damaged; what stands before it is scored")
                break
            kind = header[156:157]
            if kind in (PAX, LONG_NAME, LONG_LINK) and size <= TAR_BYTES:
                settings |= self._settings(kind, size)
                continue
            size = _decimal(settings.get("size")) or size
            if size > TAR_BYTES:
                self._warn("an entry is larger than the archive may be; what stands before it is scored")
                break
            self._entry(header, kind, size, settings)
            settings = {}
        else:
            self._warn(f"it has more than {ENTRIES} entries; the rest is not scored")
        return Home(self._files, frozenset(self._others - set(self._files)), tuple(self._warnings))

    def _entry(self, header: bytes, kind: bytes, size: int, settings: dict[str, str]) -> None:
        begins = self._file.tell()
        path = _path(settings.get("path") or _name(header))
        if path is not None:  # of two entries of one name the later counts, as it would when unpacked
            self._files.pop(path, None)
        if path is None:
            self._warn("an entry has a name that leads out of the home; it is left out")
        elif kind in REGULAR and not any(key.startswith("GNU.sparse") for key in settings):
            mode = _number(header[100:108]) or 0
            content = self._file.read(size) if self._matters(path, size) else None
            if content is not None and len(content) < size:
                content = None
            self._files[path] = HomeFile(size, mode & 0o777, content)
        elif kind == HARD_LINK:
            target = _path(settings.get("linkpath") or _text(header[157:257]))
            if target in self._files:  # the same file by another name
                linked = self._files[target]
                wanted = self._matters(path, linked.size) and linked.content is not None
                self._files[path] = HomeFile(linked.size, linked.mode, linked.content if wanted else None)
            else:
                self._others.add(path)
        else:  # a directory, a link to anywhere, a pipe, a device: it is there, and has no content of its own
            self._others.add(path)
        carries = size if kind not in (HARD_LINK, b"2", b"3", b"4", DIRECTORY, b"6") else 0
        self._file.seek(begins + -(-carries // BLOCK) * BLOCK)

    def _matters(self, path: str, size: int) -> bool:
        if size > KEPT_BYTES:
            return False
        if path.startswith(f"{TOOLS}/"):
            self._tools += 1
            return self._tools <= TOOLS_KEPT
        return path in {f"{HOME}/{name}" for name in ARTIFACTS}

    def _settings(self, kind: bytes, size: int) -> dict[str, str]:
        begins = self._file.tell()
        if size > HEADER_BYTES:
            self._warn("a name of more than 1 MiB; its entry is taken by its short name")
            content = b""
        else:
            content = self._file.read(size)
        self._file.seek(begins + -(-size // BLOCK) * BLOCK)
        if kind == PAX:
            return _pax(content)
        return {"path" if kind == LONG_NAME else "linkpath": _text(content)} if content else {}

    def _warn(self, text: str) -> None:
        told = f"{self._name}: {text}"
        if told not in self._warnings:
            self._warnings.append(told)


def _pax(content: bytes) -> dict[str, str]:
    """`LENGTH KEY=VALUE\\n`, each; reading ends at the first that is not so."""
    found: dict[str, str] = {}
    place = 0
    while place < len(content):
        blank = content.find(b" ", place, place + 12)
        length = _decimal(content[place:blank].decode(errors="replace")) if blank > place else None
        if length is None or length <= blank - place or place + length > len(content):
            break
        key, _, value = content[blank + 1 : place + length - 1].partition(b"=")
        found[key.decode(errors="replace")] = value.decode(errors="replace")
        place += length
    return found


def _number(field: bytes) -> int | None:
    """Octal digits, or GNU's bytes for what is larger; None for anything else."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    return int(digits or b"0", 8) if all(digit in b"01234567" for digit in digits) else None


def _decimal(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 18 else None


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode(errors="replace")


def _name(header: bytes) -> str:
    prefix = _text(header[345:500]) if header[257:262] == b"ustar" and header[262:263] == b"\0" else ""
    name = _text(header[:100])
    return f"{prefix}/{name}" if prefix else name


def _path(name: str) -> str | None:
    """`agent/MAP.md` as the container has it; None for what does not lie in the home."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or not parts or parts[0] != posixpath.basename(HOME) or ".." in parts:
        return None
    return "/".join((HOME, *parts[1:]))
