"""The library for programs without an event loop. Made of ``_async.py``: don't edit it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from . import _json
from ._keepline import (
    NativeKeepline,
    NativeMaintenance,
    NativePipe,
    NativePipelines,
    NativeSessions,
    Passed,
    Task,
)
from ._types import (
    ChatMessage,
    Checked,
    Definition,
    Definitions,
    Embedder,
    Handler,
    Health,
    HistoryPage,
    ItemPage,
    ItemsChanged,
    Memories,
    MessagePage,
    Metadata,
    Model,
    Names,
    Owner,
    Remembered,
    SessionDeleted,
    SessionList,
    SessionPage,
    SessionState,
    StoredMessage,
    TaskOutcome,
    TokenCounter,
    ToolActivity,
    TranscriptChanged,
    TranscriptSettings,
    TranscriptState,
    UserForgotten,
    UserSearch,
)


class Keepline:
    """A plugin with a store and a configuration. One for each store is enough for a process; use it from many threads."""

    def __init__(self, native: NativeKeepline) -> None:
        self._native = native

    @classmethod
    def open(
        cls,
        *,
        profile: str | None = None,
        environment: bool = False,
        plugin: str | os.PathLike[str] | None = None,
        token_counter: TokenCounter | None = None,
        embedder: Embedder | None = None,
        handlers: Mapping[str, Handler] | None = None,
        **fields: Any,
    ) -> Keepline:
        """Open one. ``fields`` are those of the configuration (``docs/configuration.md``): ``backend="redis"``,
        ``redis_url="redis://…"``, ``directory="./memory"``, ``conversation=True`` and so on. Without any, sessions are kept
        in this process's memory.

        ``profile``: where the fields start from, such as ``"chat"``. ``environment``: whether variables of the environment (``KEEPLINE_BACKEND`` and so on) set fields, too; they win.
        ``plugin``: another component than the bundled one. The functions may be asynchronous, but for ``token_counter``.
        What the library logs goes to the logger ``keepline``.

        Raises ``ConfigError`` for a field that is unknown or wrong, and ``KeeplineError`` if the store can't be opened.
        """
        call = NativeKeepline.open(
            _json.write(fields if profile is None else {"profile": profile, profile: fields}),
            list(os.environ.items()) if environment else None,
            os.fspath(plugin) if plugin is not None else None,
            token_counter,
            embedder,
            dict(handlers) if handlers is not None else None,
            None,
            logging.getLogger("keepline").getEffectiveLevel(),
        )
        return cls(call.wait())

    def __enter__(self) -> Keepline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def pipe(self) -> Pipe:
        """A pipe: the lanes of one stream of entries. Make as many as are wanted; they cost little."""
        return Pipe(self._native.pipe())

    def sessions(
        self, *, owner: str | None = None, request_id: str | None = None, timeout: float | None = None
    ) -> Sessions:
        """What an operator does to sessions.

        ``owner``: calls that write only reach sessions of this user; any other is ``not-found``. ``request_id``: the same
        call again under this id changes nothing. ``timeout``: seconds for each call, in place of ``store_timeout_ms``.
        """
        return Sessions(self._native.sessions(owner, request_id, timeout))

    def maintenance(self, model: Model | None = None) -> Maintenance:
        """What does deferred work, such as summaries and titles. One is enough. Without a model, a conversation gets a
        digest, and its first message is its title."""
        return Maintenance(self._native.maintenance(model, None))

    def pipelines(self) -> Pipelines:
        """Declared retrieval over the same store."""
        call = self._native.pipelines()
        return Pipelines(call.wait())

    def remember(
        self,
        user: str,
        messages: Sequence[ChatMessage],
        *,
        session: str | None = None,
        message_id: str | None = None,
        metadata: Metadata | None = None,
        timeout: float | None = None,
    ) -> Remembered:
        """Store the newest exchange of a conversation as a memory of a user. It never raises for what is not stored: the
        outcome says why. Without a ``session`` it goes to one of the user's own, with ``recall="user"``."""
        texts = "" if metadata is None else _json.write_object(metadata)
        call = self._native.remember(user, _json.write(list(messages)), session, message_id, texts, timeout)
        return call.wait()

    def memories(
        self,
        user: str,
        query: str | None = None,
        *,
        session: str | None = None,
        limit: int = 0,
        threshold: float = 0.5,
        by_words: bool = False,
        prompt_chars: int = 2000,
    ) -> Memories:
        """Memories of a user that bear on a query (None: the newest question of the session, or of the one used last).

        ``limit``: 0 means 5; at most 100. ``threshold``: what a memory's similarity has to be above. ``by_words``: look
        for messages that contain all words, the newest first, in place of recall.
        """
        call = self._native.memories(user, query, session, limit, threshold, by_words, prompt_chars)
        return call.wait()

    def health(self, timeout: float | None = None) -> Health:
        """Whether the store can be used, as an entry would find it."""
        call = self._native.health(timeout)
        return call.wait()

    def metrics(self) -> dict[str, Any]:
        """Counters and gauges, read at one moment."""
        return self._native.metrics()

    def filter_options(self) -> dict[str, Any]:
        """The filter's options in force."""
        return self._native.filter_options()

    def warnings(self) -> list[str]:
        """What the store can't promise and the filter's configuration relies on."""
        return self._native.warnings()

    def shutdown(self, limit: float = 5.0) -> int:
        """Take no new calls, and let those under way finish within so many seconds. How many did not."""
        call = self._native.shutdown(limit)
        return call.wait()


