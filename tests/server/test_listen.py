"""What `listen` binds: every address of a name, on one port."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Any

import pytest

from gateway.server.http import listen


def bindable(host: str, family: int) -> bool:
    try:
        socket.create_server((host, 0), family=family).close()
    except OSError:
        return False
    return True


FIRST = ("::1", socket.AF_INET6) if bindable("::1", socket.AF_INET6) else ("127.0.0.2", socket.AF_INET)
BOTH = (FIRST, ("127.0.0.1", socket.AF_INET))


def resolve(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[str, int]) -> None:
    """Makes every name resolve to these."""

    def found(host: str, port: int, *_: Any) -> list[Any]:
        rows = [(family, socket.SOCK_STREAM, 6, "", (text, port)) for text, family in addresses]
        return [(*row[:4], (*row[4], 0, 0)) if row[0] == socket.AF_INET6 else row for row in rows]

    monkeypatch.setattr(socket, "getaddrinfo", found)


def opened(host: str, port: int) -> list[Any]:
    with ExitStack() as stack:
        return [stack.enter_context(sock).getsockname()[:2] for sock in listen(host, port)]


def test_a_name_is_listened_on_at_all_its_addresses_with_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, *BOTH, *BOTH)
    found = opened("localhost", 0)
    assert [host for host, _ in found] == [FIRST[0], "127.0.0.1"]
    assert found[0][1] == found[1][1] > 0


def test_an_address_that_this_machine_does_not_have_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, ("192.0.2.1", socket.AF_INET), ("127.0.0.1", socket.AF_INET))
    assert [host for host, _ in opened("localhost", 0)] == ["127.0.0.1"]
    resolve(monkeypatch, ("192.0.2.1", socket.AF_INET))
    with pytest.raises(OSError, match="assign"):
        listen("localhost", 0)


def test_one_address_that_is_taken_is_an_error_and_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        resolve(monkeypatch, *BOTH)
        with pytest.raises(OSError, match="in use"):
            listen("localhost", port)
        resolve(monkeypatch, FIRST)
        assert opened("localhost", port) == [(FIRST[0], port)]


def test_plain_addresses_and_all_interfaces() -> None:
    assert opened("127.0.0.1", 0)[0][0] == "127.0.0.1"
    assert len(opened("", 0)) == 1
