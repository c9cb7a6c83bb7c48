"""Prometheus metrics, fed by events. The only importer of prometheus_client; nothing inside imports this package."""

from __future__ import annotations

from gateway.metrics.metrics import CONTENT_TYPE, TTFT_BUCKETS, Metrics, cache_class

__all__ = ["CONTENT_TYPE", "TTFT_BUCKETS", "Metrics", "cache_class"]
