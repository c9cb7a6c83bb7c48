"""Who may talk to a listener, and what about. Pure: header values in, verdicts and headers out.

The threat to a server on loopback is the user's own browser, because any web page may send requests to 127.0.0.1. Two doors
keep pages out: the Host list (a page whose name was rebound to 127.0.0.1 still sends its own name) and the Origin list (a page
cannot hide where it comes from). `host_allowed` comes first; the other checks trust a Host header that passed it. Programs that
are not browsers write whatever headers they like: against them there are keys.
"""

from __future__ import annotations

import hmac
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import unquote

TOKEN_COOKIE = "warmgate_token"
TOKEN_HEADER = "X-Warmgate-Token"

LOCAL_NAMES = frozenset(["localhost", "host.docker.internal"])
WEB_SCHEMES = frozenset(["http", "https"])
LOCAL_SCHEMES = frozenset(["app", "file", "tauri", "vscode-webview", "vscode-file"])
"""Origins of programs on the user's own machine; a web site cannot have one."""

DESTRUCTIVE = (
    "/api/delete",
    "/slots/*",
    "/unload",
    "/models/unload",
    "/*/models/unload",
    "/*/models/*/unload",
    "/sleep",
    "/reset_*",
    "/admin/*",
)
"""What takes a model, a cache or a server away from everyone. See `destructive` for the notation."""

EXPOSED = "X-Request-Id, X-Warmgate-Backend, X-Warmgate-Route, X-Warmgate-Prefix, X-Warmgate-Edits, Server-Timing, Retry-After"
METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
PREFLIGHT_SECONDS = 7200
"""The longest that a Chromium browser keeps a preflight answer; others keep it longer."""

_LONGEST = 512  # characters of a Host or Origin value: a DNS name has at most 253
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+(?:%[\w.~%-]+)?\]|[\w.-]+)(?::(?P<port>\d{1,5}))?", re.ASCII)
_ORIGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#@\\\s]*)", re.ASCII)
_TOKEN = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)  # a header name, RFC 9110 section 5.6.2


# Host


def host_allowed(host_header: str | None, bound_host: str, allowed: Sequence[str] = ()) -> bool:
    """Whether a request with this Host header (port or not) may enter a listener bound to `bound_host`.

    allowed: the `hosts:` of the configuration, names or `*.domain`. A listener on loopback serves loopback addresses,
    LOCAL_NAMES and `allowed`. Any other listener is meant to be reached by names that cannot be known here, so it serves every
    well-formed Host, until `allowed` is set: then IP addresses (which no DNS answer can rebind), LOCAL_NAMES and `allowed`.
    None, a request without the header, passes: HTTP/1.0 programs send none, browsers always do.
    """
    return host_header is None or _host_allowed(host_header, bound_host, tuple(allowed))


@lru_cache(maxsize=64)  # clients repeat the same few values with every request
def _host_allowed(host_header: str, bound_host: str, allowed: tuple[str, ...]) -> bool:
    authority = _authority(host_header)
    if authority is None:
        return False
    host = authority[0]
    if not _is_loopback(_canonical(bound_host)) and (not allowed or _address(host) is not None):
        return True
    return _is_loopback(host) or host in LOCAL_NAMES or any(_host_matches(host, pattern) for pattern in allowed)


@lru_cache(maxsize=64)  # clients repeat the same few values with every request
def _authority(text: str) -> tuple[str, str | None] | None:
    """Canonical host and port of `host[:port]`; None for anything else (user names, spaces, paths, bare IPv6, bad ports)."""
    if len(text) > _LONGEST:
        return None
    match = _AUTHORITY.fullmatch(text.lower())
    if match is None or int(match["port"] or 0) > 65535:
        return None
    host = _canonical(match["host"])
    if not host or (match["host"].startswith("[") and _address(host) is None):
        return None
    return host, match["port"]


def _canonical(host: str) -> str:
    """Lower case, without brackets, IPv6 zone and the dot that ends an absolute name; addresses in their shortest spelling."""
    host = host.lower().removeprefix("[").removesuffix("]").partition("%")[0].removesuffix(".")
    address = _address(host)
    return host if address is None else str(address)


