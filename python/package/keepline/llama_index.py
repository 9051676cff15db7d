"""A chat store of LlamaIndex (``pip install keepline[llama-index]``)::

    from keepline import Keepline
    from keepline.llama_index import KeeplineChatStore

    store = KeeplineChatStore(Keepline.open(profile="chat", directory="./memory"))
    buffer = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="anna")

A key is a session's id: letters, digits, ``_`` and ``-``. Other keys need a Keepline with ``session_ids="hash"``.
"""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.storage.chat_store.base import BaseChatStore

from ._async import AsyncKeepline
from ._async_items import AsyncItemLog
from ._item import Item, Role, lift_text, restore
from ._sync import Keepline
from ._sync_items import ItemLog

_PLACES = (("blocks", 0, "text"),)
_SOURCE = "llama-index"
_RESULTS = (MessageRole.TOOL, MessageRole.FUNCTION)
_ROLES: dict[MessageRole, Role] = {MessageRole.USER: "user", MessageRole.ASSISTANT: "assistant"}


class KeeplineChatStore(BaseChatStore):
    """Conversations by key, each in a session of Keepline."""

    _keepline: Keepline = PrivateAttr()
    _async_keepline: AsyncKeepline = PrivateAttr()

    def __init__(self, memory: Keepline | AsyncKeepline, **data: Any) -> None:
        """``memory``: opened with ``conversation=True``, as the profile ``chat`` is."""
        super().__init__(**data)
        self._keepline = Keepline(memory._native)
        self._async_keepline = AsyncKeepline(memory._native)

    @classmethod
    def class_name(cls) -> str:
        """The class's name."""
        return "KeeplineChatStore"

    def _items(self, key: str) -> ItemLog:
        return ItemLog(self._keepline, key, None, _SOURCE)

    def _async_items(self, key: str) -> AsyncItemLog:
        return AsyncItemLog(self._async_keepline, key, None, _SOURCE)

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Put messages in place of all that the key has."""
        self._items(key).replace([_from_llama(message) for message in messages])

    def get_messages(self, key: str) -> list[ChatMessage]:
        """A key's messages, oldest first."""
        return [_to_llama(item) for item in self._items(key).newest()]

    def newest(self, key: str, count: int) -> list[ChatMessage]:
        """The newest messages, oldest first: without reading those before."""
        return [_to_llama(item) for item in self._items(key).newest(count)]

    def add_message(self, key: str, message: ChatMessage, idx: int | None = None) -> None:
        """Add a message behind the others, or at a place: then all are written again."""
        items = self._items(key)
        if idx is None:
            return items.add([_from_llama(message)])
        known = items.newest()
        known.insert(idx, _from_llama(message))
        return items.replace(known)

    def add_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Add messages behind the others: all or none."""
        self._items(key).add([_from_llama(message) for message in messages])

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Delete the key, and return its messages."""
        items = self._items(key)
        known = items.newest()
        items.delete()
        return [_to_llama(item) for item in known] or None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Remove the message at a place, and return it."""
        item = self._items(key).remove(idx)
        return None if item is None else _to_llama(item)

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Remove the newest message, and return it."""
        item = self._items(key).pop()
        return None if item is None else _to_llama(item)

    def get_keys(self) -> list[str]:
        """All keys, sorted."""
        keys: list[str] = []
        cursor, sessions = "", self._keepline.sessions()
        while True:
            page = sessions.list(cursor, 1000)
            keys.extend(page["sessions"])
            cursor = page["cursor"]
            if not cursor:
                return sorted(keys)

    async def aset_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Put messages in place of all that the key has."""
        await self._async_items(key).replace([_from_llama(message) for message in messages])

    async def aget_messages(self, key: str) -> list[ChatMessage]:
        """A key's messages, oldest first."""
        return [_to_llama(item) for item in await self._async_items(key).newest()]

    async def async_add_message(self, key: str, message: ChatMessage, idx: int | None = None) -> None:
        """Add a message behind the others, or at a place: then all are written again."""
        items = self._async_items(key)
        if idx is None:
            await items.add([_from_llama(message)])
        else:
            known = await items.newest()
            known.insert(idx, _from_llama(message))
            await items.replace(known)

    async def adelete_messages(self, key: str) -> list[ChatMessage] | None:
        """Delete the key, and return its messages."""
        items = self._async_items(key)
        known = await items.newest()
        await items.delete()
        return [_to_llama(item) for item in known] or None

    async def adelete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Remove the message at a place, and return it."""
        item = await self._async_items(key).remove(idx)
        return None if item is None else _to_llama(item)

    async def adelete_last_message(self, key: str) -> ChatMessage | None:
        """Remove the newest message, and return it."""
        item = await self._async_items(key).pop()
        return None if item is None else _to_llama(item)

    async def aget_keys(self) -> list[str]:
        """All keys, sorted."""
        keys: list[str] = []
        cursor, sessions = "", self._async_keepline.sessions()
        while True:
            page = await sessions.list(cursor, 1000)
            keys.extend(page["sessions"])
            cursor = page["cursor"]
            if not cursor:
                return sorted(keys)


def _from_llama(message: ChatMessage) -> Item:
    role, blocks = _ROLES.get(message.role), message.blocks
    if role is not None and len(blocks) == 1 and isinstance(blocks[0], TextBlock) and not message.additional_kwargs:
        text = blocks[0].text
        if text.strip():
            return Item(role, text, None, True)
    text, raw = lift_text(message.model_dump(mode="json"), _PLACES)
    if role is None:
        return Item("assistant" if message.role in _RESULTS else "user", text, raw, False)
    return Item(role, text, raw, bool(text) and not message.additional_kwargs)


def _to_llama(item: Item) -> ChatMessage:
    if item.raw is None:
        return ChatMessage(role=MessageRole(item.role), content=item.text)
    return ChatMessage.model_validate(restore(item))
