"""A forked child has an agent's memory but none of its threads: what waits for those would wait for ever."""

from __future__ import annotations

import os

from .errors import AgentReachError


class Home:
    """The process in which something was made, and the only one in which it lives."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._pid = os.getpid()

    @property
    def here(self) -> bool:
        return os.getpid() == self._pid

    def check(self) -> None:
        """Raises AgentReachError in any other process. To be asked before any lock: another's thread may hold it."""
        if not self.here:
            text = f"{self._what} was made in another process (pid {self._pid}); make one AgentReachAgent in each process"
            raise AgentReachError(text, step="call")
