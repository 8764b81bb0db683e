"""Skills as folders in the Agent Skills standard: `skills/<state>/NAME/SKILL.md` with a front matter of YAML, and the
procedure below it. What is read is kept as text; what is changed is changed line by line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from infra.cell.mind.problems import MindProblem
from infra.cell.mind.semver import NAME, Dependency, SkillVersion
from infra.shared.mind.sections import Document, document_of

SKILLS: Final = "skills"
FILE: Final = "SKILL.md"
MOST_BYTES: Final = 256 << 10
"""Of a SKILL.md."""
MOST_FOLDER_BYTES, MOST_FOLDER_FILES = 4 << 20, 100
MOST_DESCRIPTION: Final = 1024
_MOST_FRONT: Final = 16 << 10
_NAME = re.compile(NAME)
_CONFLICT = re.compile(r"<{7}( |$)|={7}$|>{7}( |$)")
_PATH = re.compile(r"skills/([^/]+)/([^/]+)/SKILL\.md")
_FENCED = re.compile(r"^ {0,3}(```+|~~~+)([^\n]*)\n(.*?)^ {0,3}\1[ \t]*$", re.MULTILINE | re.DOTALL)
_BULLET = re.compile(r"[ \t]*[-*][ \t]+`?(\S+?)`?[ \t\r]*")

PURPOSE, PROCEDURE, DEPENDENCIES = "Purpose", "Procedure", "Dependencies"
SELF_TEST, FAILURE_MODES, HELD_OUT = "Validation / Self-test", "Failure modes & recovery", "Held-out task"


class SkillStatus(Enum):
    CORE = "core"
    CANDIDATE = "candidate"
    LEARNED = "learned"
    DEPRECATED = "deprecated"
    FAILED = "failed"

    @property
    def directory(self) -> str:
        return "candidates" if self is SkillStatus.CANDIDATE else self.value


STATUS_OF: Final = {status.directory: status for status in SkillStatus}


class Skill(NamedTuple):
    name: str
    description: str
    version: SkillVersion
    status: SkillStatus
    dependencies: tuple[Dependency, ...]
    successor: str
    """`learned/other@1.0.0`, of a deprecated one; empty for none."""
    text: str
    """The whole SKILL.md."""
    body: Document

    @property
    def folder(self) -> str:
        return f"{SKILLS}/{self.status.directory}/{self.name}"

    @property
    def path(self) -> str:
        return f"{self.folder}/{FILE}"

    @property
    def reference(self) -> str:
        """`learned/web_research@1.2.0`."""
        return f"{self.status.directory}/{self.name}@{self.version}"

    def section(self, heading: str) -> str:
        """What stands below it; empty when it is missing."""
        found = self.body.find(heading)
        return found.body.strip() if found else ""

    def command(self, heading: str) -> str:
        """The first fenced block of a section; empty for none."""
        found = _FENCED.search(self.section(heading) + "\n")
        return found[3].strip() if found else ""

    def prose(self, heading: str) -> str:
        """A section without its fenced blocks."""
        return _FENCED.sub("", self.section(heading) + "\n").strip()


class Skills(NamedTuple):
    found: tuple[Skill, ...]
    """By directory and name."""
    problems: tuple[MindProblem, ...]

    def find(self, name: str, *statuses: SkillStatus) -> Skill | None:
        """The first of these states, in their order; of all states when none is given."""
        for status in statuses or tuple(SkillStatus):
            for skill in self.found:
                if (skill.status, skill.name) == (status, name):
                    return skill
        return None


class WrongSkill(ValueError):
    """A file cannot be read as a skill."""

    def __init__(self, problem: MindProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def skills_of(files: Mapping[str, bytes | MindProblem]) -> Skills:
    """Of the SKILL.md files by their paths, or why one could not be read. A file that holds no skill is a problem, and
    the others count."""
    found, problems = list[Skill](), list[MindProblem]()
    for path in sorted(files):
        content = files[path]
        if isinstance(content, MindProblem):
            problems.append(content)
            continue
        try:
            found.append(skill_of(path, content))
        except WrongSkill as wrong:
            problems.append(wrong.problem)
    return Skills(tuple(found), tuple(problems))


def skill_of(path: str, content: bytes) -> Skill:
    """Raises WrongSkill."""
    place = _PATH.fullmatch(path)
    if not place or place[1] not in STATUS_OF:
        raise _wrong(path, 0, f"expected skills/{{{','.join(STATUS_OF)}}}/NAME/{FILE}; move the folder there")
    text = _text(path, content)
    front, first_line, body = _split(path, text)
    values = _values(path, front, first_line)
    lines = _lines_of(front, first_line)

    def word(key: str, otherwise: str | None = None) -> str:
        value = values.get(key, otherwise)
        if not isinstance(value, str) or (otherwise is None and not value.strip()):
            what = "is missing" if value is None else "is no text; put it in quotes"
            raise _wrong(path, lines.get(key, 1), f"{key} {what}")
        return value.strip()

    name = word("name")
    if not _NAME.fullmatch(name):
        raise _wrong(path, lines["name"], f"name {name[:80]!r}: lower-case letters, digits, - and _, at most 64")
    if name != place[2]:
        raise _wrong(path, lines["name"], f"name {name!r}, but its folder is {place[2]!r}; give both one name")
    description = word("description")
    if len(description) > MOST_DESCRIPTION:
        raise _wrong(path, lines["description"], f"description of {len(description)} characters; at most 1,024")
    status = STATUS_OF[place[1]]
    if word("status", status.value) != status.value:
        raise _wrong(
            path, lines["status"], f"status {values['status']!r} in {place[1]}/; write 'status: {status.value}'"
        )
    try:
        version = SkillVersion.of(word("version"))
    except WrongSkill:
        raise
    except ValueError as error:
        raise _wrong(path, lines["version"], f"version {error}") from None
    document = document_of(body)
    dependencies = _dependencies(path, values.get("dependencies"), lines.get("dependencies", 1))
    dependencies += _in_body(path, document, text)
    successor = word("successor", "")
    unique = tuple(dict.fromkeys(dependencies))
    return Skill(name, " ".join(description.split()), version, status, unique, successor, text, document)


def _text(path: str, content: bytes) -> str:
    if len(content) > MOST_BYTES:
        raise _wrong(path, 0, f"more than {MOST_BYTES:,} bytes; keep the procedure here, the rest in files beside it")
    if not content.strip():
        raise _wrong(path, 0, "it is empty; expected a front matter with name and description")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise _wrong(path, line, "expected UTF-8 text; take the other bytes out") from None
    for number, line_text in enumerate(text.split("\n"), 1):
        if _CONFLICT.match(line_text.rstrip("\r")):
            raise _wrong(path, number, "a conflict marker; keep one of the two texts and remove the markers")
        if "\0" in line_text:
            raise _wrong(path, number, "a zero byte; expected text")
    return text


def _split(path: str, text: str) -> tuple[str, int, str]:
    """The front matter, its first line's number, and the body."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        raise _wrong(path, 1, "expected '---' on the first line, then name and description, then '---'")
    for at, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return "\n".join(lines[1:at]), 2, "\n".join(lines[at + 1 :])
    raise _wrong(path, 1, "the front matter does not end; expected a line '---' below it")


