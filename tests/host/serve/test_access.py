"""Who may use the page: whoever has the token, and no page of another's in the same browser."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import stat
from pathlib import Path

import httpx2
import pytest
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from host.serve.access import MOST_BODY, MOST_NOTED, OVER, Access, Token
from host.serve.agents import Agents
from host.serve.app import application
from host.serve.jobs import Jobs, Store
from tests.host.desk import Desk
from tests.host.serve.served import Served, serving
from tests.shared.test_secret_shapes import MAKERS

ACT = "/a/agent/act/retry"


def _state(served: Served) -> Path:
    return Path(served.desk.home().state).parent


def test_a_stranger_opens_nothing(served: Served) -> None:
    """Each route says 401 and what to do, also one that is not there."""
    agents = Agents(served.desk.context())
    jobs = Jobs(Store(":memory:"), agents)
    routes = [each.path for each in application(agents, jobs, "agent").routes if isinstance(each, Route)]
    jobs.end()
    paths = {path.translate({ord(brace): "" for brace in "{}:"}) for path in routes}
    assert len(paths) > 20
    with httpx2.Client(base_url=served.base) as stranger:
        for path in sorted(paths | {"/nothing"}):
            for answer in (stranger.get(path), stranger.post(path, json={})):
                assert (answer.status_code, "minifram serve" in answer.text) == (401, True), path


def test_the_link_leaves_a_cookie_and_no_token(served: Served) -> None:
    with httpx2.Client(base_url=served.base) as browser:
        assert browser.get(served.link.replace("token=", "token=x")).status_code == 401
        entered = browser.get(served.link)
        cookie = entered.headers["set-cookie"]
        assert entered.headers["location"] == "/"
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert served.token not in cookie
        assert browser.get("/").status_code == 200
        assert browser.get("/", headers={"authorization": "Bearer wrong"}).status_code == 200  # the cookie counts


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"origin": "https://evil.example"}, 403), ({"origin": "null"}, 403), ({}, 403), ({"origin": "HERE"}, 303)],
)
def test_a_form_acts_from_this_page_alone(served: Served, headers: dict[str, str], status: int) -> None:
    with httpx2.Client(base_url=served.base) as browser:
        browser.get(served.link)
        sent = {name: value.replace("HERE", served.base) for name, value in headers.items()}
        assert browser.post(ACT, headers=sent).status_code == status


def test_a_name_that_was_made_to_lead_here_opens_nothing(served: Served) -> None:
    with served.program() as program:
        assert program.get("/", headers={"host": "rebound.example"}).status_code == 400
        assert program.get("/", headers={"host": "localhost:1"}).status_code == 200


def test_a_body_is_bounded_also_when_its_length_is_not_told(served: Served) -> None:
    with served.program() as program:
        assert program.post(ACT, content=b"x" * (MOST_BODY + 1)).status_code == 413
        pieces = (b"x" * 65536 for _ in range(MOST_BODY // 65536 + 2))
        assert program.post(ACT, content=pieces).status_code == 413


def test_each_change_is_one_line_of_the_audit(served: Served) -> None:
    """Who, what and when; refused ones, too; no secret."""
    audit = _state(served) / "serve.audit.jsonl"
    before = len(audit.read_text().splitlines()) if audit.exists() else 0
    secret = MAKERS["Anthropic"](random.Random(1))
    with served.program() as program:
        program.post("/a/agent/act/deny", data={"id": "0123456789abcdef", "why": f"my key is {secret}"})
        program.get("/a/agent/now")
    with httpx2.Client(base_url=served.base) as stranger:
        stranger.post(ACT)
    lines = [json.loads(line) for line in audit.read_text().splitlines()[before:]]
    assert [(line["who"], line["status"], line["what"].get("act")) for line in lines] == [
        ("token", 303, "deny"),
        ("nobody", 401, None),
    ]
    assert secret not in audit.read_text()
    assert stat.S_IMODE(audit.stat().st_mode) == 0o600


def test_what_a_line_of_the_audit_holds_is_bounded(served: Served) -> None:
    with served.program() as program:
        assert program.post("/a/agent/act/deny", data={"why": "x" * 1_000_000}).status_code == 303
    assert len((_state(served) / "serve.audit.jsonl").read_bytes().splitlines()[-1]) < 2 * MOST_NOTED


@pytest.mark.parametrize("damage", ["others may read it", "a link", "empty"])
def test_a_token_that_may_be_known_to_others_opens_nothing(tmp_path: Path, damage: str) -> None:
    token = Token(str(path := tmp_path / "token"))
    assert len(token.renew()) > 32
    match damage:
        case "others may read it":
            path.chmod(0o640)
        case "a link":
            path.rename(tmp_path / "other")
            path.symlink_to(tmp_path / "other")
        case _:
            path.write_text("")
    with pytest.raises(OSError, match="token"):
        token.read()


def test_every_answer_says_what_a_browser_may_not(served: Served) -> None:
    with served.program() as program:
        for path in ("/", "/a/agent/now", "/api/v1/agents", "/nothing"):
            headers = program.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"


def test_a_new_token_ends_all_sessions(desk: Desk) -> None:
    with serving(desk) as served, served.browser() as browser, served.program() as program:
        assert (browser.get("/").status_code, program.get("/").status_code) == (200, 200)
        link = desk.done("serve", "--new-token", "--link").out
        assert (browser.get("/").status_code, program.get("/").status_code) == (401, 401)
        assert served.token not in link
        assert stat.S_IMODE((_state(served) / "serve.token").stat().st_mode) == 0o600


@pytest.mark.parametrize("piece", [{"type": "http.response.body", "more_body": True}, {"type": "websocket.send"}])
def test_what_is_told_piece_by_piece_ends_with_its_session(tmp_path: Path, piece: Message) -> None:
    kind = str(piece["type"]).partition(".")[0]
    token, told = Token(str(tmp_path / "token")), list[Message]()
    scope = {"type": kind, "method": "GET", "path": "/", "query_string": b"", "server": ("localhost", 1)}
    scope["headers"] = [(b"host", b"localhost"), (b"authorization", f"Bearer {token.renew()}".encode())]

    async def tells(scope: Scope, receive: Receive, send: Send) -> None:
        await send(piece)
        token.renew()
        await send(piece)
        told.append({"type": "more"})

    async def sent(message: Message) -> None:
        told.append(message)

    async def nothing() -> Message:
        return {"type": "nothing"}

    asyncio.run(Access(tells, token, lambda: (), str(tmp_path / "audit"))(scope, nothing, sent))
    assert told == [piece, OVER[kind]]


@pytest.mark.parametrize("listen", ["0.0.0.0:8300", "192.0.2.1:8300", "localhost", "127.0.0.1", "[::]:1"])
def test_only_loopback_is_listened_on(desk: Desk, listen: str) -> None:
    ended = desk.run("serve", "--listen", listen)
    assert ended.code == 2
    assert "--listen" in ended.err


def test_a_socket_is_this_users_alone(desk: Desk) -> None:
    path = str(desk.root / "page.socket")
    with serving(desk, "--socket", path):
        assert stat.S_IMODE(os.stat(path).st_mode) & 0o077 == 0
        with httpx2.Client(transport=httpx2.HTTPTransport(uds=path), base_url="http://localhost") as stranger:
            assert stranger.get("/").status_code == 401
        assert "serves" in desk.run("serve", "--socket", path).err
    (desk.root / "left").write_text("")
    assert "is no socket" in desk.run("serve", "--socket", str(desk.root / "left")).err


def test_a_port_that_is_taken_is_named(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port} cannot be listened on" in desk.run("serve", "--listen", f"127.0.0.1:{port}").err


def test_one_server_serves_all_agents(served: Served) -> None:
    """Two would begin each other's jobs again."""
    ended = served.desk.run("serve", "--listen", "127.0.0.1:0")
    assert (ended.code, "another 'minifram serve'" in ended.err) == (6, True)
