"""Forks, and uses the library in the child."""

import multiprocessing
import os
import sys

import keepline

when, folder = sys.argv[1:]
fields = {"backend": "directory", "directory": f"{folder}/memory"} if when.endswith("directory") else {}


def works(**fields: object) -> bool:
    memory = keepline.Keepline.open(**fields)
    pipe = memory.pipe()
    pipe.question("?", {"session_id": "anna"})
    return pipe.answer("An answer.").effect == "stored"


def work(_: int) -> bool:
    return works()


def in_child() -> None:
    if when == "before-open":
        assert works()
        return
    if when == "without-cache":
        try:
            works(cache_dir="off")
        except keepline.KeeplineError as error:
            assert error.code == "forked" and "cache_dir" in str(error), error
        else:
            raise AssertionError("the component was compiled in the child")
        return
    for call in (lambda: pipe.question("?"), lambda: memory.sessions(), lambda: memory.pipe(), memory.metrics):
        try:
            call()
        except keepline.KeeplineError as error:
            assert error.code == "forked", error
        else:
            raise AssertionError("an object from before the fork works in the child")
    assert works(**fields)


if when == "pool":
    assert works()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert all(pool.map(work, range(8)))
    assert works()
else:
    if when != "before-open":
        memory = keepline.Keepline.open(**fields)
        pipe = memory.pipe()
        pipe.question("?", {"session_id": "anna"})
    child = os.fork()
    if child == 0:
        try:
            in_child()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        # An ordinary end: what the child has of the parent's is dropped.
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
    if when != "before-open":
        assert pipe.answer("An answer.").effect == "stored"
print("good")
