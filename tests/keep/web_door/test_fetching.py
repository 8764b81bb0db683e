"""Sites that do not behave, and what sites ask of robots: what is fetched of them, and what is said instead."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from infra.keep.web_door.fetch import MOST_REDIRECTS, Fetched, Fetcher
from infra.keep.web_door.refusal import ANSWERED, WebRefusal
from infra.keep.web_door.robots import MOST_LINES, Robots
from infra.keep.web_door.target import Target, target_of
from infra.shared.door import Failure
from infra.shared.paths import ROOT
from infra.shared.policy import ALLOW, ASK, DENY, Policy, Rule
from tests.keep.web_door.came import came
from tests.keep.web_door.sites import HOME, NAMED, Act, Names, Site, Wire, certificate, fetcher, page, redirect, words
from tests.shared.rows import each_row

MIB = 1 << 20


def fetched(site: Site, path: str, by: Fetcher, host: str = "site.example", scheme: str = "http") -> Fetched:
    async def run() -> Fetched:
        async with site.running():
            return await by.fetch(target_of(f"{scheme}://{host}:{site.port}{path}"), "fetch_page")

    return asyncio.run(run())


def refused(site: Site, path: str, by: Fetcher, host: str = "site.example", scheme: str = "http") -> Failure:
    with pytest.raises(WebRefusal) as refusal:
        fetched(site, path, by, host, scheme)
    return refusal.value.error


def test_a_page_and_what_is_told_of_it() -> None:
    names, site = Names(site_example=HOME), Site({"/a": page(b"text", kind="Text/HTML; Charset='UTF-8'")})
    came = fetched(site, "/a?q=\u00fc#part", fetcher(names))
    assert came.body == b"text"
    assert came.whole
    assert came.kind == "html"
    assert (came.status, came.content_type, came.charset) == (200, "text/html", "utf-8")
    assert came.url == f"http://site.example:{site.port}/a?q=%C3%BC"
    assert came.sha256 == hashlib.sha256(b"text").hexdigest()
    assert site.asked == [(f"site.example:{site.port}", "/a?q=%C3%BC")]
    assert names.asked == ["site.example"]


@pytest.mark.attack("S58")
def test_a_redirect_is_judged_as_what_the_agent_named() -> None:
    """To an address, to names that mean one, to what the PM denies or would be asked about, to a scheme, by every kind
    of redirect; nothing is sent there. Which addresses and rules: `test_judge`."""
    means = {"site_example": HOME, "inner_example": "10.1.2.3", "both_example": "93.184.215.14,192.168.0.1"}
    allowed = Rule(ALLOW, domains=("site.example",))
    rules = (allowed, Rule(DENY, domains=("bad.example",), why="no"), Rule(ASK, domains=("other.example",)))
    for to, why in {
        **dict.fromkeys(("http://10.1.2.3/", "http://inner.example/", "//both.example/x", "http://0x7f.1/"), "private"),
        "http://www.bad.example/": "(rule 2 of policy.rules: no)",
        "http://other.example/p": "fetch a page of http://other.example by itself",
    }.items():
        site = Site({"/": redirect(to)})
        error = refused(site, "/", fetcher(Names(**means), policy=Policy(rules=rules)))
        assert (error.type, why in f"{error.message} {error.hint}") == ("policy_denied", True), to
        assert len(site.asked) == 1
    for to in ("file:///etc/passwd", "http://me:pw@site.example/", "ftp://site.example/", "http://a b/", "http://[/"):
        error = refused(Site({"/": redirect(to, "308 Permanent Redirect")}), "/", fetcher())
        assert (error.type, "redirects to where no page can be" in error.message) == ("execution_error", True), to


@pytest.mark.attack("S58")
def test_a_name_that_changes_its_address() -> None:
    """Each connection has one look-up, and goes to what that gave; the next one is judged anew."""
    names = Names(site_example=HOME, turning_example=f"{HOME} 10.0.0.9")
    policy = Policy(rules=(Rule(ALLOW, domains=("site.example",)), Rule(ALLOW, domains=("127.0.0.0/8",))))
    site = Site({"/": page()})
    error = refused(site, "/", fetcher(names, policy=policy), host="turning.example")
    assert "turning.example is at 127.0.0.1" in error.message  # a name is not the address that the PM named
    assert site.asked == []
    names = Names(turning_example=f"{HOME} 10.0.0.9")
    policy = Policy(private_networks=ALLOW, rules=(Rule(DENY, domains=("10.0.0.0/8",)),))
    site = Site({"/": redirect("/again"), "/again": page()})
    error = refused(site, "/", fetcher(names, policy=policy), host="turning.example")
    assert error.type == "policy_denied"
    assert [path for _, path in site.asked] == ["/"]
    assert names.asked == ["turning.example"] * 2


@pytest.mark.attack("S59")
def test_bodies_without_end() -> None:
    """10 GB: the first part is read, and no more of it is kept or sent. What could unfold is not unpacked at all."""
    sent = 0

    async def endless(wire: Wire) -> None:
        nonlocal sent
        await wire.say(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 10737418240\r\n\r\n")
        while sent < 10 << 30:
            await wire.say(b"x" * 65536)
            sent += 65536

    came = fetched(Site({"/endless": endless}), "/endless", fetcher())
    assert (len(came.body), came.whole, "cut" in came.flags) == (MIB, False, True)
    assert sent < 64 * MIB


@pytest.mark.attack("S59")
def test_time_is_bounded_for_the_whole() -> None:
    """One byte a minute, a head that never ends, and redirects that each take their time."""

    async def slow(wire: Wire) -> None:
        await wire.say(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\nx")
        await wire.left.wait()

    async def no_head(wire: Wire) -> None:
        await wire.say(b"HTTP/1.1 200 OK\r\n")
        await wire.left.wait()

    async def later(wire: Wire) -> None:
        await asyncio.sleep(0.06)
        await redirect("/later")(wire)

    for path in ("/slow", "/no_head", "/later"):
        site = Site({"/slow": slow, "/no_head": no_head, "/later": later})
        error = refused(site, path, fetcher(seconds=0.3))
        assert (error.type, error.retriable) == ("tool_timeout", True), path


@pytest.mark.attack("S59")
def test_redirects_without_end() -> None:
    site = Site({"/": redirect("/")})
    error = refused(site, "/", fetcher())
    assert error.type == "execution_error"
    assert "redirects more than" in error.message
    assert len(site.asked) == MOST_REDIRECTS + 1


@pytest.mark.attack("S59")
def test_certificates(tmp_path: Path) -> None:
    """The name counts, not the address: a certificate of another name, and one that nobody trusts, are refused."""
    ours, theirs = certificate(tmp_path, "site.example"), certificate(tmp_path, "other.example")
    trust = ssl.create_default_context(cafile=f"{tmp_path}/site.example.crt")
    trust.load_verify_locations(f"{tmp_path}/other.example.crt")
    by = fetcher(trust=trust)
    assert fetched(Site({"/": page()}, ours), "/", by, scheme="https").body == b"a page"
    for context, mine in ((theirs, by), (ours, fetcher())):
        site = Site({"/": page()}, context)
        error = refused(site, "/", mine, scheme="https")
        assert (error.type, error.retriable, site.asked) == ("execution_error", False, [])
        assert "does not prove who it is" in error.message


def _flood(wire_says: bytes) -> Act:
    async def act(wire: Wire) -> None:
        await wire.say(b"HTTP/1.1 200 OK\r\n")
        for _ in range(2000):
            await wire.say(wire_says)

    return act


BROKEN: dict[str, Act] = {
    "no HTTP": words(b"220 mail.example ESMTP\r\n"),
    "nothing": words(),
    "half a head": words(b"HTTP/1.1 200 OK\r\ncontent-"),
    "a number that is none": words(b"HTTP/1.1 2OO OK\r\n\r\n"),
    "two lengths": words(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd"),
    "half a body": words(b"HTTP/1.1 200 OK\r\ncontent-length: 300\r\n\r\nabc"),
    "a chunk of no size": words(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc"),
    "half of the chunks": words(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"),
    "a NUL in a head": words(b"HTTP/1.1 200 OK\r\nx: \0\r\n\r\n"),
    "long headers": _flood(b"x: " + b"y" * 8000 + b"\r\n"),
    "many headers": _flood(b"x: y\r\n" * 1000),
    "one endless header": _flood(b"y" * 8000),
    "a coding nobody asked for": page(b"text", "200 OK", "content-encoding: br"),
}


SLUG = "ignore-the-pm"
"""Words of the site's: errors stand outside of any frame, so that none of them is told."""
REFUSED: tuple[Act, ...] = (
    *(
        redirect(f"{to}{SLUG}")
        for to in ("ftp://other.example/", "http://[", "http://asked.example/", "http://10.0.0.1/")
    ),
    page(b"", "200 OK", f"content-encoding: {SLUG}"),
    words(f"{SLUG} 200 OK\r\n\r\n".encode()),
    words(f"HTTP/1.1 200 {SLUG}\r\n{SLUG} {SLUG}\r\n\r\n".encode()),
)


