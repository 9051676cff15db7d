"""What the extension module needs to run a caller's asynchronous functions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

_T = TypeVar("_T")


async def as_coroutine(awaitable: Awaitable[_T]) -> _T:
    """A coroutine of anything that can be awaited."""
    return await awaitable


def running_loop() -> asyncio.AbstractEventLoop:
    """The event loop on which asynchronous functions of the caller's run."""
    return asyncio.get_running_loop()