def _values(path: str, front: str, first_line: int) -> dict[str, Any]:
    from infra.shared.plain_yaml import parse_yaml  # it costs more than the rest of this module

    if len(front) > _MOST_FRONT:
        raise _wrong(path, 1, f"a front matter of {len(front):,} characters; at most {_MOST_FRONT:,}")
    try:
        values = parse_yaml(front)
    except (ValueError, RecursionError) as error:
        found = re.match(r"line (\d+): ", str(error))
        line, what = (int(found[1]) + first_line - 1, str(error)[found.end() :]) if found else (1, str(error))
        raise _wrong(path, line, f"the front matter is no YAML: {what}") from None
    if not isinstance(values, dict):
        raise _wrong(path, 1, "the front matter holds no keys; expected name and description")
    return values


def _lines_of(front: str, first_line: int) -> dict[str, int]:
    """The line of each key of the front matter."""
    found = dict[str, int]()
    for number, line in enumerate(front.split("\n"), first_line):
        if key := re.match(r"([A-Za-z][\w-]*)[ \t]*:", line):
            found.setdefault(key[1], number)
    return found


def _dependencies(path: str, value: object, line: int) -> list[Dependency]:
    if value in (None, ""):
        return []
    if not isinstance(value, list):
        raise _wrong(path, line, "dependencies: expected a list, a line '  - core/files@1.0.0' for each")
    found = []
    for each in value:
        try:
            found.append(Dependency.of(str(each)))
        except ValueError as error:
            raise _wrong(path, line, f"dependencies: {error}") from None
    return found


def _in_body(path: str, body: Document, text: str) -> list[Dependency]:
    """The customer's list below the heading; other bullets there are prose."""
    section = body.find(DEPENDENCIES)
    found = []
    for line in section.body.split("\n") if section else ():
        bullet = _BULLET.fullmatch(line)
        if bullet and "@" in bullet[1]:
            try:
                found.append(Dependency.of(bullet[1]))
            except ValueError as error:
                raise _wrong(path, text[: text.find(line)].count("\n") + 1, str(error)) from None
    return found


def _wrong(path: str, line: int, what: str) -> WrongSkill:
    return WrongSkill(MindProblem(path, line, what))


def with_front(text: str, **values: str) -> str:
    """The SKILL.md with these keys of the front matter set, in their lines or behind the last; all else stays byte for
    byte. An empty value takes a key out. The text is one that `skill_of` read."""
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), len(lines))
    for key, value in values.items():
        at = next((at for at in range(1, end) if re.match(rf"{re.escape(key)}[ \t]*:", lines[at])), None)
        new = f"{key}: {value}"
        if at is not None and value:
            lines[at] = new + ("\r" if lines[at].endswith("\r") else "")
        elif at is not None:
            del lines[at]
            end -= 1
        elif value:
            lines.insert(end, new)
            end += 1
    return "\n".join(lines)


def folder_hash(files: Mapping[str, bytes]) -> str:
    """Of all files of a skill, by their paths in its folder: what a trial or a promotion was about. The front matter's
    `status` and `successor` do not count, as its way through the states changes them."""
    whole = hashlib.sha256()
    for path in sorted(files):
        content = files[path]
        if path == FILE and content.startswith(b"---") and b"\n---" in content:
            text = content.decode(errors="surrogateescape")
            content = with_front(text, status="", successor="").encode(errors="surrogateescape")
        whole.update(f"{path}\0{hashlib.sha256(content).hexdigest()}\n".encode(errors="surrogateescape"))
    return f"sha256:{whole.hexdigest()[:32]}"
