"""`heartbeat`: keeping clients from giving up during a long silence."""

from __future__ import annotations

from gateway.config.fields import Duration, Part, key


class Heartbeat(Part):
    after_headers: Duration = key("15s", "Silence after which a stream that has begun gets a beat; 0s: never.")
    before_headers: Duration = key(
        "60s", "Silence after which a stream is begun for a backend that has not answered yet; 0s: never."
    )
    non_stream: Duration = key("0s", "The same for replies that are no streams: early headers, then spaces; 0s: never.")
