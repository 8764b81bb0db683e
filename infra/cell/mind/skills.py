"""Skills as folders in the Agent Skills standard: `skills/STATE/NAME/SKILL.md` with a front matter of YAML, and the
procedure below it. The folder is the state; `skills/index.md` is written from the folders, and no code reads it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from infra.shared.mind.sections import Problem, front_matter, sections
from infra.shared.redacted_file import RedactedFile
from infra.shared.safe_files import Below, Entry
from infra.shared.text import one_line

SKILLS, FILE = "skills", "SKILL.md"
CORE, LEARNED, CANDIDATES, DEPRECATED, FAILED = STATES = ("core", "learned", "candidates", "deprecated", "failed")
USED: Final = (CORE, LEARNED, CANDIDATES)
"""The others are kept, and neither listed nor run."""
MOST_SKILLS: Final = 500
"""Of one state."""
MOST_BYTES, MOST_FOLDER_BYTES, MOST_FOLDER_FILES = 256 << 10, 4 << 20, 100
SELF_TEST, FAILURE_MODES = "Validation / Self-test", "Failure modes & recovery"
_NAME = r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?"
_VERSION = r"(?:(?:0|[1-9][0-9]{0,8})\.){2}(?:0|[1-9][0-9]{0,8})"
_REFERENCE = rf"({'|'.join(STATES)})/({_NAME})@({_VERSION})"
_PATH = re.compile(rf"{SKILLS}/({'|'.join(STATES)})/([^/]+)/{FILE}")
_FENCED = re.compile(r"^ {0,3}(```+|~~~+)[^\n]*\n(.*?)^ {0,3}\1[ \t]*$", re.MULTILINE | re.DOTALL)


class SkillHead(msgspec.Struct, frozen=True):
    """The front matter; what else stands there is for readers."""

    name: Annotated[str, Meta(pattern=rf"\A{_NAME}\Z")]
    description: Annotated[str, Meta(max_length=1024)]
    version: Annotated[str, Meta(pattern=rf"\A{_VERSION}\Z")]
    dependencies: tuple[Annotated[str, Meta(pattern=rf"\A{_REFERENCE}\Z")], ...] = ()
    successor: str = ""
    """`learned/other@1.0.0`, of a deprecated one."""


class Skill(NamedTuple):
    state: str
    """One of STATES."""
    head: SkillHead
    text: str
    """The whole SKILL.md."""

    @property
    def folder(self) -> str:
        return f"{SKILLS}/{self.state}/{self.head.name}"

    @property
    def path(self) -> str:
        return f"{self.folder}/{FILE}"

    @property
    def reference(self) -> str:
        """`learned/web_research@1.2.0`."""
        return f"{self.state}/{self.head.name}@{self.head.version}"

    def section(self, heading: str) -> str:
        """What stands below it; empty when it is missing."""
        return next((each.body.strip() for each in sections(self.text) if each.heading == heading), "")

    @property
    def self_test(self) -> str:
        """The first fenced block of its section; empty for none."""
        found = _FENCED.search(self.section(SELF_TEST) + "\n")
        return found[2].strip() if found else ""


class Skills(NamedTuple):
    found: tuple[Skill, ...]
    problems: tuple[Problem, ...]

    def of(self, *states: str) -> tuple[Skill, ...]:
        return tuple(skill for state in states for skill in self.found if skill.state == state)

    def find(self, name: str, *states: str) -> Skill | None:
        """The first of these states, in their order; of all when none is given."""
        return next((skill for skill in self.of(*(states or STATES)) if skill.head.name == name), None)

    def graph_problems(self) -> tuple[Problem, ...]:
        """Dependencies that no skill meets. A circle is none: no code follows them."""
        used = self.of(*USED)
        unmet = ((skill, each) for skill in used for each in skill.head.dependencies if not met_by(each, used))
        return tuple(Problem(skill.path, 1, f"it depends on {each}; no such version is there") for skill, each in unmet)


def met_by(dependency: str, skills: Iterable[Skill]) -> Skill | None:
    """A skill of the same major version that is no older; a candidate may have been learned since."""
    state, name, version = re.findall(_REFERENCE, dependency)[0]
    states, asked = (state, LEARNED) if state == CANDIDATES else (state,), _numbers(version)
    there = (each for each in skills if each.state in states and each.head.name == name)
    return next((each for each in there if asked <= _numbers(each.head.version) < (asked[0] + 1,)), None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def skills_of(files: Mapping[str, bytes | OSError]) -> Skills:
    """Of the SKILL.md files by their paths. What holds no skill is a problem, and the others count."""
    found, problems = list[Skill](), list[Problem]()
    for path, content in sorted(files.items()):
        try:
            if isinstance(content, OSError):
                raise ValueError(f"it cannot be read ({content}); expected a small text file {FILE} in each folder")
            found.append(skill_of(path, content.decode()))
        except ValueError as error:
            problems.append(Problem(path, 1, str(error)))
    return Skills(tuple(found), tuple(problems))


def skill_of(path: str, text: str) -> Skill:
    """Raises ValueError."""
    place = _PATH.fullmatch(path)
    if not place:
        raise ValueError(f"expected {SKILLS}/STATE/NAME/{FILE}, with one of {', '.join(STATES)}; move the folder there")
    if len(text) > MOST_BYTES or "\0" in text:
        raise ValueError(f"expected text of at most {MOST_BYTES:,} bytes; the rest may lie in files beside it")
    head = front_matter(text, SkillHead)[0]
    if head.name != place[2]:
        raise ValueError(f"name {head.name!r}, but its folder is {place[2]!r}; give both one name")
    return Skill(place[1], head, text)


def marked(text: str, **values: str) -> str:
    """The SKILL.md with these lines in its front matter, in place of those of their keys; an empty value takes a line
    out, and all else stays byte for byte."""
    front, rule, rest = text.partition("\n---")
    for key, value in values.items():
        front = re.sub(rf"\n{key}[ \t]*:[^\n]*", "", front) + (f"\n{key}: {value}" if value else "")
    return front + rule + rest


def moved_to(skill: Skill, state: str, successor: str = "") -> Skill:
    text = marked(skill.text, status="candidate" if state == CANDIDATES else state, successor=successor)
    return skill._replace(state=state, text=text)


def folder_hash(files: Mapping[str, bytes]) -> str:
    """Of a skill's files, by their paths in it: what a trial or a promotion was about. Its state is no part of it."""
    whole = hashlib.sha256()
    for path, content in sorted(files.items()):
        if path == FILE:
            content = marked(content.decode("latin-1"), status="", successor="").encode("latin-1")
        whole.update(os.fsencode(path) + b"\0" + hashlib.sha256(content).digest())
    return f"sha256:{whole.hexdigest()[:32]}"


