"""The index of what `recall` searches: SQLite's FTS5 over sections. It holds nothing that the files do not: what is
broken, or of another version, is thrown away and built again.

A file is read again when its stamp has changed; of it, only sections are indexed again whose hash has changed."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from infra.cell.mind.rows import IndexRow, rows_of
from infra.shared.mind.sections import document_of

if TYPE_CHECKING:
    import sqlite3

VERSION = 1
"""Of the tables, and of what `rows_of` makes."""
MOST_BYTES = 8 << 20
"""Of a file, so much is searched."""
_COLUMNS = IndexRow._fields
_TABLES = f"""
CREATE TABLE folder (path TEXT PRIMARY KEY, stamp TEXT NOT NULL);
CREATE TABLE file (path TEXT PRIMARY KEY, folder TEXT NOT NULL, stamp TEXT NOT NULL, problem TEXT NOT NULL);
CREATE INDEX file_by_folder ON file (folder);
CREATE INDEX file_by_problem ON file (path) WHERE problem <> '';
CREATE TABLE section (
  row INTEGER PRIMARY KEY, path TEXT NOT NULL, ordinal INTEGER NOT NULL, hash BLOB NOT NULL,
  {", ".join(f"{name} TEXT NOT NULL" for name in _COLUMNS)});
CREATE INDEX section_by_path ON section (path, ordinal);
CREATE INDEX section_by_subject ON section (subject_key, validated) WHERE validated <> '';
CREATE VIRTUAL TABLE words USING fts5 (
  title, heading, body, content='section', content_rowid='row', tokenize='porter unicode61');
CREATE TRIGGER section_in AFTER INSERT ON section BEGIN
  INSERT INTO words (rowid, title, heading, body) VALUES (new.row, new.title, new.heading, new.body); END;
CREATE TRIGGER section_out AFTER DELETE ON section BEGIN
  INSERT INTO words (words, rowid, title, heading, body)
  VALUES ('delete', old.row, old.title, old.heading, old.body); END;
