"""The vectors that both implementations must agree on (test/vectors/README.md)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent_reach import _json, keys
from agent_reach.envelope import (
    MAX_PAYLOAD,
    Envelope,
    check_header,
    decode_bytes,
    decode_document,
    format_time,
    parse_time,
)
from agent_reach.errors import CODES, HTTP_STATUS, AgentReachError, BadSeal
from agent_reach.seal import Verifier, key_from_base64, leaf_of, seal_leaves
from agent_reach.tickets import open_ticket

VECTORS = Path(__file__).parents[3] / "test" / "vectors"
if not VECTORS.is_dir():
    pytest.skip("test/vectors is not there", allow_module_level=True)

MESSAGES = [
    "singles",
    "batch-2",
    "batch-3",
    "batch-7",
    "batch-64",
    "batch-256",
    "payloads",
    "headers",
    "documents",
    "binaries",
]


def load(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((VECTORS / f"{name}.json").read_text())
    assert cases
    return cases


def cases(*names: str) -> list[Any]:
    return list(_cases(*names))


def _cases(*names: str) -> Iterator[Any]:
    for name in names:
        for at, case in enumerate(load(name)):
            yield pytest.param(case, id=f"{name}-{at}-{ascii(case.get('name', case.get('file', '')))[:60]}")


def outcome(what: Any) -> Any:
    try:
        return what()
    except AgentReachError as e:
        return e.code


def forms(case: dict[str, Any]) -> list[Any]:
    limit = case.get("max_payload", MAX_PAYLOAD)
    found: list[Any] = []
    if "document" in case:
        found.append(lambda: decode_document(case["document"].encode(), limit)[0])
    if "document_base64" in case:
        found.append(lambda: decode_document(base64.b64decode(case["document_base64"]), limit)[0])
    if "binary" in case:
        found.append(lambda: decode_bytes(base64.b64decode(case["binary"]), limit))
    assert found
    return found


def checked(decode: Any, case: dict[str, Any]) -> Envelope:
    envelope: Envelope = decode()
    if "public_key" in case:
        key = key_from_base64(case["public_key"])
        if not Verifier().check(key, envelope.header_bytes, envelope.payload, envelope.seal):
            raise BadSeal("not proven")
    return envelope


@pytest.mark.parametrize("case", cases(*MESSAGES))
def test_message(case: dict[str, Any]) -> None:
    for decode in forms(case):
        found = outcome(lambda: checked(decode, case))
        assert ("ok" if isinstance(found, Envelope) else found) == case["expect"]
        envelope = outcome(decode)
        if not isinstance(envelope, Envelope):
            continue
        if "leaf" in case:
            assert leaf_of(envelope.header_bytes, envelope.payload).hex() == case["leaf"]
        if "payload_base64" in case:
            assert envelope.payload == base64.b64decode(case["payload_base64"])
        for name, want in case.get("decoded", {}).items():
            got = getattr(envelope.header, name)
            if name == "timestamp_utc":
                assert parse_time(got) == pytest.approx(parse_time(want), abs=1e-6)
            else:
                assert (list(got) if isinstance(got, tuple) else got) == want


@pytest.mark.parametrize("case", [c for c in cases(*MESSAGES) if "binary" in c.values[0]])
def test_what_decodes_encodes_to_the_same_bytes(case: dict[str, Any]) -> None:
    data = base64.b64decode(case["binary"])
    envelope = outcome(lambda: decode_bytes(data, case.get("max_payload", MAX_PAYLOAD)))
    if isinstance(envelope, Envelope):
        assert envelope.to_bytes() == data
        if "document" in case:
            again, _ = decode_document(envelope.to_document(), case.get("max_payload", MAX_PAYLOAD))
            assert (again.header_bytes, again.payload, again.seal) == (
                envelope.header_bytes,
                envelope.payload,
                envelope.seal,
            )


def private_key(name: str) -> keys.PrivateKey:
    seed = next(one["seed"] for one in load("keys") if one["name"] == name)
    return keys.PrivateKey(Ed25519PrivateKey.from_private_bytes(base64.b64decode(seed)))


@pytest.mark.parametrize("name", ["singles", "batch-2", "batch-3", "batch-7"])
def test_sealing_again_gives_the_same_bytes(name: str) -> None:
    wanted = [
        base64.b64decode(c["binary"]) for c in load(name) if c["name"].startswith("message ") and ":" not in c["name"]
    ]
    originals = [decode_bytes(data) for data in wanted]
    groups = [[one] for one in originals] if name == "singles" else [originals]
    sealed: list[bytes] = []
    for group in groups:
        seals = seal_leaves(private_key("sender"), [leaf_of(e.header_bytes, e.payload) for e in group])
        sealed += [Envelope(e.header, e.header_bytes, e.payload, s).to_bytes() for e, s in zip(group, seals)]
    assert sealed == wanted


@pytest.mark.parametrize("case", cases("tickets"))
def test_ticket(case: dict[str, Any]) -> None:
    raw = case["ticket"].encode()
    ticket = outcome(lambda: open_ticket(raw, key_from_base64(case["node_key"]), parse_time(case["now"])))
    if isinstance(ticket, str):
        assert ticket == case["expect"]
        return
    assert case["expect"] == "ok"
    values = {"msg_id": "m", "msg_type": "request", "timestamp_utc": format_time(), "target_agent": case["agent"]}
    header = check_header({**values, "source_agent": case["caller"], "target_capability": case["target_capability"]})
    assert (outcome(lambda: ticket.admits(header, case["agent"])) or "ok") == case["admits"]


@pytest.mark.parametrize("case", cases("public_keys"))
def test_public_key(case: dict[str, Any]) -> None:
    found = outcome(lambda: key_from_base64(case["text"]))
    assert (found if isinstance(found, str) else "ok") == case["expect"]


@pytest.mark.parametrize("case", cases("key_files"))
def test_key_file(case: dict[str, Any]) -> None:
    if "passphrase" in case and "openssh" in case["file"]:
        pytest.importorskip("bcrypt")
    found = outcome(lambda: keys.load(VECTORS / "keys" / case["file"], case.get("passphrase")))
    assert (found if isinstance(found, str) else "ok") == case["expect"]
    if isinstance(found, keys.PrivateKey):
        assert found.public == base64.b64decode(case["public_key"])


def test_codes() -> None:
    for case in load("codes"):
        if case["code"] not in ("agent_error", "internal"):
            assert HTTP_STATUS[case["code"]] == case["status"]
            assert CODES[case["code"]].default_code == case["code"]


def test_key_pairs() -> None:
    for case in load("keys"):
        assert private_key(case["name"]).public == key_from_base64(case["public_key"])


def test_documents_are_taken_apart_without_change() -> None:
    for case in load("payloads"):
        if case["expect"] == "ok" and case.get("payload_base64"):
            assert _json.members(case["document"].encode())["payload"].raw == base64.b64decode(case["payload_base64"])
