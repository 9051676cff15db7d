"""Items of agent frameworks in a session's transcript, for event loops. ``_sync_items.py`` is made of this file.

An item is stored as a message: its text as the content, so that windows and recall have it, and whatever else the framework
has of it in ``raw``, so that it comes back as it was.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ._async import AsyncKeepline
from ._errors import ConfigError, EntryError, SessionError
from ._keepline import user_bucket
from ._item import Item, as_items, as_record, is_pair, raw_details
from ._pauses import async_pause

_TRIES = 200
_PAGE = 1000
_AT_ONCE = 2000


class AsyncItemLog:
    """The items of one session, in order."""

    def __init__(self, keepline: AsyncKeepline, session: str, user: str | None, source: str) -> None:
        options = keepline.filter_options()
        if options.get("conversation") is not True:
            raise ConfigError("messages are kept with conversation=True: open the Keepline with it", "config")
        self._session = session
        self._user = user
        self._source = source
        self._keepline = keepline
        self._sessions = keepline.sessions(owner=user)
        self._native = self._sessions._native
        self._is_checked = user is None
        self._next: int | None = None
        self._longest: int = options.get("max_message_length") or 1_000_000
        metadata = {"session_id": session}
        self._metadata = metadata if user is None else {**metadata, "user_id": user}

    async def add(self, items: Sequence[Item]) -> None:
        """Add items behind all that are there. All or none, up to 2,000 at a time."""
        for start in range(0, len(items), _AT_ONCE):
            await self._add_some(items[start : start + _AT_ONCE])

    async def _add_some(self, items: Sequence[Item]) -> None:
        # A question and its answer take one transaction, however long the transcript is.
        fits = all(len(item.text) <= self._longest for item in items)
        if fits and is_pair(items) and await self._add_pair(items[0], items[1]):
            return
        records = [as_record(item, self._source, self._longest) for item in items]
        for attempt in range(_TRIES):
            if self._next is None:
                self._next = await self._stands_at()
            try:
                changed = await self._sessions.set_messages(self._session, records, next=self._next)
            except SessionError as error:
                self._next = None
                if error.code == "not-found" and attempt < _TRIES - 1:
                    await self._create()
                elif error.code == "conflict" and attempt < _TRIES - 1:
                    await async_pause(random.uniform(0, 0.001 * min(attempt + 1, 20)))
                else:
                    raise
            else:
                self._next = changed["next"]
                return

    async def _add_pair(self, question: Item, answer: Item) -> bool:
        self._next = None
        passed = await self._keepline.pipe().answer(
            answer.text, self._metadata, question=question.text, details=raw_details(answer)
        )
        if passed.effect in ("failed", "foreign", "ended"):
            problem = passed.problem or {"code": passed.effect, "message": f"the pair was not stored: {passed.effect}"}
            raise EntryError(problem["message"], problem["code"])
        return passed.effect == "stored"

    async def _stands_at(self) -> int:
        try:
            state = await self._sessions.describe(self._session)
        except SessionError as error:
            if error.code not in ("not-found", "expired"):
                raise
            await self._create()
            return 0
        return state["next"]

    async def _create(self) -> None:
        try:
            await self._keepline.sessions().create(self._session)
        except SessionError as error:
            if error.code != "already-exists":
                raise
        if self._user is not None:
            await self._keepline.sessions().register(self._session, self._user)

    async def newest(self, limit: int | None = None) -> list[Item]:
        """The newest items, oldest first; None: all."""
        if not self._is_checked and not await self._check_owner():
            return []
        items: list[Item] = []
        before: int | None = None
        while limit is None or len(items) < limit:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(items))
            try:
                call = self._native.items((self._session, None, None), before, wanted)
                found, before = await call
            except SessionError as error:
                if error.code in ("not-found", "expired"):
                    break
                raise
            items[:0] = as_items(found)
            if before is None:
                break
        return items

    async def _check_owner(self) -> bool:
        """Whether the session is there. Another user's is refused."""
        try:
            state = await self._sessions.describe(self._session)
        except SessionError as error:
            if error.code in ("not-found", "expired"):
                return False
            raise
        if self._user is not None and state["owner"] != user_bucket(self._user):
            raise SessionError(f"session '{self._session}' belongs to another user, or to none", "not-found")
        self._is_checked = True
        return True

    async def pop(self) -> Item | None:
        """Remove the newest item and return it."""
        newest = await self.newest(1)
        if not newest:
            return None
        await self._sessions.rewrite(self._session, newest[0].position, None)
        return newest[0]

    async def remove(self, index: int) -> Item | None:
        """Remove the item at this place from the oldest on."""
        items = await self.newest()
        if not 0 <= index < len(items):
            return None
        await self._sessions.rewrite(self._session, items[index].position, None)
        return items[index]

    async def replace(self, items: Sequence[Item]) -> None:
        """Put items in place of all that are there: at once, up to 10,000."""
        self._next = None
        records = [as_record(item, self._source, self._longest) for item in items]
        await self._create()
        await self._sessions.set_messages(self._session, records)

    async def delete(self) -> None:
        """Delete the session with all that it holds."""
        self._next = None
        try:
            await self._sessions.delete(self._session)
        except SessionError as error:
            if error.code not in ("not-found", "expired"):
                raise

    async def clear(self) -> None:
        """Remove all items. The session's values stay."""
        self._next = None
        try:
            await self._sessions.clear_messages(self._session)
        except SessionError as error:
            if error.code not in ("not-found", "expired"):
                raise
