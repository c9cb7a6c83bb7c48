"""`limits`: what one client may cost."""

from __future__ import annotations

from gateway.config.fields import Duration, Part, SomeBytes, SomeDuration, key


class Limits(Part):
    body: SomeBytes = key("64MiB", "Largest body of a request that the gateway reads; uploads are passed on without a limit.")
    client_stall: SomeDuration = key("2m", "How long a client may neither send nor read before it is disconnected.")
    drain: Duration = key("30s", "How long running requests may go on after the gateway was told to stop.")
