from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ports
from tests.support.ports import BLOCK, FIRST, HOST, LAST, Block, free_port

ROOT = Path(__file__).parents[2]


def listening(port: int) -> socket.socket:
    return socket.create_server((HOST, port))


def test_a_port_can_be_bound_and_is_not_given_twice_in_a_row() -> None:
    given = [free_port() for _ in range(20)]
    assert len(set(given)) == 20
    for port in given:
        assert FIRST < port < LAST
        listening(port).close()


def test_another_process_has_other_ports() -> None:
    code = "from tests.support.ports import free_port; print(free_port())"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30)
    assert int(ran.stdout) // BLOCK != free_port() // BLOCK


def test_a_block_is_held_until_it_is_closed() -> None:
    first = free_port()  # blocks of this test lie inside this process's own
    block = Block(first)
    with pytest.raises(OSError, match="in use"):
        Block(first)
    block.close()
    Block(first).close()


def test_what_is_in_use_is_left_out_and_the_block_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "BLOCK", 4)
    first = free_port()
    block = Block(first)
    try:
        with listening(first + 2):
            assert [block.take() for _ in range(4)] == [first + 1, first + 3, first + 1, first + 3]
            with listening(first + 1), listening(first + 3), pytest.raises(RuntimeError, match="in use"):
                block.take()
    finally:
        block.close()
