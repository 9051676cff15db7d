"""The extension module: what the typed layer is made on."""

import asyncio
from collections.abc import Generator, Sequence
from typing import Any, Generic, TypeVar

from ._item import StoredItem
from ._types import (
    Checked,
    Definition,
    Definitions,
    Effect,
    Health,
    HistoryPage,
    ItemPage,
    ItemsChanged,
    Memories,
    MessagePage,
    Names,
    Owner,
    Problem,
    Remembered,
    SessionDeleted,
    SessionList,
    SessionState,
    TaskOutcome,
    ToolActivity,
    TranscriptSettings,
    TranscriptState,
    UserForgotten,
    UserSearch,
)

_T = TypeVar("_T")
_Transcript = tuple[str, str | None, str | None]
_Dataset = tuple[Owner, str, str, str]

__version__: str

def forget_after_fork() -> None: ...
def close_at_exit() -> None: ...
def user_bucket(user: str) -> str: ...

class Call(Generic[_T]):
    def wait(self) -> _T: ...
    def __await__(self) -> Generator[Any, None, _T]: ...

class Passed:
    """What the filter made of an entry. Its text is the caller's and stays as it is."""

    @property
    def effect(self) -> Effect:
        """What was done."""
    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata to send on: those that the filter made, or the entry's own."""
    @property
    def metadata_json(self) -> str:
        """The same as JSON."""
    @property
    def is_changed(self) -> bool:
        """Whether the filter changed the metadata."""
    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation so far, as chat messages to place before the question. Empty without ``conversation``."""
    @property
    def attached(self) -> int:
        """Values attached to a question."""
    @property
    def has_vector(self) -> bool:
        """Whether it is a question that went with its embedding."""
    @property
    def due(self) -> list[Task]:
        """What should be done soon: for maintenance."""
    @property
    def problem(self) -> Problem | None:
        """What kept the entry from its memory, or from a part of it."""

class Task:
    """Something that should be done off the entries' path, such as a summary."""

    @property
    def name(self) -> str: ...
    @property
    def buckets(self) -> list[tuple[str, str]]: ...
    @staticmethod
    def for_session(name: str, session: str, owner: str | None) -> Task:
        """One of the bundled filter's tasks for a session: ``title``, ``summary``, ``retention``, ``recall`` or ``vectors``."""

class NativeKeepline:
    @staticmethod
    def open(
        fields: str,
        environment: list[tuple[str, str]] | None,
        plugin: str | None,
        token_counter: Any,
        embedder: Any,
        handlers: dict[str, Any] | None,
        event_loop: asyncio.AbstractEventLoop | None,
        log_level: int,
    ) -> Call[NativeKeepline]: ...
    def pipe(self) -> NativePipe: ...
    def sessions(self, owner: str | None, request_id: str | None, timeout: float | None) -> NativeSessions: ...
    def maintenance(self, model: Any, event_loop: asyncio.AbstractEventLoop | None) -> NativeMaintenance: ...
    def pipelines(self) -> Call[NativePipelines]: ...
    def remember(
        self,
        user: str,
        messages: str,
        session: str | None,
        message_id: str | None,
        metadata: str,
        timeout: float | None,
    ) -> Call[Remembered]: ...
    def memories(
        self,
        user: str,
        query: str | None,
        session: str | None,
        limit: int,
        threshold: float,
        by_words: bool,
        prompt_chars: int,
    ) -> Call[Memories]: ...
    def health(self, timeout: float | None) -> Call[Health]: ...
    def metrics(self) -> dict[str, Any]: ...
    def filter_options(self) -> dict[str, Any]: ...
    def warnings(self) -> list[str]: ...
    def shutdown(self, limit: float) -> Call[int]: ...

class NativePipe:
    def ask(
        self, text: str, metadata: str, message_id: str | None, tokens: int | None, timeout: float | None
    ) -> Call[Passed]: ...
    def reply(
        self,
        text: str,
        metadata: str,
        message_id: str | None,
        question_text: str | None,
        activity: list[ToolActivity],
        is_complete: bool,
        question_tokens: int | None,
        tokens: int | None,
        details: str,
        timeout: float | None,
    ) -> Call[Passed]: ...
    def tool(self, activity: ToolActivity, metadata: str) -> Call[bool]: ...
    def open(self, metadata: str) -> Call[None]: ...

