"""What `services.yaml` may say, and how what it may not say is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.services.declared import MOST_BYTES, MOST_SERVICES, Declared, Service, declared, read
from infra.shared.paths import SERVICES

ONE = "{name: web, command: [python, -m, http.server, '8000']}"


@pytest.mark.parametrize("text", ["", "services:\n", "services: []\n", "# nothing\n"])
def test_nothing_is_nothing(text: str) -> None:
    """And no mistake."""
    assert declared(text.encode()) == Declared()


def test_a_service_has_a_name_a_command_and_perhaps_a_directory() -> None:
    """In the order of the file."""
    text = f"services:\n- {ONE}\n- name: db\n  command: [./db]\n  directory: src/./db\n"
    web = Service("web", ("python", "-m", "http.server", "8000"))
    assert declared(text.encode()) == Declared((web, Service("db", ("./db",), "src/./db")))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("services: [", "is not YAML"),
        ("services: \xff", "is not YAML"),
        ("[" * 5000, "is not YAML"),
        (
            "services:\n- - &a0 [x, x]\n" + "".join(f"  - &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60)),
            "aliases",
        ),
        (
            "a0: &a0 {k: v}\n"
            + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 30)),
            "aliases",
        ),
        ("web: {command: [x]}", "unknown field `web`"),
        ("services: {web: x}", "got `object` - at `$.services`; expected 'services', a list"),
        (f"services: [{', '.join([ONE] * (MOST_SERVICES + 1))}]", "length <= 8"),
        ("services: [web]", "Expected `object`, got `str` - at `$.services[0]`"),
        (f"services: [{ONE}, {ONE}]", "a name comes twice"),
        ("services: [{name: web, command: [x], memory: 1}]", "unknown field `memory` - at `$.services[0]`"),
        ("services: [{name: ../web, command: [x]}]", "$.services[0].name"),
        ("services: [{command: [x]}]", "missing required field `name`"),
        ("services: [{name: web, command: python x.py}]", "Expected `array`, got `str` - at `$.services[0].command`"),
        ("services: [{name: web, command: []}]", "length >= 1 - at `$.services[0].command`"),
        ("services: [{name: web, command: ['']}]", "must be a program"),
        ("services: [{name: web, command: [x], directory: ../y}]", "not a path below"),
        ("services: [{name: web, command: [x], directory: a/../../y}]", "not a path below"),
        ("services: [{name: web, command: [x], directory: /tmp}]", "not a path below"),
    ],
)
def test_a_mistake_is_named(text: str, problem: str) -> None:
    """With what was found; nothing is half understood."""
    found = declared(text.encode("latin-1"))
    assert problem in found.problem
    assert not found.services


@given(st.binary(max_size=200) | st.text(alphabet="services:[]{}&*!- \n'name,command", max_size=200).map(str.encode))
def test_nothing_in_it_raises(content: bytes) -> None:
    """It is the agent's own file."""
    found = declared(content)
    assert not (found.services and found.problem)


def test_what_is_no_file_is_a_problem(tmp_path: Path) -> None:
    """A pipe would block, a link leads elsewhere, a large one fills the memory; none at all is nothing."""
    assert read(str(tmp_path)) == Declared()
    path = tmp_path / SERVICES
    os.mkfifo(path)
    assert "cannot be read" in read(str(tmp_path)).problem
    path.unlink()
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    assert "cannot be read" in read(str(tmp_path)).problem
    path.write_text(f"services: [{ONE}]")
    assert [service.name for service in read(str(tmp_path)).services] == ["web"]