def index_of(skills: Skills, confidence: Callable[[Skill], float]) -> str:
    """`skills/index.md`, with the first sentence of each, which says when to use it. A page may have written what is no
    learned skill yet: its words stand before no run."""
    text = f"# Skills\n\nThe whole of each is `{FILE}` in its folder.\n\n"
    for skill in skills.of(*USED):
        brief = one_line(skill.head.description).partition(". ")[0].removesuffix(".")
        words = brief if skill.state != CANDIDATES else "not through its gate yet"
        text += f"- `{skill.reference}`: {words}. Confidence: {confidence(skill):.2f}\n"
    return text


# In the clone of the mind, at `root`


def read_skills(root: str) -> Skills:
    """What cannot be read is a problem."""
    files, below = dict[str, bytes | OSError](), Below(root)
    for above in filter(below.is_directory, (f"{SKILLS}/{state}" for state in STATES)):
        for folder in (f"{above}/{name}" for name in below.names(above, MOST_SKILLS)):
            try:
                if below.is_directory(folder):
                    files[f"{folder}/{FILE}"] = below.whole(f"{folder}/{FILE}", MOST_BYTES)
            except OSError as error:
                files[f"{folder}/{FILE}"] = error
    return skills_of(files)


def files_of(root: str, skill: Skill) -> dict[str, bytes]:
    """All files, by their paths in the folder. Raises OSError, also for what is larger than a skill may be."""
    found, below = dict[str, bytes](), Below(root)
    for entry in below.walk(skill.folder, depth=5, most=MOST_FOLDER_FILES):
        if not isinstance(entry, Entry):
            raise OSError(f"{entry.path}: {entry.why}; a skill has at most {MOST_FOLDER_FILES} files")
        if not stat.S_ISDIR(entry.status.st_mode):
            left = MOST_FOLDER_BYTES - sum(map(len, found.values()))
            found[os.path.relpath(entry.path, skill.folder)] = below.whole(entry.path, left)
    return found


def move(root: str, skill: Skill, state: str, successor: str = "") -> Skill:
    """What is in its place there is replaced. Raises OSError; then the folder is in one of the two places, whole."""
    moved = moved_to(skill, state, successor)
    move_folder(root, skill.folder, moved.folder)
    RedactedFile(f"{root}/{moved.path}").replace(moved.text)
    return moved


def move_folder(root: str, folder: str, to: str) -> None:
    """Raises OSError."""
    Below(root).remove(to)
    os.makedirs(os.path.dirname(f"{root}/{to}"), exist_ok=True)
    os.rename(f"{root}/{folder}", f"{root}/{to}")