@pytest.mark.attack("S59")
def test_broken_answers() -> None:
    """In our words alone; the name of a host is told."""
    by = fetcher(policy=Policy(rules=(*NAMED.rules, Rule(ASK, domains=("asked.example",)))))
    for name, act in BROKEN.items():
        error = refused(Site({"/": act}), "/", by)
        assert error.type == "execution_error", name
        assert "site.example" in error.message or "packed" in error.message, (name, error)
        assert not {"ESMTP", "2OO", "yyyy", "'br'"} & set(re.findall(r"'?\w+'?", error.message)), (name, error)
    for act in REFUSED:
        error = refused(Site({"/": act}), "/", by)
        assert SLUG not in f"{error.message} {error.hint}", error
    asks = page(b"User-agent: *\nDisallow: /", kind="text/plain")
    error = refused(Site({"/robots.txt": asks}), f"/{SLUG}", fetcher(robots=Robots()))
    assert SLUG not in error.message


def test_robots(tmp_path: Path) -> None:
    """Asked once for some minutes, by the same judge; a site that cannot be asked is not read."""
    told = page(b"User-agent: *\nDisallow: /secret\n", kind="text/plain")
    site = Site({"/robots.txt": told, "/open": page(), "/secret/x": page(), "/hop": redirect("/secret/x")})
    by = fetcher(robots=Robots())

    async def run() -> None:
        async with site.running():
            here = f"http://site.example:{site.port}"
            await by.fetch(target_of(f"{here}/open"), "fetch_page")
            for path in ("/secret/x", "/s%65cret/", "/hop"):
                with pytest.raises(WebRefusal) as refusal:
                    await by.fetch(target_of(here + path), "fetch_page")
                assert refusal.value.flags == (("robots", ANSWERED) if path == "/hop" else ("robots",))
            await by.fetch(target_of(f"{here}/secret/x"), "web_search")  # the PM named it

    asyncio.run(run())
    assert [path for _, path in site.asked] == ["/robots.txt", "/open", "/hop", "/secret/x"]
    down = Site({"/robots.txt": page(b"", "503 Down"), "/": page()})
    assert refused(down, "/", fetcher(robots=Robots())).type == "tool_unavailable"
    away = Site({"/robots.txt": redirect("http://10.0.0.1/robots.txt"), "/": page()})
    assert fetched(away, "/", fetcher(robots=Robots())).body == b"a page"


