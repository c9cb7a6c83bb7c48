"""Following /events for longer than one gateway lives: after each end it is opened again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from gateway.cli import _admin
from gateway.config import Config

FIRST_WAIT = 0.5  # seconds until the stream is opened again; doubled each time that this fails
LONGEST_WAIT = 10.0

LOST = "lost"


async def following(config: Config, *, begun: bool = False) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """What `_admin.events` tells, again and again: each stream begins with `hello`.

    What was open and is not is told once, as ("lost", {"message": words}). Raises NoGateway and Lost while no stream was open
    yet, unless the gateway has answered something else (begun), and NotDone at any time when it refuses.
    """
    wait, lost = FIRST_WAIT, False
    while True:
        try:
            async for name, value in _admin.events(config):
                if name == "hello":
                    wait, begun, lost = FIRST_WAIT, True, False
                yield name, value
        except (_admin.NoGateway, _admin.Lost) as error:
            if not begun:
                raise
            if not lost:
                yield LOST, {"message": str(error)}
        lost = True
        await asyncio.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)
