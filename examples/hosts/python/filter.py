"""The component in Python: its imports, and an instance that is replaced when it breaks."""

import json
import sys
import threading
import time

from wasmtime import Config, Engine, Store
from wasmtime.component import Component, Linker, Record, Variant

from checks import as_problem

EXPORTS = {name: f"keepline:memory/{name}@0.3.0" for name in ("lanes", "tasks")}
EXPORTS |= {name: f"keepline:admin/{name}@0.3.0" for name in ("sessions", "transcripts", "users")}
LEVELS = ["trace", "debug", "info", "warn", "error", "critical"]
# An entry is answered by then, or passes without memory. The store gives up a little earlier, while the filter still
# has time to reply.
ENTRY_SECONDS, STORE_SHARE = 2.0, 0.75
TICK_SECONDS = 0.01
MEMORY_BYTES = 64 << 20


def from_component(value):
    """Records as dicts, variants as pairs of case and record."""
    if isinstance(value, Variant):
        return value.tag, from_component(value.payload)
    if isinstance(value, Record):
        return {name: from_component(one) for name, one in vars(value).items()}
    if isinstance(value, list):
        return [from_component(one) for one in value]
    return value


def to_component(value):
    """The other way round. Integers are not checked for their width."""
    if isinstance(value, tuple):
        return Variant(value[0], to_component(value[1]))
    if isinstance(value, dict):
        record = Record()
        for name, one in value.items():
            setattr(record, name, to_component(one))
        return record
    if isinstance(value, list):
        return [to_component(one) for one in value]
    if isinstance(value, str):
        # Halves of a character, as JSON can spell them, have no place in a component's text.
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def result(call):
    """An import that answers a `result`. An exception that leaves an import kills the instance, so none does."""

    def answer(*given):
        try:
            return "ok", call(*given)
        except Exception as error:
            return "err", as_problem(error)

    return answer


def without_patch(interface):
    """The name of an interface as all versions have it that are compatible: `keepline:store/core@0.3`."""
    return interface.rpartition(".")[0]


def report_on_stderr(code, message):
    print(f"keepline: {message}", file=sys.stderr)


class Plugin:
    """The component, compiled: once a process. Raises if it can't be read."""

    def __init__(self, path):
        config = Config()
        config.epoch_interruption = True
        self.engine = Engine(config)
        self.component = Component.from_file(self.engine, path)
        # What counts the time of a call. Instances stop at a tick, wherever they are.
        threading.Thread(target=self.tick, daemon=True).start()

    def tick(self):
        while True:
            time.sleep(TICK_SECONDS)
            self.engine.increment_epoch()


class Filter:
    """Raises if the component or its options are of no use. To be called from one thread at a time.

    `report(code, message)` is told when an instance had to be replaced."""

    def __init__(self, plugin, store, options, log_from="warn", report=report_on_stderr):
        self.engine, self.component = plugin.engine, plugin.component
        self.store, self.options, self.log_from, self.report = store, options, log_from, report
        self.entry_seconds = ENTRY_SECONDS
        self.linker = self.link()
        self.start()
        # What the store can't promise and the options rely on. A later instance says the same.
        for warning in self.warnings:
            report(warning["code"], warning["message"])

    def link(self):
        def clock():
            seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
            return {"seconds": seconds, "nanoseconds": nanoseconds}

        def log(level, context, message):
            if LEVELS.index(level) >= LEVELS.index(self.log_from):
                print(f"{level} {context}: {message}", file=sys.stderr)

        imports = {
            "keepline:store/core@0.3": {
                "about": self.store.about,
                "transact": result(self.store.transact),
                "transact-each": self.store.transact_each,
                "delete-each": self.store.delete_each,
            },
            "keepline:store/leases@0.3": {"transact-each": self.store.transact_each_leased},
            "keepline:store/listing@0.3": {"list-buckets": result(self.store.list_buckets)},
            "wasi:clocks/wall-clock@0.2": {
                "now": clock, "resolution": lambda: {"seconds": 0, "nanoseconds": 1},
            },
            "keepline:host/log@0.3": {"write": log},
        }
        linker = Linker(self.engine)
        with linker.root() as root:
            # Under the names that the filter has for them: those of a later one end in 0.3.1, and mean the same.
            for interface in self.component.type.imports(self.engine):
                with root.add_instance(interface) as instance:
                    for name, function in imports.get(without_patch(interface), {}).items():
                        instance.add_func(name, converted(function))
        # Interfaces of the store that this one lacks, or does not know: the component calls none without its capability.
        linker.define_unknown_imports_as_traps(self.component)
        return linker

    def start(self):
        """A new instance. After a trap the old one can't be entered any more, and neither can its `Store`."""
        self.wasm = Store(self.engine)
        self.wasm.set_limits(memory_size=MEMORY_BYTES)
        self.arm()
        self.instance = self.linker.instantiate(self.wasm, self.component)
        status, answer = self.call("lanes", "configure", self.options, self.log_from)
        if status == "err":
            raise ValueError(f"{answer['subject']}: {answer['message']}")
        self.wants_turns = "turns" in answer["wants"]
        options = {option["name"]: json.loads(option["value"]) for option in answer["options"]}
        # Entries that don't say so are about nodes' transcripts.
        self.is_by_node = options.get("memory_mode") == "node"
        self.warnings = answer["warnings"]

    def arm(self):
        """The time of an entry begins. No call of the component's renews it."""
        self.wasm.set_epoch_deadline(int(self.entry_seconds / TICK_SECONDS))
        self.store.deadline = time.monotonic() + STORE_SHARE * self.entry_seconds

    def call(self, interface, name, *given):
        index = self.instance.get_export_index(self.wasm, EXPORTS[interface])
        function = self.instance.get_func(self.wasm, self.instance.get_export_index(self.wasm, name, index))
        return from_component(function(self.wasm, *map(to_component, given)))

    def entry(self, interface, name, *given):
        """A call that has its own time. None: the instance is dead, and what it was working on goes on without memory."""
        try:
            if self.instance is None:
                self.start()
            self.arm()
            return self.call(interface, name, *given)
        except Exception as error:
            self.instance = None
            # The cause stands below the backtrace.
            cause = str(error).strip().splitlines()[-1:] or [type(error).__name__]
            self.report("instance", f"the instance was replaced: {cause[0].strip()}")
            return None

    def question(self, text, metadata):
        entry = {"text": text, "metadata": metadata, "message-id": None, "tokens": None, "vector": None, "extras": None}
        return self.entry("lanes", "question", entry)

    def answer(self, text, metadata, turn, status="complete"):
        """Each answer and step of a turn takes its question along; the filter stores it once."""
        question = {"text": turn.text if self.wants_turns else "", "tokens": None}
        entry = {"text": text, "metadata": metadata, "turn": turn.state, "message-id": None, "question": question,
                 "tools": turn.tools, "status": status, "tokens": None, "details": None, "extras": None}
        return self.entry("lanes", "answer", entry)

    def advance(self, task, holder, lease_milliseconds, results):
        job = {"task": task, "holder": holder, "lease-milliseconds": lease_milliseconds, "results": results}
        return self.entry("tasks", "advance", job)


def converted(function):
    return lambda _, *given: to_component(function(*map(from_component, given)))
