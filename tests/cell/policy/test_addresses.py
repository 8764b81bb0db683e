"""Private addresses are found however they are written; public ones, and what is not an address, are not."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

import pytest

from infra.cell.policy.gate import hosts_in, read
from infra.shared.network import address_of, is_inner, is_private
from tests.shared.rows import each_row

SPELLINGS = (
    *(
        "10.0.0.1",
        "10.0.0.1.",
        "10.1",
        "0x0a.1",
        "167772161",
        "012.0x0.1",
        "%31%30.0.0.1",
        "\uff11\uff10\u30020\u30020.1",
    ),
    *("[::ffff:10.0.0.1]", "[::ffff:a00:1]", "[64:ff9b::10.0.0.1]", "[fd00::1]"),
)
PUBLIC = ("8.8.8.8", "0x08080808", "[::ffff:8.8.8.8]", "[64:ff9b::8.8.8.8]", "example.com")
URLS = (
    *("http://{}", "see HTTPS://ada@{}:8080/a/b?c=1#d, please", "<ftp://ada:secret@{}/>", "ws://{}?q"),
    *("(git+ssh://a%40b@{}#f)", '{{"url": "http://example.com@{}:80/x"}}', "https://example.com/?to=http://{}"),
)


def is_found(arguments: Mapping[str, Any]) -> bool:
    found = hosts_in(arguments, read(arguments["command"]) if "command" in arguments else None)
    return any((address := address_of(host)) and is_private(address) for host in found)


@pytest.mark.attack("S35")
@each_row("url", URLS)
def test_every_spelling_of_a_private_address_in_a_url_is_found(url: str) -> None:
    """In any string, however deep, and whatever stands around it; no public one is taken for it."""
    assert [host for host in SPELLINGS if not is_found({"a": [1, {url.format(host): None}]})] == []
    assert [host for host in PUBLIC if is_found({"a": [1, url.format(host)]})] == []


COMMANDS = [
    *("curl {}", "curl -sx {}:3128 https://example.com", "wget {}/x", "ssh -p 22 ada@{} ls", "nc -z '{}' 80"),
    *("cd /tmp && sudo -n nc {} 22", "bash -c 'ping -c 1 {}'", "if true; then timeout 5 /usr/bin/curl {}\nfi"),
    *(
        "socat - TCP:{}:80",
        "dig @{}",
        "curl -o page.html {}",
        "wget --proxy={} x",
        'echo $(curl ""{}/x)',
        "curl $'{}'",
        "rsync -a x {}:y",
    ),
]


def test_each_word_with_a_dot_behind_a_program_of_the_network_is_a_host() -> None:
    """With a port, behind options and files, quoted, behind programs that start it, deep in a command."""
    texts = [command.format(host) for command in COMMANDS for host in ("10.0.0.1", "0x0a.1")]
    texts += ["nc fd00::1 80", "ssh ::ffff:10.0.0.1"]
    assert [text for text in texts if not is_found({"command": text})] == []


LEFT_ALONE = [
    "curl https://example.com && git checkout 10.5",
    "pip install thing==10.0.0.1; git tag v10.0.0.1",
    "curl -m 10 --retry 3 https://example.com/10.0.0.1/v10.2",
    "curl http://localhost:8000 http://127.0.0.1:8000/ http://[::1]:80/ http://0.0.0.0:1/ http://127.1",
    "grep -rn '// 10.0.0.1' .",
]


def test_versions_numbers_and_this_machine_are_left_alone() -> None:
    """Only what stands where a host must stand is one, and loopback is free."""
    assert [command for command in LEFT_ALONE if is_found({"command": command, "timeout": 10.1})] == []


READ_AS = [
    *(("127.1", "127.0.0.1"), ("0x7f.1", "127.0.0.1"), ("2130706433", "127.0.0.1"), ("017700000001", "127.0.0.1")),
    *(("10.0.0.1.", "10.0.0.1"), ("1.2.3.4.5", ""), ("256.1.1.1", ""), ("1..2", ""), ("010.0.0.1", "8.0.0.1")),
    *(("10.0.0.1 x", ""), ("9" * 5000, ""), ("fe80::1%eth0", "fe80::1"), ("example.com", ""), ("", "")),
]


def test_numbers_are_read_as_programs_read_them() -> None:
    """As inet_aton(3); what is none is a name."""
    read_as = [(host, str(address_of(host) or "")) for host, _ in READ_AS]
    assert read_as == READ_AS


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
