from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.inflate import PIECE, Inflater, Undecodable

PACK: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "zlib": ("deflate", zlib.compress),
    "raw": ("deflate", lambda data: zlib.compress(data)[2:-4]),
    "members": ("gzip", lambda data: gzip.compress(data[:3]) + gzip.compress(b"") + gzip.compress(data[3:]) + b"\0\0"),
}
each_form = pytest.mark.parametrize("form", PACK)


def inflate(coding: str, packed: bytes, step: int) -> list[bytes]:
    inflater, pieces = Inflater(coding), []
    for at in range(0, len(packed), step):
        pieces.append(inflater.take(packed[at : at + step]))
        while inflater.more:
            pieces.append(inflater.take())
    inflater.end()
    return pieces


@each_form
@given(data=st.binary(max_size=2000), step=st.integers(1, 500))
def test_however_it_is_cut_it_is_what_was_packed(form: str, data: bytes, step: int) -> None:
    coding, pack = PACK[form]
    assert b"".join(inflate(coding, pack(data), step)) == data


@each_form
def test_a_bomb_comes_in_pieces(form: str) -> None:
    coding, pack = PACK[form]
    data = bytes(10 * PIECE)
    pieces = inflate(coding, pack(data), 1 << 20)
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) <= PIECE


@each_form
def test_what_is_cut_or_wrong_is_told(form: str) -> None:
    coding, pack = PACK[form]
    packed = pack(bytes(range(256)) * 9)
    with pytest.raises(Undecodable):
        inflate(coding, packed[: len(packed) - 20], 100)
    with pytest.raises(Undecodable):
        inflate(coding, b"\xff" + packed, 100)


def test_nothing_is_nothing() -> None:
    assert inflate("deflate", b"", 1) == inflate("gzip", b"", 1) == []
