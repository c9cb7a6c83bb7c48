"""Pieces of queries that many panels share."""

from __future__ import annotations

from grafana.spec import RATE

HERE = 'job=~"$job",instance=~"$instance"'
BACKEND = f'{HERE},backend=~"$backend"'
PAIR = f'{BACKEND},model=~"$model"'


def of(name: str, where: str = HERE, *more: str) -> str:
    """A metric of the gateway, where: HERE, BACKEND or PAIR, by the labels that it has; more: further matchers."""
    return f"warmgate_{name}{{{','.join((where, *more))}}}"


def rate(name: str, where: str = HERE, *more: str, over: str = RATE) -> str:
    return f"rate({of(name, where, *more)}{over})"


def increase(name: str, where: str = HERE, *more: str, over: str = RATE) -> str:
    return f"increase({of(name, where, *more)}{over})"


def total(by: str, expression: str) -> str:
    """Summed, for each combination of these labels; "" for all."""
    return f"sum by ({by}) ({expression})" if by else f"sum({expression})"


def share(by: str, part: str, whole: str) -> str:
    return f"{total(by, part)} / {total(by, whole)}"


def quantile(q: float, by: str, name: str, where: str = HERE, *more: str, over: str = RATE) -> str:
    """Of a histogram, for each combination of these labels."""
    labels = ", ".join(filter(None, ("le", by)))
    return f"histogram_quantile({q}, {total(labels, rate(f'{name}_bucket', where, *more, over=over))})"
