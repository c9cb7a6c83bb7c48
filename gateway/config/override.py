"""A configuration at other addresses than its own, as the command line wants it."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.config.listen import Address, Entry
from gateway.config.root import Config
from gateway.errors import ConfigError


def at_addresses(config: Config, listen: Sequence[Address] = (), admin: Address | None = None) -> Config:
    """The same configuration, with these in the place of its data addresses (none: its own) and of the operator's.

    An address keeps the identity of the configured one with the same port. Raises ConfigError when two of the addresses
    cannot be listened on at once.
    """
    identities = {entry.address.port: entry.identity for entry in config.listen}
    entries = tuple(Entry(address=address, identity=identities.get(address.port)) for address in listen) or config.listen
    operator = config.admin.model_copy(update={"listen": admin or config.admin.listen})
    for at, entry in enumerate(entries):
        if any(entry.address.overlaps(earlier.address) for earlier in entries[:at]):
            raise ConfigError(f"{entry.address} is given twice.")
        if entry.address.overlaps(operator.listen):
            raise ConfigError(f"{entry.address} is the operator's address; take another port, or set admin.listen.")
    return config.model_copy(update={"listen": entries, "admin": operator})
