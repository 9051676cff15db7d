"""Measures pairs on memory, and the frameworks' sessions beside their own Redis classes on one server.

Prints medians in microseconds. ``--quick``: fewer rounds.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from agents.extensions.memory.redis_session import RedisSession
from conftest import RedisServer
from langchain_community.chat_message_histories import RedisChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage

import keepline
from keepline.langchain import KeeplineChatMessageHistory
from keepline.openai_agents import KeeplineSession

QUICK = "--quick" in sys.argv
ROUNDS = 5 if QUICK else 21
SIZES = (10, 100, 1000)
QUESTION, ANSWER = "Where is my parcel? " * 4, "It left Hamburg this morning. " * 8


def median(measure: Callable[[], Any], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        measure()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


async def async_median(measure: Callable[[], Awaitable[Any]], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        await measure()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def pairs_on_memory() -> None:
    count, rounds = 1000, 5 if QUICK else 15

    def sync(fields: dict[str, Any]) -> float:
        memory = keepline.Keepline.open(**fields)
        times = []
        for number in range(rounds):
            pipe, metadata = memory.pipe(), {"session_id": f"s{number}"}
            began = time.perf_counter()
            for _ in range(count):
                pipe.question("Where is my parcel?", metadata)
                pipe.answer("In Leipzig.")
            times.append((time.perf_counter() - began) / count * 1e6)
        return statistics.median(times)

    async def awaited(fields: dict[str, Any]) -> float:
        memory = await keepline.AsyncKeepline.open(**fields)
        times = []
        for number in range(rounds):
            pipe, metadata = memory.pipe(), {"session_id": f"s{number}"}
            began = time.perf_counter()
            for _ in range(count):
                await pipe.question("Where is my parcel?", metadata)
                await pipe.answer("In Leipzig.")
            times.append((time.perf_counter() - began) / count * 1e6)
        return statistics.median(times)

    print("| a pair, µs | waited for | awaited |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        stores = {
            "memory": {},
            "memory, conversation": {"conversation": True},
            "directory": {"backend": "directory", "directory": folder},
        }
        for name, fields in stores.items():
            print(f"| {name} | {sync(fields):.1f} | {asyncio.run(awaited(fields)):.1f} |", flush=True)


def langchain(server: RedisServer, memory: keepline.Keepline) -> None:
    pair = [HumanMessage(QUESTION), AIMessage(ANSWER)]
    print("\n| LangChain, µs | messages | Keepline | its Redis class | times |\n|---|---|---|---|---|")
    for size in SIZES:
        name = uuid.uuid4().hex
        ours, theirs = KeeplineChatMessageHistory(name, memory), RedisChatMessageHistory(name, url=server.url)
        for _ in range(size // 2):
            ours.add_messages(pair)
            theirs.add_messages(pair)

        def ours_turn() -> None:
            ours.add_messages(pair)
            assert len(ours.newest(20)) == min(20, size + 20) or size < 20

        def theirs_turn() -> None:
            theirs.add_messages(pair)
            assert theirs.messages[-20:]

        row("store a pair, read the newest 20", size, median(ours_turn), median(theirs_turn))
        row("store a pair", size, median(lambda: ours.add_messages(pair)), median(lambda: theirs.add_messages(pair)))
        row("read all", size, median(lambda: ours.messages), median(lambda: theirs.messages))
        made = median(lambda: [HumanMessage(QUESTION) if n % 2 else AIMessage(ANSWER) for n in range(size)])
        print(f"| of which LangChain's constructors alone | {size} | {made:.0f} | {made:.0f} | |", flush=True)


async def openai_agents(server: RedisServer, memory: keepline.Keepline) -> None:
    pair: list[Any] = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]
    print("\n| Agents SDK, µs | messages | Keepline | its Redis class | times |\n|---|---|---|---|---|")
    for size in SIZES:
        name = uuid.uuid4().hex
        ours, theirs = KeeplineSession(name, memory), RedisSession.from_url(name, url=server.url)
        for _ in range(size // 2):
            await ours.add_items(pair)
            await theirs.add_items(pair)

        async def turn(session: Any) -> None:
            await session.add_items(pair)
            assert await session.get_items(20)

        row("store a pair, read the newest 20", size, await async_median(lambda: turn(ours)), await async_median(lambda: turn(theirs)))
        row("store a pair", size, await async_median(lambda: ours.add_items(pair)), await async_median(lambda: theirs.add_items(pair)))
        row("store one message", size, await async_median(lambda: ours.add_items(pair[:1])), await async_median(lambda: theirs.add_items(pair[:1])))
        row("read all", size, await async_median(lambda: ours.get_items()), await async_median(lambda: theirs.get_items()))
        await theirs.close()


def row(what: str, size: int, ours: float, theirs: float) -> None:
    print(f"| {what} | {size} | {ours:.0f} | {theirs:.0f} | {theirs / ours:.1f} |", flush=True)


def main() -> None:
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {ROUNDS} rounds\n")
    pairs_on_memory()
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        try:
            # As a server is, that is not asked to wait for its disk.
            subprocess.run(["redis-cli", "-p", str(server.port), "config", "set", "appendonly", "no"], check=True, capture_output=True)
            memory = keepline.Keepline.open(
                backend="redis", redis_url=server.url, conversation=True, store_timeout_ms=60_000
            )
            langchain(server, memory)
            asyncio.run(openai_agents(server, memory))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
