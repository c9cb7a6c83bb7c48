"""Writes small random-weight models that a llama.cpp server serves like any other.

    python -m gateway.engine.gguf tiny OUT.gguf

They know nothing and answer in gibberish, but tokenizer, chat template, KV cache and the cost of prefill are real. What can
be relied on: the same arguments give a byte-identical file (with one release of numpy and gguf); at temperature 0 the answer
depends on the prompt alone, is printable ASCII and never ends by itself, so it has exactly `max_tokens` tokens. Another seed
gives another model of the same shape.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal, get_args

from gateway.engine.extra import require
from gateway.engine.templates import ToolsPlace
from gateway.errors import WarmgateError

CACHE_VARIABLE = "WARMGATE_MODEL_CACHE"


@dataclass(frozen=True, slots=True)
class Shape:
    """arch: `llama` (full attention, can rewind) or `lfm2` (short convolutions in every other layer, cannot rewind).

    width: of the embedding; heads, kv_heads: of an attention layer; feed: width of the feed-forward part; window: tokens that
    attention looks back, 0 = all.
    """

    arch: Literal["llama", "lfm2"]
    layers: int
    width: int
    heads: int
    kv_heads: int
    feed: int
    tensors: Literal["f16", "q8_0"] = "f16"
    window: int = 0

    @property
    def head_width(self) -> int:
        return self.width // self.heads


SHAPES: dict[str, Shape] = {
    # 0.5 MB, loads in 0.1 s: for tests.
    "tiny": Shape("llama", layers=2, width=64, heads=2, kv_heads=1, feed=128),
    # 40 MB, 37 million parameters: the prefill of an agent's prompt takes seconds.
    "bench": Shape("llama", layers=12, width=512, heads=8, kv_heads=2, feed=1536, tensors="q8_0"),
    # Recurrent state: can only go back to a checkpoint; with a sliding window, not even always there.
    "hybrid": Shape("lfm2", layers=4, width=64, heads=2, kv_heads=1, feed=128),
    "hybrid-swa": Shape("lfm2", layers=4, width=64, heads=2, kv_heads=1, feed=128, window=256),
}


@dataclass(frozen=True, slots=True)
class Model:
    """Everything that decides the bytes of a file. kind: a key of SHAPES; layers: 0 = as the shape says; context: tokens."""

    kind: str
    seed: int = 1
    tools: ToolsPlace = "first"
    layers: int = 0
    context: int = 32768

    @property
    def shape(self) -> Shape:
        shape = SHAPES[self.kind]
        return replace(shape, layers=self.layers) if self.layers else shape


def write(model: Model, path: Path) -> None:
    """Write the model to that path. Raises ExtraMissing, and OSError where the file cannot be written."""
    require("gguf", "numpy")
    from gateway.engine.weights import write_gguf

    write_gguf(model, path)


def cached(model: Model, directory: Path) -> Path:
    """The model's file in a cache directory, written when it is not there. Safe when several processes ask at once.

    The name holds a digest of the arguments and of the generator's source, so a changed generator never meets an old file.
    """
    path = directory / f"{model.kind}-{_digest(model)}.gguf"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".writing-") as scratch:
            draft = Path(scratch) / path.name
            write(model, draft)
            os.replace(draft, path)
    return path


def _digest(model: Model) -> str:
    digest = sha256(repr(astuple(model)).encode())
    for module in ("corpus", "tokenizer", "templates", "gguf", "weights"):
        digest.update(Path(__file__).with_name(f"{module}.py").read_bytes())
    return digest.hexdigest()[:16]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gateway.engine.gguf", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=sorted(SHAPES))
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=1, help="another seed is another model of the same shape")
    parser.add_argument("--tools", choices=get_args(ToolsPlace), default="first", help="where the chat template puts the tools")
    parser.add_argument("--layers", type=int, default=0, help="more layers make prefill slower")
    parser.add_argument("--context", type=int, default=32768, help="context length written to the file, in tokens")
    args = parser.parse_args(argv)
    try:
        write(Model(args.kind, args.seed, args.tools, args.layers, args.context), args.output)
    except (WarmgateError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{args.output}: {args.output.stat().st_size / 1e6:.2f} MB", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
