import pytest

from infra.keep.eye.blocked import Signals, blocked


@pytest.mark.parametrize(
    ("status", "headers", "seen", "why"),
    [
        (403, {"cf-mitigated": "challenge"}, Signals(12, 1, 1), "challenge"),
        (403, {}, Signals(12, 2, 1), "challenge"),
        (200, {}, Signals(10, 3, 2), "challenge"),
        (202, {"x-amzn-waf-action": "challenge"}, Signals(0, 1), "challenge"),
        (200, {}, Signals(2, 3, 0, True), "shell"),
        # Pages that must not trigger it.
        (403, {}, Signals(40, 0), ""),  # a plain no
        (503, {}, Signals(400, 9), ""),  # an error page of a site
        (200, {}, Signals(800, 9, 1), ""),  # a form of comments with a captcha
        (200, {"cf-mitigated": "challenge"}, Signals(800, 9), ""),
        (200, {}, Signals(20, 1), ""),  # a short page with a script
        (200, {}, Signals(300, 5, 0, True), ""),  # an empty root beside the text
        (200, {}, Signals(0, 0, 0, True), ""),  # nothing that would fill it
    ],
)
def test_blocked_is_decided_by_signals_together(status: int, headers: dict[str, str], seen: Signals, why: str) -> None:
    assert blocked(status, headers, seen) == why
