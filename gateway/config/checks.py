"""What single values cannot tell: whether names and addresses fit together.

The checks look at the nodes and not at the finished Config, so that they also speak where other values are wrong; a value that
is wrong by itself is passed over here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args
from urllib.parse import urlsplit

from gateway.config.document import Node
from gateway.config.listen import Address, Admin, Identity, parse_address
from gateway.config.problems import Path, Problem, did_you_mean
from gateway.config.root import Config

Check = Callable[[Node], Iterator[Problem]]


def addresses(root: Node) -> Iterator[Problem]:
    """No two addresses can be listened on at once, the operator's included."""
    data = list(_data_addresses(root))
    for at, (path, node, address) in enumerate(data):
        if any(address.overlaps(earlier) for _, _, earlier in data[:at]):
            yield Problem(node.mark, path, "this address is given twice")
    admin, path = root.at(("admin", "listen"))
    given = len(path) == 2 and admin.value is not None
    address_of_admin = _address(admin) if given else parse_address(Admin.model_fields["listen"].default)
    for data_path, node, address in data:
        if address_of_admin and address.overlaps(address_of_admin):
            if given:
                yield Problem(admin.mark, path, "clients are served on this address already; take another port")
            else:
                yield Problem(node.mark, data_path, "this is the operator's address; take another port, or set admin.listen")


def targets(root: Node) -> Iterator[Problem]:
    """A target names a backend that exists."""
    backends = _entries(root, "backends")
    for name, model in _entries(root, "models").items():
        listed: list[tuple[Path, Node]] = [(("targets", at), node) for at, node in enumerate(_items(model, "targets"))]
        if side := model.entries.get("side_target"):
            listed.append((("side_target",), side))
        for path, node in listed:
            backend, slash, _ = (node.text or "").partition("/")
            if not slash or not backend or backend in backends:
                continue
            words = "the backend of this target is not defined"
            if not node.from_env:
                words = f"there is no backend {backend}{did_you_mean(backend, backends)}"
            yield Problem(node.mark, ("models", name, *path), words)


def names(root: Node) -> Iterator[Problem]:
    """A name or alias means one model."""
    models = _entries(root, "models")
    owner: dict[str, str] = {}
    for name, model in models.items():
        for at, node in enumerate(_items(model, "aliases")):
            alias = node.text
            if alias is None:
                continue
            path: Path = ("models", name, "aliases", at)
            if alias in models and alias != name:
                yield Problem(node.mark, path, "another model has this name")
            elif owner.setdefault(alias, name) != name:
                yield Problem(node.mark, path, f"the model {owner[alias]} has this alias already")


def loops(root: Node) -> Iterator[Problem]:
    """No backend is the gateway itself: each request, and each look at the backend, would ask for another without an end."""
    admin = _address(root.at(("admin", "listen"))[0]) or parse_address(Admin.model_fields["listen"].default)
    own = [*(address for _, _, address in _data_addresses(root)), admin]
    for name, backend in _entries(root, "backends").items():
        url = backend.entries.get("url")
        asked = _address_of_url(url.text) if url else None
        if url and asked and any(asked.overlaps(address) for address in own):
            yield Problem(url.mark, ("backends", name, "url"), "this is the gateway's own address; write the server's")


def identities(root: Node) -> Iterator[Problem]:
    """An address that looks like a kind of server has one behind it. What an `auto` backend is, only a look at it tells."""
    kinds = {kind.text if (kind := backend.entries.get("kind")) else "auto" for backend in _entries(root, "backends").values()}
    if not kinds or not kinds <= set(get_args(Identity)) or "auto" in kinds:
        return
    for path, node in _identities(root):
        if node.text in get_args(Identity) and node.text not in kinds | {"auto"}:
            yield Problem(node.mark, path, "no backend is of this kind")


CHECKS: tuple[Check, ...] = (addresses, targets, names, loops, identities)


def check(root: Node) -> Iterator[Problem]:
    for look in CHECKS:
        yield from look(root)


def _data_addresses(root: Node) -> Iterator[tuple[Path, Node, Address]]:
    listen, path = root.at(("listen",))
    if not path or listen.value is None:
        yield ("listen",), root, parse_address(Config.model_fields["listen"].default)
        return
    places = [((*path, at), item) for at, item in enumerate(listen.items)] if listen.items else [(path, listen)]
    for place, node in places:
        inner, found = node.at(("address",))
        if address := _address(inner):
            yield place + found, inner, address


def _identities(root: Node) -> Iterator[tuple[Path, Node]]:
    """Where an identity is written."""
    listen, path = root.at(("listen",))
    places = [((*path, at), item) for at, item in enumerate(listen.items)] if listen.items else [(path, listen)]
    for place, node in [((), root), *(places if path else [])]:
        if identity := node.entries.get("identity"):
            yield (*place, "identity"), identity


def _address(node: Node) -> Address | None:
    try:
        return parse_address(node.text)
    except ValueError:
        return None


def _address_of_url(text: str | None) -> Address | None:
    """Where a request to this URL goes."""
    try:
        url = urlsplit(text or "")
        port = url.port or {"http": 80, "https": 443}.get(url.scheme, 0)
    except ValueError:
        return None
    return Address(url.hostname, port) if url.hostname else None


def _entries(node: Node, name: str) -> dict[str, Node]:
    inner = node.entries.get(name)
    return inner.entries if inner else {}


def _items(node: Node, name: str) -> list[Node]:
    inner = node.entries.get(name)
    return inner.items if inner else []
