"""The file that `minifram backup` writes and `restore` reads: a gzipped tar of a manifest and five parts.

It is input: its tar headers are read one by one, and what backup never writes is refused, not worked around."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import re
import stat
import tarfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Literal

import msgspec

from host.display import seconds_of
from host.errors import CommandError, failure, not_found, usage
from host.paths import problem_with_agent_name

SCHEMA = "minifram.archive/3"
WITHOUT_EVENTS = ("minifram.archive/1", "minifram.archive/2")
"""Those of version 1 do not say how the agent lived. A minifram that knows no other would start it unsealed."""
KNOWN_SCHEMAS = (*WITHOUT_EVENTS, SCHEMA)
MANIFEST, BUNDLE, SETTINGS, LEDGER = "manifest.json", "repository.bundle", "minifram.yaml", "ledger.jsonl"
MIND, HEADS = "mind.tar", "mind-heads.jsonl"
"""What of the mind is in no commit, and the keep's notes of its events."""
BOUNDS = {BUNDLE: 4 << 30, SETTINGS: 1 << 20, HEADS: 64 << 20, MIND: 1 << 30, LEDGER: 2 << 30}
"""The parts beside the manifest, in their order, and how large each may be, packed and unpacked alike."""
MANIFEST_BYTES = 64 << 10
BLOCK = 1 << 20
_COMMIT, _SUM = re.compile(r"[0-9a-f]{40}"), re.compile(r"[0-9a-f]{64}")


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a backup, as it was put in."""

    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a backup says about itself; the first file in it."""

    schema: str
    agent: str
    time: str
    minifram: str
    """The version that made it."""
    main: str
    """The commit of main."""
    parts: dict[str, Part]
    sandbox: Literal["podman", "process"] = "podman"
    """How the agent lived: `process` only when it never ran sealed."""


def write_archive(path: str, place: str, manifest: Manifest, moment: int) -> int:
    """The parts in `place` as one packed file that is on the disk; gives its size. `moment`: seconds, for the tar."""
    with open(f"{place}/{MANIFEST}", "wb") as out:
        out.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
        # The history is packed already.
        packed = gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=out, mtime=0)
        with packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name in (MANIFEST, *BOUNDS):
                with open(f"{place}/{name}", "rb") as file:
                    entry = tarfile.TarInfo(name)
                    entry.size, entry.mode, entry.mtime = os.fstat(file.fileno()).st_size, 0o600, moment
                    archive.addfile(entry, file)
        out.flush()
        os.fsync(out.fileno())
        return os.fstat(out.fileno()).st_size


