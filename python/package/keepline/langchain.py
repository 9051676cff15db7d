"""A chat history of LangChain (``pip install keepline[langchain]``)::

    from keepline import Keepline
    from keepline.langchain import KeeplineChatMessageHistory

    memory = Keepline.open(profile="chat", directory="./memory")
    history = KeeplineChatMessageHistory("anna", memory)
    history.add_user_message("Where is my parcel?")
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, message_to_dict, messages_from_dict

from ._async import AsyncKeepline
from ._async_items import AsyncItemLog
from ._item import Item, Role, lift_text, restore
from ._sync import Keepline
from ._sync_items import ItemLog

_PLACES = (("data", "content"), ("data", "content", 0, "text"))
_SOURCE = "langchain"


class KeeplineChatMessageHistory(BaseChatMessageHistory):
    """A conversation in a session of Keepline. One Keepline serves any number of these, from threads and event loops."""

    def __init__(self, session_id: str, memory: Keepline | AsyncKeepline, *, user_id: str | None = None) -> None:
        """``memory``: opened with ``conversation=True``, as the profile ``chat`` is. ``user_id``: whose session it is;
        that of another user is refused."""
        self.session_id = session_id
        self._items = ItemLog(Keepline(memory._native), session_id, user_id, _SOURCE)
        self._async_items = AsyncItemLog(AsyncKeepline(memory._native), session_id, user_id, _SOURCE)

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages, oldest first."""
        return _to_langchain(self._items.newest())

    @messages.setter
    def messages(self, messages: Sequence[BaseMessage]) -> None:
        self._items.replace([_from_langchain(message) for message in messages])

    def newest(self, count: int) -> list[BaseMessage]:
        """The newest messages, oldest first: without reading those before."""
        return _to_langchain(self._items.newest(count))

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages: all or none."""
        self._items.add([_from_langchain(message) for message in messages])

    def clear(self) -> None:
        """Remove all messages."""
        self._items.clear()

    async def aget_messages(self) -> list[BaseMessage]:
        """All messages, oldest first."""
        return _to_langchain(await self._async_items.newest())

    async def anewest(self, count: int) -> list[BaseMessage]:
        """The newest messages, oldest first: without reading those before."""
        return _to_langchain(await self._async_items.newest(count))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages: all or none."""
        await self._async_items.add([_from_langchain(message) for message in messages])

    async def aclear(self) -> None:
        """Remove all messages."""
        await self._async_items.clear()


def _from_langchain(message: BaseMessage) -> Item:
    kind, content = type(message), message.content
    roles: dict[type[BaseMessage], Role] = {HumanMessage: "user", AIMessage: "assistant"}
    role = roles.get(kind)
    if role is not None and isinstance(content, str) and content.strip() and _has_only_text(message):
        return Item(role, content, None, True)
    text, raw = lift_text(message_to_dict(message), _PLACES)
    if role is None:
        return Item("assistant" if message.type in ("tool", "function") else "user", text, raw, False)
    return Item(role, text, raw, bool(text) and not getattr(message, "tool_calls", None))


def _has_only_text(message: BaseMessage) -> bool:
    if message.id is not None or message.name is not None or message.additional_kwargs or message.response_metadata:
        return False
    set_fields = message.model_fields_set - {"content", "type", "additional_kwargs", "response_metadata", "id", "name"}
    return not any(getattr(message, field) for field in set_fields) and not message.model_extra


def _to_langchain(items: Sequence[Item]) -> list[BaseMessage]:
    return [_message(item) for item in items]


def _message(item: Item) -> BaseMessage:
    if item.raw is None:
        return HumanMessage(content=item.text) if item.role == "user" else AIMessage(content=item.text)
    return messages_from_dict([restore(item)])[0]
