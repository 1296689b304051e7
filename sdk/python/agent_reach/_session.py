"""Attached to a node, come what may: link, registration, heartbeats, reconnection over several nodes.

dial ─▶ handshake ─▶ register ─▶ attached ─▶ (goaway, or lost) ─▶ pause ─▶ dial the next
"""

from __future__ import annotations

import asyncio
import copy
import logging
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from . import _json, frames
from ._author import Author
from ._keyring import KeyRing
from ._workers import Workers
from .address import Address, parse_address
from .envelope import Envelope, decode_bytes
from .errors import AgentReachError, Malformed, Overloaded, Timeout, UnknownAgent, Unreachable, error_from_object
from .handshake import Limits
from .link import Accept, Link, open_link

log = logging.getLogger("agent_reach")

FIRST_PAUSE = 0.25  # seconds; doubles with each failed round, drawn from [0, pause]
LONGEST_PAUSE = 15.0
ROUNDS = 3  # failed rounds over all nodes after which a waiting call gives up
SHORT_LIFE = 5.0  # seconds; a link that lived shorter counts as a failure, or two nodes would be hammered in turn
MAX_OUTCOMES = 256
MAX_ADDRESSES = 16
PATIENCE = 10.0  # seconds for an answer to register, heartbeat, unregister
HOPS = 8


_PASSING = (Unreachable, Timeout, Overloaded)  # errors that a later round may not meet again


@dataclass(frozen=True)
class Attached:
    link: Link
    address: Address

    @property
    def usable(self) -> bool:
        return not self.link.going_away.is_set()


async def say(
    link: Link, envelope: Envelope, hop: frames.Hop, handed_over: Callable[[], None] | None = None
) -> AsyncGenerator[Envelope, None]:
    """Sends an envelope as a call and gives what is answered. ``hop.remaining_ms`` bounds it, with a little grace.

    ``handed_over`` is called once the message may have left.
    """
    call = await link.open(hop)
    grace = hop.remaining_ms / 1000 + 0.25
    over = asyncio.get_running_loop().call_later(grace, lambda: call.cancel(_no_answer(call.handed_over, hop)))
    try:
        await call.send(envelope.to_bytes())
        while (data := await call.next()) is not None:
            yield decode_bytes(data, link.limits.max_message)
    finally:
        if call.handed_over and handed_over:
            handed_over()
        over.cancel()
        call.cancel()


def _no_answer(handed_over: bool, hop: frames.Hop) -> AgentReachError:
    spent = f"{hop.remaining_ms / 1000:.1f} s"
    if handed_over:
        return Timeout(f"no answer within {spent}: unknown whether it ran", step="call")
    return Unreachable(f"could not be handed over within {spent}", step="call")


