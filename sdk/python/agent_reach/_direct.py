"""Direct calls: look up, POST the document with its ticket straight to the agent, check its seal, report the outcome."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from . import _http, _json
from ._ask import Ask
from ._author import Author
from ._session import Session
from ._workers import Workers
from .answers import Candidate, Response, read_response
from .envelope import Envelope, Header, decode_document
from .errors import AgentError, AgentReachError, BadSeal, Malformed, NoRoute, Overloaded, Unreachable

log = logging.getLogger("agent_reach")

KEEP = 10.0  # seconds for which a look-up's candidates are used again, as long as their tickets last
_REMEMBERED = 256  # look-ups
_ANSWERS = ("application/json", "application/x-ndjson")


class Direct:
    def __init__(self, author: Author, session: Session, io: Workers, limit: int) -> None:
        self._author = author
        self._session = session
        self._io = io
        self._limit = limit
        self._found: OrderedDict[tuple[str, str], tuple[float, list[Candidate]]] = OrderedDict()

    async def call(self, ask: Ask, lookup: Callable[[], Awaitable[list[Candidate]]]) -> list[Response] | None:
        """The parts of the answer; None when nobody can be called directly (any more)."""
        key = (str(ask.values.get("target_capability", "")), str(ask.values.get("target_agent", "")))
        for candidate in await self._candidates(key, lookup):
            try:
                return await self._try(ask, candidate)
            except AgentReachError as e:
                if not _certainly_not_run(e):
                    raise
                self._found.pop(key, None)
                log.debug("direct call not handed over, agent=%s err=%s", candidate.agent, e)
        return None

    async def _candidates(
        self, key: tuple[str, str], lookup: Callable[[], Awaitable[list[Candidate]]]
    ) -> list[Candidate]:
        until, found = self._found.get(key, (0.0, []))
        if time.monotonic() >= until:
            found = [candidate for candidate in await lookup() if candidate.direct]
            life = min((candidate.expires - time.time() - 1 for candidate in found), default=0.0)
            self._found[key] = (time.monotonic() + min(KEEP, life), found)
            self._found.move_to_end(key)
            if len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)
        return found

    async def _try(self, ask: Ask, candidate: Candidate) -> list[Response]:
        request = await self._author.write(ask.payload, **ask.header_values())
        began = time.monotonic()
        code = ""
        try:
            return await self._post(ask, candidate, request)
        except AgentError as e:  # it did its work, and its answer is an error
            code = e.code if e.code == "agent_error" else ""
            raise
        except AgentReachError as e:
            code = e.code
            raise
        finally:
            self._session.report(_outcome(candidate, code, time.monotonic() - began))

    async def _post(self, ask: Ask, candidate: Candidate, request: Envelope) -> list[Response]:
        url = str(candidate.endpoint["url"])
        body = request.to_document(candidate.ticket)
        headers = {
            "Content-Type": "application/json",
            "Agent-Reach-Timeout-Ms": str(max(1, round(ask.remaining * 1000))),
        }
        reply = await self._io.run(
            lambda: _http.exchange("POST", url, body, headers, deadline=ask.deadline, limit=self._limit)
        )
        if reply.status != 200 or reply.type not in _ANSWERS:
            raise _http.problem_of(reply, url)
        lines = reply.body.splitlines() if reply.type == _ANSWERS[1] else [reply.body]
        return [self._read(line, candidate, request.header) for line in lines if line.strip()]

    def _read(self, document: bytes, candidate: Candidate, request: Header) -> Response:
        envelope, _ = decode_document(document, self._limit)
        if envelope.header.source_agent != candidate.agent:
            raise Malformed(f"{envelope.header.source_agent} answers in the place of {candidate.agent}", step="answer")
        if not self._session.keys.proves(envelope, candidate.public_key):
            raise BadSeal(f"the seal does not prove that {candidate.agent} said this", step="answer")
        return read_response(envelope, request)


def _certainly_not_run(error: AgentReachError) -> bool:
    """Not handed over, or refused by the agent before its handler: full, leaving, or the ticket does not do."""
    return isinstance(error, (Unreachable, Overloaded, NoRoute)) or error.step == "ticket"


def _outcome(candidate: Candidate, code: str, seconds: float) -> bytes:
    """As heartbeats carry it; the ticket's bytes stay as they are."""
    rest = _json.dumps({"ok": not code, "code": code, "latency_ms": round(seconds * 1000, 3)})
    return b'{"ticket":' + candidate.ticket + b"," + rest[1:]