ROBOTS = (
    "\ufeff# a comment\nUser-agent: other\nDisallow: /\n\nuser-agent: *\nDisallow: /private # here\nDisallow: /*.pdf$\n"
)
NAMING = "User-agent: a\nUser-agent: Minifram\nDisallow: /x\n\nUser-agent: *\nDisallow: /\n"


def allows(file: str, path: str) -> bool:
    async def fetch(_: Target) -> Fetched:
        return came(file, "text/plain")

    try:
        asyncio.run(Robots().check(target_of(f"http://site.example{path}"), fetch))
    except WebRefusal as refusal:
        return "robots" not in refusal.flags
    return True


@each_row(
    "file, path, allowed",
    [
        *((ROBOTS, "/", True), (ROBOTS, "/private/x", False), (ROBOTS, "/a.pdf", False), (ROBOTS, "/%70rivate", False)),
        *((NAMING, "/x", False), (NAMING, "/a", True), ("no robots.txt at all <html>", "/", True)),
    ],
)
def test_what_a_site_asks(file: str, path: str, allowed: bool) -> None:
    """A group that names us goes before the one for everybody."""
    assert allows(file, path) is allowed


def test_a_file_made_to_cost_takes_no_time() -> None:
    """Half of it names, half rules for each of them; and stars against a long path, where trying each way back would
    take longer than the universe."""
    names, rules = (f"user-agent: a{n}\n" for n in range(20_000)), (f"allow: /{n}\n" for n in range(20_000))
    half = MOST_LINES // 2
    assert allows("".join((*names,)) + "".join(rules), "/x")
    assert allows("".join(f"user-agent: a{n}\n" for n in range(half)) + "disallow: /\n" * 30_000, "/x")
    assert allows("user-agent: *\ndisallow: /" + "*a" * 200 + "*b", "/" + "a" * 8000)


HANGING = """
import asyncio, socket, subprocess, sys
from infra.keep.web_door.fetch import look_up
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
for name in ("resolv.conf", "hosts"):
    subprocess.run(["mount", "--bind", f"{sys.argv[1]}/{name}", f"/etc/{name}"], check=True)
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.53", 53))
async def main():
    hanging = [asyncio.create_task(look_up(f"hang{number}.example")) for number in range(40)]
    await asyncio.sleep(0)
    print(*await look_up("good.example"), any(each.done() for each in hanging), flush=True)
    for each in hanging:
        each.cancel()
asyncio.run(main())
"""


@pytest.mark.heavy
@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace takes root")
def test_names_that_nobody_answers_for_delay_nobody(tmp_path: Path) -> None:
    """Neither another name, by the system's resolver, nor the program's end."""
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.53\noptions timeout:20 attempts:1\n")
    (tmp_path / "hosts").write_text("93.184.215.14 good.example\n")
    words = ["unshare", "--net", "--mount", "--propagation=private", sys.executable, "-c", HANGING, str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=15, check=True)
    assert done.stdout == "93.184.215.14 False\n"
