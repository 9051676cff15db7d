#!/usr/bin/env python3
"""A chat pipeline with memory: one `keepline run` beside it serves all of its sessions.

Needs nothing but Python's standard library and the binary `keepline`. Each line of the input is a session id, a tab and a
question; each line of the output is the session id, a tab and the answer. Sessions are served side by side, and the
questions of one session in order:

    printf 'anna\\tWhere is my parcel?\\n' | examples/pipeline.py --model-url http://localhost:11434/v1 --model llama3.2 \\
        -- --profile chat --dir ./memory

What comes after `--` goes to `keepline run`. Without --model-url, a stand-in answers with what it was sent.
"""

import argparse
import json
import queue
import subprocess
import sys
import threading
import urllib.request

INSTRUCTIONS = "You are a friendly assistant."


class Memory:
    """`keepline run` as a coprocess: it answers each line with one line, in order."""

    def __init__(self, arguments):
        command = ["keepline", "run", *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", bufsize=1
        )
        # One line out and one line in at a time: the next thread's lines must not come in between.
        self.lock = threading.Lock()

    def send(self, lane, text, metadata):
        """Pass an entry through the filter and return its metadata."""
        entry = json.dumps({"lane": lane, "text": text, "metadata": metadata})
        with self.lock:
            try:
                self.process.stdin.write(entry + "\n")
                # A line that stays in this process's buffer is one that both processes wait for.
                self.process.stdin.flush()
                line = self.process.stdout.readline()
            except BrokenPipeError:
                line = ""
        if not line:
            # keepline has ended; its last lines on stderr say why. The questions are answered all the same.
            return metadata
        passed = json.loads(line)
        if "error" in passed:
            # Only with on_store_error "fail" or require_node. The entry has passed, without memory.
            print(f"no memory: {passed['error']['message']}", file=sys.stderr)
        return passed.get("metadata", {})

    def close(self):
        """End the input, which ends keepline, and return its exit code."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        return self.process.wait()


def compose(question, metadata):
    """The prompt, from what is most stable to what is newest, so that the model's prompt cache can be reused."""
    messages = [{"role": "system", "content": INSTRUCTIONS}]
    # 1. What was said before the window, in short: a user's message, never a system's.
    if "memory_summary" in metadata:
        messages.append(metadata["memory_summary"])
    # 2. The window: whole turns, oldest first, with calls and results of tools.
    messages.extend(metadata.get("memory_messages", []))
    # 3. What was said elsewhere and bears on this question. It changes with each question, so it comes late.
    if "memory_recall" in metadata:
        messages.append({"role": "user", "content": metadata["memory_recall"]["text"]})
    # 4. The question. It is not in the window: its turn is stored with its answer.
    messages.append({"role": "user", "content": question})
    return messages


def complete(arguments, messages):
    """Ask the model."""
    if not arguments.model_url:
        return f"I was sent {len(messages)} messages; the last one is: {messages[-1]['content']}"
    body = json.dumps({"model": arguments.model, "messages": messages}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {arguments.key}"}
    request = urllib.request.Request(f"{arguments.model_url}/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)["choices"][0]["message"]["content"]


def serve(session, questions, memory, arguments):
    """One session: question after question."""
    while (question := questions.get()) is not None:
        # An answer names its session, too: entries of other sessions may have passed in between.
        metadata = {"session_id": session, "user_id": session}
        try:
            answer = complete(arguments, compose(question, memory.send("questions", question, metadata)))
        except OSError as error:
            # Without an answer, nothing of the turn is stored, and the next question goes on from the one before.
            print(f"{session}: no answer: {error}", file=sys.stderr)
            continue
        memory.send("answers", answer, metadata)
        print(session, " ".join(answer.split()), sep="\t", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-url", help="an endpoint that is compatible with OpenAI's, up to /v1")
    parser.add_argument("--model", default="llama3.2")
    parser.add_argument("--key", default="none", help="the endpoint's key")
    parser.add_argument("keepline", nargs="*", metavar="-- OPTIONS", help="for `keepline run`")
    arguments = parser.parse_args()
    memory, sessions, threads = Memory(arguments.keepline), {}, []
    for line in sys.stdin:
        session, _, question = line.rstrip("\n").partition("\t")
        if session not in sessions:
            sessions[session] = queue.Queue()
            thread = threading.Thread(target=serve, args=(session, sessions[session], memory, arguments))
            thread.start()
            threads.append(thread)
        sessions[session].put(question)
    for questions in sessions.values():
        questions.put(None)
    for thread in threads:
        thread.join()
    return memory.close()


if __name__ == "__main__":
    sys.exit(main())
