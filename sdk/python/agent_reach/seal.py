"""The seal: one Ed25519 signature proves up to 256 messages, each on its own.

leaf = SHA-256(0x00 | "agent-reach/3.0" | SHA-256(header) | SHA-256(payload))
node = SHA-256(0x01 | left | right)        an odd one out is promoted unchanged
sig  = Ed25519(key, "agent-reach/3.0 root" | root)
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import struct
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from .errors import Malformed
from .keys import PrivateKey, small_order, verify

DOMAIN = b"agent-reach/3.0"
ROOT_DOMAIN = b"agent-reach/3.0 root"
MAX_LEAVES = 256
_FIXED = struct.Struct(">64sHH")


@dataclass(frozen=True)
class Seal:
    sig: bytes
    index: int = 0
    leaves: int = 1
    path: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if len(self.sig) != 64 or any(len(h) != 32 for h in self.path):
            raise Malformed("a seal has a signature of 64 bytes and a path of 32-byte hashes", step="seal")
        if not 1 <= self.leaves <= MAX_LEAVES or not 0 <= self.index < self.leaves:
            raise Malformed(f"seal index {self.index} of {self.leaves} leaves; at most {MAX_LEAVES}", step="seal")
        if len(self.path) != path_length(self.index, self.leaves):
            raise Malformed(
                f"seal path has {len(self.path)} hashes, index {self.index} of {self.leaves} leaves"
                f" needs {path_length(self.index, self.leaves)}",
                step="seal",
            )

    def root(self, leaf: bytes) -> bytes:
        """The Merkle root that this seal's signature must cover if leaf stands under it."""
        at, width, found = self.index, self.leaves, leaf
        siblings = iter(self.path)
        while width > 1:
            if at % 2:
                found = _node(next(siblings), found)
            elif at + 1 < width:
                found = _node(found, next(siblings))
            at, width = at // 2, (width + 1) // 2
        return found

    def to_bytes(self) -> bytes:
        return _FIXED.pack(self.sig, self.index, self.leaves) + b"".join(self.path)

    def to_object(self) -> dict[str, Any]:
        path = [_base64(h) for h in self.path]
        return {"sig": _base64(self.sig), "index": self.index, "leaves": self.leaves, "path": path}


def seal_from_bytes(data: bytes) -> Seal | None:
    """The binary form; no bytes at all: unsealed."""
    if not data:
        return None
    if len(data) < _FIXED.size or (len(data) - _FIXED.size) % 32:
        raise Malformed(f"a seal of {len(data)} bytes", step="seal")
    sig, index, leaves = _FIXED.unpack_from(data)
    path = tuple(data[at : at + 32] for at in range(_FIXED.size, len(data), 32))
    return Seal(sig, index, leaves, path)


def seal_from_object(members: Any) -> Seal:
    if not isinstance(members, dict) or not members.keys() <= {"sig", "index", "leaves", "path"}:
        raise Malformed("a seal is an object with sig, index, leaves, path", step="seal")
    given = {name: value for name, value in members.items() if value is not None}
    index, leaves, path = given.get("index", 0), given.get("leaves", 1), given.get("path", [])
    if type(index) is not int or type(leaves) is not int or not isinstance(path, list):
        raise Malformed("seal: index and leaves are integers, path is an array", step="seal")
    return Seal(from_base64(given.get("sig"), 64), index, leaves, tuple(from_base64(h, 32) for h in path))


def leaf_of(header: bytes, payload: bytes) -> bytes:
    return sha256(b"\x00" + DOMAIN + sha256(header).digest() + sha256(payload).digest()).digest()


def path_length(index: int, leaves: int) -> int:
    length, at, width = 0, index, leaves
    while width > 1:
        length += bool(at % 2 or at + 1 < width)
        at, width = at // 2, (width + 1) // 2
    return length


def seal_leaves(key: PrivateKey, leaves: Sequence[bytes]) -> list[Seal]:
    """Seals 1 to 256 messages with one signature, in the order given."""
    if not 1 <= len(leaves) <= MAX_LEAVES:
        raise ValueError(f"{len(leaves)} leaves; a seal covers 1 to {MAX_LEAVES}")
    level, places = list(leaves), list(range(len(leaves)))
    paths: list[list[bytes]] = [[] for _ in leaves]
    while len(level) > 1:
        for path, at in zip(paths, places):
            sibling = at ^ 1
            if sibling < len(level):
                path.append(level[sibling])
        places = [at // 2 for at in places]
        level = [_node(*level[at : at + 2]) if at + 1 < len(level) else level[at] for at in range(0, len(level), 2)]
    sig = key.sign(ROOT_DOMAIN + level[0])
    return [Seal(sig, i, len(leaves), tuple(path)) for i, path in enumerate(paths)]


class Verifier:
    """Checks seals; the signature of a batch's root is checked once, for the latest 256 roots."""

    def __init__(self) -> None:
        self._roots: OrderedDict[tuple[bytes, bytes, bytes], None] = OrderedDict()

    def check(self, key: bytes, header: bytes, payload: bytes, seal: Seal | None) -> bool:
        if seal is None:
            return False
        root = seal.root(leaf_of(header, payload))
        known = (key, seal.sig, root)
        if known in self._roots:
            return True
        if not verify(key, seal.sig, ROOT_DOMAIN + root):
            return False
        if seal.leaves > 1:
            self._roots[known] = None
            if len(self._roots) > 256:
                self._roots.popitem(last=False)
        return True


class Sealer:
    """Seals what is waiting in one turn of the event loop with one signature."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        self._waiting: list[tuple[bytes, asyncio.Future[Seal]]] = []

    async def seal(self, header: bytes, payload: bytes) -> Seal:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Seal] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._flush)
        self._waiting.append((leaf_of(header, payload), done))
        return await done

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for at in range(0, len(waiting), MAX_LEAVES):
            batch = waiting[at : at + MAX_LEAVES]
            for (_, done), seal in zip(batch, seal_leaves(self._key, [leaf for leaf, _ in batch])):
                if not done.done():
                    done.set_result(seal)


def from_base64(text: Any, length: int) -> bytes:
    """Standard alphabet, with padding, canonical, exactly length bytes."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        data = b""
    if len(data) != length or _base64(data) != text:
        raise Malformed(f"expected {length} bytes in standard base64 with padding", step="decode")
    return data


def key_from_base64(text: Any) -> bytes:
    """A public key; one of small order, under which a signature proves nothing, is refused."""
    key = from_base64(text, 32)
    if small_order(key):
        raise Malformed("a public key of small order: anybody could sign for it", step="key")
    return key


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()
