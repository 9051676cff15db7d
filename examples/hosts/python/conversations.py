"""Passes entries through the filter: each with the turn that it belongs to.

Texts and metadata go in and out as they are, byte for byte, but for what the filter puts in the place of a question's
metadata. What becomes due on the way is done by `work`, once the entry was sent on.
"""

import sys

from maintenance import NoModel, work_on
from turns import MAX_TURNS, Turns


# Effects after which the next answer of the turn takes its tools along once more.
NOT_STORED = ("passed", "ignored", "foreign", "skipped", "limited", "ended", "failed")


def on_stderr(code, message):
    print(f"keepline: {message}", file=sys.stderr)


class Conversations:
    def __init__(self, filter, model=None, report=on_stderr, max_turns=MAX_TURNS):
        self.filter, self.model, self.on_report = filter, model or NoModel(), report
        self.turns = Turns(self.report, filter.is_by_node, max_turns)
        self.due, self.reported = [], set()

    def report(self, code, message, subject=""):
        """An id that can't be a session's or a user's is reported once: each further entry of its chat has the same one."""
        is_id = code.startswith("session-id-") or (code, subject) == ("invalid", "user_id")
        if is_id and (code, subject) in self.reported:
            return
        self.reported.add((code, subject))
        self.on_report(code, message)

    def open(self, metadata="{}"):
        """A new conversation begins, in the session that the metadata name, or in all."""
        self.turns.open(metadata)

    def unreadable(self):
        """There was an entry that can't be read."""
        self.report("entry", "what is no entry passes as it is")
        self.turns.forget_last()

    def question(self, text, metadata):
        """The metadata to send on."""
        turn = self.turns.ask(metadata, text)
        reply = self.finish(self.filter.question(text, metadata))
        if reply is None:
            return metadata
        turn.state = reply["turn"]
        return metadata if reply["metadata"] is None else reply["metadata"]

    def tool(self, activity, metadata="{}"):
        """What a tool did goes with the next answer of its turn."""
        turn = self.turns.of_tool(activity, metadata)
        if turn is None:
            self.report("tool", "what a tool did is not kept: no question came before it, or it is not clear which")
        elif self.filter.wants_turns:
            turn.tools.append(activity)
            turn.calls.add(activity["call-id"])

    def answer(self, text, metadata, status="complete"):
        """The metadata to send on: as they came."""
        turn = self.turns.of_answer(metadata)
        reply = self.finish(self.filter.answer(text, turn.completed(metadata), turn, status))
        # An effect that this host does not know counts as stored.
        if reply and reply["effect"] not in NOT_STORED:
            turn.is_stored()
        return metadata

    def finish(self, reply):
        """None: there is no reply, and the entry goes on as it came. The filter has reported why."""
        if reply and reply["problem"]:
            self.report(reply["problem"]["code"], reply["problem"]["message"], reply["problem"]["subject"])
        self.due += reply["due"] if reply else []
        return reply

    def work(self):
        """Does what has become due."""
        due, self.due = self.due, []
        for task in due:
            work_on(task, self.filter, self.model, self.report)
