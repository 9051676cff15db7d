"""A ``Session`` of the OpenAI Agents SDK (``pip install keepline[openai-agents]``)::

    from agents import Runner
    from keepline import AsyncKeepline
    from keepline.openai_agents import KeeplineSession

    memory = await AsyncKeepline.open(profile="chat", directory="./memory")
    result = await Runner.run(agent, "Where is my parcel?", session=KeeplineSession("anna", memory))
"""

from __future__ import annotations

from typing import Any, cast

from agents.items import TResponseInputItem
from agents.memory.session_settings import SessionSettings, resolve_session_limit

from ._async import AsyncKeepline
from ._async_items import AsyncItemLog
from ._item import Item, Role, lift_text, restore
from ._sync import Keepline

_PLACES = (("content",), ("content", 0, "text"), ("output",), ("arguments",))


class KeeplineSession:
    """A conversation in a session of Keepline, by the SDK's protocol ``Session``. One Keepline serves any number of these,
    in any number of event loops."""

    session_id: str
    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str,
        memory: AsyncKeepline | Keepline,
        *,
        user_id: str | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """``memory``: opened with ``conversation=True``, as the profile ``chat`` is. ``user_id``: whose session it is;
        that of another user is refused."""
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._items = AsyncItemLog(AsyncKeepline(memory._native), session_id, user_id, "openai-agents")

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest items, oldest first; None: all, or as many as the settings say."""
        limit = resolve_session_limit(limit, self.session_settings)
        if limit is not None and limit <= 0:
            return []
        return [_to_sdk(item) for item in await self._items.newest(limit)]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items: all or none."""
        await self._items.add([_from_sdk(cast("dict[str, Any]", item)) for item in items])

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it."""
        item = await self._items.pop()
        return None if item is None else _to_sdk(item)

    async def clear_session(self) -> None:
        """Remove all items."""
        await self._items.clear()


def _from_sdk(item: dict[str, Any]) -> Item:
    role, content = item.get("role"), item.get("content")
    is_said = role in ("user", "assistant")
    if is_said and isinstance(content, str) and content.strip() and len(item) == 2:
        return Item(cast(Role, role), content, None, True)
    text, raw = lift_text(item, _PLACES)
    if is_said:
        return Item(cast(Role, role), text, raw, bool(text))
    is_result = str(item.get("type", "")).endswith("_output")
    is_call = item.get("type") in ("reasoning", "function_call") or str(item.get("type", "")).endswith("_call")
    return Item("assistant" if is_result or is_call else "user", text, raw, False)


def _to_sdk(item: Item) -> TResponseInputItem:
    if item.raw is None:
        return {"role": item.role, "content": item.text}
    return cast(TResponseInputItem, restore(item))
