"""Questions and answers, with and without an event loop, on every store."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import RedisServer, wait_until

import keepline


@pytest.fixture(params=["memory", "directory", "redis"])
def fields(request: pytest.FixtureRequest, tmp_path: Path, redis_server: RedisServer) -> Iterator[dict[str, Any]]:
    kind = request.param
    yield {
        "memory": {"backend": "memory"},
        "directory": {"backend": "directory", "directory": str(tmp_path / "memory")},
        "redis": {"backend": "redis", "redis_url": redis_server.url, "key_prefix": f"t:{uuid.uuid4().hex}"},
    }[kind]


def test_what_was_answered_is_remembered(fields: dict[str, Any]) -> None:
    with keepline.Keepline.open(**fields) as memory:
        pipe = memory.pipe()
        asked = pipe.question("Where is my parcel?", {"session_id": "anna"})
        assert (asked.effect, asked.is_changed, asked.metadata) == ("resumed", False, {"session_id": "anna"})
        assert pipe.answer("In Leipzig.").effect == "stored"
        pipe.open()
        asked = pipe.question("And now?", '{"session_id": "anna"}')
        assert asked.metadata["memory_context"] == {"answer_count": 1, "last_answer": "In Leipzig."}
        assert json.loads(asked.metadata_json) == asked.metadata
        assert (asked.effect, asked.attached, asked.problem) == ("enriched", 2, None)
        assert memory.metrics()["effects"]["stored"] == 1


def test_the_same_with_an_event_loop(fields: dict[str, Any]) -> None:
    async def converse() -> dict[str, Any]:
        async with await keepline.AsyncKeepline.open(**fields) as memory:
            pipe = memory.pipe()
            await pipe.question("Where is my parcel?", {"session_id": "anna"})
            await pipe.answer("In Leipzig.")
            return (await memory.pipe().question("And now?", {"session_id": "anna"})).metadata

    assert asyncio.run(converse())["memory_context"] == {"answer_count": 1, "last_answer": "In Leipzig."}


def test_on_memory_an_awaited_call_is_done_at_once() -> None:
    async def main() -> None:
        async with await keepline.AsyncKeepline.open() as memory:
            # Nothing is handed to the event loop: the first step is the last.
            with pytest.raises(StopIteration) as ended:
                memory.pipe().question("?", {"session_id": "anna"}).send(None)
            assert ended.value.value.effect == "resumed"

    asyncio.run(main())


def test_many_conversations_side_by_side(fields: dict[str, Any]) -> None:
    async def converse(memory: keepline.AsyncKeepline, session: str) -> int:
        pipe = memory.pipe()
        for _ in range(5):
            await pipe.question("?", {"session_id": session})
            await pipe.answer("An answer.")
        count = await memory.sessions().get(session, "answer_count")
        return int(count)

    async def main() -> list[int]:
        async with await keepline.AsyncKeepline.open(**fields, store_timeout_ms=60_000) as memory:
            return await asyncio.gather(*(converse(memory, f"s{number}") for number in range(20)))

    assert asyncio.run(main()) == [5] * 20


def test_a_profile_has_fields_of_its_own(tmp_path: Path) -> None:
    with keepline.Keepline.open(profile="chat", directory=str(tmp_path)) as memory:
        assert memory.filter_options()["conversation"] is True
    with pytest.raises(keepline.ConfigError, match="backnd"):
        keepline.Keepline.open(profile="chat", directory=str(tmp_path), backnd="memory")


def test_a_conversation_comes_back_as_messages(memory: keepline.Keepline) -> None:
    pipe = memory.pipe()
    pipe.question("Where is parcel 7?", {"session_id": "anna"})
    assert pipe.tool({"call_id": "c1", "name": "track", "arguments": '{"parcel":7}'})
    assert pipe.tool({"call_id": "c1", "output": "left Hamburg"})
    assert pipe.answer("It left Hamburg.", details={"model": "m", "usage": {"input": 3}}).effect == "stored"
    asked = pipe.question("And when does it arrive?", {"session_id": "anna"})
    assert [message["role"] for message in asked.messages] == ["user", "assistant", "tool", "assistant"]
    assert asked.messages[-1]["content"] == "It left Hamburg."


def test_an_entry_that_fails_goes_on_or_raises_as_configured() -> None:
    nowhere = {"backend": "redis", "redis_url": "redis://127.0.0.1:1", "store_timeout_ms": 200}
    with keepline.Keepline.open(**nowhere) as memory:
        asked = memory.pipe().question("?", {"session_id": "anna"})
        assert asked.effect == "failed" and asked.problem is not None and asked.problem["code"]
        assert not memory.health()["is_good"]
    with keepline.Keepline.open(**nowhere, on_store_error="fail") as memory:
        with pytest.raises(keepline.EntryError) as raised:
            memory.pipe().question("?", {"session_id": "anna"})
        assert raised.value.code and raised.value.message == str(raised.value)


@pytest.mark.parametrize(
    ("fields", "option"),
    [({"backnd": "memory"}, "backnd"), ({"backend": "disk"}, "backend"), ({"max_history": -1}, "max_history")],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], option: str) -> None:
    with pytest.raises(keepline.ConfigError, match=option) as raised:
        keepline.Keepline.open(**fields)
    assert raised.value.code == "config"


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), float("-inf")])
def test_a_wrong_timeout_is_named(memory: keepline.Keepline, timeout: float) -> None:
    with pytest.raises(keepline.ConfigError, match="timeout"):
        memory.pipe().question("?", {"session_id": "anna"}, timeout=timeout)


def test_variables_of_the_environment_count_if_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPLINE_MAX_HISTORY", "7")
    assert keepline.Keepline.open(environment=True).filter_options()["max_history"] == 7
    assert keepline.Keepline.open().filter_options()["max_history"] != 7


def test_after_a_shutdown_entries_go_on_without_memory(memory: keepline.Keepline) -> None:
    assert memory.shutdown(10) == 0
    problem = memory.pipe().question("?", {"session_id": "anna"}).problem
    assert problem is not None and problem["code"] == "closed"
    with pytest.raises(keepline.SessionError) as raised:
        memory.sessions().keys("anna")
    assert raised.value.code == "closed"


def test_what_the_library_logs_goes_to_pythons_logging(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="keepline"), keepline.Keepline.open() as memory:
        memory.pipe().question("?", {"session_id": "not/an id"})
        wait_until(lambda: any("session" in record.getMessage() for record in caplog.records), "a log line")


def test_a_call_is_made_once(memory: keepline.Keepline) -> None:
    call = memory._native.health(None)
    assert call.wait()["is_good"]
    with pytest.raises(keepline.KeeplineError) as raised:
        call.wait()
    assert raised.value.code == "repeated"
