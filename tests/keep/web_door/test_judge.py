"""Which addresses the web door may reach, and how addresses are read: tables of values."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from infra.keep.web_door.judge import Judge, Tool
from infra.keep.web_door.refusal import WebRefusal
from infra.keep.web_door.target import target_of
from infra.shared.policy import ALLOW, ASK, DENY, Policy, Rule
from infra.shared.web import MOST_URL_CHARS
from tests.shared.rows import each_row

PUBLIC = "93.184.215.14"


def verdict(judge: Judge, url: str, found: str = PUBLIC, tool: Tool = "fetch_page", asked: str = "") -> str:
    """The flags when it may be reached, else the kind of refusal and the first flag."""
    try:
        target = target_of(url)
        flags = judge.let(target, tool, (), asked)
        judge.let(target, tool, tuple(map(ip_address, found.split(","))), asked)
    except WebRefusal as refusal:
        return " ".join((refusal.error.type, *refusal.flags[:1]))
    return ",".join(flags) or "ok"


@pytest.mark.attack("S58")
@each_row(
    "found, expected",
    [
        (PUBLIC, "ok"),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", "ok"),
        *(
            (address, "policy_denied private_address")
            for address in (
                *("10.0.0.1", "172.31.0.1", "192.168.1.1", "100.64.0.1", "127.0.0.1", "0.0.0.0", "169.254.169.254"),
                *("224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1", "168.63.129.16"),
                *("::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1"),
                *("64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:a00:1::", "2002:7f00:1::", f"{PUBLIC},10.0.0.1"),
            )
        ),
    ],
)
def test_addresses_that_are_not_public(found: str, expected: str) -> None:
    assert verdict(Judge(Policy()), "http://example.org/", found) == expected


@each_row(
    "host, found, flag",
    [
        ("pypi.org", PUBLIC, ""),
        ("pypi.org", "10.0.0.1", "private_address"),
        ("evil.pypi.org", PUBLIC, "rule 3"),
        ("a.evil.pypi.org", PUBLIC, "rule 3"),
        ("good.evil.pypi.org", PUBLIC, ""),
        ("pypi.org", "203.0.113.9", "rule 4"),
        ("shell.example", PUBLIC, ""),
    ],
)
def test_rules_that_deny_a_host_of_packages(host: str, found: str, flag: str) -> None:
    """Those that are about hosts, whichever the tool: by the name, and by its address."""
    rules = (
        Rule(ALLOW, domains=("good.evil.pypi.org",)),
        Rule(DENY, tools=("bash",), domains=("shell.example",)),
        Rule(DENY, domains=("evil.pypi.org",), why="no"),
        Rule(DENY, domains=("203.0.113.0/24",)),
    )
    flags: tuple[str, ...] = ()
    try:
        Judge(Policy(rules=rules)).package(host, (ip_address(found),))
    except WebRefusal as refusal:
        flags = refusal.flags
    assert flags == ((flag,) if flag else ())


RULES = (
    Rule(DENY, domains=("bad.example",), why="no"),
    Rule(DENY, domains=("203.0.112.0/24",)),
    Rule(ALLOW, domains=("lan.example", "10.1.0.0/16")),
    Rule(ASK, tools=("fetch_page",), domains=("ask.example",)),
    Rule(DENY, tools=("bash",), domains=("shell.example",)),
    Rule(DENY, effects=("read",), domains=("shell.example",)),
    Rule(DENY, commands=("curl *",), domains=("shell.example",)),
    Rule(DENY, tools=("web_search",), domains=("search.example",)),
    Rule(DENY, effects=("execute",), domains=("out.example",)),
)


@each_row(
    "url, found, asked, expected",
    [
        ("http://bad.example/", PUBLIC, "", "policy_denied rule 1"),
        ("http://WWW.Bad.Example./", PUBLIC, "", "policy_denied rule 1"),
        ("http://notbad.example/", PUBLIC, "", "ok"),
        ("http://example.org/", "203.0.112.9", "", "policy_denied rule 2"),
        ("http://lan.example/", "10.9.9.9", "", "rule 3"),
        ("http://lan.example:22/", "10.9.9.9", "", "rule 3"),
        ("http://below.lan.example/", "10.9.9.9", "", "policy_denied private_address"),
        ("http://10.1.2.3/", "10.1.2.3", "", "rule 3"),
        ("http://10.2.2.3/", "10.2.2.3", "", "policy_denied private_address"),
        ("http://other.example/", "10.1.2.3", "", "policy_denied private_address"),
        ("http://ask.example/", PUBLIC, "", "rule 4"),
        ("http://ask.example/", PUBLIC, "ask.example", "rule 4"),
        ("http://ask.example/", PUBLIC, "example.org", "policy_denied rule 4"),
        ("http://shell.example/", PUBLIC, "", "ok"),
        ("http://search.example/", PUBLIC, "", "ok"),
        ("http://out.example/", PUBLIC, "", "policy_denied rule 9"),
        ("http://example.org:22/", PUBLIC, "", "policy_denied port"),
        ("https://example.org:80/", PUBLIC, "", "ok"),
        ("http://example.org:8080/", PUBLIC, "", "ok"),
    ],
)
def test_the_rules(url: str, found: str, asked: str, expected: str) -> None:
    assert verdict(Judge(Policy(rules=RULES)), url, found, asked=asked) == expected


def test_settings_beside_the_rules() -> None:
    listed = Judge(Policy(), ("example.org",), "http://127.0.0.1:8888")
    assert verdict(listed, "https://docs.example.org/") == "ok"
    assert verdict(listed, "https://example.com/") == "policy_denied allowed_domains"
    assert verdict(listed, "http://127.0.0.1:8888/?q=a", "127.0.0.1", "web_search") == "ok"
    assert verdict(listed, "http://127.0.0.1:8888/?q=a", "127.0.0.1") == "policy_denied allowed_domains"
    assert verdict(listed, "http://127.0.0.1:9999/?q=a", "127.0.0.1", "web_search") == "policy_denied allowed_domains"
    assert verdict(Judge(Policy(default=DENY)), "https://example.org/") == "policy_denied"
    assert verdict(Judge(Policy(default=ASK)), "https://example.org/", asked="example.com") == "policy_denied redirect"
    assert verdict(Judge(Policy(private_networks=ALLOW)), "http://10.0.0.1/", "10.0.0.1") == "ok"


@each_row(
    "url, read",
    [
        ("HTTP://Example.ORG", "http://example.org/"),
        ("https://example.org:443/a b".replace(" ", "%20"), "https://example.org/a%20b"),
        ("http://b\u00fccher.example/\u00fc?\u00e4=1#x", "http://xn--bcher-kva.example/%C3%BC?%C3%A4=1"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://\u2460\u2461.0.0.1/", "http://12.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://[::FFFF:10.0.0.1]:81/", "http://[::ffff:a00:1]:81/"),
        ("http://example.org/a/../b?c=d/../e", "http://example.org/a/../b?c=d/../e"),
    ],
)
def test_an_address_as_it_is_meant(url: str, read: str) -> None:
    assert target_of(url).url == read


@pytest.mark.attack("S58")
@each_row(
    "url",
    [
        *("example.org", "//example.org/", "ftp://example.org/", "file:///etc/passwd", "http://"),
        *("http://a@example.org/", "http://:pw@example.org/", "http://exa mple.org/", "http://example.org\\@10.0.0.1/"),
        *("http://example.org:0/", "http://example.org:99999/", "http://example.org:x/", "http://[::1/"),
        "http://a..b/",
        *("http://%31%30.0.0.1/", "http://[fe80::1%25eth0]/"),
        *("http://example.org/\r\nHost: x", "http://example.org/\0", f"http://example.org/{'a' * MOST_URL_CHARS}"),
    ],
)
def test_what_is_no_address(url: str) -> None:
    """Refused before any name is looked up."""
    with pytest.raises(WebRefusal) as refusal:
        target_of(url)
    assert refusal.value.error.type == "validation_error"
