"""An item of a framework, and its form as a message of a transcript."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from . import _json
from ._types import StoredMessage

Role = Literal["user", "assistant"]
"""A tool's result is kept as the assistant's: one of role ``tool`` would have to belong to a call of the transcript."""

RAW_BYTES = 60_000
"""What an item may hold beside its text; the library's limit is 64 KiB."""

_NO_TEXT = "(no text)"
"""The content of an item without any: a message without content would be left out."""


class Item(NamedTuple):
    """``text`` is what was said. ``raw`` is the framework's object without that text, and where in it the text belongs;
    None: the text is all there is. ``is_plain``: Keepline's own windows show it; anything else is kept beside them.
    ``position``: in the transcript; -1: it is not stored yet."""

    role: Role
    text: str
    raw: Mapping[str, Any] | None
    is_plain: bool
    position: int = -1


StoredItem = tuple[Role, str, Mapping[str, Any] | None, bool, int]
"""An item as the library returns it."""


def as_items(stored: Iterable[StoredItem]) -> Iterator[Item]:
    """By the class's own constructor, a long transcript would take longer here than to be read."""
    return map(partial(tuple.__new__, Item), stored)


def lift_text(whole: Any, places: Sequence[Sequence[str | int]]) -> tuple[str, dict[str, Any]]:
    """Takes the text out of an object, at the first of these places that has one: the text, and the rest for ``raw``."""
    for place in places:
        found = whole
        for step in place:
            try:
                found = found[step]
            except (KeyError, IndexError, TypeError):
                found = None
                break
        if isinstance(found, str) and found.strip():
            rest = copy.deepcopy(whole)
            _slot(rest, place)[place[-1]] = None
            return found, {"item": rest, "at": list(place)}
    return "", {"item": whole}


def restore(item: Item) -> Any:
    """The framework's object again."""
    raw = item.raw or {}
    whole, place = raw.get("item"), raw.get("at")
    if place:
        _slot(whole, place)[place[-1]] = item.text
    return whole


def _slot(whole: Any, place: Sequence[str | int]) -> Any:
    for step in place[:-1]:
        whole = whole[step]
    return whole


def is_pair(items: Sequence[Item]) -> bool:
    """Whether they are a question and its answer, as the lanes store them."""
    if len(items) != 2:
        return False
    question, answer = items
    return (
        question.is_plain
        and answer.is_plain
        and (question.role, answer.role) == ("user", "assistant")
        and question.raw is None
        and _is_plain_text(question.text)
        and _is_plain_text(answer.text)
        and (answer.raw is None or _size(answer.raw) <= RAW_BYTES)
    )


def _is_plain_text(text: str) -> bool:
    # What begins like a list of parts is read as one on the lanes.
    return bool(text.strip()) and not text.lstrip().startswith("[")


def _size(raw: Mapping[str, Any]) -> int:
    return len(_json.write(raw).encode())


def raw_details(item: Item) -> str | None:
    """What is stored with an answer beside its text."""
    return None if item.raw is None else '{"raw":' + _json.write(item.raw) + "}"


def as_record(item: Item, source: str, longest: int) -> StoredMessage:
    """As ``set_messages`` takes it."""
    extras: dict[str, Any] = {"source": source}
    if item.raw is not None:
        size = _size(item.raw)
        if size > RAW_BYTES:
            raise ValueError(f"an item has {size} bytes beside its text; at most {RAW_BYTES} are kept")
        extras["raw"] = item.raw
    if len(item.text) > longest:
        raise ValueError(
            f"an item's text has {len(item.text)} characters; at most {longest} are kept (max_message_length)"
        )
    return {
        "role": item.role,
        "kind": "message" if item.is_plain else "other",
        "content": item.text if item.text.strip() else _NO_TEXT,
        "extras": extras,
    }
