"""Asks: over the node's link, with retries of what certainly was not handed over, and checked answers.

ask ─▶ session.ready ─▶ seal ─▶ link ─▶ parts: seal checked, belongs to the request ─▶ responses
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from . import _http, _json, frames
from ._ask import Ask
from ._author import Author
from ._direct import Direct
from ._session import HOPS, Attached, Session, say
from ._workers import Workers
from .answers import Candidate, Outcome, Response, error_outcome, read_candidates, read_response
from .envelope import Envelope, decode_document, new_id
from .errors import AgentReachError, Malformed, UnknownAgent, Unreachable

log = logging.getLogger("agent_reach")

RETRIES = 2
_PAUSE = 0.1  # seconds; doubles, drawn from [0, pause]


class Caller:
    def __init__(self, author: Author, session: Session, io: Workers, limit: int) -> None:
        self._author = author
        self._session = session
        self._io = io
        self._limit = limit
        self.direct = Direct(author, session, io, limit)

    async def call(self, ask: Ask, direct: bool = False) -> Response:
        """The whole answer: its only part, or the last one with all of them as parts."""
        if direct:
            responses = await self._call_direct(ask)
        else:
            async with aclosing(self.stream(ask)) as stream:
                responses = [response async for response in stream]
        if not responses:
            raise Malformed("the answer has no part", step="answer")
        last = responses[-1]
        if len(responses) == 1:
            return last
        return Response(last.header, last.payload, last.payload_bytes, tuple(responses))

    async def _call_direct(self, ask: Ask) -> list[Response]:
        responses = await self.direct.call(ask, lambda: self.lookup(ask))
        if responses is None:
            log.debug("no direct candidate, over the node")
            async with aclosing(self.stream(ask)) as stream:
                return [response async for response in stream]
        return responses

    async def stream(self, ask: Ask) -> AsyncGenerator[Response, None]:
        """The parts of the answer as they come. Tried again only while nothing was handed over, at most twice."""
        own_id = ask.values.get("msg_id")
        ask.values.setdefault("trace_id", own_id or new_id())
        for attempt in range(RETRIES + 1):
            attached = await self._session.ready(ask.deadline)
            tries = _Attempt(self, attached, ask, attempt)
            try:
                async with aclosing(tries.parts()) as parts:
                    async for response in parts:
                        yield response
                return
            except AgentReachError as e:
                e.trace_id = e.trace_id or str(ask.values["trace_id"])
                if attempt == RETRIES or not tries.may_repeat(e, bool(own_id)):
                    raise
                await self._pause(attempt, ask, e)
                if isinstance(e, UnknownAgent):
                    await self._session.register()

    async def _pause(self, attempt: int, ask: Ask, error: AgentReachError) -> None:
        pause = random.uniform(0, _PAUSE * 2**attempt)
        if pause >= ask.remaining:
            raise error
        log.debug("trying again, attempt=%d err=%s", attempt + 2, error)
        await asyncio.sleep(pause)

    async def check(self, envelope: Envelope, attached: Attached) -> None:
        await self._session.keys.check(envelope, attached.link.peer)

    async def write(self, ask: Ask) -> Envelope:
        return await self._author.write(ask.payload, **ask.header_values())

    async def broadcast(self, ask: Ask) -> list[Outcome]:
        """One outcome for every available agent of the capability; each response is checked with its agent's key."""
        ask.values["msg_type"] = "broadcast"
        sent: list[Envelope] = []
        attached = await self._session.ready(ask.deadline)
        async with aclosing(_Attempt(self, attached, ask, 0, sent).parts()) as parts:
            answers = [response async for response in parts]
        if not answers:
            raise Malformed("the broadcast was answered with nothing", step="answer")
        spans = _json.members(answers[-1].payload_bytes)
        found = _json.elements(spans["outcomes"].raw) if "outcomes" in spans else []
        return list(await asyncio.gather(*(self._outcome(span.raw, sent[0], attached) for span in found)))

    async def _outcome(self, raw: bytes, request: Envelope, attached: Attached) -> Outcome:
        members = _json.members(raw)
        values = {name: span.value for name, span in members.items()}
        agent, took = str(values.get("agent", "")), float(values.get("duration_ms") or 0)
        documents = [members["response"].raw] if values.get("response") else []
        if values.get("responses"):
            documents = [span.raw for span in _json.elements(members["responses"].raw)]
        if not documents:
            return error_outcome(agent, took, values.get("error"))
        try:
            responses = [await self._checked(one, request, attached, agent) for one in documents]
        except AgentReachError as e:
            return Outcome(agent, False, took, error=e)
        last = responses[-1]
        parts = tuple(responses) if len(responses) > 1 else ()
        return Outcome(agent, True, took, Response(last.header, last.payload, last.payload_bytes, parts))

    async def _checked(self, document: bytes, request: Envelope, attached: Attached, agent: str) -> Response:
        envelope, _ = decode_document(document)
        await self.check(envelope, attached)
        if envelope.header.source_agent != agent:
            raise Malformed(f"{envelope.header.source_agent} answers in the place of {agent}", step="answer")
        return read_response(envelope, request.header)

    async def lookup(self, ask: Ask) -> list[Candidate]:
        """Ranked candidates, best first. Nothing is handed over, so it is tried again."""
        for attempt in range(RETRIES + 1):
            attached = await self._session.ready(ask.deadline)
            try:
                return await self._lookup(ask, attached)
            except (Unreachable, UnknownAgent) as e:
                if attempt == RETRIES:
                    raise
                await self._pause(attempt, ask, e)
                if isinstance(e, UnknownAgent):
                    await self._session.register()
        raise AssertionError("unreachable")

    async def _lookup(self, ask: Ask, attached: Attached) -> list[Candidate]:
        # The ticket lives as long as this message, at most a minute: the call itself has its own ttl.
        request = await self._author.write(ask.payload, **{**ask.header_values(), "msg_id": new_id(), "ttl_sec": 60})
        url = f"{attached.address}/v1/lookup"
        deadline = min(ask.deadline, time.monotonic() + 10)
        body, headers = request.to_document(), {"Content-Type": "application/json"}
        reply = await self._io.run(
            lambda: _http.exchange("POST", url, body, headers, deadline=deadline, limit=self._limit)
        )
        if reply.status != 200:
            raise _http.problem_of(reply, url)
        return read_candidates(reply.body)


