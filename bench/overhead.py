"""What the gateway costs: CPU time per request and per streamed event, in ratios to nginx in the same run.

    python bench/overhead.py [--quick] [--check] [--json] [--peers litellm]

Direct, nginx, the barest proxy on aiohttp (the floor under all that is built on it) and the gateway take turns in each round; a
figure is the median of the rounds. CPU time is that of the process
tree, so what else the machine does matters little; latencies are shown, and judged by nobody. `--check` exits with 1 when a
target is missed, or when three tries were too noisy to judge. Needs Linux and, for the ratios, nginx.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import load, process
from bench.process import Tree

LONG = "word " * 200_000  # 1 MB


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to measure. unit: what the CPU time is divided by: each request, or each event of the streams."""

    name: str
    message: bytes
    requests: int
    connections: int
    events: int = 0

    def units(self, requests: int) -> int:
        return requests * max(1, self.events)


CASES = (
    Case("request", load.request("json", stream=False), 3000, 8),
    Case("flood event", load.request("flood-20032", stream=True), 8, 2, events=20_032),
    Case("spaced event", load.request("spaced-250", stream=True), 32, 16, events=250),
    Case("split event", load.request("split-250", stream=True), 16, 8, events=250),
    Case("after a prefill", load.request("prefill-20", stream=True), 200, 8),
    Case("after a dropped connection", load.request("drop", stream=False), 1000, 8),
    Case("1 MB prompt", load.request("json", LONG, stream=False), 100, 4),
    Case("1 MB system text", load.request("json", "hi", stream=False, system=LONG[:900_000]), 100, 4),
)

TARGETS: tuple[tuple[str, str, float], ...] = (
    ("gateway", "request", 10.0),
    ("gateway", "flood event", 2.6),
    ("gateway", "spaced event", 2.2),
    ("gateway", "1 MB prompt", 4.0),
    ("gateway, canonical off", "1 MB prompt", 2.5),
)
"""Who, what, at most so many times nginx's CPU time."""

MEMORY_BASE = 75e6  # bytes resident, at most
MEMORY_STREAM = 35e3  # bytes for each idle stream, at most
STREAMS = 300
NOISY = 0.35  # a spread between rounds above this share of the median judges nothing
TRIES = 3


@dataclass(slots=True)
class Figures:
    """Microseconds of CPU time per unit, and milliseconds to the first byte and in all, one for each round."""

    cpu: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.cpu)

    @property
    def spread(self) -> float:
        """Distance between the quartiles, as a share of the median."""
        if len(self.cpu) < 3 or not self.median:
            return 0.0
        low, _, high = statistics.quantiles(self.cpu, n=4)
        return (high - low) / self.median


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about 30 seconds instead of minutes")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--peers", nargs="*", choices=["litellm"], default=[], help="measure these beside the gateway")
    args = parser.parse_args()
    for attempt in range(TRIES if args.check else 1):
        report = measure(quick=args.quick, peers=args.peers)
        print(json.dumps(report, indent=2) if args.json else table(report))
        missed, noisy = judge(report)
        if not args.check or not missed:
            return 0
        if not noisy:
            break
        print(f"try {attempt + 1} of {TRIES} was too noisy to judge: {', '.join(noisy)}", file=sys.stderr)
    print("missed: " + "; ".join(missed), file=sys.stderr)
    return 1


def measure(*, quick: bool, peers: list[str]) -> dict[str, object]:
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(process.upstream())
        trees: dict[str, Tree] = {"direct": upstream}
        starts: dict[str, Callable[[], contextlib.AbstractContextManager[Tree]]] = {
            "nginx": lambda: process.nginx(directory, upstream.port),
            "bare aiohttp": lambda: process.bare(upstream.port),
            "gateway": lambda: process.gateway(directory, upstream.port, "rewrite"),
            "gateway, canonical off": lambda: process.gateway(directory, upstream.port, "off"),
            "litellm": lambda: process.litellm(directory, upstream.port),
        }
        for name, start in starts.items():
            if name != "litellm" or name in peers:
                try:
                    trees[name] = stack.enter_context(start())
                except FileNotFoundError as error:
                    print(f"left out, because it is not installed: {error}", file=sys.stderr)
        return asyncio.run(_rounds(trees, rounds=3 if quick else 5, scale=0.4 if quick else 1.0))


