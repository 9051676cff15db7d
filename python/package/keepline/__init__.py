"""Persistent memory for LLM pipelines.

A question passes through a filter on its way to the model and leaves with what the session remembers; the answer passes
through it on the way back and is remembered::

    import keepline

    with keepline.Keepline.open(backend="directory", directory="./memory") as memory:
        pipe = memory.pipe()
        asked = pipe.question("Where is my parcel?", {"session_id": "anna"})
        pipe.answer(ask_a_model("Where is my parcel?", asked.metadata))

``AsyncKeepline`` is the same for event loops: ``await AsyncKeepline.open(…)``, ``await pipe.question(…)``.
"""

from __future__ import annotations

import atexit as _atexit
import os as _os

from . import _keepline
from ._async import AsyncKeepline, AsyncMaintenance, AsyncPipe, AsyncPipelines, AsyncSessions
from ._errors import ConfigError, EntryError, KeeplineError, PipelineError, SessionError
from ._keepline import Passed, Task, __version__
from ._sync import Keepline, Maintenance, Pipe, Pipelines, Sessions

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_keepline.forget_after_fork)
_atexit.register(_keepline.close_at_exit)

__all__ = [
    "AsyncKeepline",
    "AsyncMaintenance",
    "AsyncPipe",
    "AsyncPipelines",
    "AsyncSessions",
    "ConfigError",
    "EntryError",
    "Keepline",
    "KeeplineError",
    "Maintenance",
    "Passed",
    "Pipe",
    "PipelineError",
    "Pipelines",
    "SessionError",
    "Sessions",
    "Task",
    "__version__",
]