class _Attempt:
    """One try over one link."""

    def __init__(
        self, caller: Caller, attached: Attached, ask: Ask, attempt: int, sent: list[Envelope] | None = None
    ) -> None:
        self._caller = caller
        self._attached = attached
        self._ask = ask
        self._attempt = attempt
        self._sent = sent
        self._said = False
        self._handed_over = False

    async def parts(self) -> AsyncGenerator[Response, None]:
        request = await self._caller.write(self._ask)
        if self._sent is not None:
            self._sent.append(request)
        remaining = max(1, min(round(self._ask.remaining * 1000), 0xFFFFFFFE))
        hop = frames.Hop(remaining, HOPS, request.header.priority, self._attempt)
        async with aclosing(say(self._attached.link, request, hop, self._mark)) as answers:
            async for answer in answers:
                await self._caller.check(answer, self._attached)
                response = read_response(answer, request.header)
                if self._ask.values.get("target_agent", response.agent) not in (response.agent, ""):
                    raise Malformed(f"{response.agent} answers in the place of another", step="answer")
                self._said = True
                yield response

    def _mark(self) -> None:
        self._handed_over = True

    def may_repeat(self, error: AgentReachError, own_id: bool) -> bool:
        """Only what certainly did not run. With a msg_id of the user's own nothing is sent twice under it."""
        if self._said or (self._handed_over and own_id):
            return False
        return isinstance(error, (Unreachable, UnknownAgent))
