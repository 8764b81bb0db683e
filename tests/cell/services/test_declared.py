"""What `services.yaml` may say, and how what it may not say is told."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from infra.cell.services.services import MOST_FILE_BYTES, Service, declared
from infra.shared.paths import SERVICES

ONE = "{name: web, command: [python, -m, http.server, '8000']}"


def test_what_is_declared_is_read_in_its_order(tmp_path: Path) -> None:
    """Nothing is nothing, and no mistake; a pipe in the file's place is one."""
    assert declared(str(tmp_path)) == ()
    file = tmp_path / SERVICES
    for text in ("", "services:\n", "services: []\n", "# nothing\n"):
        file.write_text(text)
        assert declared(str(tmp_path)) == ()
    file.write_text(f"services:\n- {ONE}\n- name: db\n  command: [./db]\n  directory: src/db\n")
    web = Service("web", ("python", "-m", "http.server", "8000"))
    assert declared(str(tmp_path)) == (web, Service("db", ("./db",), "src/db"))
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ValueError, match="cannot be read"):
        declared(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("services: [", "cannot be read"),
        ("services: \xff", "cannot be read"),
        ("services: [&a {name: web, command: [x]}, *a]", "aliases"),
        ("#" * (MOST_FILE_BYTES + 1), "has more than"),
        ("web: {command: [x]}", "unknown field `web`"),
        ("services: {web: x}", "got `object` - at `$.services`; expected 'services', a list"),
        (f"services: [{', '.join([ONE] * (9))}]", "length <= 8"),
        ("services: [web]", "Expected `object`, got `str` - at `$.services[0]`"),
        (f"services: [{ONE}, {ONE}]", "a name comes twice"),
        ("services: [{name: web, command: [x], memory: 1}]", "unknown field `memory` - at `$.services[0]`"),
        ("services: [{name: ../web, command: [x]}]", "$.services[0].name"),
        ("services: [{command: [x]}]", "missing required field `name`"),
        ("services: [{name: web, command: python x.py}]", "Expected `array`, got `str` - at `$.services[0].command`"),
        ("services: [{name: web, command: []}]", "length >= 1 - at `$.services[0].command`"),
        ("services: [{name: web, command: ['']}]", "$.services[0].command[0]"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, problem: str) -> None:
    """With what was found; nothing is half understood."""
    (tmp_path / SERVICES).write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=re.escape(problem)):
        declared(str(tmp_path))
