"""Signals, forks, the end of the interpreter, and sub-interpreters: each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import DEADLINE

PROGRAMS = Path(__file__).parent / "programs"


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", str(PROGRAMS / program), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        output, errors = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        raise AssertionError(f"it did not end; it wrote {output!r} and {errors!r}") from None
    return process.returncode, output, errors


def test_an_interrupt_ends_a_call_that_is_waited_for(silent_server: Any) -> None:
    process = start("interrupted.py", str(silent_server.port))
    assert process.stdout is not None and process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGINT)
    code, output, errors = finish(process)
    assert (code, output) == (0, "interrupted\n"), errors


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("when", ["before-open", "after-open", "after-open-directory", "pool", "without-cache"])
def test_a_fork_works_or_fails_by_name(when: str, tmp_path: Path) -> None:
    code, output, errors = finish(start("forked.py", when, str(tmp_path)))
    assert (code, output) == (0, "good\n"), errors


@pytest.mark.parametrize("how", ["tasks", "threads", "return", "exception"])
def test_the_interpreter_ends_while_calls_run(how: str, silent_server: Any) -> None:
    code, output, errors = finish(start("ends.py", how, str(silent_server.port)))
    assert output == "ends\n", errors
    assert code == (1 if how == "exception" else 0), errors
    assert "panicked" not in errors and "Fatal" not in errors and "terminate called" not in errors


def test_a_sub_interpreter_is_refused_by_name() -> None:
    code, output, errors = finish(start("sub_interpreter.py"))
    assert (code, output) == (0, "refused\n"), errors
