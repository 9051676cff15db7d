"""The session of the OpenAI Agents SDK, with the SDK itself, beside its Redis class on the same server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from agents import Agent, Runner, set_tracing_disabled
from agents.extensions.memory.redis_session import RedisSession
from agents.items import ModelResponse
from agents.memory import Session
from agents.models.interface import Model
from agents.usage import Usage
from conftest import DEADLINE, RedisServer
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import keepline
from keepline.openai_agents import KeeplineSession

set_tracing_disabled(True)
ITEMS: list[Any] = [
    {"role": "user", "content": "Where is parcel 7?"},
    {"role": "system", "content": "Be short."},
    {"role": "developer", "content": "Say where it is."},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look it up."}]},
    {"type": "function_call", "call_id": "c1", "name": "track", "arguments": '{"parcel": 7}', "id": "fc_1"},
    {"type": "function_call_output", "call_id": "c1", "output": "left Hamburg"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "It left Hamburg.", "annotations": []}],
    },
    {"role": "user", "content": [{"type": "input_text", "text": "And this?"}, {"type": "input_image", "image_url": "x"}]},
    {"role": "user", "content": "  "},
    {"role": "user", "content": '[{"type": "text", "text": "as a text"}]'},
    {"type": "message", "role": "user", "content": "<think>aloud</think> ä\n\u2028 \U0001f4e6"},
    {"type": "function_call_output", "call_id": "c2", "output": "x" * 300_000},
]


def run(main: Callable[[], Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main(), DEADLINE))


async def open_on(server: RedisServer) -> keepline.AsyncKeepline:
    prefix = f"agents:{uuid.uuid4().hex}"
    return await keepline.AsyncKeepline.open(
        backend="redis", redis_url=server.url, key_prefix=prefix, conversation=True, store_timeout_ms=60_000
    )


def test_items_come_back_as_they_were(redis_server: RedisServer) -> None:
    async def main() -> None:
        memory = await open_on(redis_server)
        ours: Session = KeeplineSession("anna", memory)
        assert isinstance(ours, Session)
        theirs = RedisSession.from_url(uuid.uuid4().hex, url=redis_server.url)
        for session in (ours, theirs):
            assert await session.get_items() == [] and await session.pop_item() is None
            await session.clear_session()
            await session.add_items([])
            await session.add_items(ITEMS)
            await session.add_items([ITEMS[0], ITEMS[6]])
            assert await session.get_items() == [*ITEMS, ITEMS[0], ITEMS[6]]
            assert await session.get_items(3) == [ITEMS[-1], ITEMS[0], ITEMS[6]]
            assert await session.get_items(0) == []
            assert await session.pop_item() == ITEMS[6]
            assert await session.pop_item() == ITEMS[0]
            assert await session.get_items(1) == [ITEMS[-1]]
            await session.clear_session()
            assert await session.get_items() == []
        await theirs.close()

    run(main)


class ScriptedModel(Model):
    """Calls a tool, then answers."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **named: Any) -> ModelResponse:
        self.inputs.append(input)
        text = ResponseOutputText(type="output_text", text=f"answer {len(self.inputs)}", annotations=[])
        message = ResponseOutputMessage(
            id=f"m{len(self.inputs)}", type="message", role="assistant", status="completed", content=[text]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **named: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("the runs here do not stream")


def test_a_runner_continues_a_conversation(redis_server: RedisServer) -> None:
    async def main() -> None:
        memory, model = await open_on(redis_server), ScriptedModel()
        agent = Agent(name="support", model=model)
        await Runner.run(agent, "Where is my parcel?", session=KeeplineSession("anna", memory, user_id="anna"))
        await Runner.run(agent, "And now?", session=KeeplineSession("anna", memory, user_id="anna"))
        said = [(item.get("role"), item["content"] if item["role"] == "user" else item["content"][0]["text"]) for item in model.inputs[1]]
        assert said == [("user", "Where is my parcel?"), ("assistant", "answer 1"), ("user", "And now?")]
        # Keepline's own reader sees the same conversation.
        sessions = memory.sessions()
        assert (await sessions.search_user("anna", "parcel"))["found"][0]["session"] == "anna"

    run(main)


def test_a_session_of_another_user_is_refused(redis_server: RedisServer) -> None:
    async def main() -> None:
        memory = await open_on(redis_server)
        await KeeplineSession("anna", memory, user_id="anna").add_items([ITEMS[0], ITEMS[6]])
        for items in ([ITEMS[0], ITEMS[6]], [ITEMS[0]]):
            with pytest.raises(keepline.KeeplineError):
                await KeeplineSession("anna", memory, user_id="eve").add_items(items)
        with pytest.raises(keepline.SessionError):
            await KeeplineSession("anna", memory, user_id="eve").get_items()
        assert len(await KeeplineSession("anna", memory, user_id="anna").get_items()) == 2

    run(main)


def test_conversations_have_to_be_on() -> None:
    async def main() -> None:
        with pytest.raises(keepline.ConfigError, match="conversation"):
            KeeplineSession("anna", await keepline.AsyncKeepline.open())

    run(main)


def test_eight_writers_lose_nothing(redis_server: RedisServer) -> None:
    async def main() -> None:
        memory = await open_on(redis_server)

        async def write(writer: int) -> None:
            session = KeeplineSession("shared", memory)
            for number in range(5):
                await session.add_items([{"role": "user", "content": f"{writer}/{number}"}])
                await session.add_items(
                    [
                        {"role": "user", "content": f"{writer}/{number}/q"},
                        {"role": "assistant", "content": f"{writer}/{number}/a"},
                    ]
                )

        await asyncio.gather(*(write(writer) for writer in range(8)))
        items: Any = await KeeplineSession("shared", memory).get_items()
        texts = [item["content"] for item in items]
        assert len(texts) == len(set(texts)) == 8 * 5 * 3
        for writer in range(8):
            own = [text for text in texts if text.startswith(f"{writer}/")]
            assert own == [f"{writer}/{n}{part}" for n in range(5) for part in ("", "/q", "/a")]
        for index, text in enumerate(texts):
            # A pair stays together.
            assert not text.endswith("/q") or texts[index + 1] == text[:-1] + "a"

    run(main)


def test_what_is_too_large_is_refused_by_name(redis_server: RedisServer) -> None:
    async def main() -> None:
        session = KeeplineSession("anna", await open_on(redis_server))
        large: Any = {"type": "reasoning", "id": "rs_1", "encrypted_content": "x" * 100_000, "summary": []}
        with pytest.raises(ValueError, match="at most 60000"):
            await session.add_items([ITEMS[0], large])
        with pytest.raises(ValueError, match="max_message_length"):
            await session.add_items([{"role": "user", "content": "x" * 400_001}])
        assert await session.get_items() == []

    run(main)
