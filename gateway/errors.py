"""Every error Warmgate raises on purpose, as a tree by whose fault it is.

    WarmgateError
    ├── ConfigError            the operator's: the configuration, a file, an address
    ├── Refusal                the caller's: answered in the caller's dialect with `status`
    │   ├── BadRequest         400  body or headers that cannot be understood
    │   ├── Unauthorized       401  no valid gateway key
    │   ├── Forbidden          403  host, origin or path that this listener does not serve
    │   ├── NotFound           404  no such path on this listener
    │   ├── UnknownModel       404  no backend has the model
    │   ├── SlowRequest        408  the body did not arrive in time
    │   ├── TooLarge           413  body above limits.body
    │   ├── Loop               508  passed too many gateways: they are each other's backends
    │   └── Busy               429/503  queue full, draining, waited too long: carries retry_after
    └── UpstreamError          a backend's
        ├── Unreachable        502  no connection could be made
        ├── UpstreamDied       502  the connection broke before the reply was complete
        ├── UpstreamLoading    503  the server says that it is still loading
        └── UpstreamSilent     504  nothing came within the first-byte or idle limit

`code` is stable and machine-readable; `str(error)` is one sentence that says what happened and what to do about it.
`status` is the HTTP status for a caller that has not been answered yet.
"""

from __future__ import annotations


class WarmgateError(Exception):
    """Base of all errors raised on purpose."""


class ConfigError(WarmgateError):
    """The configuration, or something that it names, cannot be used. The text may have several lines."""


class Answerable(WarmgateError):
    """An error that a caller is told about.

    status: HTTP status; code: snake_case, stable; retry_after: whole seconds for the Retry-After header, or None.
    """

    status = 500
    code = "internal_error"

    def __init__(self, message: str, *, code: str | None = None, status: int | None = None, retry_after: int | None = None):
        super().__init__(message)
        self.code = code or self.code
        self.status = status or self.status
        self.retry_after = retry_after


class Refusal(Answerable):
    """The caller's fault, or a limit that the operator set."""

    status = 400
    code = "bad_request"


class BadRequest(Refusal):
    """The body or a header cannot be understood."""


class Unauthorized(Refusal):
    status = 401
    code = "invalid_api_key"


class Forbidden(Refusal):
    status = 403
    code = "forbidden"


class NotFound(Refusal):
    status = 404
    code = "not_found"


class UnknownModel(Refusal):
    status = 404
    code = "model_not_found"


class SlowRequest(Refusal):
    status = 408
    code = "request_timeout"


class TooLarge(Refusal):
    status = 413
    code = "request_too_large"


class Loop(Refusal):
    """Gateways that are each other's backends."""

    status = 508
    code = "gateway_loop"


class Busy(Refusal):
    """Nothing is wrong with the request, but it cannot be served now."""

    status = 429
    code = "queue_full"


class UpstreamError(Answerable):
    """A backend's fault."""

    status = 502
    code = "upstream_error"


class Unreachable(UpstreamError):
    code = "upstream_unreachable"


class UpstreamDied(UpstreamError):
    code = "upstream_died"


class UpstreamLoading(UpstreamError):
    status = 503
    code = "upstream_loading"


class UpstreamSilent(UpstreamError):
    status = 504
    code = "upstream_timeout"
