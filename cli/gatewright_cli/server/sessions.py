"""Who is signed in by a browser: the token stays here, the cookie is only a number that nobody can guess."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Final

LIFE_SECONDS: Final = 8 * 3600
MOST: Final = 1000
MAX_TOKEN: Final = 16 * 1024
"""Characters of a token. API servers take no longer headers."""


class Sessions:
    """Tokens by session, in this process's memory alone: a restart signs everybody out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[bytes, tuple[float, str]] = {}
        """By the hash of the id: (end, token), the oldest first."""

    def start(self, token: str) -> str:
        """The id for the cookie. When there are too many, the oldest session ends."""
        self._sweep()
        while len(self._open) >= MOST:
            del self._open[next(iter(self._open))]
        session = self.number()
        self._open[_key(session)] = (self._clock() + LIFE_SECONDS, token)
        return session

    @staticmethod
    def number() -> str:
        """One that nobody can guess."""
        return secrets.token_urlsafe(32)

    def token(self, session: str) -> str | None:
        """None for a session that ended or never was."""
        found = self._open.get(_key(session))
        if found is None or self._clock() >= found[0]:
            return None
        return found[1]

    def end(self, session: str) -> None:
        self._open.pop(_key(session), None)

    def _sweep(self) -> None:
        now = self._clock()
        self._open = {key: entry for key, entry in self._open.items() if now < entry[0]}


def _key(session: str) -> bytes:
    return hashlib.sha256(session.encode()).digest()


class Seal:
    """Proves that a form came from this page: what the browser's cookie holds, signed. A key for each process."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def of(self, cookie: str) -> str:
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def fits(self, cookie: str, seal: str) -> bool:
        """False for an empty cookie: a form that was sent without it proves nothing."""
        return bool(cookie) and hmac.compare_digest(self.of(cookie).encode(), seal.encode())
