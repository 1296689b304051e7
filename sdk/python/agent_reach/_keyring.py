"""Whose key is whose: node keys as pinned at the handshake, agents' keys as their node publishes them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from . import _http, _json
from ._workers import Workers
from .address import Address
from .envelope import Envelope
from .errors import AgentReachError, BadSeal
from .handshake import Peer
from .seal import Verifier, key_from_base64

log = logging.getLogger("agent_reach")

_KNOWN = 4096  # agents whose keys are remembered
_PATIENCE = 10.0  # seconds for one look-up
_DOCUMENT = 128 << 20  # bytes of a node's word about one agent; its schemas are most of it


class KeyRing:
    """``address`` says which node to ask; keys of agents are fetched once, and once more when a seal does not fit."""

    def __init__(self, io: Workers, address: Callable[[], Address]) -> None:
        self._io = io
        self._address = address
        self._nodes: dict[str, Peer] = {}
        self._agents: OrderedDict[str, bytes] = OrderedDict()
        self._fetching: dict[str, asyncio.Future[bytes]] = {}
        self._verifier = Verifier()

    def pin(self, node: Peer) -> None:
        """Remembers a node's proven key; a change is said loudly."""
        known = self._nodes.get(node.id)
        if known is not None and known.key != node.key:
            log.warning(
                "NODE KEY CHANGED: node %s proved another key than before, node=%s; "
                "if nobody replaced that node's key, somebody stands between you and it",
                node.id, node.id,
            )  # fmt: skip
        self._nodes[node.id] = node

    def node_key(self, id: str) -> bytes | None:
        node = self._nodes.get(id)
        return node.key if node else None

    def node_time(self, id: str) -> float:
        """Now by the node's clock, as it stood to ours at the handshake: what a node has admitted, its agents admit too."""
        node = self._nodes.get(id)
        return time.time() + (node.offset if node else 0.0)

    async def check(self, envelope: Envelope, node: Peer) -> None:
        """Raises BadSeal unless the envelope's source said exactly this."""
        source = envelope.header.source_agent
        if source == node.id:
            ok = self.proves(envelope, node.key)
        else:
            ok = await self._check_agent(envelope, source)
        if not ok:
            raise BadSeal(
                f"the seal does not prove that {source} said this",
                step="answer",
                trace_id=envelope.header.trace_id,
                hint="the answer was changed on the way, or the agent's key was replaced",
            )

    def proves(self, envelope: Envelope, key: bytes) -> bool:
        return self._verifier.check(key, envelope.header_bytes, envelope.payload, envelope.seal)

    async def _check_agent(self, envelope: Envelope, id: str) -> bool:
        known = self._agents.get(id)
        if known is None:
            return self.proves(envelope, await self._fetch(id))
        self._agents.move_to_end(id)
        if self.proves(envelope, known):
            return True
        fresh = await self._fetch(id)
        return fresh != known and self.proves(envelope, fresh)

    async def _fetch(self, id: str) -> bytes:
        """One look-up at a time for each agent."""
        running = self._fetching.get(id)
        if running is None:
            running = asyncio.ensure_future(self._ask(id))
            self._fetching[id] = running
            running.add_done_callback(lambda done: self._fetched(id, done))
        return await asyncio.shield(running)

    def _fetched(self, id: str, done: asyncio.Future[bytes]) -> None:
        self._fetching.pop(id, None)
        if not done.cancelled():
            done.exception()  # looked at, in case nobody waits any more

    async def _ask(self, id: str) -> bytes:
        url = f"{self._address()}/v1/agents/{id}"
        deadline = time.monotonic() + _PATIENCE
        try:
            reply = await self._io.run(lambda: _http.exchange("GET", url, b"", {}, deadline=deadline, limit=_DOCUMENT))
            if reply.status != 200:
                raise _http.problem_of(reply, url)
            members = _json.loads(reply.body)
            key = key_from_base64(members.get("public_key") if isinstance(members, dict) else None)
        except AgentReachError as e:
            raise BadSeal(
                f"the key of {id} cannot be learned, so its answer is not believed: {e}", step="answer"
            ) from e
        self._agents[id] = key
        if len(self._agents) > _KNOWN:
            self._agents.popitem(last=False)
        return key
