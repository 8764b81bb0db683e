"""Where a run stands, and why one ends: words of transcripts, `life.json` and the titles of reports."""

from __future__ import annotations

from enum import Enum


class RunState(Enum):
    """A run is in exactly one of these."""

    INIT = "INIT"
    PLAN = "PLAN"
    """The model is asked what to do."""
    EXECUTE_TOOL = "EXECUTE_TOOL"
    """What it asked for is carried out."""
    OBSERVE = "OBSERVE"
    """What came of it is judged, and put into the conversation."""
    RESPOND = "RESPOND"
    """The model has ended its turn with words."""
    STOP = "STOP"
    ERROR = "ERROR"
    """The run cannot continue: there is no model."""


class StopReason(Enum):
    """Why a run ended."""

    COMPLETED = "completed"
    """The model ended its turn with words."""
    HANDED_OVER = "handed_over"
    """It asked for another version of the agent."""
    MAX_STEPS = "max_steps"
    MAX_WALL_TIME = "max_wall_time"
    MAX_FAILURES = "max_failures"
    """Act after act failed."""
    NO_OP_LOOP = "no_op_loop"
    """Step after step that repeated what was done and seen."""
    POLICY_DENIED = "policy_denied"
    """Nothing but denials, step after step."""
    MAX_TOKENS = "max_tokens"
    """Its replies were cut, or called for a tool without naming one, again and again."""
    REFUSAL = "refusal"
    INVALID_REPLIES = "invalid_replies"
    """Its replies asked for acts in a form that nobody can carry out, again and again."""
    AWAITING_APPROVAL = "awaiting_approval"
    """An act of it waits for the PM's word."""
    NOT_RECORDED = "not_recorded"
    """What it did could not be written into the mind's events."""
    MODEL_UNAVAILABLE = "model_unavailable"
    INTERRUPTED = "interrupted"
