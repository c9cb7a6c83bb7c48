"""What is learned of a model on a backend: how long its prompts take to read, and how many characters make a token.

One writer: `gateway.state.accounting`, on the event loop.
"""

from __future__ import annotations

from dataclasses import dataclass

FORGET = 0.97
"""Weight of what was known against one new sample: about thirty samples count."""

ENOUGH = 3
"""Samples before times are inferred from."""

LEAST = 32
"""Tokens below which a prefill is mostly overhead and teaches nothing."""


@dataclass(slots=True)
class Rate:
    """Prefill time as a function of depth: a token at depth d takes a + b*d seconds, fitted by least squares that forget.

    n tokens from depth c to depth p take a*n + b*(p*p - c*c)/2. told: the server has reported what it reused, at least once, so
    that nothing is inferred where it does not.
    """

    samples: int = 0
    told: bool = False
    _xx: float = 0.0
    _xy: float = 0.0
    _yy: float = 0.0
    _xt: float = 0.0
    _yt: float = 0.0
    _fitted: tuple[float, float] | None = None

    def learn(self, cached: int, prompt: int, seconds: float) -> None:
        """A prefill of prompt - cached tokens behind `cached` ones."""
        x, y = prompt - cached, (prompt * prompt - cached * cached) / 2
        if x < LEAST or seconds <= 0:
            return
        weight = 1.0 / x  # so that a long prompt does not drown what short ones say of small depths
        self._xx = self._xx * FORGET + weight * x * x
        self._xy = self._xy * FORGET + weight * x * y
        self._yy = self._yy * FORGET + weight * y * y
        self._xt = self._xt * FORGET + weight * x * seconds
        self._yt = self._yt * FORGET + weight * y * seconds
        self.samples += 1
        self._fitted = None

    def seconds(self, cached: int, prompt: int) -> float | None:
        """How long a prefill from `cached` to `prompt` tokens takes; None while nothing was learned."""
        if not self.samples:
            return None
        a, b = self._fitted or self._fit()
        return max(0.0, a * (prompt - cached) + b * (prompt * prompt - cached * cached) / 2)

    def cached(self, prompt: int, seconds: float) -> int | None:
        """How many tokens must have been reused if the prefill of a prompt took so long; None while too little is known."""
        if self.told or self.samples < ENOUGH or seconds < 0:
            return None
        low, high = 0, prompt
        while low < high:
            middle = (low + high) // 2
            if (self.seconds(middle, prompt) or 0.0) > seconds:
                low = middle + 1
            else:
                high = middle
        return low

    def _fit(self) -> tuple[float, float]:
        """(a, b), neither below 0."""
        spread = self._xx * self._yy - self._xy * self._xy
        if spread > 1e-9 * self._xx * self._yy:
            a = (self._xt * self._yy - self._yt * self._xy) / spread
            b = (self._yt * self._xx - self._xt * self._xy) / spread
            if a >= 0 and b >= 0:
                self._fitted = a, b
                return a, b
        self._fitted = self._xt / self._xx, 0.0
        return self._fitted


@dataclass(slots=True)
class Ratio:
    """Tokens for each character of a prompt, as its size is counted in a chain."""

    value: float = 0.25
    _tokens: float = 0.0
    _characters: float = 0.0

    def learn(self, tokens: int, characters: int) -> None:
        if tokens <= 0 or characters <= 0:
            return
        self._tokens = self._tokens * FORGET + tokens
        self._characters = self._characters * FORGET + characters
        self.value = self._tokens / self._characters
