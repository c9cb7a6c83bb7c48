"""`explain`: what is kept of finished requests, to say why a later one was slow."""

from __future__ import annotations

from typing import Literal

from gateway.config.fields import Count, Part, key

Store = Literal["hashes", "text", "none"]


class Explain(Part):
    keep: Count = key(500, "Finished requests that are remembered, in memory.")
    store: Store = key(
        "hashes",
        "hashes: digests and lengths of prompts; text: their system texts and tools too, so that what changed is shown; none.",
    )
