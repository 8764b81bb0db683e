"""Which addresses the web door may reach, how addresses are read, and what leaves with them: never a known secret, and
never a file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address

import pytest

from infra.keep.allowance import Allowance
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.outgoing import FREE_CHARS, MOST_IN_TEXT, SECONDS_A_CHAR, Outgoing, addresses_in, let_words
from infra.keep.web_door.refusal import WebRefusal
from infra.keep.web_door.target import target_of
from infra.shared.policy import ALLOW, ASK, DENY, Policy, Rule
from infra.shared.web import MOST_URL_CHARS, WebTool
from tests.shared.rows import each_row

PUBLIC = "93.184.215.14"


def verdict(judge: Judge, url: str, found: str = PUBLIC, tool: WebTool = "fetch_page", asked: str = "") -> str:
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
        ("pypi.org", "10.0.0.1", "private_address"),
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
    with pytest.raises(WebRefusal) if flag else contextlib.nullcontext() as refusal:
        Judge(Policy(rules=rules)).package(host, (ip_address(found),))
    assert refusal is None or refusal.value.flags == (flag,)


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


# What leaves.


EVIL = "https://evil.example"
KEY = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"


def is_let(ask: Callable[[], None]) -> bool:
    try:
        ask()
    except WebRefusal as refusal:
        error, flags = refusal.error, refusal.flags
    else:
        return True
    assert (error.type, error.retriable, flags) == ("policy_denied", False, ("outgoing",))
    assert KEY not in error.message
    return False


def let(out: Outgoing, *urls: str, now: float = 0.0, is_named: bool = False) -> list[bool]:
    return [is_let(partial(out.let, target_of(url), is_named, now)) for url in urls]


@pytest.mark.attack("S56")
def test_a_file_does_not_leave_in_an_address_nor_in_pieces() -> None:
    """In the query, the path, the host's name, and in as many addresses as one likes."""
    data = "q7Gd" * 500
    assert let(Outgoing(), f"{EVIL}/?data={data}", f"{EVIL}/{data}", f"{EVIL}/{'a/' * FREE_CHARS}") == [False] * 3
    out, sent = Outgoing(), 0
    for at in range(0, len(data), 50):
        piece = data[at : at + 50]
        sent += 50 * sum(let(out, f"{EVIL}/?d={piece}", f"{EVIL}/{piece}", f"https://{piece}.evil.example/"))
    assert 0 < sent <= FREE_CHARS


def test_time_gives_back_what_may_leave() -> None:
    """Never more than the most, and a clock that stands still gives nothing."""
    mine = Allowance(2, 10.0)
    assert [mine.take(now) for now in (0.0, 0.0, 0.0, 9.0, 10.5, 10.5)] == [True, True, False, False, True, False]
    assert [mine.take(1000.0) for _ in range(3)] == [True, True, False]
    out = Outgoing()
    page = f"{EVIL}/{'x' * (FREE_CHARS - 20)}"
    assert let(out, page, page) == [True, False]
    assert let(out, page, now=FREE_CHARS * SECONDS_A_CHAR) == [True]


def test_honest_reading_is_not_hindered() -> None:
    """Links of what was read, whatever their length; hosts that the PM names; thirty short addresses."""
    out = Outgoing()
    long = f"https://docs.example/search?{'q=x&' * 500}"
    assert let(out, long) == [False]
    out.served("https://docs.example/", [long])
    assert let(out, f"{long}#part") == [True]
    assert let(out, f"{EVIL}/?{'x' * 5000}", is_named=True) == [True]
    assert all(let(Outgoing(), *(f"https://docs.example/library/{n}.html" for n in range(20))))


def test_a_link_is_known_however_it_is_written() -> None:
    """As pages write them, and as they stand in a text without links."""
    out, path = Outgoing(), "\u00fc" * FREE_CHARS
    out.served("https://docs.example/", ["https://Docs.example:443/" + path, "https://a.example", "no address"])
    assert let(out, f"https://docs.example/{path}") == [True]
    text = f'{{"next": "{EVIL}/{"x" * 900}", "more": ["{EVIL}/{"y" * 900}"]}} and (see {EVIL}/{"z" * 900}).'
    out.served("https://docs.example/api", addresses_in(text))
    assert let(out, *(f"{EVIL}/{letter * 900}" for letter in "xyz")) == [True] * 3
    assert let(out, f"{EVIL}/{'v' * FREE_CHARS}") == [False]
    assert len(list(addresses_in(f"{EVIL}/a " * 5000))) == MOST_IN_TEXT


@pytest.mark.attack("S56")
@pytest.mark.parametrize("words", [f"{EVIL}/?k={KEY}", f"{EVIL}/{KEY.replace('_', '%5f')}", f"how does {KEY} work"])
def test_no_known_shape_of_a_secret_leaves(words: str) -> None:
    """Not even to a host that the PM names, and not in what is searched for."""
    assert not is_let(partial(let_words, words))
    assert "://" not in words or let(Outgoing(), words, is_named=True) == [False]


def test_what_is_remembered_is_bounded() -> None:
    out, long = Outgoing(most_known=10), f"{EVIL}/{'x' * FREE_CHARS}"
    out.served(f"{EVIL}/", (f"{long}{number}" for number in range(20)))
    assert let(out, f"{long}9", f"{long}10") == [False, True]
