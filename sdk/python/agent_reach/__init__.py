"""Agent-Reach for Python: be an agent, call, look up.

from agent_reach import AgentReachAgent
"""

from ._ask import NO_PAYLOAD
from ._context import Request, current_request
from .agent import AgentReachAgent
from .answers import Candidate, Outcome, Response
from .envelope import Header
from .errors import (
    AgentError,
    AgentReachError,
    BadSeal,
    ClockSkew,
    Conflict,
    Duplicate,
    Expired,
    Forbidden,
    Loop,
    Malformed,
    NoRoute,
    Overloaded,
    Place,
    SchemaInvalid,
    Timeout,
    TooLarge,
    UnknownAgent,
    Unreachable,
    Unsupported,
)
from .keys import KeyFileError

__version__ = "0.1.0"

__all__ = [
    "NO_PAYLOAD",
    "AgentError",
    "AgentReachAgent",
    "AgentReachError",
    "BadSeal",
    "Candidate",
    "ClockSkew",
    "Conflict",
    "Duplicate",
    "Expired",
    "Forbidden",
    "Header",
    "KeyFileError",
    "Loop",
    "Malformed",
    "NoRoute",
    "Outcome",
    "Overloaded",
    "Place",
    "Request",
    "Response",
    "SchemaInvalid",
    "Timeout",
    "TooLarge",
    "UnknownAgent",
    "Unreachable",
    "Unsupported",
    "current_request",
]
