"""The resolver's command line, and the settings behind it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.egress.resolver import as_resolver, names_of_model, resolver_command
from infra.shared.host_names import problem_with_host_name
from infra.shared.model_settings import ModelSettings, NextModel
from infra.shared.settings import EgressSettings
from infra.shared.settings_file import SettingsError, parse_settings

OPEN = EgressSettings()
NARROW = EgressSettings(mode="allowlist", allow=("pypi.org", "files.pythonhosted.org"))


def test_open_asks_the_upstream_for_everything() -> None:
    """But for names that are nobody's business; nothing is listed."""
    command = resolver_command(OPEN, ["10.0.2.3", "fd00::3"])
    assert command[0] == "dnsmasq"
    assert {"--server=10.0.2.3", "--server=fd00::3", "--listen-address=127.0.0.1", "--stop-dns-rebind"} <= {*command}
    assert "--address=/internal/" in command
    assert "--address=/#/" not in command
    assert not any("nftset" in word or "max-ttl" in word or "filter-AAAA" in word for word in command)


def test_the_allowlist_asks_for_listed_names_only() -> None:
    """The keep's names are found as well, and never listed; a short life makes each use a fresh one."""
    command = resolver_command(NARROW, ["10.0.2.3"], ["api.anthropic.com"])
    servers = [word for word in command if word.startswith("--server=")]
    assert servers == [f"--server=/{name}/10.0.2.3" for name in (*NARROW.allow, "api.anthropic.com")]
    listed = [word for word in command if word.startswith("--nftset=")]
    assert listed == [
        f"--nftset=/{name}/4#inet#minifram#listed4_{number},6#inet#minifram#listed6_{number}"
        for number, name in enumerate(NARROW.allow)
    ]
    assert "--address=/#/" in command
    assert "--max-ttl=60" in command
    weak = resolver_command(NARROW, ["10.0.2.3"], may_list=False)
    assert not any("nftset" in word for word in weak)
    assert "--address=/#/" in weak


def test_names_below_the_models_are_not_asked_for() -> None:
    """Unless the PM has listed them."""

    def not_asked(*allow: str) -> list[str]:
        command = resolver_command(EgressSettings(mode="allowlist", allow=allow), ["10.0.2.3"], ["api.anthropic.com"])
        return [word for word in command if word.startswith("--address=/*.")]

    assert not_asked("example.org", "x.api.anthropic.com", "opic.com") == ["--address=/*.api.anthropic.com/"]
    assert not_asked("anthropic.com") == not_asked("api.anthropic.com") == []


def test_without_ipv6_no_name_leads_there() -> None:
    """Programs would try those addresses first, in vain."""
    assert "--filter-AAAA" in resolver_command(EgressSettings(ipv6=False), ["10.0.2.3"])


def test_the_resolver_becomes_its_user() -> None:
    """With exactly the capabilities that are named."""
    command = as_resolver(["dnsmasq", "-k"], 990, 991, ["net_admin"])
    assert command[:3] == ["setpriv", "--reuid=990", "--regid=991"]
    assert "--ambient-caps=-all,+net_admin" in command
    assert command[-3:] == ["--", "dnsmasq", "-k"]
    assert "--inh-caps=-all" in as_resolver(["dnsmasq"], 990, 990)


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (ModelSettings(), ("api.anthropic.com", "api.openai.com")),
        (ModelSettings(provider="openai"), ("api.openai.com",)),
        (ModelSettings(provider="ollama"), ()),
        (ModelSettings(provider="manual"), ()),
        (
            ModelSettings(
                provider="scripted", then=(NextModel(provider="openai", base_url="https://llm.example.org/v1"),)
            ),
            ("llm.example.org",),
        ),
        (ModelSettings(provider="anthropic"), ("api.anthropic.com",)),
        (ModelSettings(provider="anthropic", base_url="https://llm.example.org:8443/v1"), ("llm.example.org",)),
        (ModelSettings(provider="anthropic", base_url="https://203.0.113.7/"), ()),
        (ModelSettings(provider="anthropic", base_url="https://[2001:db8::a]/"), ()),
        (ModelSettings(provider="scripted"), ()),
    ],
)
def test_names_that_the_model_door_needs(model: ModelSettings, names: tuple[str, ...]) -> None:
    """Where the provider is; an address has no name."""
    assert names_of_model(model) == names


def test_settings_name_what_may_be_reached() -> None:
    """Open by default; names are checked where they are written."""
    assert parse_settings("").egress == EgressSettings(mode="open", allow=(), ipv6=True)
    found = parse_settings("egress: {mode: allowlist, allow: [pypi.org, files.pythonhosted.org], ipv6: false}").egress
    assert found == EgressSettings(mode="allowlist", allow=("pypi.org", "files.pythonhosted.org"), ipv6=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("egress: {mode: closed}", "egress.mode is 'closed'; expected one of open, allowlist"),
        ("egress: {allow: pypi.org}", "egress.allow is 'pypi.org'; expected `array`"),
        ("egress: {alow: [pypi.org]}", "unknown key egress.alow; did you mean egress.allow?"),
        ("egress: {allow: [https://pypi.org]}", "egress.allow: 'https://pypi.org' is an address; give the name"),
        ("egress: {allow: ['pypi.org/simple']}", "egress.allow: 'pypi.org/simple' is an address"),
        ("egress: {allow: ['pypi.org:443']}", "egress.allow: 'pypi.org:443' is an address"),
        ("egress: {allow: ['*.pypi.org']}", "egress.allow: '*.pypi.org' begins with a wildcard"),
        ("egress: {allow: [1.2.3.4]}", "egress.allow: '1.2.3.4' is an address"),
        ("egress: {allow: [org]}", "egress.allow: 'org' is a single word"),
        ("egress: {allow: [PyPI.org]}", "egress.allow: 'PyPI.org' is not a name of a host"),
        ("egress: {allow: ['#']}", "egress.allow: '#' is not a name of a host"),
        ("egress: {allow: ['127.1']}", "egress.allow: '127.1' is an address"),
        ("egress: {allow: ['10.0x1']}", "egress.allow: '10.0x1' is an address"),
        ("egress: {allow: ['0x7f000001']}", "egress.allow: '0x7f000001' is an address"),
        ("egress: {allow: ['']}", "egress.allow: '' is not a name of a host"),
        ("egress: {allow: ['pypi..org']}", "egress.allow: 'pypi..org' is not a name of a host"),
        ("egress: {allow: ['pypi.org, x']}", "egress.allow: 'pypi.org, x' is not a name of a host"),
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
