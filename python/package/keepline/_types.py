"""Types of what calls take and return."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypedDict, Union

Metadata = Union[Mapping[str, Any], str]
"""An entry's metadata: a mapping, or JSON that is written already."""

ChatMessage = Mapping[str, Any]
"""A message as chat APIs write it: ``role`` and ``content``, ``tool_calls``, ``tool_call_id``."""

Names = list[str]
"""Names by another word: in a class with a method ``list``, that word means the method."""

Effect = Literal[
    "passed", "ignored", "foreign", "resumed", "enriched", "stored", "repeated", "skipped", "limited", "ended", "failed"
]
"""What was done with an entry."""


class Problem(TypedDict):
    """What kept an entry from its memory, or from a part of it."""

    code: str
    message: str


class ToolActivity(TypedDict, total=False):
    """A tool call, its result, or both; paired by ``call_id``."""

    call_id: str
    name: str
    arguments: str
    output: str
    error: str
    details: str


class ToolPart(TypedDict):
    """The call or result that a message is."""

    call_id: str
    name: str
    arguments: str | None
    error: str | None


class Message(TypedDict):
    """A message of a transcript. ``at`` is in milliseconds since 1970 (0: unknown)."""

    position: int
    id: str
    parent: str
    turn: str
    role: str
    kind: str
    at: int
    tokens: int | None
    content: str
    tool: ToolPart | None
    extras: dict[str, Any]


class StoredMessage(TypedDict, total=False):
    """A message to store with all its fields, in contrast to one as chat APIs write it: it has a ``kind``."""

    id: str
    parent: str
    turn: str
    role: str
    kind: str
    at: int
    tokens: int
    content: str
    tool: ToolPart
    extras: Mapping[str, Any]


class MessagePage(TypedDict):
    """Messages, oldest first. ``older`` is the next ``before``; None: all was looked at."""

    messages: list[Message]
    older: int | None


class TranscriptChanged(TypedDict):
    """How many messages were changed, and where the transcript stands now."""

    count: int
    next: int


class SessionState(TypedDict):
    """A session. ``created_at`` in milliseconds since 1970, ``expires_in`` in milliseconds (None: it does not expire)."""

    generation: str
    key_count: int
    history_length: int
    created_at: int
    expires_in: int | None


class SessionPage(TypedDict):
    """Ids of sessions. ``cursor`` is for the next page; empty after the last."""

    sessions: list[str]
    cursor: str


class SessionDeleted(TypedDict):
    """How many values it had, and the first 10,000 of their keys."""

    key_count: int
    keys: list[str]


class HistoryPage(TypedDict):
    """Records of what was done to a session's values, oldest first."""

    first: int
    records: list[dict[str, Any]]
    oldest: int
    next: int


class TranscriptSettings(TypedDict):
    """The size of one transcript's window, and its model. None: the configuration holds."""

    max_context_tokens: int | None
    context_window: int | None
    reserve_tokens: int | None
    model: str | None


class TranscriptState(TypedDict):
    """What there is to tell of a transcript. Times in milliseconds since 1970 (0: unknown)."""

    generation: str
    owner: str | None
    title: str | None
    settings: TranscriptSettings
    summary: str | None
    summary_to: int
    oldest: int
    next: int
    weight: int
    bytes: int
    answers: int
    created_at: int
    last_at: int
    expires_in: int | None


class SessionSummary(TypedDict):
    """A session on a user's list."""

    session: str
    title: str | None
    created_at: int
    last_at: int
    preview: str
    records: int


class SessionList(TypedDict):
    """The session used last first. ``older`` is the next ``before``; None: that was the last page."""

    sessions: list[SessionSummary]
    older: int | None


class FoundMessage(TypedDict):
    """A message that was found in a user's sessions."""

    session: str
    title: str | None
    message: Message


class UserSearch(TypedDict):
    """What a search has found so far. ``next``: go on with this; None: all there is has been looked at."""

    found: list[FoundMessage]
    next: str | None


class UserForgotten(TypedDict):
    """What was deleted by this call; call again until nothing is ``remaining``."""

    sessions: int
    nodes: int
    remaining: int


class FoundMemory(TypedDict):
    """An exchange that was found. ``similarity`` is a share of the best one's score; None: it was found by words."""

    id: str | None
    position: int
    session: str
    title: str | None
    user_message: str
    ai_response: str
    combined_text: str
    similarity: float | None
    created_at: float | None
    metadata: dict[str, Any] | None


class Memories(TypedDict):
    """What a search for memories found, and a text for a prompt made of it (empty: nothing was found)."""

    query: str
    method: Literal["lexical", "hybrid", "keyword"]
    found: list[FoundMemory]
    prompt: str


class Remembered(TypedDict):
    """What became of a memory: ``stored``, ``repeated`` (it was stored before), ``skipped`` or ``failed``.

    ``due`` has :class:`keepline.Task` objects for maintenance.
    """

    outcome: Literal["stored", "repeated", "skipped", "failed", "other"]
    session: str | None
    message_id: str | None
    problem: Problem | None
    due: list[Any]


class Health(TypedDict):
    """Whether the store can be used. ``round_trip`` is in seconds."""

    is_good: bool
    problem: Problem | None
    round_trip: float


class TaskOutcome(TypedDict):
    """How a task ended."""

    outcome: Literal["done", "taken", "ended", "failed"]
    problem: Problem | None


class Definition(TypedDict):
    """A stored definition. ``revision`` rises with each write, from 1; 0: it is not stored."""

    id: str
    revision: int
    definition: dict[str, Any]


Definitions = list[Definition]
"""As ``Names``."""


class Checked(TypedDict):
    """Findings, and the form that would be stored if none is an error."""

    findings: list[dict[str, Any]]
    definition: Definition | None


class ItemsChanged(TypedDict):
    """How many items were added, and how many replaced or removed."""

    added: int
    changed: int


class ItemPage(TypedDict):
    """Items with their ids. ``cursor`` is for the next page; empty after the last."""

    items: list[tuple[str, Any]]
    cursor: str


class CompletionNeed(TypedDict):
    """What a language model is asked for. ``input`` quotes what users and models have said: it is data."""

    purpose: str
    instructions: str
    input: str
    max_tokens: int


class HandlerStep(TypedDict):
    """A ``custom`` step that waits for its result: the items in hand, and the step's own parameters."""

    input: list[Any]
    params: dict[str, Any]


Model = Callable[[CompletionNeed], Union[str, None, Awaitable[Union[str, None]]]]
"""A language model. None: there is no completion, and the filter does without."""

Embedder = Callable[
    [list[str]], Union[tuple[str, list[list[float]]], Awaitable[tuple[str, list[list[float]]]]]
]
"""A model for embeddings: its name, and a vector for each text, in order."""

TokenCounter = Callable[[str, Union[str, None]], int]
"""How many tokens a text is, for the model that is set for the session or entry. It has to answer at once."""

Handler = Callable[[HandlerStep], Any]
"""What a ``custom`` step does: returns a list of items, or an awaitable of one."""

Owner = tuple[Literal["project", "user", "tenant"], str]
"""Whose definitions and data sets: what the program knows, never what an entry says."""
