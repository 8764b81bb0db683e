"""The resolver's command line, and the settings behind it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.egress.resolver import resolver_command
from infra.keep.settings.check import SettingsError, parse_settings
from infra.shared.network import problem_with_host_name


def test_it_asks_the_upstream_for_everything() -> None:
    """But for names that are nobody's business."""
    command = resolver_command(["10.0.2.3", "fd00::3"])
    assert command[0] == "dnsmasq"
    assert {"--server=10.0.2.3", "--server=fd00::3", "--listen-address=127.0.0.1", "--stop-dns-rebind"} <= {*command}
    assert "--address=/internal/" in command


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("egress: {mode: closed}", "egress.mode is 'closed'; expected one of open, door"),
        ("web: {package_hosts: pypi.org}", "web.package_hosts is 'pypi.org'; expected `array`"),
        ("egress: {mod: open}", "unknown key egress.mod; did you mean egress.mode?"),
        ("web: {package_hosts: ['*.pypi.org']}", "web.package_hosts.1: '*.pypi.org' begins with a wildcard"),
        ("web: {package_hosts: ['0x7f000001']}", "web.package_hosts.1: '0x7f000001' is an address"),
    ],
)
def test_a_name_that_is_none_is_refused(text: str, words: str) -> None:
    """With the key, what was found and what is expected."""
    with pytest.raises(SettingsError) as refused:
        parse_settings(text, "my.yaml")
    assert str(refused.value).startswith(f"my.yaml: {words}")


@given(st.one_of(st.text(), st.text(st.sampled_from("ab1-_./#*@:, \n"))))
def test_what_passes_for_a_name_is_one_word_of_an_option(name: str) -> None:
    """Nothing that means something to the resolver's command line gets through."""
    if problem_with_host_name(name) is None:
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
        assert "." in name.strip(".")
        assert name[0] not in "-."
