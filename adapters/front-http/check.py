"""Plays a conversation through the HTTP front and checks what is remembered: `check.py URL [PAIRS]`. The filter must have the option
`conversation`. Prints how many microseconds a pair takes. `--again`: only checks that what an earlier run has said is still there, as it
is where the store outlives the host."""

import http.client
import json
import sys
import time
import urllib.parse

SESSION = "three-entries"
TEXTS = ["My name is Ada.", "What is my name?", "And who am I?"]


def check(condition, *told):
    if not condition:
        sys.exit("check.py: " + " ".join(str(one) for one in told))


class Front:
    def __init__(self, url):
        address = urllib.parse.urlsplit(url)
        self.connection = http.client.HTTPConnection(address.hostname, address.port, timeout=300)

    def post(self, path, body):
        self.connection.request("POST", path, body.encode())
        reply = self.connection.getresponse()
        text = reply.read().decode()
        if reply.status >= 400:
            # A host may close the connection of a request whose body was refused unread; the next one opens another.
            self.connection.close()
        return reply.status, text

    def entries(self, entries):
        """In one request: a host may have an instance for each, and lend each a store of its own."""
        status, replies = self.post("/entries", "\n".join(json.dumps(entry) for entry in entries))
        check(status == 200, status, replies)
        return [json.loads(line) for line in replies.splitlines()]


def play(front, pairs):
    metadata = {"session_id": SESSION}
    entries = []
    for pair in range(pairs):
        entries.append({"lane": "questions", "text": TEXTS[pair % len(TEXTS)], "metadata": metadata})
        entries.append({"lane": "answers", "text": f"Answer {pair}", "metadata": metadata})
    began = time.perf_counter()
    replies = front.entries(entries)
    took = time.perf_counter() - began
    check(len(replies) == len(entries), len(replies), "replies to", len(entries))
    for pair, (question, answer) in enumerate(zip(replies[::2], replies[1::2])):
        check("problem" not in question and answer == {"effect": "stored"}, "pair", pair, question, answer)
        context = question["metadata"].get("memory_context") or {"answer_count": 0}
        check(context["answer_count"] == pair, "pair", pair, "has", context)
    last = replies[-2]["metadata"]
    check(last["memory_context"]["last_answer"] == f"Answer {pairs - 2}", last)
    check(last.get("memory_messages", [{}])[-1].get("content") == f"Answer {pairs - 2}", "no conversation in", last)
    return round(took / pairs * 1e6)


def refusals(front):
    for path, body, expected in [("/questions", "[]", 400), ("/questions", "{", 400), ("/other", "{}", 404),
                                 ("/questions", '{"text":1}', 400), ("/answers", '{"metadata":[]}', 400)]:
        status, reply = front.post(path, body)
        check(status == expected and json.loads(reply)["problem"]["message"], path, body, status, reply)
    check("lane" in front.entries([{"text": "x"}])[0]["problem"]["message"], "a line without a lane")


def single_entries(front):
    """A question and its answer, a request each; metadata that no parser has touched."""
    status, reply = front.post("/questions", '{"text":"Hello","metadata":{"n":12345678901234567890.0,"session_id":"one"}}')
    check(status == 200 and '"n":12345678901234567890.0' in reply, status, reply)
    turn = json.loads(reply)["turn"]
    answer = {"text": "Hello!", "metadata": {"session_id": "one"}, "turn": turn, "question": "Hello"}
    status, reply = front.post("/answers", json.dumps(answer))
    # On another instance with a store of its own the session is not there.
    check(status == 200 and json.loads(reply)["effect"] in ("stored", "ended"), status, reply)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--again"]
    front = Front(arguments[0])
    pairs = int(arguments[1]) if len(arguments) > 1 else 3
    if "--again" in sys.argv:
        question = {"lane": "questions", "text": "Still there?", "metadata": {"session_id": SESSION}}
        metadata = front.entries([question])[0]["metadata"]
        context, messages = metadata.get("memory_context"), metadata.get("memory_messages")
        check(context and context["answer_count"] == pairs, "after a restart there is", context)
        check(messages and messages[-1]["content"] == f"Answer {pairs - 1}", "after a restart there is", messages)
        return
    micros = play(front, pairs)
    refusals(front)
    single_entries(front)
    print(f"{micros} µs a pair")


main()
