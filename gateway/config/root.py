"""The top of the configuration. To add a noun: write its Part in a file of its own, put its row here, rewrite the schema."""

from __future__ import annotations

from gateway.config.access import ApiKey, HostName, Origin, Passthrough
from gateway.config.backends import Backends
from gateway.config.canonical import Canonical
from gateway.config.explain import Explain
from gateway.config.fields import Part, key
from gateway.config.heartbeat import Heartbeat
from gateway.config.limits import Limits
from gateway.config.listen import Admin, Identity, Listen, Listener
from gateway.config.log import Log
from gateway.config.metrics import Metrics
from gateway.config.models import Models
from gateway.config.routing import Routing
from gateway.config.snapshots import Snapshots
from gateway.config.state import StateDir
from gateway.config.warmup import Warmup


class Config(Part):
    """The whole configuration. Durations are seconds, sizes bytes."""

    listen: Listen = key("127.0.0.1:8484", "Where clients ask: an address, or a list of addresses and { address, identity }.")
    identity: Identity = key("auto", "The kind of server that the gateway looks like; auto: the first backend's.")
    hosts: tuple[HostName, ...] = key((), "More names that a Host header may hold; localhost always may.")
    passthrough: Passthrough = key("safe", "all: also pass on server paths that delete or unload.")
    admin: Admin = key({}, "The operator's address.")
    api_keys: tuple[ApiKey, ...] = key((), "Keys that clients may show; empty: none is asked for.", secret=True)
    cors_origins: tuple[Origin, ...] = key((), "Web pages that may read answers.")
    backends: Backends = key({}, "Name -> server. The order breaks ties.")
    models: Models = key({}, "Name that clients use -> what it stands for. Other models pass under their own names.")
    canonical: Canonical = key({}, "How prompts are given a stable prefix.")
    explain: Explain = key({}, "What is kept of finished requests, to say why a later one was slow.")
    heartbeat: Heartbeat = key({}, "Keeping clients from giving up during a long silence.")
    routing: Routing = key({}, "How requests find their backend.")
    snapshots: Snapshots = key({}, "Slots of llama.cpp servers that are saved to files, where the servers can.")
    warmup: Warmup = key({}, "Prefixes that are read ahead, so that the first answer is as fast as the others.")
    state_dir: StateDir = key(
        "~/.local/state/warmgate", "Where what was learned of prompts is kept (SQLite); empty: in memory only."
    )
    metrics: Metrics = key({}, "What /metrics shows.")
    log: Log = key({}, "What is logged.")
    limits: Limits = key({}, "What one client may cost.")

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The data addresses, each with its identity."""
        return tuple(Listener(*entry.address, entry.identity or self.identity) for entry in self.listen)
