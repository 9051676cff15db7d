"""The open turns of a stream of many conversations: what a question leaves for its answers."""

import json
from dataclasses import dataclass, field

# A host that serves more conversations than this at once forgets the oldest question first.
MAX_TURNS = 1000


def members(metadata):
    """The members of metadata, read as the filter reads them: `NaN` is a value, a byte order mark may stand before, and
    of duplicates the last one counts. What is no object has none."""
    try:
        value = json.loads(metadata.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def text_of(value):
    return value if isinstance(value, str) and value else None


@dataclass(frozen=True)
class Address:
    """Which transcript metadata name."""

    session: str
    user: str | None
    is_node: bool
    is_explicit: bool
    app: str | None
    node: str | None

    @property
    def key(self):
        return self.session, self.user, (self.app, self.node) if self.is_node else None

    @property
    def owner(self):
        """The members of metadata that name it."""
        named = {"session_id": self.session, "user_id": self.user}
        if self.is_node:
            named |= {"memory_mode": "node", "app_id": self.app, "node_id": self.node}
        return {name: value for name, value in named.items() if value is not None}


@dataclass
class Turn:
    at: Address | None
    # Of the filter's reply; empty: the question did not get as far as the filter.
    state: str = ""
    # The question's text, which each answer takes along. Empty: there was none, or it passed through another process.
    text: str = ""
    # Whether no answer of it was stored yet.
    waits: bool = False
    # What tools did since the last answer that was stored.
    tools: list = field(default_factory=list)
    # The ids of its tool calls, stored ones among them.
    calls: set = field(default_factory=set)

    def is_stored(self):
        """Its question and tools are stored, with an answer."""
        self.waits, self.tools = False, []

    def completed(self, metadata):
        """The metadata of an answer that names the session. Where the filter has not seen the question, it has to be told
        whose that was: a session without an owner would be that of whoever asks next. What the answer says itself comes later
        in the object, and counts."""
        if self.state or self.at is None or "session_id" not in members(metadata):
            return metadata
        before, after = metadata.split("{", 1)
        return before + json.dumps(self.at.owner)[:-1] + "," + after


def agree(named, own):
    return named is None or named == own


def may_take(turn, named):
    """Whether an answer that names this may belong to the turn."""
    at = turn.at
    if at is None or at.session != named.session:
        return False
    if named.is_explicit and named.is_node != at.is_node:
        return False
    if at.user is not None and not agree(named.user, at.user):
        return False
    return not at.is_node or (agree(named.app, at.app) and agree(named.node, at.node))


class Turns:
    def __init__(self, report, is_by_node=False, max_turns=MAX_TURNS):
        """`report(code, message)` is told of problems. `is_by_node`: whether entries that don't say so are about nodes'
        transcripts (the option `memory_mode`)."""
        self.report, self.is_by_node, self.max_turns = report, is_by_node, max_turns
        self.turns, self.last = {}, None  # the oldest first

    def address(self, metadata):
        """None: no session."""
        named = members(metadata)
        session, user, app, node = (text_of(named.get(f"{name}_id")) for name in ("session", "user", "app", "node"))
        if session is None:
            return None
        is_node = {"node": True, "conversation": False}.get(text_of(named.get("memory_mode")))
        is_explicit = is_node is not None
        return Address(session, user, is_node if is_explicit else self.is_by_node, is_explicit, app, node)

    def begin(self, metadata, text="", waits=False):
        """A turn, in the place of an earlier one of its transcript."""
        at = self.address(metadata)
        key, turn = at and at.key, Turn(at, text=text, waits=waits)
        self.turns.pop(key, None)
        self.turns[key] = turn
        if len(self.turns) > self.max_turns:
            dropped = self.turns.pop(next(iter(self.turns)))
            if dropped.waits:
                self.report("turns", f"more than {self.max_turns} turns: the answer to the oldest question will lack it")
        return turn

    def ask(self, metadata, text):
        """A question begins a turn. It ends the one before, whatever becomes of it: so call this before the filter."""
        self.last = self.begin(metadata, text, waits=True)
        return self.last

    def of_answer(self, metadata):
        """The turn of an answer: of the session that it names, else of the question asked last; never of another one."""
        named = self.address(metadata)
        if named is None:
            return self.last or Turn(None)
        return self.find(named) or Turn(None)

    def of_tool(self, activity, metadata):
        """The turn of a tool's activity: of the session that it names; else, of a result, the one that has its call; else
        of the question asked last. None: that is not clear."""
        named = self.address(metadata)
        if named is not None:
            # Its question may have passed through another process.
            return self.find(named) or self.begin(metadata)
        if activity["arguments"] is not None:
            return self.last
        having = [turn for turn in self.turns.values() if activity["call-id"] in turn.calls]
        return having[0] if len(having) == 1 else None if having else self.last

    def find(self, named):
        turns = [turn for turn in self.turns.values() if may_take(turn, named)]
        if named.node is not None:
            return ([turn for turn in turns if turn.at.is_node] or turns or [None])[-1]
        waiting = [turn for turn in turns if turn.waits]
        meant = [turn for turn in waiting if turn.at.is_node == self.is_by_node]
        return (meant or waiting or turns or [None])[-1]

    def open(self, metadata):
        """A new conversation begins: of the session that is named, or of all."""
        named = self.address(metadata)
        ended = [key for key, turn in self.turns.items() if named is None or may_take(turn, named)]
        for key in ended:
            if self.turns.pop(key) is self.last:
                self.last = None

    def forget_last(self):
        """After a line that can't be read, which may have been a question."""
        self.last = None
