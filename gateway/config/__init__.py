"""The configuration: one YAML file in, one frozen Config out. The only package that imports pydantic.

    load/loads   text -> Config, or a ConfigError that reports everything that is wrong
    effective    Config -> plain data in the user's spelling, secrets masked; to_yaml prints it
    schema       JSON schema of what users write; `python -m gateway.config > config.schema.json` rewrites the file
    find         which file is meant
    at_addresses the same Config at addresses from the command line

The way of a text: yaml12 (graph) -> document (nodes that know their place, variables expanded) -> bind (pydantic) and checks
(what spans several values) -> Config. root.py lists the keys.
"""

from __future__ import annotations

from gateway.config.backends import Backend, Timeouts, Tls
from gateway.config.json_schema import schema
from gateway.config.keep import Keep
from gateway.config.listen import Address, Listener, parse_address
from gateway.config.loader import load, loads
from gateway.config.lookup import find, places
from gateway.config.models import Model
from gateway.config.override import at_addresses
from gateway.config.problems import InvalidConfig, Problem, show_path
from gateway.config.root import Config
from gateway.config.show import effective
from gateway.config.warmup import Pin
from gateway.config.yaml12 import to_yaml

__all__ = [
    "Address",
    "Backend",
    "Config",
    "InvalidConfig",
    "Keep",
    "Listener",
    "Model",
    "Pin",
    "Problem",
    "Timeouts",
    "Tls",
    "at_addresses",
    "effective",
    "find",
    "load",
    "loads",
    "parse_address",
    "places",
    "schema",
    "show_path",
    "to_yaml",
]
