"""Replays the store kit on a store that is a component: `python replay.py STORE.wasm [FOLDER]`.

Needs wasmtime, as the host in Python does, and its files. Each case has an instance of its own, whose clock is moved.
"""

import pathlib
import sys
import threading
import time

from wasmtime import Engine, Store, WasiConfig, WasmtimeError
from wasmtime.component import Component, Linker

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "hosts" / "python"))

from checks import Failure  # noqa: E402
from conformance import folder_of, replay_all  # noqa: E402
from filter import converted, from_component, to_component  # noqa: E402


class ComponentStore:
    """An instance with the functions of the store in `hosts/python`. Writers of a race take turns: calls don't overlap."""

    def __init__(self, engine, component):
        # The machine's, until a case opens the store with one that it moves.
        self.clock, self.turn = (lambda: int(time.time() * 1000)), threading.Lock()
        linker = Linker(engine)
        # What the language's own runtime imports; the clock of the contract goes before its own.
        linker.add_wasip2()
        linker.allow_shadowing = True
        with linker.root() as root:
            for name in component.type.imports(engine):
                if name.startswith("wasi:clocks/wall-clock@"):
                    with root.add_instance(name) as clock:
                        clock.add_func("now", converted(self.now))
                        clock.add_func("resolution", converted(lambda: {"seconds": 0, "nanoseconds": 1}))
            with root.add_instance("keepline:host/log@0.3.0") as log:
                log.add_func("write", converted(lambda level, context, message: print(message, file=sys.stderr)))
        self.wasm = Store(engine)
        self.wasm.set_wasi(WasiConfig())
        self.instance = linker.instantiate(self.wasm, component)

    def now(self):
        seconds, milliseconds = divmod(self.clock(), 1000)
        return {"seconds": seconds, "nanoseconds": milliseconds * 1_000_000}

    def opened(self, clock):
        self.clock = clock
        return self

    def close(self):
        pass

    def call(self, interface, name, *given):
        with self.turn:
            index = self.instance.get_export_index(self.wasm, f"keepline:store/{interface}@0.3.0")
            function = self.instance.get_func(self.wasm, self.instance.get_export_index(self.wasm, name, index))
            return from_component(function(self.wasm, *map(to_component, given)))

    def result(self, interface, name, *given):
        case, answer = self.call(interface, name, *given)
        if case == "err":
            failure = Failure("", "", "")
            failure.problem = answer
            raise failure
        return answer

    def about(self):
        return self.call("core", "about")

    def transact(self, transaction):
        return self.result("core", "transact", transaction)

    def transact_each(self, transactions):
        return self.call("core", "transact-each", transactions)

    def delete_each(self, requests):
        return self.call("core", "delete-each", requests)

    def transact_each_leased(self, transactions):
        return self.call("leases", "transact-each", transactions)

    def transact_each_indexed(self, transactions):
        return self.call("indexes", "transact-each", transactions)

    def list_buckets(self, kind, cursor, limit):
        return self.result("listing", "list-buckets", kind, cursor, limit)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python replay.py STORE.wasm [FOLDER]")
    engine = Engine()
    try:
        component = Component.from_file(engine, sys.argv[1])
    except (WasmtimeError, OSError) as error:
        sys.exit(f"{sys.argv[1]} is no component: {error}")
    about = ComponentStore(engine, component).about()
    replay_all(sys.argv[1], folder_of(sys.argv[2:]), about, lambda _: ComponentStore(engine, component).opened)


if __name__ == "__main__":
    main()
