"""`metrics`: what /metrics shows."""

from __future__ import annotations

from gateway.config.fields import Count, Part, key


class Metrics(Part):
    max_pairs: Count = key(25, "Most pairs of backend and model that get series of their own; later ones share `other`.")
