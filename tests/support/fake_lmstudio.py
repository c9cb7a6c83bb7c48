"""An LM Studio without a model: REST v0 and v1, OpenAI's and Anthropic's paths, instances that come and go, and 200 for errors.

    async with FakeLmStudio(LmModel("a"), LmModel("b"), clock=clock) as studio:
        ... requests to studio.url ...
        assert studio.instances.unloads == [("a", "evicted")]

Prompts are really rendered and compared token by token, but no reply tells what was reused: only the time to the first token
does. Kept apart: what is in memory (lmstudio_instances), what is said about it (lmstudio_catalog), how it is told
(replies.lmstudio). Of its WebSocket API there is only the beginning (lmstudio_sockets). Not simulated: the rest of that API,
downloads, images, plug-ins, the prompt cache behind the slots. How a request ends whose model is unloaded under it is a guess:
an error in the stream, or 400.
"""

from __future__ import annotations

import hmac
import itertools
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

from aiohttp import web

from gateway.clock import Clock
from tests.support import lmstudio_catalog, lmstudio_sockets
from tests.support.fake_server import FakeServer, Refused, Served, json_body
from tests.support.kvcache import tokenize
from tests.support.lmstudio_instances import UNLOADED, Instance, Instances, LmModel
from tests.support.ollama_asks import Ask
from tests.support.openai_asks import PATHS, prompt_tokens, read
from tests.support.replies import SSE, Reply, anthropic, lmstudio, openai
from tests.support.replies.reply import sse

V0_PATHS = {"/api/v0/chat/completions": "/v1/chat/completions", "/api/v0/completions": "/v1/completions"}
CHAT = "/api/v1/chat"
SINCE = {"/v1/messages": (0, 4, 1), "/v1/responses": (0, 3, 29), CHAT: (0, 4, 0)}
"""The first version that has a path."""

ERRORS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}

Messages = list[dict[str, Any]]


