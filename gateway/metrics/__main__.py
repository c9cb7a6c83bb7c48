"""Prints docs/metrics.md: `python -m gateway.metrics > docs/metrics.md`."""

from __future__ import annotations

import sys

from gateway.metrics.document import document

sys.stdout.write(document())
