"""Servers and Keeplines for the tests."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import keepline

DEADLINE = 120.0
"""What anything may take on a busy machine."""


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not is_so():
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(0.005)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """A redis-server of the tests' own, which can be killed and started again with what it had."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        durable = ["--appendonly", "yes", "--appendfsync", "always"]
        self.process = subprocess.Popen(["redis-server", *options, *durable], stdout=subprocess.DEVNULL)
        wait_until(self.answers, "a redis-server that answers")

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def cut_connections(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(b"CLIENT KILL TYPE normal SKIPME yes\r\n")
            connection.recv(64)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    assert shutil.which("redis-server"), "the tests need redis-server: .ci/setup redis"
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


class SilentServer:
    """Takes connections and never answers: calls of a store behind it wait for as long as they may."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self.connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self.connections.append(self.listener.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        self.listener.close()
        for connection in self.connections:
            connection.close()


@pytest.fixture
def silent_server() -> Iterator[SilentServer]:
    server = SilentServer()
    yield server
    server.close()


@pytest.fixture
def memory() -> Iterator[keepline.Keepline]:
    with keepline.Keepline.open(conversation=True) as opened:
        yield opened
