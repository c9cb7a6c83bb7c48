"""The commented configuration that `warmgate init` writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gateway.cli import _found
from gateway.config import Config
from gateway.control.discover import Discovery, Sight, free_name
from gateway.logs import printable

HEAD = """\
# Warmgate's configuration. `warmgate check` tells what is wrong with it, `warmgate run` uses it, `warmgate reload` has the
# running gateway read it again, `warmgate config` prints every key with its default. A ${VAR} must be set in the environment.

listen: 127.0.0.1:8484    # where clients ask; 0.0.0.0:8484 for containers and other machines, and then set api_keys
# api_keys: ["${WARMGATE_KEY}"]    # clients must send one of these
admin:
  listen: 127.0.0.1:8485    # /metrics, /status
"""

SERVERS = """
# Name -> server. The first one decides which kind of server the gateway looks like, and breaks ties.
backends:
"""

EXAMPLE = """\
# No model server was found on this machine. Take the # away from the next lines and write your server's address.
#  local:
#    url: http://127.0.0.1:11434    # without the API's own path
"""

MODELS = """
# Names that clients use -> what they stand for; other models pass under their own names.
# models:
#   coder: { aliases: [gpt-4o-mini, "claude-*"], targets: [BACKEND/MODEL] }
"""


def text(discovery: Discovery) -> str:
    """A configuration with the servers that were found, and those that ask for a key that it does not know."""
    locked = [stranger.sight for stranger in discovery.strangers.values() if stranger.sight.locked]
    backends = [*_known(discovery.servers), *_locked(locked, discovery.servers)]
    return HEAD + SERVERS + ("".join(backends) or EXAMPLE) + MODELS


def holds_secret(config: Config) -> bool:
    """Whether the file has a place for a secret, so that nobody else should read it."""
    return bool(config.api_keys or config.admin.token or any(backend.headers for backend in config.backends.values()))


def _known(servers: Mapping[str, Sight]) -> Iterator[str]:
    for name, sight in servers.items():
        about = printable(_found.models(sight.probe.models), 110)
        yield f"  # {about}\n  {name}:\n    kind: {sight.probe.kind}\n    url: {sight.url}\n"


def _locked(sights: Iterable[Sight], servers: Mapping[str, Sight]) -> Iterator[str]:
    taken = dict(servers)
    for sight in sights:
        name = free_name("locked" if sight.probe.kind == "auto" else sight.probe.kind, taken)
        taken[name] = sight
        variable = f"{name.upper()}_KEY"
        yield f"  # It asks for an API key: set {variable} in the environment.\n  {name}:\n    url: {sight.url}\n"
        yield f'    headers: {{ authorization: "Bearer ${{{variable}:-}}" }}\n'
