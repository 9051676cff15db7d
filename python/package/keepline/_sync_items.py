"""Items of agent frameworks in a session's transcript, without an event loop. Made of ``_async_items.py``: don't edit it."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ._sync import Keepline
from ._errors import ConfigError, EntryError, SessionError
from ._keepline import user_bucket
from ._item import Item, as_items, as_record, is_pair, raw_details
from ._pauses import pause

_TRIES = 200
_PAGE = 1000
_AT_ONCE = 2000


class ItemLog:
    """The items of one session, in order."""

    def __init__(self, keepline: Keepline, session: str, user: str | None, source: str) -> None:
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

    def add(self, items: Sequence[Item]) -> None:
        """Add items behind all that are there. All or none, up to 2,000 at a time."""
        for start in range(0, len(items), _AT_ONCE):
            self._add_some(items[start : start + _AT_ONCE])

    def _add_some(self, items: Sequence[Item]) -> None:
        # A question and its answer take one transaction, however long the transcript is.
        fits = all(len(item.text) <= self._longest for item in items)
        if fits and is_pair(items) and self._add_pair(items[0], items[1]):
            return
        records = [as_record(item, self._source, self._longest) for item in items]
        for attempt in range(_TRIES):
            if self._next is None:
                self._next = self._stands_at()
            try:
                changed = self._sessions.set_messages(self._session, records, next=self._next)
            except SessionError as error:
                self._next = None
                if error.code == "not-found" and attempt < _TRIES - 1:
                    self._create()
                elif error.code == "conflict" and attempt < _TRIES - 1:
                    pause(random.uniform(0, 0.001 * min(attempt + 1, 20)))
                else:
                    raise
            else:
                self._next = changed["next"]
                return

    def _add_pair(self, question: Item, answer: Item) -> bool:
        self._next = None
        passed = self._keepline.pipe().answer(
            answer.text, self._metadata, question=question.text, details=raw_details(answer)
        )
        if passed.effect in ("failed", "foreign", "ended"):
            problem = passed.problem or {"code": passed.effect, "message": f"the pair was not stored: {passed.effect}"}
            raise EntryError(problem["message"], problem["code"])
        return passed.effect == "stored"

    def _stands_at(self) -> int:
        try:
            state = self._sessions.describe(self._session)
        except SessionError as error:
            if error.code not in ("not-found", "expired"):
                raise
            self._create()
            return 0
        return state["next"]

    def _create(self) -> None:
        try:
            self._keepline.sessions().create(self._session)
        except SessionError as error:
            if error.code != "already-exists":
                raise
        if self._user is not None:
            self._keepline.sessions().register(self._session, self._user)

    def newest(self, limit: int | None = None) -> list[Item]:
        """The newest items, oldest first; None: all."""
        if not self._is_checked and not self._check_owner():
            return []
        items: list[Item] = []
        before: int | None = None
        while limit is None or len(items) < limit:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(items))
            try:
                call = self._native.items((self._session, None, None), before, wanted)
                found, before = call.wait()
            except SessionError as error:
                if error.code in ("not-found", "expired"):
                    break
                raise
            items[:0] = as_items(found)
            if before is None:
                break
        return items

    def _check_owner(self) -> bool:
        """Whether the session is there. Another user's is refused."""
        try:
            state = self._sessions.describe(self._session)
        except SessionError as error:
            if error.code in ("not-found", "expired"):
                return False
            raise
        if self._user is not None and state["owner"] != user_bucket(self._user):
            raise SessionError(f"session '{self._session}' belongs to another user, or to none", "not-found")
        self._is_checked = True
        return True

    def pop(self) -> Item | None:
        """Remove the newest item and return it."""
        newest = self.newest(1)
        if not newest:
            return None
        self._sessions.rewrite(self._session, newest[0].position, None)
        return newest[0]

    def remove(self, index: int) -> Item | None:
        """Remove the item at this place from the oldest on."""
        items = self.newest()
        if not 0 <= index < len(items):
            return None
        self._sessions.rewrite(self._session, items[index].position, None)
        return items[index]

    def replace(self, items: Sequence[Item]) -> None:
        """Put items in place of all that are there: at once, up to 10,000."""
        self._next = None
        records = [as_record(item, self._source, self._longest) for item in items]
        self._create()
        self._sessions.set_messages(self._session, records)

    def delete(self) -> None:
        """Delete the session with all that it holds."""
        self._next = None
        try:
            self._sessions.delete(self._session)
        except SessionError as error:
            if error.code not in ("not-found", "expired"):
                raise

    def clear(self) -> None:
        """Remove all items. The session's values stay."""
        self._next = None
        try:
            self._sessions.clear_messages(self._session)
        except SessionError as error:
            if error.code not in ("not-found", "expired"):
                raise