PRAGMA user_version = {VERSION};
"""  # noqa: S608 - the names are ours


class IndexLimits(NamedTuple):
    sections: int = 100_000
    """In all."""
    of_file: int = 20_000
    """Of one file: none that went wrong takes the place of the others."""
    busy_seconds: float = 2.0
    """How long one waits for another process that changes the index."""


LIMITS = IndexLimits()


class FolderSeen(NamedTuple):
    """A folder whose stamp is another than before."""

    path: str
    stamp: str
    """Empty: it is gone."""
    files: Mapping[str, str]
    """Stamps by path, of those that are searched; not of folders below."""


class MindFiles(Protocol):
    def changed(self, before: Mapping[str, str]) -> Iterable[FolderSeen]:
        """All folders but those that have the stamp that they had before. Raises OSError."""

    def read(self, path: str, most: int) -> bytes:
        """Up to so many bytes. Raises OSError."""


class Refreshed(NamedTuple):
    """What it took to bring the index up to date."""

    files: int = 0
    """That were read."""
    added: int = 0
    """Rows."""
    removed: int = 0
    problems: tuple[str, ...] = ()
    """Files that are not, or not wholly, searched: a sentence each."""


class MindIndex:
    """Over one connection. Use `opened`, which mends what is broken."""

    def __init__(self, database: sqlite3.Connection, limits: IndexLimits = LIMITS) -> None:
        """Raises sqlite3.DatabaseError for what is no index."""
        self.database, self._limits = database, limits
        if _version(database) != VERSION:
            database.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")

    def refresh(self, files: MindFiles, trust_folders: bool = False) -> Refreshed:
        """Bring it up to date, in one transaction. With `trust_folders`, files of a folder that itself has not changed
        are taken to be as they were. Raises sqlite3.Error, OSError."""
        done = Refreshed()
        known = dict(self.database.execute("SELECT path, stamp FROM folder").fetchall())
        seen = set[str]()
        with self._transaction():
            for folder in files.changed(known if trust_folders else {}):
                seen.add(folder.path)
                done = self._folder(folder, known.get(folder.path, ""), files, done)
            if not trust_folders:
                for gone in known.keys() - seen:
                    done = self._folder(FolderSeen(gone, "", {}), known[gone], files, done)
        rows = self.database.execute("SELECT path, problem FROM file WHERE problem <> '' ORDER BY path").fetchall()
        return done._replace(problems=tuple(f"{path}: {problem}" for path, problem in rows))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.database.rollback()
            raise
        self.database.commit()

    def _folder(self, folder: FolderSeen, known: str, files: MindFiles, done: Refreshed) -> Refreshed:
        rows = self.database.execute("SELECT path, stamp FROM file WHERE folder = ?", (folder.path,))
        before = dict(rows.fetchall())
        for gone in before.keys() - folder.files.keys():
            removed = self.database.execute("DELETE FROM section WHERE path = ?", (gone,)).rowcount
            done = done._replace(removed=done.removed + removed)
            self.database.execute("DELETE FROM file WHERE path = ?", (gone,))
        for path, stamp in folder.files.items():
            if stamp != before.get(path):
                done = self._file(folder.path, path, stamp, files, done)
        if folder.stamp == known:  # nothing is written where nothing has changed
            return done
        if folder.stamp:
            self.database.execute("REPLACE INTO folder VALUES (?, ?)", (folder.path, folder.stamp))
        else:
            self.database.execute("DELETE FROM folder WHERE path = ?", (folder.path,))
        return done

    def _file(self, folder: str, path: str, stamp: str, files: MindFiles, done: Refreshed) -> Refreshed:
        try:
            text, problem = text_of(files.read(path, MOST_BYTES + 1))
        except OSError as error:
            text, problem = "", f"it cannot be read: {error.strerror or error}; it is not searched"
        query = "SELECT hash, row, ordinal FROM section WHERE path = ? ORDER BY ordinal DESC"
        most, most_of_file, _ = self._limits
        left = dict[bytes, list[tuple[int, int]]]()
        for hash, row, ordinal in self.database.execute(query, (path,)):
            left.setdefault(hash, []).append((row, ordinal))
        (count,) = self.database.execute("SELECT count(*) FROM section").fetchone()
        new = list[tuple[object, ...]]()
        for ordinal, each in enumerate(rows_of(path, text)):
            if ordinal >= most_of_file:
                problem = f"only its first {most_of_file:,} sections are searched: move what is old to memory/archive"
                break
            hash = _hash(each)
            if left.get(hash):
                row, was = left[hash].pop()
                if was != ordinal:
                    self.database.execute("UPDATE section SET ordinal = ? WHERE row = ?", (ordinal, row))
            elif count + len(new) >= most:
                problem = f"more than {most:,} sections are in the mind: those here are not all searched"
                break
            else:
                new.append((path, ordinal, hash, *each))
        gone = [(row,) for rows in left.values() for row, _ in rows]
        self.database.executemany("DELETE FROM section WHERE row = ?", gone)
        marks = ", ".join("?" * (3 + len(_COLUMNS)))
        insert = f"INSERT INTO section (path, ordinal, hash, {', '.join(_COLUMNS)}) VALUES ({marks})"  # noqa: S608 - ours
        self.database.executemany(insert, new)
        self.database.execute("REPLACE INTO file VALUES (?, ?, ?, ?)", (path, folder, stamp, problem))
        return done._replace(files=done.files + 1, added=done.added + len(new), removed=done.removed + len(gone))


def text_of(content: bytes) -> tuple[str, str]:
    """What of a file is searched, and what is wrong with it."""
    if b"\0" in content:
        return "", "it is binary, where Markdown was expected; it is not searched: put its text back from git"
    text = content[:MOST_BYTES].decode(errors="replace")
    if len(content) <= MOST_BYTES:
        return text, ""
    sections = document_of(text).sections
    if len(sections) > 1:  # the last one is cut
        text = text[: len(text) - len(sections[-1].text)]
    return (
        text,
        f"only its first {MOST_BYTES >> 20} MiB are searched: move what is old to memory/archive, in more files",
    )


@contextlib.contextmanager
def opened(path: str = "", limits: IndexLimits = LIMITS) -> Iterator[MindIndex]:
    """The index at this path, or a new one in memory. A file that is no index of ours is thrown away; where none can be
    written, the index is in memory. Raises OSError and sqlite3.Error when not even that can be done."""
    index = _at(path, limits) if path else None
    index = index or MindIndex(connected(":memory:"), limits)
    try:
        yield index
    finally:
        index.database.close()


def remove(path: str) -> None:
    """Of an index that proved broken; the next use makes another. Never raises."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            os.unlink(path + suffix)


def connected(path: str, busy_seconds: float = LIMITS.busy_seconds) -> sqlite3.Connection:
    import sqlite3

    return sqlite3.connect(path, timeout=busy_seconds, isolation_level=None)


def _at(path: str, limits: IndexLimits) -> MindIndex | None:
    import sqlite3

    for _ in range(2):
        database = None
        try:
            if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
                return None
            database = connected(path, limits.busy_seconds)
            if _version(database) not in (0, VERSION):
                raise sqlite3.DatabaseError("the index is of another version")
            database.execute("SELECT 1 FROM sqlite_master").fetchall()
            return MindIndex(database, limits)
        except sqlite3.OperationalError:  # locked for long, or it cannot be written here
            if database:
                database.close()
            return None
        except sqlite3.DatabaseError:
            if database:
                database.close()
            remove(path)
    return None


def _version(database: sqlite3.Connection) -> int:
    found: int = database.execute("PRAGMA user_version").fetchone()[0]
    return found


def _hash(row: IndexRow) -> bytes:
    return hashlib.blake2b("\0".join(row).encode(errors="replace"), digest_size=16).digest()