class Pipe:
    """The lanes of one stream of entries, of any number of conversations: it carries the turn from a question to its
    answers. Calls on one pipe are done one after another; many pipes work side by side."""

    def __init__(self, native: NativePipe) -> None:
        self._native = native

    def question(
        self,
        text: str,
        metadata: Metadata | None = None,
        *,
        message_id: str | None = None,
        tokens: int | None = None,
        timeout: float | None = None,
    ) -> Passed:
        """A question on its way to the model. Send it on with ``passed.metadata``, which has what the session remembers.

        A memory that fails is never the reason that it raises, unless ``on_store_error="fail"``: ``passed.problem`` says
        why it goes on without. ``timeout``: seconds, in place of ``store_timeout_ms``.
        """
        call = self._native.ask(text, _json.write_object(metadata), message_id, tokens, timeout)
        return call.wait()

    def answer(
        self,
        text: str,
        metadata: Metadata | None = None,
        *,
        message_id: str | None = None,
        question: str | None = None,
        tools: Sequence[ToolActivity] = (),
        complete: bool = True,
        question_tokens: int | None = None,
        tokens: int | None = None,
        details: Metadata | None = None,
        timeout: float | None = None,
    ) -> Passed:
        """An answer on its way back: stored in the session that its metadata name, else in that of the question asked last.

        ``question``: its question's text, if another pipe had it. ``tools``: what tools did, after what was passed to
        ``tool``. ``complete``: False for one that was cut off. ``details``: more to store with it (model, usage). Hand
        ``passed.due`` to maintenance once the answer was sent on.
        """
        call = self._native.reply(
            text,
            _json.write_object(metadata),
            message_id,
            question,
            list(tools),
            complete,
            question_tokens,
            tokens,
            "" if details is None else _json.write_object(details),
            timeout,
        )
        return call.wait()

    def tool(self, activity: ToolActivity, metadata: Metadata | None = None) -> bool:
        """What a tool did since the question: it goes with the next answer. False: it was left out, and that was logged."""
        call = self._native.tool(activity, _json.write_object(metadata))
        return call.wait()

    def open(self, metadata: Metadata | None = None) -> None:
        """A new object begins: what follows has nothing to do with the questions before. With a session in its metadata,
        only that session's turns end."""
        call = self._native.open(_json.write_object(metadata))
        call.wait()


