"""Random weights for the two architectures, and the GGUF file around them. Needs numpy and gguf, so gguf.py imports it late.

Tensor names and metadata keys are those that llama.cpp reads for the architectures `llama` and `lfm2`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
from numpy.typing import NDArray

from gateway.engine.templates import chat_template
from gateway.engine.tokenizer import END_OF_TEXT, MESSAGE_END, Vocabulary, vocabulary

if TYPE_CHECKING:
    from gateway.engine.gguf import Model, Shape

Array = NDArray[np.float32]
Tensors = Iterator[tuple[str, Array]]

CONVOLUTION = 3  # positions that a short convolution of lfm2 sees


class _Draw:
    """The one source of numbers of a file: the order of the calls decides the weights."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def matrix(self, rows: int, columns: int, gain: float = 1.0) -> Array:
        """Scaled so that an input of unit variance gives an output of variance gain squared."""
        values: Array = self._random.standard_normal((rows, columns), dtype=np.float32)
        return values * np.float32(gain / columns**0.5)


def write_gguf(model: Model, path: Path) -> None:
    """Write the file. Raises OSError."""
    shape, words = model.shape, vocabulary()
    writer: Any = gguf.GGUFWriter(str(path), shape.arch)
    try:
        _describe(writer, model, words)
        for name, values in _tensors(shape, words, _Draw(model.seed)):
            _put(writer, shape, name, values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _describe(writer: Any, model: Model, words: Vocabulary) -> None:
    shape = model.shape
    writer.add_name(f"random-{model.kind}-{model.seed}")
    writer.add_description("random weights, for tests and demonstrations")
    writer.add_file_type(int(gguf.LlamaFileType[f"MOSTLY_{shape.tensors.upper()}"]))
    writer.add_context_length(model.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed)
    writer.add_head_count(shape.heads)
    writer.add_rope_dimension_count(shape.head_width)
    writer.add_rope_freq_base(500_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(words.tokens))
    if shape.arch == "lfm2":
        writer.add_head_count_kv([shape.kv_heads if _attends(layer) else 0 for layer in range(shape.layers)])
        writer.add_uint32("lfm2.shortconv.l_cache", CONVOLUTION)
    else:
        writer.add_head_count_kv(shape.kv_heads)
    if shape.window:
        writer.add_sliding_window(shape.window)
    _describe_tokenizer(writer, words)
    writer.add_chat_template(chat_template(model.tools))


def _describe_tokenizer(writer: Any, words: Vocabulary) -> None:
    kinds = [gguf.TokenType.CONTROL if words.is_control(token) else gguf.TokenType.NORMAL for token in words.tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(list(words.tokens))
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_token_merges(list(words.merges))
    writer.add_bos_token_id(words.id_of(END_OF_TEXT))
    writer.add_eos_token_id(words.id_of(MESSAGE_END))
    writer.add_add_bos_token(False)


def _tensors(shape: Shape, words: Vocabulary, draw: _Draw) -> Tensors:
    yield "token_embd.weight", draw.matrix(len(words.tokens), shape.width, gain=shape.width**0.5)
    yield _OUTPUT_NORM[shape.arch], _ones(shape.width)
    for layer in range(shape.layers):
        for name, values in _LAYER[shape.arch](shape, layer, draw):
            yield f"blk.{layer}.{name}.weight", values
    # Large logits for words and exactly 0 for everything else: neither the end of a message nor a stray byte ever wins.
    head = draw.matrix(len(words.tokens), shape.width, gain=8.0)
    head[[not words.is_printable(token) for token in words.tokens]] = 0.0
    yield "output.weight", head


def _llama_layer(shape: Shape, layer: int, draw: _Draw) -> Tensors:
    yield from _attention(shape, draw)
    yield from _feed_forward(shape, draw)


def _lfm2_layer(shape: Shape, layer: int, draw: _Draw) -> Tensors:
    if _attends(layer):
        yield "attn_q_norm", _ones(shape.head_width)
        yield "attn_k_norm", _ones(shape.head_width)
        yield from _attention(shape, draw)
    else:
        yield "attn_norm", _ones(shape.width)
        yield "shortconv.conv", draw.matrix(shape.width, CONVOLUTION)
        yield "shortconv.in_proj", draw.matrix(3 * shape.width, shape.width)
        yield "shortconv.out_proj", draw.matrix(shape.width, shape.width)
    yield from _feed_forward(shape, draw)


def _attends(layer: int) -> bool:
    """Every other layer of the hybrid models is an attention layer, the first one is a convolution."""
    return layer % 2 == 1


def _attention(shape: Shape, draw: _Draw) -> Tensors:
    # A gain of 2 on queries and keys makes attention peaked, so that answers depend on the words of the prompt.
    kv_width = shape.kv_heads * shape.head_width
    yield "attn_norm", _ones(shape.width)
    yield "attn_q", draw.matrix(shape.width, shape.width, gain=2.0)
    yield "attn_k", draw.matrix(kv_width, shape.width, gain=2.0)
    yield "attn_v", draw.matrix(kv_width, shape.width)
    yield "attn_output", draw.matrix(shape.width, shape.width, gain=2.0)


def _feed_forward(shape: Shape, draw: _Draw) -> Tensors:
    yield "ffn_norm", _ones(shape.width)
    yield "ffn_gate", draw.matrix(shape.feed, shape.width)
    yield "ffn_up", draw.matrix(shape.feed, shape.width)
    yield "ffn_down", draw.matrix(shape.width, shape.feed)


_LAYER: dict[str, Callable[[Shape, int, _Draw], Tensors]] = {"llama": _llama_layer, "lfm2": _lfm2_layer}
_OUTPUT_NORM = {"llama": "output_norm.weight", "lfm2": "token_embd_norm.weight"}  # lfm2 keeps its final norm under this name


def _ones(width: int) -> Array:
    return np.ones(width, dtype=np.float32)


def _put(writer: Any, shape: Shape, name: str, values: Array) -> None:
    """Norms and convolution kernels stay float32, as llama.cpp wants them; all else becomes what the shape says."""
    if values.ndim == 1 or name.endswith("conv.weight"):
        writer.add_tensor(name, values)
    elif shape.tensors == "f16":
        writer.add_tensor(name, values.astype(np.float16))
    else:
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
