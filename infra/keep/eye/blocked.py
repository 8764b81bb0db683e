"""Whether a page is what was asked for, or what stands in front of it: decided by signals together, none of which is
enough, because each alone stands on good pages as well. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

CHALLENGES = {"cf-mitigated": ("challenge",), "x-amzn-waf-action": ("challenge", "captcha")}
"""Headers by which those who put something in front of a page say so, and their values."""
NO_ENTRY = (401, 403, 429, 503)
MARKS = (
    "#challenge-form",
    "script[src*='/cdn-cgi/challenge-platform/']",
    "#cf-turnstile, .cf-turnstile",
    "iframe[src*='captcha-delivery.com'], script[src*='captcha-delivery.com']",
    "#px-captcha",
    ".g-recaptcha, .h-captcha",
    "#sec-if-cpt-container",
    "iframe[src*='_Incapsula_Resource'], script[src*='_Incapsula_Resource']",
)
"""Selectors of what known interstitials are made of. A comment form has some of them, too."""
SHELLS = "#root:empty, #app:empty, #__next:empty, #svelte:empty, app-root:empty, [data-reactroot]:empty"
FEW_WORDS, NO_WORDS = 60, 15


class Signals(msgspec.Struct, frozen=True):
    """Of a document: counted by whoever has it parsed."""

    words: int = 0
    """That can be seen."""
    scripts: int = 0
    marks: int = 0
    """How many of MARKS it has."""
    is_shell: bool = False
    """It has one of SHELLS."""


def blocked(status: int, headers: Mapping[str, str], seen: Signals) -> str:
    """Why this is not the page, in one word: `challenge`, `shell`; empty when it is."""
    says_so = any(headers.get(name, "").lower().startswith(values) for name, values in CHALLENGES.items())
    is_thin = seen.scripts > 0 and seen.words < FEW_WORDS
    if (says_so or seen.marks) and (status in NO_ENTRY) + is_thin + says_so + (seen.marks > 0) >= 2:
        # A comment form's captcha beside a page's own words is none.
        return "challenge" if status in NO_ENTRY or is_thin else ""
    return "shell" if seen.is_shell and seen.scripts and seen.words < NO_WORDS else ""
