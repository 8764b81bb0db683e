"""What is found to be a secret, wherever it stands; and all that must not be, since a false alarm stops work.

No key stands here: they are made when a test runs, as random as real ones."""

from __future__ import annotations

import base64
import json
import random
import string
import subprocess
import time
import uuid
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.shared.secret_shapes import find_secrets, redacted, redacted_and_cut
from tests.shared.rows import each_row

ROOT = Path(__file__).parents[2]
BASE62 = string.ascii_letters + string.digits
BASE64URL = BASE62 + "-_"
UPPER32 = string.ascii_uppercase + "234567"
HEX = "0123456789abcdef"


def some(chance: random.Random, alphabet: str, length: int) -> str:
    return "".join(chance.choices(alphabet, k=length))


def pem(chance: random.Random, name: str) -> str:
    body = some(chance, BASE62 + "+/", 64 * chance.randint(1, 25))
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    return "\n".join([f"-----BEGIN {name}PRIVATE KEY-----", *lines, f"-----END {name}PRIVATE KEY-----"])


def jwt(chance: random.Random) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    claims = base64.urlsafe_b64encode(b'{"role":"service","iat":%d}' % chance.randint(1, 10**9)).decode().rstrip("=")
    return f"{head}.{claims}.{some(chance, BASE64URL, 43)}"


Maker = Callable[[random.Random], str]
MAKERS: dict[str, Maker] = {
    "Anthropic": lambda one: f"sk-ant-api03-{some(one, BASE64URL, 93)}AA",
    "Anthropic, of an account": lambda one: f"sk-ant-oat01-{some(one, BASE64URL, 93)}AA",
    "OpenAI": lambda one: f"sk-{some(one, BASE62, 20)}T3BlbkFJ{some(one, BASE62, 20)}",
    "OpenAI, of a project": lambda one: f"sk-proj-{some(one, BASE64URL, 74)}T3BlbkFJ{some(one, BASE64URL, 74)}",
    "OpenRouter": lambda one: f"sk-or-v1-{some(one, HEX, 64)}",
    "GitHub": lambda one: f"gh{one.choice('pousr')}_{some(one, BASE62, 36)}",
    "GitHub, fine-grained": lambda one: f"github_pat_{some(one, BASE62, 22)}_{some(one, BASE62, 59)}",
    "GitLab": lambda one: f"glpat-{some(one, BASE64URL, 20)}",
    "AWS": lambda one: f"AKIA{some(one, UPPER32, 16)}",
    "Google": lambda one: f"AIza{some(one, BASE64URL, 35)}",
    "Google client": lambda one: f"GOCSPX-{some(one, BASE64URL, 28)}",
    "Slack": lambda one: f"xoxb-{some(one, '0123456789', 12)}-{some(one, '0123456789', 13)}-{some(one, BASE62, 24)}",
    "Slack webhook": lambda one: (
        f"https://hooks.slack.com/services/T{some(one, UPPER32, 8)}/B{some(one, UPPER32, 8)}/" + some(one, BASE62, 24)
    ),
    "Stripe": lambda one: f"sk_live_{some(one, BASE62, 24)}",
    "npm": lambda one: f"npm_{some(one, BASE62, 36)}",
    "PyPI": lambda one: f"pypi-AgEIcHlwaS5vcmc{some(one, BASE64URL, 150)}",
    "Hugging Face": lambda one: f"hf_{some(one, string.ascii_letters, 34)}",
    "SendGrid": lambda one: f"SG.{some(one, BASE64URL, 22)}.{some(one, BASE64URL, 43)}",
    "DigitalOcean": lambda one: f"dop_v1_{some(one, HEX, 64)}",
    "Groq": lambda one: f"gsk_{some(one, BASE62, 52)}",
    "Telegram": lambda one: f"{some(one, '123456789', 10)}:AA{some(one, BASE64URL, 33)}",
    "JWT": jwt,
    "RSA": lambda one: pem(one, "RSA "),
    "PKCS 8": lambda one: pem(one, ""),
    "OpenSSH": lambda one: pem(one, "OPENSSH "),
}
chances = st.integers(0, 2**64).map(random.Random)
AROUND = [
    *(("", ""), ("KEY=", "\n"), ('{"a": "', '", "b": 1}'), ("https://host.example/x?key=", "&y=1"), ("one ", " two")),
    *(("a\\n", "\\nb"), ("x%3D", "%26"), ("\0", "\0"), ("é", "é"), ("\u2028", "\u2028"), ("#" * 5000, "." * 5000)),
    *(("Bearer ", "\r\n"), ("<key>", "</key>"), ("`", "`")),
]


