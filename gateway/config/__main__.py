"""`python -m gateway.config > config.schema.json`: writes the JSON schema of the configuration."""

from __future__ import annotations

import json
import sys

from gateway.config import schema

sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