class Sessions:
    """Sessions by id, with their transcripts and users. Each call is checked where entries are, in the component."""

    def __init__(self, native: NativeSessions) -> None:
        self._native = native

    def create(self, session: str) -> SessionState:
        """Create a session that must not be there."""
        call = self._native.create(session)
        return call.wait()

    def resume(self, session: str) -> SessionState:
        """Look at a session. It counts as a use of it."""
        call = self._native.resume(session)
        return call.wait()

    def list(self, cursor: str = "", limit: int = 0) -> SessionPage:
        """A page of session ids; a limit of 0 means 100."""
        call = self._native.list(cursor, limit)
        sessions, following = call.wait()
        return {"sessions": sessions, "cursor": following}

    def delete(self, session: str) -> SessionDeleted:
        """Delete a session and all that it holds, its nodes, and what its owner's memory has of it."""
        call = self._native.delete(session)
        return call.wait()

    def put(self, session: str, key: str, value: Any) -> bool:
        """Store a value under a key. Whether the key was there before."""
        call = self._native.put(session, key, _json.write(value))
        return call.wait()

    def get(self, session: str, key: str, default: Any = None) -> Any:
        """The value under a key."""
        call = self._native.get(session, key)
        values = call.wait()
        return values[0] if values else default

    def keys(self, session: str) -> Names:
        """The session's keys, sorted."""
        call = self._native.keys(session)
        return call.wait()

    def clear(self, session: str, key: str | None = None) -> Names:
        """Clear one key, or all. What was cleared."""
        call = self._native.clear(session, key)
        return call.wait()

    def increment(self, session: str, key: str, amount: int = 1) -> int:
        """Add to a counter. Its value now."""
        call = self._native.increment(session, key, amount)
        return call.wait()

    def history(self, session: str, before: int | None = None, limit: int = 0) -> HistoryPage:
        """At most ``limit`` records of what was done to values (0: as many as fit) before a position."""
        call = self._native.history(session, before, limit)
        return call.wait()

    def describe(
        self, session: str, *, app_id: str | None = None, node_id: str | None = None
    ) -> TranscriptState:
        """What there is to tell of a transcript: owner, title, summary, size. No use of it is counted."""
        call = self._native.describe((session, app_id, node_id))
        return call.wait()

    def messages(
        self,
        session: str,
        *,
        id: str | None = None,
        thread: str | None = None,
        role: str | None = None,
        contains: str | None = None,
        before: int | None = None,
        limit: int = 0,
        app_id: str | None = None,
        node_id: str | None = None,
    ) -> MessagePage:
        """Messages of a transcript, oldest first, page by page from the newest on: by id, thread, role or text.

        ``limit``: 0 means 100; at most 1,000. A page may be empty and not the last: go on while there is an ``older``.
        """
        call = self._native.messages((session, app_id, node_id), id, thread, role, contains, before, limit)
        return call.wait()

    def content(
        self,
        session: str,
        position: int,
        *,
        offset: int = 0,
        limit: int = 0,
        app_id: str | None = None,
        node_id: str | None = None,
    ) -> tuple[str, int]:
        """A part of a message's text by characters (0: 50,000), and the length of the whole."""
        call = self._native.content((session, app_id, node_id), position, offset, limit)
        return call.wait()

    def find_lines(
        self,
        session: str,
        position: int,
        text: str,
        *,
        ignore_case: bool = False,
        context: int = 0,
        from_line: int = 0,
        limit: int = 0,
        app_id: str | None = None,
        node_id: str | None = None,
    ) -> dict[str, Any]:
        """The lines of a message that hold a text. ``next`` says where to go on."""
        call = self._native.find_lines(
            (session, app_id, node_id), position, text, ignore_case, context, from_line, limit
        )
        return call.wait()

    def set_messages(
        self,
        session: str,
        messages: Sequence[ChatMessage | StoredMessage],
        *,
        next: int | None = None,
        app_id: str | None = None,
        node_id: str | None = None,
    ) -> TranscriptChanged:
        """Put messages in place of all that there are or, with ``next``, after them, if the transcript stands there
        (``conflict`` otherwise). A message with a ``kind`` is stored as it is, any other is one of a chat API's. The
        session has to be there."""
        call = self._native.set_messages(
            (session, app_id, node_id), [_stored(message) for message in messages], next
        )
        count, following = call.wait()
        return {"count": count, "next": following}

    def rewrite(
        self,
        session: str,
        position: int,
        content: str | None,
        *,
        app_id: str | None = None,
        node_id: str | None = None,
    ) -> TranscriptChanged:
        """Put other words in a message's place; None: remove it."""
        call = self._native.rewrite((session, app_id, node_id), position, content)
        count, following = call.wait()
        return {"count": count, "next": following}

    def clear_messages(
        self,
        session: str,
        branch: int | None = None,
        *,
        app_id: str | None = None,
        node_id: str | None = None,
    ) -> TranscriptChanged:
        """Remove all messages, with summary and title, or those from a position on that go on from there."""
        call = self._native.clear_messages((session, app_id, node_id), branch)
        count, following = call.wait()
        return {"count": count, "next": following}

    def set_title(
        self, session: str, title: str | None, *, app_id: str | None = None, node_id: str | None = None
    ) -> str | None:
        """Give a transcript a title: one line of at most 200 characters; None or blank: it has none."""
        call = self._native.set_title((session, app_id, node_id), title)
        return call.wait()

    def set_settings(
        self,
        session: str,
        *,
        max_context_tokens: int | None = None,
        context_window: int | None = None,
        reserve_tokens: int | None = None,
        model: str | None = None,
        app_id: str | None = None,
        node_id: str | None = None,
    ) -> TranscriptSettings:
        """Set the size of a transcript's window and its model, in place of all that was set before."""
        call = self._native.set_settings(
            (session, app_id, node_id), max_context_tokens, context_window, reserve_tokens, model
        )
        return call.wait()

    def register(
        self, session: str, user: str | None = None, *, app_id: str | None = None, node_id: str | None = None
    ) -> str | None:
        """Note a session that was moved here in its owner's lists; one without an owner becomes the user's."""
        call = self._native.register((session, app_id, node_id), user)
        return call.wait()

    def user_values(self, user: str) -> dict[str, Any]:
        """The values of a user, which each question that names the user gets."""
        call = self._native.user_values(user)
        return call.wait()

    def put_user_value(self, user: str, key: str, value: Any) -> bool:
        """Store a value of a user. Whether the key was there before."""
        call = self._native.put_user_value(user, key, _json.write(value))
        return call.wait()

    def remove_user_value(self, user: str, key: str) -> bool:
        """Remove a value of a user. Whether it was there."""
        call = self._native.put_user_value(user, key, None)
        return call.wait()

    def user_sessions(self, user: str, before: int | None = None, limit: int = 0) -> SessionList:
        """The sessions of a user, the one used last first; a limit of 0 means 20."""
        call = self._native.user_sessions(user, before, limit)
        return call.wait()

    def search_user(self, user: str, words: str, after: str | None = None, limit: int = 0) -> UserSearch:
        """Messages in a user's sessions that contain all of these words. ``after``: where an earlier call ended."""
        call = self._native.search_user(user, words, after, limit)
        return call.wait()

    def forget_user(self, user: str) -> UserForgotten:
        """Forget a user: values, and some 32 sessions a call. Call again until nothing is ``remaining``."""
        call = self._native.forget_user(user)
        return call.wait()


