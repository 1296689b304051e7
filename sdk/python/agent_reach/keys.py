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

log = logging.getLogger("agent_reach")


class KeyFileError(ValueError):
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


def verify(public: bytes, sig: bytes, data: bytes) -> bool:
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
        raise KeyFileError(f"{file}: not an Ed25519 key; make one with: agent-reach keys new")
    return PrivateKey(key)


def _parse(data: bytes, secret: bytes | None, file: Path) -> object:
    openssh = b"BEGIN OPENSSH PRIVATE KEY" in data
    read = serialization.load_ssh_private_key if openssh else serialization.load_pem_private_key
    try:
        return read(data, secret)
    except TypeError:
        state = "not encrypted, drop" if secret else "encrypted, give"
        raise KeyFileError(f"{file}: the key is {state} private_key_passphrase") from None
    except UnsupportedAlgorithm as e:
        raise KeyFileError(f"{file}: {e}; for encrypted OpenSSH keys: pip install 'agent-reach[ssh]'") from None
    except ValueError:
        wrong = "wrong passphrase or damaged file" if secret else "neither PEM (PKCS#8) nor OpenSSH"
        raise KeyFileError(f"{file}: {wrong}") from None


def _create(file: Path, passphrase: str | bytes | None) -> None:
    secret = passphrase.encode() if isinstance(passphrase, str) else passphrase
    guard: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if secret:
        guard = serialization.BestAvailableEncryption(secret)
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, guard
    )
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _write_new(file, pem):
        log.info("private key generated, file=%s", file)


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