async def _rounds(trees: dict[str, Tree], rounds: int, scale: float) -> dict[str, object]:
    memory = {name: await _memory(tree) for name, tree in trees.items() if name.startswith("gateway")}
    found: dict[str, dict[str, Figures]] = {case.name: {name: Figures() for name in trees} for case in CASES}
    for tree in trees.values():  # caches and pools fill before anything counts
        await load.run(tree.port, CASES[0].message, requests=200, connections=8)
    for _ in range(rounds):
        for case in CASES:
            for name, tree in trees.items():
                requests = max(case.connections, int(case.requests * scale))
                before = tree.cpu()
                seen = await load.run(tree.port, case.message, requests=requests, connections=case.connections)
                figures = found[case.name][name]
                figures.cpu.append((tree.cpu() - before) / case.units(requests) * 1e6)
                figures.first.append(seen.first_p50 * 1e3)
                figures.whole.append(seen.p50 * 1e3)
    return {
        "cases": {case: {name: _row(figures) for name, figures in row.items()} for case, row in found.items()},
        "memory": memory,
    }


def _row(figures: Figures) -> dict[str, float]:
    return {
        "cpu_us": round(figures.median, 2),
        "spread": round(figures.spread, 3),
        "first_byte_ms": round(statistics.median(figures.first), 3),
        "p50_ms": round(statistics.median(figures.whole), 3),
    }


async def _memory(tree: Tree) -> dict[str, float]:
    """Resident bytes of a gateway that has done nothing, and for each stream on which nothing happens."""
    base = tree.resident()
    writers = await load.hold(tree.port, load.request("silent", stream=True), STREAMS)
    await asyncio.sleep(0.2)
    held = tree.resident()
    for writer in writers:
        writer.close()
    await asyncio.sleep(0.2)
    return {"base_bytes": base, "stream_bytes": (held - base) / STREAMS}


def ratio(report: dict[str, object], who: str, case: str) -> float | None:
    """CPU time against nginx's; None where nginx is not there."""
    row = report["cases"][case]  # type: ignore[index]
    return row[who]["cpu_us"] / row["nginx"]["cpu_us"] if "nginx" in row else None


def judge(report: dict[str, object]) -> tuple[list[str], list[str]]:
    """What missed its target, and which of the figures behind that are too noisy to say so."""
    missed, noisy = [], []
    for who, case, most in TARGETS:
        found = ratio(report, who, case)
        if found is None or found > most:
            missed.append(f"{case}, {who}: {'no nginx' if found is None else f'{found:.2f}x'}, target {most:g}x")
            row = report["cases"][case]  # type: ignore[index]
            noisy += [f"{case}, {name}" for name in (who, "nginx") if name in row and row[name]["spread"] > NOISY]
    for who, figures in report["memory"].items():  # type: ignore[attr-defined]
        if figures["base_bytes"] > MEMORY_BASE or figures["stream_bytes"] > MEMORY_STREAM:
            missed.append(
                f"memory, {who}: {figures['base_bytes'] / 1e6:.0f} MB + {figures['stream_bytes'] / 1e3:.1f} kB a stream"
            )
    return missed, noisy


def table(report: dict[str, object]) -> str:
    lines = [f"{'':28}{'CPU us':>10}{'x nginx':>9}{'first ms':>10}{'p50 ms':>10}{'spread':>8}"]
    for case, row in report["cases"].items():  # type: ignore[attr-defined]
        lines.append(case)
        for who, figures in row.items():
            times = ratio(report, who, case)
            lines.append(
                f"  {who:26}{figures['cpu_us']:10.1f}{'' if times is None else f'{times:.2f}':>9}"
                f"{figures['first_byte_ms']:10.2f}{figures['p50_ms']:10.2f}{figures['spread']:8.0%}"
            )
    lines.append("memory")
    for who, figures in report["memory"].items():  # type: ignore[attr-defined]
        lines.append(f"  {who:26}{figures['base_bytes'] / 1e6:.1f} MB, {figures['stream_bytes'] / 1e3:.1f} kB a stream")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