class NativeSessions:
    def create(self, session: str) -> Call[SessionState]: ...
    def resume(self, session: str) -> Call[SessionState]: ...
    def list(self, cursor: str, limit: int) -> Call[tuple[Names, str]]: ...
    def delete(self, session: str) -> Call[SessionDeleted]: ...
    def put(self, session: str, key: str, value: str) -> Call[bool]: ...
    def get(self, session: str, key: str) -> Call[Sequence[Any]]: ...
    def keys(self, session: str) -> Call[Names]: ...
    def clear(self, session: str, key: str | None) -> Call[Names]: ...
    def increment(self, session: str, key: str, amount: int) -> Call[int]: ...
    def history(self, session: str, before: int | None, limit: int) -> Call[HistoryPage]: ...
    def describe(self, transcript: _Transcript) -> Call[TranscriptState]: ...
    def messages(
        self,
        transcript: _Transcript,
        id: str | None,
        thread: str | None,
        role: str | None,
        contains: str | None,
        before: int | None,
        limit: int,
    ) -> Call[MessagePage]: ...
    def items(
        self, transcript: _Transcript, before: int | None, limit: int
    ) -> Call[tuple[Sequence[StoredItem], int | None]]: ...
    def content(self, transcript: _Transcript, position: int, offset: int, limit: int) -> Call[tuple[str, int]]: ...
    def find_lines(
        self,
        transcript: _Transcript,
        position: int,
        text: str,
        ignore_case: bool,
        context: int,
        from_line: int,
        limit: int,
    ) -> Call[dict[str, Any]]: ...
    def set_messages(
        self, transcript: _Transcript, messages: Sequence[str | dict[str, Any]], next: int | None
    ) -> Call[tuple[int, int]]: ...
    def rewrite(self, transcript: _Transcript, position: int, content: str | None) -> Call[tuple[int, int]]: ...
    def clear_messages(self, transcript: _Transcript, branch: int | None) -> Call[tuple[int, int]]: ...
    def set_title(self, transcript: _Transcript, title: str | None) -> Call[str | None]: ...
    def set_settings(
        self,
        transcript: _Transcript,
        max_context_tokens: int | None,
        context_window: int | None,
        reserve_tokens: int | None,
        model: str | None,
    ) -> Call[TranscriptSettings]: ...
    def register(self, transcript: _Transcript, user: str | None) -> Call[str | None]: ...
    def user_values(self, user: str) -> Call[dict[str, Any]]: ...
    def put_user_value(self, user: str, key: str, value: str | None) -> Call[bool]: ...
    def user_sessions(self, user: str, before: int | None, limit: int) -> Call[SessionList]: ...
    def search_user(self, user: str, words: str, after: str | None, limit: int) -> Call[UserSearch]: ...
    def forget_user(self, user: str) -> Call[UserForgotten]: ...

class NativeMaintenance:
    def submit(self, due: list[Task]) -> None: ...
    def run(self, task: Task) -> Call[TaskOutcome]: ...
    def pending(self) -> int: ...
    def counters(self) -> dict[str, Any]: ...
    def shutdown(self, grace: float) -> Call[int]: ...

class NativePipelines:
    def check(self, kind: str, form: str, text: str) -> Call[Checked]: ...
    def put(self, owner: Owner, kind: str, form: str, text: str, revision: int | None) -> Call[Definition]: ...
    def update(self, owner: Owner, kind: str, id: str, changes: str, revision: int | None) -> Call[Definition]: ...
    def duplicate(self, owner: Owner, kind: str, id: str, new_id: str | None) -> Call[Definition]: ...
    def get_definition(self, owner: Owner, kind: str, id: str) -> Call[Definition]: ...
    def list(self, owner: Owner, kind: str, scope: str | None, only_active: bool) -> Call[Definitions]: ...
    def remove(self, owner: Owner, kind: str, id: str, revision: int | None) -> Call[int]: ...
    def required_variables(self, owner: Owner, ids: Sequence[str]) -> Call[dict[str, Any]]: ...
    def describe_steps(self, only_configurable: bool) -> Call[Any]: ...
    def put_items(self, dataset: _Dataset, items: Sequence[tuple[str, str]]) -> Call[ItemsChanged]: ...
    def list_items(self, dataset: _Dataset, cursor: str, limit: int) -> Call[ItemPage]: ...
    def remove_items(self, dataset: _Dataset, ids: Sequence[str]) -> Call[ItemsChanged]: ...
    def run(
        self,
        owner: Owner,
        session: str | None,
        user: str | None,
        operation: str,
        input: str,
        timeout: float | None,
    ) -> Call[dict[str, Any]]: ...