@lru_cache(maxsize=64)
def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _host_matches(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith("." + _canonical(pattern[2:]))
    return pattern == "*" or host == _canonical(pattern)


# Origin


def origin_allowed(origin: str | None, host_header: str | None, allowed: Sequence[str] = ()) -> bool:
    """Whether a page of this origin may use the listener. None, no Origin header, passes: it is not a page of another origin.

    Pages on this machine (loopback with http or https and any port, LOCAL_SCHEMES) and pages that this very listener served
    (their host and port are those of the Host header) pass. allowed: the `cors_origins:` of the configuration, exact or with
    `*`: at the start of the host it spans dots (`https://*.example.org`), elsewhere one label or a port (`http://10.0.0.*:3000`),
    alone behind the scheme everything (`chrome-extension://*`); `*` by itself is every origin except `null`, which sandboxed
    pages of any site share: it passes only if listed.
    """
    if origin is None:
        return True
    if origin == "null":
        return "null" in allowed
    low = origin.lower()
    match = _ORIGIN.fullmatch(low) if len(low) <= _LONGEST else None
    if match is None:
        return False
    if match["scheme"] in LOCAL_SCHEMES:
        return True
    if match["scheme"] in WEB_SCHEMES:
        authority = _authority(match["authority"])
        if authority is None:
            return False
        if _is_this_machine(authority[0]) or authority == _authority(host_header or ""):
            return True
    return any(_origin_pattern(pattern).fullmatch(low) for pattern in allowed)


def _is_this_machine(host: str) -> bool:
    """Loopback, or 0.0.0.0 and ::, which development servers print as their address."""
    address = _address(host)
    return _is_loopback(host) or (address is not None and address.is_unspecified)


@lru_cache(maxsize=256)
def _origin_pattern(pattern: str) -> re.Pattern[str]:
    low = pattern.strip().lower().removesuffix("/")
    if low == "*":
        return re.compile(".*")
    scheme, separator, authority = low.partition("://")
    spans = authority.startswith("*")
    parts = [re.escape(part) for part in authority.removeprefix("*").split("*")]
    return re.compile(re.escape(scheme + separator) + (".+" if spans else "") + "[a-z0-9_-]+".join(parts))


# CORS: what a browser wants to hear before it hands the reply to an allowed page


def cors_headers(origin: str | None) -> dict[str, str]:
    """Headers to add (not to set: a reply may have its own Vary) to every reply to an allowed origin, errors included."""
    if origin is None:
        return {}
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": EXPOSED, "Vary": "Origin"}


def is_preflight(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a browser asks for permission first. Answered here: it carries no key, and servers behind us may want one."""
    return method == "OPTIONS" and "Origin" in headers and "Access-Control-Request-Method" in headers


def preflight(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers of the 204 that answers a preflight, beside those of cors_headers. The caller has checked the origin."""
    wanted = [name.strip() for name in headers.get("Access-Control-Request-Headers", "").split(",")]
    answer = {
        "Access-Control-Allow-Methods": METHODS,
        "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
        "Vary": "Access-Control-Request-Method, Access-Control-Request-Headers",
    }
    if names := [name for name in wanted if _TOKEN.fullmatch(name)]:
        answer["Access-Control-Allow-Headers"] = ", ".join(names)
    if headers.get("Access-Control-Request-Private-Network") == "true":
        answer["Access-Control-Allow-Private-Network"] = "true"
    return answer


# Keys


@dataclass(frozen=True, slots=True)
class AuthResult:
    """drop: header names (lower case) that carried a gateway key and must not reach a backend; key: digest for Client.key."""

    ok: bool
    drop: frozenset[str] = frozenset()
    key: str = ""


def authenticate(headers: Mapping[str, str], api_keys: Sequence[str]) -> AuthResult:
    """Check `Authorization: Bearer K` and `x-api-key: K` against the gateway's keys. `headers` must ignore case.

    Without keys everyone passes and what the client sent is the backend's to judge. With keys, one of the two headers must
    carry one; the other may be meant for the backend and stays. An empty key never matches: keys that are all empty lock the
    door.
    """
    sent = {"authorization": _bearer(headers), "x-api-key": headers.get("x-api-key", "")}
    if not api_keys:
        credential = sent["authorization"] or sent["x-api-key"] or headers.get("Authorization", "")
        return AuthResult(ok=True, key=client_key(credential))
    carried = {name: key for name, key in sent.items() if _matches_any(key, api_keys)}
    return AuthResult(ok=bool(carried), drop=frozenset(carried), key=client_key(next(iter(carried.values()), "")))


def client_key(credential: str) -> str:
    """A short digest that tells clients apart without keeping their keys; '' for no credential."""
    return sha256(b"warmgate client\0" + _bytes(credential)).hexdigest()[:12] if credential else ""


def token_valid(headers: Mapping[str, str], token: str | None) -> bool:
    """Whether the admin token was sent, as Bearer, X-Warmgate-Token or cookie. No token configured: everyone has it."""
    if not token:
        return True
    sent = [_bearer(headers), headers.get(TOKEN_HEADER, ""), *_cookies(headers.get("Cookie", ""), TOKEN_COOKIE)]
    return any(_matches_any(value, [token]) for value in sent)


def same_origin(method: str, headers: Mapping[str, str]) -> bool:
    """Whether the request only reads, or no page of another origin sent it.

    Other pages on this machine are foreign too: they may use models, not reload the gateway or drop its caches.
    """
    if method in ("GET", "HEAD", "OPTIONS") or (origin := headers.get("Origin")) is None:
        return True
    match = _ORIGIN.fullmatch(origin.lower()) if len(origin) <= _LONGEST else None
    if match is None or match["scheme"] not in WEB_SCHEMES:
        return False
    own = _authority(headers.get("Host", ""))
    return own is not None and own == _authority(match["authority"])


def _bearer(headers: Mapping[str, str]) -> str:
    scheme, _, value = headers.get("Authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


def _cookies(line: str, name: str) -> list[str]:
    pairs = (pair.partition("=") for pair in line.split(";"))
    return [value.strip().strip('"') for key, _, value in pairs if key.strip() == name]


def _matches_any(sent: str, keys: Sequence[str]) -> bool:
    """Constant time: digests have one length, and every key is compared even after a match."""
    digest = sha256(_bytes(sent)).digest()
    found = [hmac.compare_digest(digest, sha256(_bytes(key)).digest()) for key in keys]
    return any(found) and sent != ""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # header bytes that are not UTF-8 arrive as lone surrogates


# Destructive paths


def destructive(method: str, path: str, patterns: Sequence[str] = DESTRUCTIVE) -> bool:
    """Whether a request to this path (raw or decoded, without query) is one of `patterns`.

    A pattern is `/glob` or `METHOD /glob`; `*` spans slashes but is never empty, so `/slots/*` is not `/slots`. However the
    path is spelled, it is judged by what any server behind us could make of it: decoded, without dot segments, doubled or
    closing slashes, backslashes, control characters and case.
    """
    verb = "GET" if method.upper() == "HEAD" else method.upper()
    return _compile(tuple(patterns)).fullmatch(f"{verb} {_plain_path(path)}") is not None


def _plain_path(path: str) -> str:
    for _ in range(4):  # once for each server that may stand behind us
        path = unquote(path)
    path = "".join(char for char in path.replace("\\", "/") if char.isprintable())
    return posixpath.normpath("/" + path.strip("/ ")).lower()


@lru_cache(maxsize=64)
def _compile(patterns: tuple[str, ...]) -> re.Pattern[str]:
    rows = []
    for pattern in patterns:
        method, _, glob = pattern.rpartition(" ")
        verb = re.escape(method.upper()) if method not in ("", "*") else r"\S+"
        rows.append(f"{verb} {'.+'.join(re.escape(part) for part in glob.lower().split('*'))}")
    return re.compile("|".join(rows) or r"(?!)", re.DOTALL)
