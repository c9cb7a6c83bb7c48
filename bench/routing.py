"""How long answers take to begin, in simulated fleets of llama.cpp servers, under Warmgate's routing and under four policies
that people use; and what a decision costs.

    round robin, least busy, session pin, prefix tree    see `bench.sim_policies`
    warmgate                                             `gateway.routing.place.choose` and `gateway.routing.order.order`

A cell is a fleet and a load: backends x slots, and so many agents for each slot. All policies get the same agents. The servers'
true speeds are up to 50 % off what Warmgate believes, and servers die and come back empty. `--check` fails if the mean time to
the first token over all cells is not 5 % below that of each other policy, if it is more than 2 % above it in any cell, or if a
look-up and a decision take more than 200 microseconds.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from bench.decision import FLEETS, LIMIT, decide
from bench.sim import Server, Time
from bench.sim_policies import LeastBusy, Policy, PrefixTree, RoundRobin, SessionPin, Warmgate
from bench.sim_work import Agent, Habits, Request

SEEDS, QUICK_SEEDS = 20, 3
TURNS = 25
RATE = 1000.0
"""Tokens of a prompt that a server is believed to read in a second, before each gets its own share of that."""
PACE = 0.025
"""Seconds for each token of an answer."""
LONGEST = 20_000.0
"""Simulated seconds after which a run is given up."""
BETTER, WORSE = 0.05, 0.02

Table = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Cell:
    backends: int
    slots: int
    agents: float  # for each slot

    @property
    def name(self) -> str:
        return f"{self.backends}x{self.slots}, {self.agents:g} agents a slot"


CELLS = [Cell(backends, slots, agents) for backends, slots in ((2, 2), (4, 1), (3, 4)) for agents in (0.75, 1.5, 2.5)]

POLICIES: dict[str, Callable[[Time, list[Server], dict[str, float]], Policy]] = {
    "round robin": lambda time, servers, rates: RoundRobin(time, servers),
    "least busy": lambda time, servers, rates: LeastBusy(time, servers),
    "session pin": lambda time, servers, rates: SessionPin(time, servers),
    "prefix tree": lambda time, servers, rates: PrefixTree(time, servers),
    "warmgate": Warmgate,
}


@dataclass
class Run:
    """ttft: seconds, of each request; main: of those that are no side requests; read: tokens of prompts that were computed."""

    ttft: list[float]
    main: list[float]
    read: int


def run(cell: Cell, seed: int, policy: str) -> Run:
    time, draw = Time(), random.Random(f"{cell}:{seed}")
    believed = {f"s{number}": RATE * draw.uniform(0.7, 1.4) for number in range(cell.backends)}
    servers = [Server(time, name, cell.slots, rate * draw.uniform(0.5, 1.5), PACE) for name, rate in believed.items()]
    sent: list[Request] = []
    router = POLICIES[policy](time, servers, believed)

    def send(request: Request) -> None:
        sent.append(request)
        router.send(request)

    for number in range(max(2, round(cell.agents * cell.backends * cell.slots))):
        Agent(number, seed, Habits(), TURNS, time, send)
    _plan_failures(time, servers, router, draw)
    time.run(LONGEST)
    if any(request.ttft is None for request in sent):
        raise RuntimeError(f"{policy} has left requests without an answer in {cell.name}, seed {seed}")
    ttft = [(request.ttft or 0.0, request.side) for request in sent]
    return Run([one for one, _ in ttft], [one for one, side in ttft if not side], sum(server.read for server in servers))


def _plan_failures(time: Time, servers: list[Server], router: Policy, draw: random.Random) -> None:
    """One server dies after a while and comes back later with empty slots."""
    server, when = draw.choice(servers), draw.uniform(30, 120)

    def die() -> None:
        server.fail()
        router.changed(server)

    def back() -> None:
        server.up = True
        router.changed(server)

    time.at(when, die)
    time.at(when + draw.uniform(10, 30), back)


def mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def compare(seeds: int, show: Callable[[str], None], cells: Sequence[Cell] = CELLS) -> Table:
    """Mean seconds to the first token by cell and policy."""
    found: Table = {}
    for cell in cells:
        row = {policy: mean([mean(run(cell, seed, policy).ttft) for seed in range(seeds)]) for policy in POLICIES}
        found[cell.name] = row
        show(cell.name.ljust(28) + "".join(f"{row[policy]:14.2f}" for policy in POLICIES))
    return found


def over_all(found: Table) -> dict[str, float]:
    return {policy: mean([row[policy] for row in found.values()]) for policy in POLICIES}


def lost(found: Table) -> list[str]:
    """What speaks against Warmgate."""
    ours, total = "warmgate", over_all(found)
    rivals = [policy for policy in POLICIES if policy != ours]
    words = [f"not {BETTER:.0%} below {rival} over all" for rival in rivals if total[ours] > (1 - BETTER) * total[rival]]
    for cell, row in found.items():
        words += [f"{cell}: above {rival}" for rival in rivals if row[ours] > (1 + WORSE) * row[rival]]
    return words


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SEEDS} seeds instead of {SEEDS}")
    parser.add_argument("--check", action="store_true", help="exit 1 beyond the limits")
    options = parser.parse_args()
    show: Callable[[str], None] = (lambda text: None) if options.json else partial(print, flush=True)
    show(f"{'mean seconds to the first token':28}" + "".join(f"{policy:>14}" for policy in POLICIES))
    found = compare(QUICK_SEEDS if options.quick else SEEDS, show)
    total, times = over_all(found), {name: decide(name) for name in FLEETS}
    show(f"{'all cells':28}" + "".join(f"{total[policy]:14.2f}" for policy in POLICIES))
    for name, seconds in times.items():
        show(f"a look-up and a decision, {name}: {seconds * 1e6:.0f} microseconds of {LIMIT * 1e6:.0f}")
    over = lost(found) + [f"{name}: above {LIMIT * 1e6:.0f} microseconds" for name, seconds in times.items() if seconds > LIMIT]
    if options.json:
        print(json.dumps({"cells": found, "all": total, "seconds": times, "limit": LIMIT, "over": over}))
    for words in over if not options.json else ():
        print(words)
    return 1 if options.check and over else 0


if __name__ == "__main__":
    sys.exit(main())
