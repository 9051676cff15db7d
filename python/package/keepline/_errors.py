"""Exceptions: the library's codes and messages."""

from __future__ import annotations

from typing import Any


class KeeplineError(Exception):
    """A call failed. ``code`` is one word for programs, the message one sentence for people.

    Codes that any call may have: ``busy`` (no instance of the plugin came free in time), ``plugin`` (it was stopped),
    ``closed`` (after ``shutdown``), ``forked`` (opened before this process was forked), ``repeated`` and ``nested``
    (a call that can't be made here), and the store's: ``timed-out``, ``unavailable`` and others.
    """

    def __init__(self, message: str, code: str = "other") -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.code), self.__dict__


class ConfigError(KeeplineError):
    """A field of the configuration or an argument is wrong. ``option`` names it, if it is one."""

    option: str | None = None


class EntryError(KeeplineError):
    """The memory of a question or an answer failed, with ``on_store_error="fail"``. The entry itself is unharmed."""


class SessionError(KeeplineError):
    """A call on a session failed: ``invalid-session``, ``invalid-key``, ``invalid-value``, ``not-found``, ``expired``,
    ``already-exists``, ``not-a-counter``, ``counter-overflow``, ``limit``, ``too-many-sessions``, ``conflict``, or the
    store's own code."""


class PipelineError(KeeplineError):
    """A call on pipelines failed: ``not-found``, ``exists``, ``conflict``, ``invalid``, ``limit``, or ``store``.

    ``path`` says where in the definition, request or item; ``findings`` has all errors of an invalid definition.
    """

    path: str = ""
    findings: list[dict[str, Any]] = []