class FakeLmStudio(FakeServer):
    """key: an API token that is asked for; settings: of Instances (jit, auto_evict, parallel, load_seconds).

    heard: (path, message) of what its SDKs asked: None for a greeting, the names in the first message of a socket.
    """

    def __init__(
        self,
        *models: LmModel,
        version: str = "0.4.5",
        key: str = "",
        clock: Clock | None = None,
        seconds_per_token: float = 0.0,
        gap: float = 0.0,
        **settings: Any,
    ):
        super().__init__(clock, seconds_per_token, gap)
        self.since = tuple(map(int, re.findall(r"\d+", version)[:3]))
        self.key = key
        self.instances = Instances(models or (LmModel("tiny"),), self.clock, **settings)
        self.heard: list[tuple[str, Any]] = []
        self._threads: dict[str, Messages] = {}
        self._ids = itertools.count(1)

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        handlers = dict.fromkeys((*PATHS, *V0_PATHS), self.respond) | {CHAT: self.chat}
        answers = [web.post(path, handler) for path, handler in handlers.items() if self.since >= SINCE.get(path, ())]
        return [*answers, *lmstudio_catalog.routes(self), *lmstudio_sockets.routes(self)]

    # OpenAI's and Anthropic's APIs, and REST v0

    async def respond(self, request: web.Request) -> web.StreamResponse:
        body = await json_body(request)
        async with self.record(request.path, body) as served:
            ask = read(V0_PATHS.get(request.path, request.path), {**body, "previous_response_id": None})
            if request.path == "/v1/responses":
                ask = replace(ask, messages=self._after(body.get("previous_response_id"), ask.messages or []))
            async with (
                self.instances.use(body.get("model"), ttl=body.get("ttl")) as (instance, _),
                self._at_work(request.path, body, ask, instance, served) as reply,
            ):
                return await self._send(request, body, ask, reply, instance, served)

    @asynccontextmanager
    async def _at_work(
        self, path: str, body: Mapping[str, Any], ask: Ask, instance: Instance, served: Served
    ) -> AsyncIterator[Reply]:
        """What the model says once the prompt is evaluated. Raises Refused 400 if the model goes meanwhile."""
        if instance.model.embedding:
            raise Refused(400, f'Model "{instance.id}" is an embedding model.')
        async with instance.cache.lease(prompt_tokens(ask, instance.context)) as lease:
            served.total, served.reused, served.slot = len(lease.prompt), lease.reused, lease.slot.number
            await lease.prefill(self.seconds_per_token)
            if instance.gone:
                raise Refused(400, UNLOADED)
            thinking = instance.model.thinking and ask.think is not False
            reply = replace(self.told(path, body, ask, lease, cached=None, thinking=thinking), model=instance.id)
            yield reply
            lease.generated(reply.reasoning + reply.text)

    async def _send(
        self, request: web.Request, body: Mapping[str, Any], ask: Ask, reply: Reply, instance: Instance, served: Served
    ) -> web.StreamResponse:
        shape, v0 = self.shapes[request.path], request.path in V0_PATHS
        added = lmstudio.figures(reply, instance.context)
        stored = self._store(ask.messages or [], reply) if request.path == "/v1/responses" else None
        if not shape.wants_stream(body):
            document = shape.document(reply)
            return web.json_response(body=lmstudio.with_figures(document, added) if v0 else _named(document, stored))
        events = lmstudio.stream_with_figures(shape.stream(reply), added) if v0 else shape.stream(reply)
        sent = _until_gone(instance, [_named(event, stored) for event in events], served)
        return await self.stream(request, sent, shape.content_type)

    # REST v1

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await json_body(request)
        async with self.record(request.path, body) as served:
            ask = self._chat_ask(body)
            waits = self.instances.find(body.get("model")) is None
            async with aclosing(self._chat(body, ask, served, waits)) as told:
                if body.get("stream") is not True:
                    ended = {kind: fields async for kind, fields in told}
                    if "error" in ended:
                        raise Refused(400, ended["error"]["error"]["message"])
                    return web.json_response(ended["chat.end"]["result"])
                response = web.StreamResponse(headers={"Content-Type": SSE})
                await response.prepare(request)
                try:
                    async for kind, fields in told:
                        await self.write_one(response, lmstudio.event(kind, fields))
                except Refused as error:
                    served.outcome = "failed"
                    await response.write(lmstudio.event("error", _v1_error(str(error))))
                await response.write_eof()
                return response

    async def _chat(
        self, body: Mapping[str, Any], ask: Ask, served: Served, waits: bool
    ) -> AsyncGenerator[lmstudio.Event, None]:
        """The events of a chat while they happen. waits: the model has to be loaded first."""
        named = {"model_instance_id": body["model"]}
        yield "chat.start", named
        if waits:
            yield "model_load.start", named
        async with self.instances.use(body["model"], context=body.get("context_length")) as (instance, loaded):
            seconds = self.instances.load_seconds if loaded else None
            if waits:
                yield "model_load.progress", named | {"progress": 1.0}
                yield "model_load.end", named | {"load_time_seconds": self.instances.load_seconds}
            yield "prompt_processing.start", {}
            yield "prompt_processing.progress", {"progress": 0.0}
            async with self._at_work("/v1/chat/completions", body, ask, instance, served) as reply:
                yield "prompt_processing.progress", {"progress": 1.0}
                yield "prompt_processing.end", {}
                said = ""
                for kind, fields in lmstudio.spoken(reply):
                    if instance.gone:
                        served.outcome = "failed"
                        yield "error", _v1_error(UNLOADED)
                        reply = replace(reply, text=said)
                        break
                    said += fields["content"] if kind == "message.delta" else ""
                    yield kind, fields
                stored = self._store(ask.messages or [], reply) if body.get("store") is not False else None
                thought = len(tokenize(reply.reasoning))
                yield "chat.end", {"result": lmstudio.result(reply, instance.id, stored, seconds, thought)}

    def _chat_ask(self, body: Mapping[str, Any]) -> Ask:
        """Raises Refused 400. A model that cannot reason may only be told not to."""
        asked, reasoning = body.get("input"), body.get("reasoning")
        if not isinstance(body.get("model"), str) or not asked:
            raise Refused(400, '"model" and "input" are required')
        text = asked if isinstance(asked, str) else "".join(part.get("content", "[image]") for part in asked)
        model = self.instances.models.get(body["model"])
        if reasoning not in (None, "off") and model and not model.thinking:
            raise Refused(400, f'Model "{model.key}" does not support the reasoning setting.')
        system = [{"role": "system", "content": body["system_prompt"]}] if body.get("system_prompt") else []
        messages = self._after(body.get("previous_response_id"), [*system, {"role": "user", "content": text}])
        return Ask(messages, limit=body.get("max_output_tokens") or -1, think=None if reasoning is None else reasoning != "off")

    # conversations that the server keeps

    def _after(self, previous: str | None, messages: Messages) -> Messages:
        """The messages of an earlier response and then these; a system text stands first. Raises Refused 404."""
        if previous is None:
            return messages
        if previous not in self._threads:
            raise Refused(404, f'Response "{previous}" not found.')
        system = [message for message in messages[:1] if message["role"] == "system"]
        earlier = [message for message in self._threads[previous] if not system or message["role"] != "system"]
        return [*system, *earlier, *messages[len(system) :]]

    def _store(self, messages: Messages, reply: Reply) -> str:
        response_id = f"resp_{next(self._ids):04d}"
        self._threads[response_id] = [*messages, {"role": "assistant", "content": reply.text}]
        return response_id

    # the server's own words

    def guard(self, request: web.Request) -> None:
        sent = request.headers.get("Authorization", "").removeprefix("Bearer ") or request.headers.get("x-api-key", "")
        if self.key and not hmac.compare_digest(sent, self.key):
            raise Refused(401, "An LM Studio API token is required.")

    def refusal(self, request: web.Request, error: Refused) -> web.Response:
        kind = ERRORS.get(error.status, "internal_error")
        if request.path.startswith("/api/v1/"):
            body = lmstudio.error(str(error), {404: "model_not_found"}.get(error.status, "invalid_request"))
        elif request.path == "/v1/messages":
            body = anthropic.error(str(error), kind)
        else:
            body = openai.error(str(error), kind)
        return web.json_response(body=body, status=error.status)

    def unknown(self, request: web.Request) -> web.Response:
        return web.json_response({"error": f"Unexpected endpoint or method. ({request.method} {request.path})"})

    def forget(self) -> None:
        """Nothing is loaded any more, and nothing of what was said is kept."""
        self.instances.forget()
        self._threads.clear()


def _until_gone(instance: Instance, events: Iterable[bytes], served: Served) -> Iterator[bytes]:
    """The events, cut off by an error when the model is unloaded under them."""
    for event in events:
        if instance.gone:
            served.outcome = "failed"
            yield sse({"error": {"message": UNLOADED}}, "error")
            return
        yield event


def _named(data: bytes, response_id: str | None) -> bytes:
    """With the id under which the conversation goes on, where it is kept."""
    return data if response_id is None else data.replace(b'"resp_1"', f'"{response_id}"'.encode())


def _v1_error(message: str) -> dict[str, Any]:
    return {"error": {"type": "invalid_request", "message": message}}
