"""Shows the SDK's log on stderr in a program that configured no logging; steps aside as soon as it does."""

from __future__ import annotations

import logging
import sys

log = logging.getLogger("agent_reach")


class _Fallback(logging.StreamHandler):  # type: ignore[type-arg]
    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            self.stream = sys.stderr
            super().emit(record)


def show_by_default() -> None:
    if logging.getLogger().handlers or log.handlers:
        return
    handler = _Fallback()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