@given(chances, st.sampled_from(AROUND))
def test_a_key_is_found_wherever_it_stands(chance: random.Random, around: tuple[str, str]) -> None:
    """Each kind, at the beginning, the end, in JSON, in an address, between any two things that are no part of it."""
    for kind, make in MAKERS.items():
        key, (before, after) = make(chance), around
        text = f"{before}{key}{after}".encode()
        found = find_secrets(text)
        assert found, kind
        start, end = len(before.encode()), len(before.encode()) + len(key)
        assert any(hit.start <= start + 60 and hit.end >= end - 60 for hit in found), kind
        assert all(start - 1 <= hit.start < hit.end <= end + 1 for hit in found), kind
        shown = redacted(text.decode())
        assert key not in shown, kind
        assert shown.startswith(before), kind
        assert all(key not in hit.kind for hit in found), kind


@given(
    chances, st.lists(st.sampled_from(sorted(MAKERS)), min_size=1, max_size=6), st.text(" \n,;", min_size=1, max_size=3)
)
def test_all_keys_of_a_text_are_found(chance: random.Random, names: list[str], between: str) -> None:
    """Each of several, in order, and none over another."""
    keys = [MAKERS[name](chance) for name in names]
    text = between.join(keys)
    found = find_secrets(text.encode())
    assert [hit.start for hit in found] == sorted(hit.start for hit in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
    left = redacted(text)
    assert not [key for key in keys if key in left]


@given(
    chances,
    st.sampled_from(["api_key", "apiKey", "API-KEY", "client_secret", "access_token", "password", "secret_key"]),
)
def test_a_random_value_beside_a_telling_name_is_found(chance: random.Random, name: str) -> None:
    """As JSON, YAML, shell and Python write it; the value alone is marked."""
    value = some(chance, BASE62, 18) + "".join(f"{chance.randint(0, 9)}x{chance.choice('QZ')}" for _ in range(8))
    for line in (
        json.dumps({name: value}),
        json.dumps(json.dumps({name: value})),
        f"{name}: {value}\n",
        f"export MY_{name.replace('-', '_').upper()}={value}\n",
        f'{name}: str = "{value}"',
        f"{name} = '{value}'  # mine",
        f"https://host.example/?{name}={value}&b=1",
        f"Authorization: Bearer {value}",
        f"git clone https://me:{value}@host.example/x.git",
    ):
        found = find_secrets(line.encode())
        assert len(found) == 1, line
        assert line.encode()[found[0].start : found[0].end].decode() == value


@given(st.binary(max_size=30), st.binary(min_size=8, max_size=50), st.binary(max_size=30))
def test_a_known_value_is_found_exactly(before: bytes, value: bytes, after: bytes) -> None:
    """Whatever it looks like, at the beginning, in the middle and at the end."""
    for text, places in (
        (value, [0]),
        (before + value + after, [len(before)]),
        (value + after + value, [0, len(value + after)]),
    ):
        covered = {at for hit in find_secrets(text, (value,)) for at in range(hit.start, hit.end)}
        for place in places:
            assert covered & set(range(place, place + len(value))), text
        assert all(
            text[at : at + len(value)] != value or covered & set(range(at, at + len(value))) for at in range(len(text))
        )


def test_short_values_are_not_known() -> None:
    """Less than eight bytes would be found everywhere."""
    assert find_secrets(b"a 1234567 b", (b"1234567", b"", b"a")) == []
    assert len(find_secrets(b"a 12345678 b", (b"12345678",))) == 1


def test_edges_that_touch() -> None:
    """Two values that overlap are one stretch, none is left half shown."""
    assert [(hit.start, hit.end) for hit in find_secrets(b"xabcdefghijx", (b"abcdefgh", b"cdefghij"))] == [(1, 11)]
    assert redacted("xabcdefghijx", (b"abcdefgh", b"cdefghij")) == "x[secret]x"


NO_SECRETS = [
    "input_tokens: 123456, output_tokens: 7890, cache_read_input_tokens: 1234567",
    '{"usage": {"input_tokens": 123456789012345678901, "api_key_count": 12}}',
    '"integrity": "sha512-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08=="',
    "--hash=sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    "commit 0123456789abcdef0123456789abcdef01234567",
    'KEY = "sk-ant-test-0123456789abcdefghijklmnop"',
    "sk-ant-api03-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "sk-ant-api03-...",
    "sk-ant-api03-<your key>",
    "sk-ant-EXAMPLE1a2Bc3dE4fG5hI6jK7lM8nO9pQ0rS1tU2",
    "sk-from-the-environment-of-somebody-else",
    "risk-assessment-of-a1b2c3d4e5f6a7b8c9d0e1f2a3b4",
    "sk-learn-contrib-imbalanced-learn-version-0-12-3",
    "AKIAIOSFODNN7EXAMPLE",
    "AKIAAAAAAAAAAAAAAAAA",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "ghp_000000000000000000000000000000000000",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "AIza followed by nothing",
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHC\n-----END PUBLIC KEY-----",
    "api_key = os.environ['ANTHROPIC_API_KEY']",
    "api_key=settings.providers.openai2.key_value_of_this_one",
    "api_key: str = field(default_factory=read_the_key_from_the_file)",
    "password = os.environ['DB_PASSWORD']",
    "password: str = settings.database.password",
    "def login(password: Optional[str] = None): ...",
    "password == other and passphrase is None",
    "password = getpass.getpass()",
    "password=${DB_PASSWORD}",
    "secret = base64.b64encode(hashlib.sha256(b'x').digest())",
    '"api_key": "${ANTHROPIC_API_KEY_OF_THIS_MACHINE1}"',
    '"api_key": "{{ secrets.ANTHROPIC_API_KEY_2 }}"',
    "apiKey: oauth2ProviderSecretNameOfThisService,",
    "secret_name = 'projects/my-project-123/secrets/my-secret/versions/4'",
    "arn:aws:secretsmanager:us-west-2:123456789012:secret:MyTestDatabaseSecret-a1b2c3",
    "https://user:password@host.example/x",
    "postgres://app:changeme-in-production-1@db/x",
    "https://host.example:8443/a@b1c2d3e4f5",
    "eyJhbGciOiJIUzI1NiJ9",
    "token_type = 'Bearer'; expires_in = 3600",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $GITHUB_TOKEN_OF_THE_RUNNER",
    "hf_hub_download_the_file_from_the_hub_now",
    "const npm_config_registry_of_this_machine_and_all_others = 1",
]


@each_row("text", NO_SECRETS)
def test_what_is_no_secret_is_none(text: str) -> None:
    """Counters, digests, ids, names, placeholders and keys that were plainly typed by hand."""
    assert find_secrets(text.encode()) == []
    assert redacted(text) == text


@each_row(
    "text, left",
    [
        ("password: hunter2", "password: [secret]"),
        ("DB_PASSWORD=hunter2\n", "DB_PASSWORD=[secret]\n"),
        ('password = "correct horse battery staple"', 'password = "[secret]"'),
        ('{"db_password": "correct-horse"}', '{"db_password": "[secret]"}'),
        (json.dumps(json.dumps({"passwd": "hunter2"})), json.dumps(json.dumps({"passwd": "[secret]"}))),
        ("curl --data 'user=me&passphrase=hunter2&x=1'", "curl --data 'user=me&passphrase=[secret]&x=1'"),
    ],
)
def test_a_password_beside_its_name_is_not_shown(text: str, left: str) -> None:
    """However plain; what refuses a push must be surer."""
    assert redacted(text) == redacted(left) == left
    assert find_secrets(text.encode()) == []


WORDS = st.sampled_from(
    [
        *("key", "test", "fake", "my", "the", "your", "example", "token", "of", "for", "not", "real", "dummy", "value"),
        *("here", "1", "42", "2026", "v2", "api"),
    ]
)


@given(
    st.sampled_from(["sk-ant-", "sk-ant-api03-", "sk-", "sk-proj-", "xoxb-", 'api_key = "', 'password: "', "Bearer "]),
    st.lists(WORDS, min_size=1, max_size=12),
    st.sampled_from("-_"),
)
def test_words_are_no_key(prefix: str, words: list[str], between: str) -> None:
    """Whatever they follow, however many."""
    assert find_secrets(f"{prefix}{between.join(words)}\"'".encode()) == []


@given(st.binary(max_size=3000))
def test_digests_ids_and_data_are_no_secrets(data: bytes) -> None:
    """In hex, as uuid, in base64: nothing but a name or a prefix makes a key of them."""
    chance = random.Random(data)
    text = "\n".join(
        [
            data.hex(),
            base64.b64encode(data).decode(),
            str(uuid.UUID(int=chance.getrandbits(128))),
            f"sha256:{some(chance, HEX, 64)}",
        ]
    )
    assert find_secrets(text.encode()) == []


@pytest.mark.parametrize(
    "piece",
    [
        *("sk-ant-", "eyJ", "eyJaaaaaaaaaa.", "eyJaaaaaaaaaa.eyJaaaaaaaaa.", "://a:", "api_key", "secret=", "bearer "),
        *("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n", "xoxb-", "AKIA", ":AA", "a1"),
        *("secret: a", 'api_key: "', "sk-ant-a1B2", "SG.", "\0", "\n", "=", "api_key=a1"),
    ],
)
@pytest.mark.heavy
def test_no_text_takes_more_time_than_its_length(piece: str) -> None:
    """Much of anything is searched in moments: nobody can keep the door busy with a choice of words."""
    began = time.process_time()
    find_secrets((piece * (400_000 // len(piece))).encode(), (b"sk-ant-sk-ant-x",))
    assert time.process_time() - began < 6  # it takes well under one; what is not linear takes many times that


def test_a_private_key_with_headers_is_found_and_headers_alone_take_no_time() -> None:
    """Headers end with a line, or with a space where lines were joined; of `a: a:` there are endless ways to cut it."""
    body = base64.b64encode(random.Random(1).randbytes(96)).decode()
    for between in ("\n", " "):
        headers = between.join(
            ("Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,0123ABCD", "Comment: of two words", "")
        )
        assert redacted(f"-----BEGIN RSA PRIVATE KEY-----\n{headers}{between}{body}") == "[secret]"
    began = time.process_time()
    assert not find_secrets(b"-----BEGIN PRIVATE KEY-----\n" + b"a: " * 40 + b"!")
    assert time.process_time() - began < 1


@given(st.integers(0, 60), st.integers(1, 80))
def test_a_secret_is_redacted_before_the_text_is_cut(before: int, most: int) -> None:
    """Wherever the cut falls, nothing of a known value is left."""
    shown = redacted_and_cut("." * before + "QZKWVXJ98765", most, (b"QZKWVXJ98765",))
    assert len(shown) <= most
    assert not set(shown) & set("QZKWVXJ98765")


def test_a_private_key_without_its_end_takes_no_quote_with_it() -> None:
    """What is on record is read again, as the JSON that it is."""
    begun = pem(random.Random(1), "").split("\n-----END")[0]
    text = json.dumps([{"content": begun}, "x"])
    assert redacted(text) == '[{"content": "[secret]"}, "x"]'
    began = time.monotonic()
    redacted(f"-----BEGIN PRIVATE KEY-----{' ' * 70_000}x")
    assert time.monotonic() - began < 1


def test_this_project_holds_no_secret() -> None:
    """Every file of ours, tests with their invented keys and lock files with their hashes included."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = [name for name in listed.stdout.split("\0") if name]
    assert len(names) > 100
    found = {name: find_secrets((ROOT / name).read_bytes()) for name in names if (ROOT / name).is_file()}
    assert {name: hits for name, hits in found.items() if hits} == {}
