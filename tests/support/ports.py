"""Loopback ports for servers that must be told their port before they start.

The kernel gives any port of its ephemeral range (from 32768 on Linux, from 49152 on macOS) to whoever binds port 0 or connects,
so a port of that range that was free a moment ago may be taken when it is used. The ports given out here lie below that range,
and each process that runs tests holds a block of them to itself, whichever run it belongs to: what it gives out stays free.
"""

from __future__ import annotations

import atexit
import socket
from functools import cache

FIRST, LAST = 12_000, 28_000
BLOCK = 500

HOST = "127.0.0.1"


def free_port() -> int:
    """A loopback port that nobody listens on, and that nobody else is given before the rest of the block has been."""
    return _own_block().take()


class Block:
    """The ports of one process. Its first port is bound for as long as the process lives, which keeps others off the block."""

    def __init__(self, first: int) -> None:
        """Raises OSError when another process has this block."""
        self._guard = _bound(first)
        self._first = first
        self._given = 0

    def take(self) -> int:
        """Its ports in turn, from the start again at the end. What is in use is left out."""
        for _ in range(BLOCK):
            port = self._first + 1 + self._given % (BLOCK - 1)
            self._given += 1
            try:
                _bound(port).close()
            except OSError:
                continue
            return port
        raise RuntimeError(f"all ports from {self._first} to {self._first + BLOCK - 1} are in use")

    def close(self) -> None:
        self._guard.close()


@cache
def _own_block() -> Block:
    for first in range(FIRST, LAST, BLOCK):
        try:
            block = Block(first)
        except OSError:
            continue
        atexit.register(block.close)
        return block
    raise RuntimeError(f"all blocks of ports from {FIRST} to {LAST} are held by other processes")


def _bound(port: int) -> socket.socket:
    held = socket.socket()
    try:
        held.bind((HOST, port))
    except OSError:
        held.close()
        raise
    return held
