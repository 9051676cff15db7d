"""Python functions that the library calls: they neither deadlock on the interpreter's lock nor is it held while they wait."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from conftest import DEADLINE, wait_until

import keepline

LONG = {"conversation": True, "max_context_tokens": 64}
"""A window so small that a summary is soon due."""


def due_summary(memory: keepline.Keepline) -> keepline.Task:
    pipe, due = memory.pipe(), []
    for number in range(20):
        pipe.question(f"Question {number}: " + "what about the parcels? " * 4, {"session_id": "anna"})
        # It is due with the first already, but the newest turn is never summarized.
        due = [task for task in pipe.answer(f"Answer {number}: " + "they are on their way. " * 4).due if task.name == "summary"]
    assert due, "no summary is due"
    return due[0]


def test_a_model_waits_for_another_thread_without_the_lock() -> None:
    asked, go_on = threading.Event(), threading.Event()
    needs: list[Any] = []

    def model(need: Any) -> str:
        needs.append(need)
        asked.set()
        assert go_on.wait(DEADLINE)
        return "They talked about parcels."

    def other_thread() -> None:
        assert asked.wait(DEADLINE)
        go_on.set()

    with keepline.Keepline.open(**LONG) as memory:
        threading.Thread(target=other_thread).start()
        assert memory.maintenance(model).run(due_summary(memory)) == {"outcome": "done", "problem": None}
        assert "They talked about parcels." in (memory.sessions().describe("anna")["summary"] or "")
        assert needs[0]["purpose"] == "summary" and needs[0]["instructions"] and needs[0]["max_tokens"] > 0


def test_an_asynchronous_model_runs_on_the_loop_that_waits() -> None:
    async def main() -> None:
        loops = []

        async def model(need: Any) -> str:
            loops.append(asyncio.get_running_loop())
            await asyncio.sleep(0)
            return "They talked about parcels."

        async with await keepline.AsyncKeepline.open(**LONG) as memory:
            task = due_summary(keepline.Keepline(memory._native))
            assert (await memory.maintenance(model).run(task))["outcome"] == "done"
            assert set(loops) == {asyncio.get_running_loop()}

    asyncio.run(main())


def test_an_asynchronous_model_works_without_a_loop() -> None:
    async def model(need: Any) -> str:
        await asyncio.sleep(0)
        return "They talked about parcels."

    with keepline.Keepline.open(**LONG) as memory:
        assert memory.maintenance(model).run(due_summary(memory))["outcome"] == "done"


def test_a_model_may_call_the_library() -> None:
    with keepline.Keepline.open(**LONG) as memory:

        def model(need: Any) -> str:
            return f"The session has {len(memory.sessions().messages('anna')['messages'])} messages."

        assert memory.maintenance(model).run(due_summary(memory))["outcome"] == "done"


@pytest.mark.parametrize("result", [ValueError("no credit left"), 7])
def test_a_model_that_fails_leaves_everything_as_it_was(result: Any) -> None:
    def model(need: Any) -> str:
        if isinstance(result, Exception):
            raise result
        return result  # type: ignore[no-any-return]

    with keepline.Keepline.open(**LONG) as memory:
        task = due_summary(memory)
        outcome = memory.maintenance(model).run(task)
        assert outcome["outcome"] == "failed" and outcome["problem"] is not None
        assert outcome["problem"]["code"] == "model"
        assert "no credit left" in outcome["problem"]["message"] or result == 7
        assert memory.maintenance().run(task)["outcome"] == "done"


def test_background_work_is_done_and_counted() -> None:
    with keepline.Keepline.open(**LONG) as memory:
        maintenance = memory.maintenance(lambda need: "They talked about parcels.")
        maintenance.submit([due_summary(memory)])
        assert maintenance.shutdown(DEADLINE) == 0
        assert maintenance.pending() == 0 and maintenance.counters()["summaries"]["done"] == 1


def test_tokens_are_counted_by_the_callers_function() -> None:
    counted: list[tuple[str, str | None]] = []

    def count(text: str, model: str | None) -> int:
        counted.append((text, model))
        return 3

    with keepline.Keepline.open(conversation=True, token_counter=count) as memory:
        pipe = memory.pipe()
        pipe.question("Where is my parcel?", {"session_id": "anna"})
        pipe.answer("In Leipzig.")
        assert [message["tokens"] for message in memory.sessions().messages("anna")["messages"]] == [3, 3]
    assert ("In Leipzig.", None) in counted


def test_a_counter_that_fails_or_calls_the_library_is_estimated(capfd: pytest.CaptureFixture[str]) -> None:
    opened: list[keepline.Keepline] = []
    codes: list[str] = []

    def count(text: str, model: str | None) -> int:
        try:
            opened[0].sessions().keys("anna")
        except keepline.KeeplineError as error:
            codes.append(error.code)
        raise RuntimeError("no vocabulary")

    with keepline.Keepline.open(conversation=True, token_counter=count) as memory:
        opened.append(memory)
        pipe = memory.pipe()
        pipe.question("Where is my parcel?", {"session_id": "anna"})
        assert pipe.answer("In Leipzig.").effect == "stored"
    assert codes and set(codes) == {"nested"}


def test_questions_get_embeddings_of_the_callers_function() -> None:
    async def main() -> None:
        async def embed(texts: list[str]) -> tuple[str, list[list[float]]]:
            await asyncio.sleep(0)
            return "letters", [[float(text.count(letter)) + 0.1 for letter in "abcdefgh"] for text in texts]

        fields = {"conversation": True, "recall": "session", "recall_vectors": True, "embedding_wait_ms": 60_000}
        async with await keepline.AsyncKeepline.open(**fields, store_timeout_ms=60_000, embedder=embed) as memory:
            asked = await memory.pipe().question("Where is my parcel?", {"session_id": "anna"})
            assert asked.has_vector

    asyncio.run(main())


def test_handlers_of_pipelines_are_called() -> None:
    owner: Any = ("project", "shop")
    definition = {
        "id": "shout",
        "label": "Shout",
        "inputs_scope": ["project"],
        "retrieval": {
            "pipeline": [
                {"type": "kv_get", "instance": "house", "namespace": "style", "keys": ["indent"]},
                {"type": "custom", "handler": "shout", "params": {"mark": "!"}},
            ]
        },
    }

    def shout(step: Any) -> Any:
        return [{**item, "value": str(item.get("value")).upper() + step["params"]["mark"]} for item in step["input"]]

    with keepline.Keepline.open(handlers={"shout": shout}) as memory:
        pipelines = memory.pipelines()
        assert not [finding for finding in pipelines.check(definition)["findings"] if finding["is_error"]]
        stored = pipelines.put(owner, definition)
        assert (stored["id"], stored["revision"]) == ("shout", 1)
        pipelines.put_items(owner, "values", {"indent": "four spaces"}, name="house", namespace="style")
        output = pipelines.run(owner, "execute", {"id": "shout"})
        assert "FOUR SPACES!" in str(output), output
        assert [each["id"] for each in pipelines.list(owner)] == ["shout"]
        with pytest.raises(keepline.PipelineError) as raised:
            pipelines.put(owner, {**definition, "retrieval": {"pipeline": [{"type": "unknown"}]}})
        assert raised.value.code == "invalid" and raised.value.findings
        assert pipelines.remove(owner, "shout") == 1


def test_a_cancelled_wait_for_a_model_cancels_its_coroutine() -> None:
    async def main() -> None:
        events: list[str] = []

        async def model(need: Any) -> str:
            events.append("asked")
            try:
                await asyncio.sleep(DEADLINE * 10)
            except asyncio.CancelledError:
                events.append("cancelled")
                raise
            return ""

        async with await keepline.AsyncKeepline.open(**LONG) as memory:
            task = due_summary(keepline.Keepline(memory._native))
            running = asyncio.ensure_future(memory.maintenance(model).run(task))
            while "asked" not in events:
                await asyncio.sleep(0.001)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            while "cancelled" not in events:
                await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(main(), DEADLINE))


def test_threads_go_on_while_a_call_waits(silent_server: Any) -> None:
    fields = {"backend": "redis", "redis_url": f"redis://127.0.0.1:{silent_server.port}", "store_timeout_ms": 300_000}
    memory = keepline.Keepline.open(**fields)
    done = threading.Event()

    def ask() -> None:
        memory.pipe().question("?", {"session_id": "anna"}, timeout=5)
        done.set()

    threading.Thread(target=ask, daemon=True).start()
    wait_until(lambda: memory.metrics()["instances_at_work"] == 1, "a call that waits")
    assert done.wait(DEADLINE)