class Maintenance:
    """Does the tasks that answers name: summaries, titles, retention, what recall needs."""

    def __init__(self, native: NativeMaintenance) -> None:
        self._native = native

    def submit(self, due: Sequence[Task]) -> None:
        """Have these tasks done in the background; returns at once."""
        self._native.submit(list(due))

    def run(self, task: Task) -> TaskOutcome:
        """Do a task now."""
        call = self._native.run(task)
        return call.wait()

    def pending(self) -> int:
        """Tasks that wait or are at work in the background."""
        return self._native.pending()

    def counters(self) -> dict[str, Any]:
        """What has become of tasks so far."""
        return self._native.counters()

    def shutdown(self, grace: float = 5.0) -> int:
        """Take no more tasks, and finish those that were taken within so many seconds. How many were abandoned."""
        call = self._native.shutdown(grace)
        return call.wait()


class Pipelines:
    """Declared retrieval: definitions of memories and rule engines, the data sets that they read, and runs."""

    def __init__(self, native: NativePipelines) -> None:
        self._native = native

    def check(self, definition: Metadata, *, kind: str = "memory", form: str = "json") -> Checked:
        """Validate a definition: a mapping or JSON, or YAML with ``form="yaml"``."""
        call = self._native.check(kind, form, _json.write_object(definition))
        return call.wait()

    def put(
        self,
        owner: Owner,
        definition: Metadata,
        *,
        kind: str = "memory",
        form: str = "json",
        revision: int | None = None,
    ) -> Definition:
        """Store a definition under its id. ``revision``: what must be there, 0 for nothing; None: whatever is there."""
        call = self._native.put(owner, kind, form, _json.write_object(definition), revision)
        return call.wait()

    def update(
        self, owner: Owner, id: str, changes: Metadata, *, kind: str = "memory", revision: int | None = None
    ) -> Definition:
        """Replace top-level members of a stored definition."""
        call = self._native.update(owner, kind, id, _json.write_object(changes), revision)
        return call.wait()

    def duplicate(
        self, owner: Owner, id: str, new_id: str | None = None, *, kind: str = "memory"
    ) -> Definition:
        """Store a definition once more under another id; None: the first of ``X-copy``, ``X-copy-2`` that is free."""
        call = self._native.duplicate(owner, kind, id, new_id)
        return call.wait()

    def get(self, owner: Owner, id: str, *, kind: str = "memory") -> Definition:
        """The definition of this id."""
        call = self._native.get_definition(owner, kind, id)
        return call.wait()

    def list(
        self, owner: Owner, *, kind: str = "memory", scope: str | None = None, only_active: bool = False
    ) -> Definitions:
        """All definitions of a kind with that input scope, by id."""
        call = self._native.list(owner, kind, scope, only_active)
        return call.wait()

    def remove(self, owner: Owner, id: str, *, kind: str = "memory", revision: int | None = None) -> int:
        """Remove a definition. The revision that it had."""
        call = self._native.remove(owner, kind, id, revision)
        return call.wait()

    def required_variables(self, owner: Owner, ids: Sequence[str]) -> dict[str, Any]:
        """What a caller has to bring so that these memories can run."""
        call = self._native.required_variables(owner, list(ids))
        return call.wait()

    def describe_steps(self, only_configurable: bool = False) -> Any:
        """The types of steps with their parameters."""
        call = self._native.describe_steps(only_configurable)
        return call.wait()

    def put_items(
        self, owner: Owner, dataset: str, items: Mapping[str, Any], *, name: str = "", namespace: str = ""
    ) -> ItemsChanged:
        """Put items by id into a data set: ``values`` (with a name and a namespace), ``events`` or ``documents`` (with a
        name), ``nodes``, ``edges`` or ``views``."""
        texts = [(id, _json.write(item)) for id, item in items.items()]
        call = self._native.put_items((owner, dataset, name, namespace), texts)
        return call.wait()

    def list_items(
        self, owner: Owner, dataset: str, *, name: str = "", namespace: str = "", cursor: str = "", limit: int = 0
    ) -> ItemPage:
        """A page of a data set's items."""
        call = self._native.list_items((owner, dataset, name, namespace), cursor, limit)
        return call.wait()

    def remove_items(
        self, owner: Owner, dataset: str, ids: Sequence[str], *, name: str = "", namespace: str = ""
    ) -> ItemsChanged:
        """Remove items from a data set. Those that are not there are skipped."""
        call = self._native.remove_items((owner, dataset, name, namespace), list(ids))
        return call.wait()

    def run(
        self,
        owner: Owner,
        operation: str,
        input: Metadata,
        *,
        session: str | None = None,
        user: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Carry out ``execute``, ``assemble`` or ``evaluate-rules`` to its end, with the handlers that the Keepline was
        opened with. A run that fails raises nothing: its output says so."""
        call = self._native.run(owner, session, user, operation, _json.write_object(input), timeout)
        return call.wait()


def _stored(message: ChatMessage | StoredMessage) -> str | dict[str, Any]:
    """A message as the extension module takes it: JSON as chat APIs write it, or a record."""
    if "kind" not in message:
        return _json.write(message)
    record = dict(message)
    extras = record.get("extras")
    if extras:
        record["extras"] = [(name, _json.write(value)) for name, value in extras.items()]
    else:
        record.pop("extras", None)
    return record
