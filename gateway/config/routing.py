"""`routing`: how requests find their backend."""

from __future__ import annotations

from gateway.config.fields import CountOrNone, Part, key


class Routing(Part):
    queue: CountOrNone = key(64, "Requests that may wait for each backend; more are answered with 429 and Retry-After.")
