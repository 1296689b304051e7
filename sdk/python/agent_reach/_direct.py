"""Direct calls: look up, POST the document with its ticket straight to the agent, check its seal, report the outcome.

A look-up serves the calls of the next seconds. A ticket's outcome counts once: a failure is told at once, and its
look-up forgotten; successes are told together, with their mean latency, when the look-up has had its time.
"""

from __future__ import annotations

import asyncio
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


class _Found:
    """A look-up's candidates, until a moment of time.monotonic, and the seconds of the successful calls by ticket."""

    def __init__(self, candidates: list[Candidate]) -> None:
        life = min((one.expires - time.time() - 1 for one in candidates), default=KEEP)
        self.until = time.monotonic() + min(KEEP, life)
        self.candidates = candidates
        self.told = False  # a ticket of it has had its outcome told
        self.spent: dict[bytes, list[float]] = {}


class Direct:
    def __init__(self, author: Author, session: Session, io: Workers, limit: int) -> None:
        self._author = author
        self._session = session
        self._io = io
        self._limit = limit
        self._found: OrderedDict[tuple[str, str], _Found] = OrderedDict()

    async def call(self, ask: Ask, lookup: Callable[[], Awaitable[list[Candidate]]]) -> list[Response] | None:
        """The parts of the answer; None when nobody can be called directly (any more)."""
        key = (str(ask.values.get("target_capability", "")), str(ask.values.get("target_agent", "")))
        found = await self._find(key, lookup)
        for candidate in found.candidates:
            try:
                return await self._try(ask, candidate, found)
            except AgentReachError as e:
                if found.told:
                    self._forget(key, found)
                if not _certainly_not_run(e):
                    raise
                log.debug("direct call not handed over, agent=%s err=%s", candidate.agent, e)
        return None

    def tell(self) -> None:
        """Reports all successes that wait to be told."""
        for key, found in list(self._found.items()):
            self._forget(key, found)

    async def _find(self, key: tuple[str, str], lookup: Callable[[], Awaitable[list[Candidate]]]) -> _Found:
        found = self._found.get(key)
        if found and time.monotonic() < found.until:
            return found
        found = _Found([candidate for candidate in await lookup() if candidate.direct])
        if key in self._found:
            self._forget(key, self._found[key])
        self._found[key] = found
        asyncio.get_running_loop().call_later(KEEP, self._forget, key, found)
        if len(self._found) > _REMEMBERED:
            self._forget(*next(iter(self._found.items())))
        return found

    def _forget(self, key: tuple[str, str], found: _Found) -> None:
        if self._found.get(key) is found:
            del self._found[key]
        spent, found.spent = found.spent, {}
        for ticket, seconds in spent.items():
            self._session.report(_outcome(ticket, "", sum(seconds) / len(seconds)))

    async def _try(self, ask: Ask, candidate: Candidate, found: _Found) -> list[Response]:
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
            self._note(candidate.ticket, code, time.monotonic() - began, found)

    def _note(self, ticket: bytes, code: str, seconds: float, found: _Found) -> None:
        if code:
            found.told = True
            found.spent.pop(ticket, None)
            self._session.report(_outcome(ticket, code, seconds))
        else:
            found.spent.setdefault(ticket, []).append(seconds)

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


def _outcome(ticket: bytes, code: str, seconds: float) -> bytes:
    """As heartbeats carry it; the ticket's bytes stay as they are."""
    rest = _json.dumps({"ok": not code, "code": code, "latency_ms": round(seconds * 1000, 3)})
    return b'{"ticket":' + ticket + b"," + rest[1:]
