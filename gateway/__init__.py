"""Warmgate: a reverse proxy that keeps the prompt prefixes of local model servers stable and warm."""

__version__ = "0.1.0"
