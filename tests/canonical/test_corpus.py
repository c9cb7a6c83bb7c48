"""The corpora of minimal pairs, written by people who had not seen the rules: no wrong move, and how much is found.

First sight counts, because a corpus that rules were improved with judges them no longer:

| corpus | pairs | missed at first | damaged at first | missed now | damaged now |
|---|---|---|---|---|---|
| `pairs.json` | 200 | not kept | not kept | 0 | 0 |
| `second.json` | 150 | 81 | 5 | 15 | 0 |

By rule, missed of the second at first: clock 21 of 45, place 17 of 35, counters 22 of 25, ids 13 of 21, memory 8 of 18,
attribution 0 of 6. One pair of `memory` was wrong and was changed before the second count: it only put the facts in another
order, which is restored and no new version. What is still missed is left alone on purpose or needs more evidence than one text
has: a date alone behind "as of", `git status` in a fence, the model's own name, names of users, seeds, histories, project rules
that call themselves memory.
"""

from __future__ import annotations

import pytest

from tests.canonical.judging import damaged, missed
from tests.canonical_corpus.corpus import PAIRS, SECOND, Pair, load

FIRST_PAIRS, SECOND_PAIRS = load(PAIRS), load(SECOND)


@pytest.mark.parametrize("pair", FIRST_PAIRS + SECOND_PAIRS, ids=lambda pair: pair.id)
def test_nothing_is_moved_or_lost_that_must_stay(pair: Pair) -> None:
    assert damaged(pair) == ""


@pytest.mark.parametrize(("pairs", "share"), [(FIRST_PAIRS, 0.02), (SECOND_PAIRS, 0.11)], ids=["first", "second"])
def test_most_of_what_varies_is_taken_out(pairs: list[Pair], share: float) -> None:
    missing = [found for pair in pairs if (found := missed(pair))]
    assert len(missing) <= len(pairs) * share, missing
