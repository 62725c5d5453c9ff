"""One POST to a sink: bounded in time and size, no redirects, no cookies, nothing from the environment."""

import asyncio
import json
import re
import ssl

import aiohttp

from gatewright_analysis.notify.deliveries import Outcome
from gatewright_analysis.notify.forms import Request

ANSWER_BYTES = 65_536
"""More of an answer is not read."""
CONNECT_SECONDS = 5.0
_WORD = re.compile(r"[a-z_]{1,64}")


async def post(request: Request, *, timeout_seconds: float, ca: bytes | None = None) -> Outcome:
    """Sends it, and says what became of it; never raises for what the sink does.

    The sentences never hold the address, the headers or the answer: an address may be a secret, as Slack's is. Raises
    ValueError when `ca` holds no certificate.
    """
    connector = aiohttp.TCPConnector(limit=1, ssl=True if ca is None else _context(ca), force_close=True)
    try:
        async with (
            aiohttp.ClientSession(
                connector=connector,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=timeout_seconds, connect=CONNECT_SECONDS),
            ) as session,
            session.post(
                request.url,
                data=request.body,
                headers={"User-Agent": "gatewright", "Accept-Encoding": "identity", **request.headers},
                allow_redirects=False,
            ) as answer,
        ):
            return await _outcome(answer, says_ok=request.says_ok)
    except aiohttp.ClientConnectorCertificateError:
        return Outcome(False, "The sink's certificate is not trusted: check ca and the address.")
    except (aiohttp.ClientConnectorError, aiohttp.InvalidURL, aiohttp.ConnectionTimeoutError):
        return Outcome(False, "The sink can't be reached.")
    except TimeoutError:
        return Outcome(False, f"The sink gave no answer within {timeout_seconds:g} s.", uncertain=True)
    except (aiohttp.ClientError, OSError, ValueError):
        return Outcome(False, "The sink closed the connection before its answer.", uncertain=True)


async def _outcome(answer: aiohttp.ClientResponse, *, says_ok: bool) -> Outcome:
    status = answer.status
    if 300 <= status < 400:
        return Outcome(
            False, f"The sink answers with a redirect (HTTP {status}): give the address that it leads to."
        )
    if status >= 400:
        wait = answer.headers.get("Retry-After", "")
        seconds = float(wait) if wait.isdecimal() and len(wait) < 6 else 0.0
        what = "fails" if status >= 500 else "refuses it"
        return Outcome(False, f"The sink {what} (HTTP {status}).", retry_after_seconds=seconds)
    if not says_ok:
        return Outcome(True)
    try:
        said = json.loads(await answer.content.read(ANSWER_BYTES))
    except (ValueError, asyncio.IncompleteReadError):
        said = None
    if isinstance(said, dict) and said.get("ok") is True:
        return Outcome(True)
    word = str(said.get("error", "")) if isinstance(said, dict) else ""
    return Outcome(False, f"The sink refuses it: {word if _WORD.fullmatch(word) else 'it gives no reason'}.")


def _context(ca: bytes) -> ssl.SSLContext:
    if not ca.strip():
        raise ValueError("the CA bundle holds no PEM certificate that can be read")
    try:
        return ssl.create_default_context(cadata=ca.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise ValueError("the CA bundle holds no PEM certificate that can be read") from None