class Archive:
    """The packed file, read once from its beginning to its end. Its methods raise CommandError."""

    def __init__(self, file: str, packed: gzip.GzipFile | BinaryIO) -> None:
        self._file, self._packed = file, packed

    def manifest(self) -> Manifest:
        """The first part."""
        name, size = self._next() or ("", 0)
        if name != MANIFEST:
            raise self._bad(f"does not begin with {MANIFEST}: it is not a backup of minifram's")
        if size > MANIFEST_BYTES:
            raise self._bad(f"is too large: its {MANIFEST} has {size:,} bytes")
        content = b"".join(self._content(size))
        try:
            schema = msgspec.json.decode(content, type=dict[str, object]).get("schema")
            if schema not in KNOWN_SCHEMAS:
                known = f"this version reads {' and '.join(map(repr, KNOWN_SCHEMAS))}"
                raise self._bad(f"has schema {str(schema)[:60]!r}, {known}; use the minifram that made it")
            manifest = msgspec.json.decode(content, type=Manifest)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._bad(f"has a {MANIFEST} that makes no sense ({error})") from None
        for problem in _problems(manifest):
            raise self._bad(problem)
        return manifest

    def unpack(self, place: str, manifest: Manifest) -> None:
        """All other parts, each as the manifest says, into files of `place`."""
        missing = set(manifest.parts)
        while found := self._next():
            name, size = found
            if name not in missing:
                twice = name in manifest.parts or name == MANIFEST
                raise self._bad(f"holds {name[:80]!a}{' twice' if twice else ', which no backup does'}")
            missing.remove(name)
            expected = manifest.parts[name]
            if size != expected.bytes:
                raise self._bad(f"is damaged: {name} has {size:,} bytes, expected {expected.bytes:,}")
            sum = hashlib.sha256()
            with open(f"{place}/{name}", "xb") as out:
                for block in self._content(size):
                    sum.update(block)
                    out.write(block)
            if sum.hexdigest() != expected.sha256:
                raise self._bad(f"is damaged: {name} is not what was put in (its SHA-256 is another)")
        if missing:
            raise self._bad(f"is not whole: {', '.join(sorted(missing))} is missing")
        if self._read(tarfile.RECORDSIZE).strip(b"\0") or self._read(1):
            raise self._bad("goes on after its end")

    def files(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Name and content of each file of an archive without a manifest; each content is to be read."""
        while found := self._next():
            yield found[0], self._content(found[1])

    def _next(self) -> tuple[str, int] | None:
        """Name and size of the part that comes; None at the end."""
        header = self._read(tarfile.BLOCKSIZE)
        if len(header) == tarfile.BLOCKSIZE and not header.strip(b"\0"):
            return None
        try:
            entry = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            raise self._bad(f"is cut off or damaged ({error})") from None
        if entry.type != tarfile.REGTYPE:
            raise self._bad(f"holds {entry.name[:80]!a} as a link or something else that is not a plain file")
        if not 0 <= entry.size <= max(BOUNDS.values()):
            raise self._bad(f"is too large: {entry.name[:80]!a} has {entry.size:,} bytes")
        return entry.name, entry.size

    def _content(self, size: int) -> Iterator[bytes]:
        padding = -size % tarfile.BLOCKSIZE
        while size:
            block = self._read(min(BLOCK, size))
            if not block:
                raise self._bad("is cut off")
            size -= len(block)
            yield block
        if len(self._read(padding)) < padding:
            raise self._bad("is cut off")

    def _read(self, size: int) -> bytes:
        try:
            return self._packed.read(size)
        except EOFError:
            raise self._bad("is cut off") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise self._bad(f"is damaged, or not a backup of minifram's ({error})") from None

    def _bad(self, why: str) -> CommandError:
        return failure(f"{self._file} {why}; nothing was restored, take another copy of it")


@contextlib.contextmanager
def opened(file: str) -> Iterator[Archive]:
    """Raises CommandError."""
    try:
        raw = open(file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115 - below
    except FileNotFoundError:
        raise not_found(f"no such file: {file}; give one that 'minifram backup' made") from None
    except IsADirectoryError:
        raise usage(f"{file} is a directory; give a file that 'minifram backup' made") from None
    with raw:
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            raise usage(f"{file} is not a regular file; give one that 'minifram backup' made")
        with gzip.GzipFile(fileobj=raw, mode="rb") as packed:
            yield Archive(file, packed)


def _problems(manifest: Manifest) -> Iterator[str]:
    """What is wrong with a manifest of our schema."""
    if problem := problem_with_agent_name(manifest.agent):
        yield f"cannot be an agent: {problem}"
    expected = BOUNDS.keys() - ({MIND, HEADS} if manifest.schema in WITHOUT_EVENTS else ())
    if manifest.parts.keys() != expected:
        yield f"says that it holds {ascii(sorted(manifest.parts))[:200]}, expected {sorted(expected)}"
        return
    for name, part in manifest.parts.items():
        if part.bytes > BOUNDS[name]:
            yield f"is too large: {name} has {part.bytes:,} bytes, at most {BOUNDS[name]:,} are possible"
        if part.bytes < 0 or not _SUM.fullmatch(part.sha256):
            yield f"has a {MANIFEST} whose words on {name} make no sense"
    if seconds_of(manifest.time) is None:
        yield f"has a {MANIFEST} that names no time"
    if not _COMMIT.fullmatch(manifest.main):
        yield f"has a {MANIFEST} that names no commit of main"
