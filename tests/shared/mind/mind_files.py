"""Facts as the mind's files hold them."""

from __future__ import annotations


def belief(
    id: str, claim: str, subject: str = "", status: str = "active", validated: str = "", against: str = ""
) -> str:
    return (
        f"## {id}\nClaim: {claim}\n{f'Subject: {subject}{chr(10)}' if subject else ''}Confidence: 0.9\n"
        f"Status: {status}\nType: observed\nProvenance:\n  - Source: event logs/events/2026-01-01.jsonl:3\n"
        f"    Evidence: seen\nLast_validated: {validated}\nContradictions:\n  - {against or 'None'}\n\n"
    )


def item(id: str, subject: str, statement: str, validated: str = "", added: str = "2026-01-01") -> str:
    return f"## {id}\nClaim: {statement}\nSubject: {subject}\nAdded: {added}\nLast_validated: {validated}\n\n"
