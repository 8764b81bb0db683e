"""Private addresses are found however they are written; public ones, and what is not an address, are not."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.policy.commands import read
from infra.cell.policy.hosts import hosts_in
from infra.shared.network import address_of, is_inner, is_private

PRIVATE_NETWORKS = [
    *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "224.0.0.0/4", "240.0.0.0/4"),
    *("198.18.0.0/15", "192.0.2.0/24", "168.63.129.16/32", "0.1.0.0/16"),
]
PUBLIC_NETWORKS = ["1.0.0.0/8", "8.0.0.0/8", "93.184.0.0/16", "151.101.0.0/16", "185.199.108.0/22"]
FULL_WIDTH = {ord(digit): chr(ord(digit) + 0xFEE0) for digit in "0123456789"} | {ord("."): "\u3002"}
"""The digits of East Asian typography, and their full stop."""


def within(networks: list[str]) -> st.SearchStrategy[IPv4Address]:
    return st.sampled_from(networks).flatmap(lambda network: st.ip_addresses(v=4, network=network)).map(IPv4Address)


@st.composite
def numbers(draw: st.DrawFn, address: IPv4Address) -> str:
    """A spelling as inet_aton(3) reads it: one to four numbers, each decimal, octal or hexadecimal."""
    count = draw(st.integers(1, 4))
    octets = list(address.packed)
    parts = [*octets[: count - 1], int.from_bytes(octets[count - 1 :], "big")]
    spell = st.sampled_from(["{}", "0{:o}", "00{:o}", "0x{:x}", "0X{:04X}"])
    return ".".join(draw(spell).format(part) for part in parts)


@st.composite
def hosts(draw: st.DrawFn, networks: list[str]) -> str:
    """A spelling of an address of these networks, as a host stands in a URL."""
    address = draw(within(networks))
    forms = [
        numbers(address),
        numbers(address).map(lambda text: text + "."),
        numbers(address).map(lambda text: "".join(f"%{ord(each):02x}" for each in text)),
        st.just(str(address).translate(FULL_WIDTH)),
        st.just(f"[::ffff:{address}]"),
        st.just(f"[::ffff:{IPv6Address(int(address)).exploded[-9:]}]"),
        st.just(f"[64:ff9b::{address}]"),
    ]
    return draw(st.one_of(forms))


URLS = st.sampled_from(
    [
        *(
            "http://{}",
            "see HTTPS://ada@{}:8080/a/b?c=1#d, please",
            "<ftp://ada:secret@{}/>",
            "'http:/{}'",
            "ws://{}?q",
        ),
        *('curl "http:\\\\{}" -o x', "(git+ssh://a%40b@{}#f)", '{{"url": "http://example.com@{}:80/x"}}'),
        "https://example.com/?to=http://{}",
    ]
)


def is_found(arguments: object, command: str = "") -> bool:
    found = hosts_in(arguments, read(command) if command else None)
    return any((address := address_of(host)) and is_private(address) for host in found)


@pytest.mark.attack("S35")
@given(hosts(PRIVATE_NETWORKS), URLS)
def test_every_spelling_of_a_private_address_in_a_url_is_found(host: str, url: str) -> None:
    """In any string, however deep, and whatever stands around it."""
    assert is_found({"a": [1, {url.format(host): None}]})


@given(within(PUBLIC_NETWORKS), st.sampled_from(["{}", "0x{:x}", "[::ffff:{}]", "[64:ff9b::{}]"]), URLS)
def test_no_public_address_is_taken_for_a_private_one(address: IPv4Address, form: str, url: str) -> None:
    """In its usual spelling, and wherever the spellings have one reading only."""
    host = form.format(int(address) if "x" in form else address)
    assert not is_found({"a": [1, url.format(host)]})


COMMANDS = [
    *("curl {}", "curl -sx {}:3128 https://example.com", "wget --proxy={} x", "ssh ada@{} ls", "nc -z '{}' 80"),
    *("cd /tmp && sudo -n nc {} 22", 'echo $(curl ""{}/x)', "bash -c 'ping -c 1 {}'", "scp a ada@{}:b"),
    *("git clone git@{}:repo", "if true; then timeout 5 /usr/bin/curl {}; fi", "socat - TCP:{}:80"),
    *("exec 3<>/dev/tcp/{}/80", "rsync -a x {}:y", "openssl s_client -connect {}:443"),
]


@given(within(PRIVATE_NETWORKS[:6]).flatmap(numbers), st.sampled_from(COMMANDS))
def test_the_words_of_a_program_of_the_network_are_hosts(host: str, command: str) -> None:
    """With a port, behind an option, quoted in the middle, behind programs that start it, deep in a command."""
    command = command.format(host)
    assert is_found({"command": command}, command)


LEFT_ALONE = [
    "pip install thing==10.0.0.1",
    "echo 192.168.0.1 > src/notes.md",
    "curl -m 10 --retry 3 https://example.com/10.0.0.1/v10.2",
    "nc -l 8080",
    "ssh -p 22 example.com",
    "git checkout 10.5 && git tag v10.0.0.1",
    "git push origin main:10.5",
    "curl http://localhost:8000 http://127.0.0.1:8000/ http://[::1]:80/ http://0.0.0.0:1/ http://127.1",
    "python -m http.server 10",
    "sleep 10.1; echo 0x0a000001 2130706433",
    "curl https://example.com -o index.html",
    "grep -rn '// 10.0.0.1' .",
]


def test_versions_numbers_and_this_machine_are_left_alone() -> None:
    """Only what stands where a host must stand is one, and loopback is free."""
    assert [command for command in LEFT_ALONE if is_found({"command": command, "timeout": 10.1}, command)] == []


READ_AS = [
    *(("127.1", "127.0.0.1"), ("0x7f.1", "127.0.0.1"), ("2130706433", "127.0.0.1"), ("017700000001", "127.0.0.1")),
    *(("10.0.0.1.", "10.0.0.1"), ("1.2.3.4.5", ""), ("256.1.1.1", ""), ("1..2", ""), ("010.0.0.1", "8.0.0.1")),
    *(("10.0.0.1 x", ""), ("9" * 5000, ""), ("fe80::1%eth0", "fe80::1"), ("example.com", ""), ("", "")),
]


def test_numbers_are_read_as_programs_read_them() -> None:
    """As inet_aton(3); what is none is a name."""
    read_as = [(host, str(address_of(host) or "")) for host, _ in READ_AS]
    assert read_as == READ_AS


def test_where_two_programs_would_disagree_on_the_host_both_readings_count() -> None:
    """On where the name of a user ends, and on backslashes."""
    assert is_found("http://10.0.0.1\\@example.com/")
    assert is_found("http://example.com\\@10.0.0.1/")
    assert is_found("http://a'b@10.0.0.1/")


INNER = (
    *("fe80::1", "fd00:ec2::254", "ff02::1", "fec0::1", "2001:db8::1", "64:ff9b:1::1", "2002:808:808::1", "::10.0.0.1"),
    *("100.100.100.200", "192.88.99.1", "192.0.0.192", "192.0.0.8", "100:0:0:1::1"),
)
OURS_OR_PUBLIC = (
    *("::1", "::", "0.0.0.0", "127.255.0.1", "::ffff:127.0.0.1", "64:ff9b::8.8.8.8", "2606:4700::1111", "8.8.8.8"),
)


def test_what_is_private() -> None:
    """Everything but the public internet and this machine; an address in another is judged by the inner one."""
    assert [each for each in INNER if not is_private(ip_address(each))] == []
    assert [each for each in OURS_OR_PUBLIC if is_private(ip_address(each))] == []
    assert [each for each in OURS_OR_PUBLIC if not is_inner(ip_address(each))] == [*OURS_OR_PUBLIC[5:]]


@given(st.text("ab01.:/\\@[]%'\"`$() \n<&|;x\uff20\uff10\u3002", max_size=80))
def test_no_text_is_too_odd_to_be_looked_through(text: str) -> None:
    """Whatever a model writes, there is an answer."""
    hosts_in([text, {text: text}], read(text))
