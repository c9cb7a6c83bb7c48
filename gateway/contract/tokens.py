"""Probes of exact token counts: what a prompt will cost, without running it."""

from __future__ import annotations

from gateway.contract.base import Finding, Probe, differs, judged, listed, skipped
from gateway.contract.bodies import CHAT, MESSAGES
from gateway.contract.server import Server, lacks


async def llamacpp_counts(server: Server) -> Finding:
    """Four ways to the same number: template and tokenizer, the counting endpoint, and the usage of a real answer."""
    body = server.body(CHAT, server.text(40), 1)
    rendered = (await server.post("/apply-template", body)).doc.get("prompt")
    if not isinstance(rendered, str):
        return differs("/apply-template gives no prompt")
    pieces = (await server.post("/tokenize", {"content": rendered, "add_special": True, "parse_special": True})).doc.get(
        "tokens"
    )
    counted = (await server.post(f"{CHAT}/input_tokens", body)).doc.get("input_tokens")
    usage = (await server.post(CHAT, body)).seen.usage
    told = {"tokenized": len(pieces) if isinstance(pieces, list) else None, "counted": counted, "prompt": usage.prompt}
    return judged(
        len(set(told.values())) == 1 and None not in told.values(), listed(told), "the same number three times", **told
    )


async def messages_count(server: Server) -> Finding:
    text = server.text(40)
    heard = await server.post(f"{MESSAGES}/count_tokens", server.body(MESSAGES, text, 1))
    if lacks(heard):
        return skipped(f"it has no {MESSAGES}/count_tokens: {heard.status}")
    usage = await server.usage(MESSAGES, text)
    told = {"counted": heard.doc.get("input_tokens"), "prompt": usage.prompt}
    return judged(told["counted"] == told["prompt"], listed(told), "the same number twice", **told)


async def vllm_counts(server: Server) -> Finding:
    body = server.body(CHAT, server.text(40), 1)
    heard = await server.post("/tokenize", body)
    if lacks(heard):
        return skipped(f"it has no /tokenize: {heard.status}")
    usage = (await server.post(CHAT, body)).seen.usage
    told = {"counted": heard.doc.get("count"), "prompt": usage.prompt}
    return judged(told["counted"] == told["prompt"] is not None, listed(told), "the same number twice", **told)


PROBES = (
    Probe(
        "tokens-llamacpp",
        "/apply-template with /tokenize, and /v1/chat/completions/input_tokens, count a prompt exactly.",
        "measured on llama.cpp",
        llamacpp_counts,
        frozenset({"llamacpp"}),
    ),
    Probe(
        "tokens-messages",
        "/v1/messages/count_tokens counts a prompt exactly.",
        "measured on llama.cpp; oMLX's README",
        messages_count,
        frozenset({"llamacpp", "omlx"}),
    ),
    Probe(
        "tokens-vllm",
        "/tokenize counts a chat's prompt exactly.",
        "vLLM's documentation",
        vllm_counts,
        frozenset({"vllm"}),
    ),
)
