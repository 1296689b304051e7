from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Agents end all their threads."""
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + 5
    while left := [t for t in set(threading.enumerate()) - before if t.name.startswith("agent-reach")]:
        assert time.monotonic() < until, f"threads left: {left}"
        left[0].join(0.1)