class Session:
    """``descriptor`` is what to register (without public_key), ``status`` what to put into a heartbeat."""

    def __init__(
        self, author: Author, addresses: list[Address], limits: Limits, accept: Accept, io: Workers, interval: float
    ) -> None:
        self.descriptor: Callable[[], dict[str, Any]] = dict
        self.status: Callable[[], dict[str, Any]] = dict
        self.keys = KeyRing(io, lambda: self._address)
        self._author = author
        self._addresses = list(addresses)
        self._limits = limits
        self._accept = accept
        self._io = io
        self._interval = interval
        self._address = addresses[0]
        self._attached: Attached | None = None
        self._leaving = False
        self._state = ""
        self._failed_rounds = 0
        self._last_error: AgentReachError | None = None
        self._changed = asyncio.Event()
        self._hurry = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._outcomes: deque[bytes] = deque(maxlen=MAX_OUTCOMES)
        self._registering = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    # being attached

    def start(self) -> None:
        self._spawn(self._supervise())
        self._spawn(self._beat())

    async def ready(self, deadline: float, rounds: float = ROUNDS) -> Attached:
        """The link to use. Hurries a reconnection; gives up after so many failed rounds over all nodes, or at deadline.

        What a node refused (conflict, forbidden, …) is raised at once.
        """
        began = self._failed_rounds
        while not (self._attached and self._attached.usable):
            refused = self._last_error and not isinstance(self._last_error, _PASSING)
            if self._last_error and self._failed_rounds > began and (refused or self._failed_rounds - began >= rounds):
                raise copy.copy(self._last_error)
            self._hurry.set()
            changed = self._changed
            try:
                await asyncio.wait_for(changed.wait(), max(0.0, deadline - time.monotonic()))
            except asyncio.TimeoutError:
                raise copy.copy(self._last_error) or Unreachable("no node answered in time", step="link") from None
        return self._attached

    async def register(self) -> None:
        """Registers what descriptor says now on the present link."""
        attached = self._attached
        if attached and attached.usable:
            await self._register(attached.link)

    async def settle(self, timeout: float) -> str:
        """Waits until the node has seen that the agent answers (state no longer pending); returns the state."""
        until = time.monotonic() + timeout
        pause = 0.02
        while self._state == "pending" and time.monotonic() < until:
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.5)
            attached = await self.ready(until)
            try:
                await self._heartbeat(attached.link)
            except AgentReachError as e:
                log.debug("heartbeat failed, err=%s", e)
        return self._state

    def report(self, outcome: bytes) -> None:
        """An outcome of a direct call, for the next heartbeat, which comes soon."""
        if len(self._outcomes) == MAX_OUTCOMES:
            log.warning("an outcome of a direct call is given up: %d wait", MAX_OUTCOMES)
        self._outcomes.append(outcome)
        self._beat_now.set()

    def beat_soon(self) -> None:
        self._beat_now.set()

    async def leave(self) -> None:
        """Unregisters: new calls stop, running ones may finish."""
        self._leaving = True
        attached = self._attached
        if not attached or not attached.usable:
            return
        try:
            if self._outcomes:
                await asyncio.wait_for(self._heartbeat(attached.link), 2.0)
            await asyncio.wait_for(self._ask(attached.link, "unregister", b"{}"), 3.0)
        except (AgentReachError, asyncio.TimeoutError) as e:
            log.debug("unregister failed, err=%s", e)

    async def stop(self) -> None:
        """Ends everything; a silent node costs two seconds."""
        if self._attached:
            await self._attached.link.close()
        if links := {task for task in self._tasks if task.get_name() == "link"}:
            await asyncio.wait(links, timeout=2.5)
        # Before Python 3.12 wait_for loses a cancellation that comes just as what it waits for ends: so until it is heeded.
        while tasks := [task for task in self._tasks if not task.done()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=0.2)

    def _spawn(self, work: Any, name: str = "session") -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        task.set_name(name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("session failed", exc_info=error)

    async def _supervise(self) -> None:
        pause = 0
        while not self._leaving:
            began = time.monotonic()
            try:
                attached = await self._attach()
            except AgentReachError as e:
                self._note_failure(e)
            else:
                self._attached, self._last_error = attached, None
                self._notify()
                began = time.monotonic()
                await attached.link.going_away.wait()
                self._retire(attached)
            pause = 0 if time.monotonic() - began > SHORT_LIFE and not self._last_error else pause + 1
            await self._pause(pause)

    async def _attach(self) -> Attached:
        """One round over all nodes, the last good one first. Raises the most telling error."""
        first: AgentReachError | None = None
        start = self._addresses.index(self._address) if self._address in self._addresses else 0
        for address in self._addresses[start:] + self._addresses[:start]:
            try:
                attached = await self._attach_to(address)
                self._address = address
                return attached
            except Exception as e:
                if not isinstance(e, AgentReachError):
                    log.exception("attaching failed, addr=%s", address)
                    e = AgentReachError(f"attaching to {address} failed: {e!r}", step="link")
                log.log(
                    logging.INFO if len(self._addresses) > 1 else logging.DEBUG,
                    "not attached, addr=%s err=%s",
                    address,
                    e,
                )
                if first is None or isinstance(first, Unreachable):
                    first = e
        raise first or Unreachable("no node address", step="link")

    async def _attach_to(self, address: Address) -> Attached:
        link = await open_link(address, self._author.id, self._author.key, self._limits, self._accept, self._io)
        self.keys.pin(link.peer)
        running = self._spawn(link.run(), "link")
        try:
            await self._register(link)
        except BaseException:
            await link.close()
            await asyncio.wait({running}, timeout=2.5)
            running.cancel()
            raise
        return Attached(link, address)

    def _retire(self, attached: Attached) -> None:
        self._attached = None
        if attached.link.refusal:
            log.info("node takes no new calls, node=%s err=%s", attached.link.peer.id, attached.link.refusal)
            self._spawn(self._close_when_idle(attached.link))
        elif not self._leaving:
            log.warning("link lost, node=%s addr=%s", attached.link.peer.id, attached.address)

    async def _close_when_idle(self, link: Link) -> None:
        for _ in range(300):
            if not link.busy:
                break
            await asyncio.sleep(0.1)
        await link.close()

    def _note_failure(self, error: AgentReachError) -> None:
        if not self._failed_rounds or str(error) != str(self._last_error):
            log.warning("no node could be attached to, err=%s", error)
        self._failed_rounds += 1
        self._last_error = error
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _pause(self, failures: int) -> None:
        """Full jitter; a waiting call shortens it, but never to nothing."""
        pause = random.uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 10)))
        least = min(pause, random.uniform(0.1, 0.6))
        await asyncio.sleep(least)
        try:
            await asyncio.wait_for(self._hurry.wait(), pause - least)
        except asyncio.TimeoutError:
            pass
        self._hurry.clear()

    # what an agent says to its node

    async def _register(self, link: Link) -> None:
        async with self._registering:
            descriptor = self.descriptor()
            answer = await self._ask(link, "register", _json.dumps(descriptor))
            self._learn(answer)
            log.info("agent registered, id=%s, capability_count=%d", self._author.id, len(descriptor["capabilities"]))

    async def _beat(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._beat_now.wait(), self._interval)
                await asyncio.sleep(min(1.0, self._interval))  # several outcomes share one heartbeat
            except asyncio.TimeoutError:
                pass
            self._beat_now.clear()
            if not self._attached or not self._attached.usable:
                continue
            link = self._attached.link
            try:
                await self._heartbeat(link)
            except UnknownAgent:
                await self._register_again(link)
            except AgentReachError as e:
                log.warning("heartbeat failed, node=%s err=%s", link.peer.id, e)
            except Exception:
                log.exception("heartbeat failed, node=%s", link.peer.id)

    async def _register_again(self, link: Link) -> None:
        log.info("the node does not know this agent (any more), node=%s", link.peer.id)
        try:
            await self._register(link)
        except AgentReachError as e:
            log.warning("registration failed, node=%s err=%s", link.peer.id, e)

    async def _heartbeat(self, link: Link) -> None:
        outcomes = list(self._outcomes)
        self._outcomes.clear()
        try:
            answer = await self._ask(link, "heartbeat", _heartbeat_payload(self.status(), outcomes))
        except BaseException:
            self._outcomes.extendleft(reversed(outcomes[: MAX_OUTCOMES - len(self._outcomes)]))
            raise
        self._learn(answer)
        log.debug("heartbeat sent, id=%s node=%s", self._author.id, link.peer.id)

    def _learn(self, answer: dict[str, Any]) -> None:
        """The agent's state, and further nodes to fall back to, as the node names them."""
        self._state = str(answer.get("state", ""))
        nodes = answer.get("nodes")
        for text in nodes if isinstance(nodes, list) else []:
            try:
                address = parse_address(("https://" if self._address.secure else "http://") + str(text))
            except ValueError:
                continue
            if address not in self._addresses and len(self._addresses) < MAX_ADDRESSES:
                self._addresses.append(address)

    async def _ask(self, link: Link, kind: str, payload: bytes) -> dict[str, Any]:
        request = await self._author.write(
            payload, msg_type=kind, to_node=link.peer.id, ttl_sec=int(PATIENCE), priority=1
        )
        hop = frames.Hop(int(PATIENCE * 1000), HOPS, 1, 0)
        answer: Envelope | None = None
        async with aclosing(say(link, request, hop)) as answers:
            async for answer in answers:
                pass
        if answer is None:
            raise Malformed(f"node {link.peer.id} answered a {kind} with nothing", step="answer")
        await self.keys.check(answer, link.peer)
        header = answer.header
        if header.in_reply_to != request.header.msg_id or header.source_agent != link.peer.id:
            raise Malformed(f"the answer to a {kind} answers something else", step="answer")
        if header.status == "error":
            raise error_from_object(header.error, trace_id=header.trace_id)
        value = answer.value()
        return value if isinstance(value, dict) else {}


def _heartbeat_payload(status: dict[str, Any], outcomes: list[bytes]) -> bytes:
    payload = _json.dumps(status)
    if not outcomes:
        return payload
    comma = b"," if status else b""
    return payload[:-1] + comma + b'"outcomes":[' + b",".join(outcomes) + b"]}"
