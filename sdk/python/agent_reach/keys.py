"""Ed25519 keys: read (PEM PKCS#8, OpenSSH), made, written with mode 0600. A private key never prints."""

from __future__ import annotations

import logging
import os
import secrets
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from .errors import Malformed

log = logging.getLogger("agent_reach")


# Encodings of the points of order 1, 2, 4 and 8 with their sign bit zero: under such a key anybody could sign.
_SMALL_ORDER = {
    bytes(32),
    b"\x01" + bytes(31),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    b"\xec" + b"\xff" * 30 + b"\x7f",
    b"\xed" + b"\xff" * 30 + b"\x7f",
    b"\xee" + b"\xff" * 30 + b"\x7f",
}


class KeyFileError(Malformed):
    """A key file that cannot be used; the text names the file and what would be right."""


class PrivateKey:
    """An Ed25519 private key that signs and does nothing else; it prints and pickles as nothing."""

    __slots__ = ("_key", "public")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)

    def __repr__(self) -> str:
        return "PrivateKey([redacted])"

    def __reduce__(self) -> str:
        raise TypeError("a private key is not pickled")


def generate() -> PrivateKey:
    return PrivateKey(Ed25519PrivateKey.generate())


def small_order(public: bytes) -> bool:
    return public[:31] + bytes((public[31] & 0x7F,)) in _SMALL_ORDER


def verify(public: bytes, sig: bytes, data: bytes) -> bool:
    """Under a key of small order nothing verifies."""
    if len(public) != 32 or small_order(public):
        return False
    try:
        _public(public).verify(sig, data)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=1024)
def _public(raw: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(raw)


def load_or_create(path: str | os.PathLike[str], passphrase: str | bytes | None = None) -> PrivateKey:
    """Reads the key at path. A missing file is made, with its folder, unless somebody else just made it."""
    file = Path(path)
    if not file.exists():
        _create(file, passphrase)
    return load(file, passphrase)


def load(path: str | os.PathLike[str], passphrase: str | bytes | None = None) -> PrivateKey:
    file = Path(path)
    data = file.read_bytes()
    _warn_if_open(file)
    secret = passphrase.encode() if isinstance(passphrase, str) else passphrase
    key = _parse(data, secret, file)
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{file}: not an Ed25519 key", step="key", hint="make one with: agent-reach keys new")
    return PrivateKey(key)


def _parse(data: bytes, secret: bytes | None, file: Path) -> object:
    if b"BEGIN ENCRYPTED PRIVATE KEY" in data:
        hint = "keep passphrase-protected keys in the OpenSSH format: ssh-keygen -t ed25519"
        raise KeyFileError(f"{file}: encrypted PKCS#8, which is not read", step="key", hint=hint)
    try:
        if b"BEGIN OPENSSH PRIVATE KEY" in data:
            return _parse_openssh(data, secret)
        return serialization.load_pem_private_key(data, None)
    except TypeError:
        raise KeyFileError(f"{file}: the key is encrypted; give private_key_passphrase", step="key") from None
    except UnsupportedAlgorithm as e:
        hint = "for encrypted OpenSSH keys: pip install 'agent-reach[ssh]'"
        raise KeyFileError(f"{file}: {e}", step="key", hint=hint) from None
    except ValueError:
        wrong = "wrong passphrase, or damaged" if secret else "neither PEM (PKCS#8) nor OpenSSH, or damaged"
        raise KeyFileError(f"{file}: {wrong}", step="key") from None


def _parse_openssh(data: bytes, secret: bytes | None) -> object:
    try:
        return serialization.load_ssh_private_key(data, secret)
    except TypeError:
        if secret is None:
            raise
        return serialization.load_ssh_private_key(data, None)  # not encrypted: the passphrase is not needed


def _create(file: Path, passphrase: str | bytes | None) -> None:
    """PKCS#8, or OpenSSH where there is a passphrase."""
    secret = passphrase.encode() if isinstance(passphrase, str) else passphrase
    form, guard = _form(secret)
    try:
        pem = Ed25519PrivateKey.generate().private_bytes(serialization.Encoding.PEM, form, guard)
    except UnsupportedAlgorithm as e:
        raise KeyFileError(f"{file}: {e}", step="key", hint="pip install 'agent-reach[ssh]'") from None
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _write_new(file, pem):
        log.info("private key generated, file=%s", file)


def _form(secret: bytes | None) -> tuple[serialization.PrivateFormat, serialization.KeySerializationEncryption]:
    if secret:
        return serialization.PrivateFormat.OpenSSH, serialization.BestAvailableEncryption(secret)
    return serialization.PrivateFormat.PKCS8, serialization.NoEncryption()


def _write_new(file: Path, data: bytes) -> bool:
    """Write aside, sync, then link: the name never shows half a key and never replaces one."""
    aside = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.link(aside, file)
    except FileExistsError:
        return False
    finally:
        aside.unlink()
    _sync_folder(file.parent)
    return True


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _warn_if_open(file: Path) -> None:
    if os.name == "posix" and file.stat().st_mode & 0o077:
        log.warning("private key can be read by others, file=%s; chmod 600 it", file)
