"""What of the PM's settings the web door is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.keep.settings.check import parse_settings, read_settings, settings_of_web_door

TEXT = """
model: {name: a-name}
notify: {command: 'curl https://example.org/a-key', on: [done]}
policy:
  default: ask
  private_networks: allow
  rules:
    - {do: deny, domains: [bad.example, 203.0.113.0/24], why: "no: it's # 'odd'\\u00e9 \\t"}
    - {do: allow, tools: [fetch_page], effects: [read], commands: ['git *'], paths: ['*.md']}
web: {allowed_domains: ['example.org', 'xn--bcher-kva.example'], keep_raw_html: true,
  search_url: 'https://s.example/?q={query}&format=json', package_hosts: [pypi.org]}
"""


def test_as_much_as_it_works_with(tmp_path: Path) -> None:
    """Policy and web as the PM wrote them, and nothing else."""
    path = tmp_path / "minifram.yaml"
    path.write_text(TEXT)
    whole, given = read_settings(str(path)), parse_settings(settings_of_web_door(str(path)).decode())
    assert (given.policy, given.web) == (whole.policy, whole.web)
    assert (given.notify.command, given.model.name) != (whole.notify.command, whole.model.name)
    assert b"a-key" not in settings_of_web_door(str(path))
    path.write_text("web: {keep_raw_html: perhaps}\n")
    with pytest.raises(OSError, match="keep_raw_html"):
        settings_of_web_door(str(path))
