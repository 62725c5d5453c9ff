"""The HTTP session under prometheus-api-client: bounded in time and size, no redirects, no environment, auth
for one origin.

The client takes any `requests.Session`; its own defaults (retries, query in the URL, no time-out, redirects
followed, the whole body read) are what this one replaces.
"""

import ssl
import time
from collections.abc import Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3.exceptions import HTTPError, ReadTimeoutError
from urllib3.util.retry import Retry

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.providers.answers import decode, envelope_fault
from gatewright_analysis.reasons import Reason

CONNECT_SECONDS: Final = 3.0
READ_BYTES: Final = 65_536


class Refused(requests.exceptions.RequestException):
    """The answer can't be used; `fault` says why. Never carries a body."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.detail)
        self.fault = fault


class Decoded(requests.Response):
    """An answer whose body has been read and decoded. It carries no bytes, so no exception can show them."""

    def __init__(self, status: int, decoded: Mapping[str, Any]) -> None:
        super().__init__()
        self.status_code = status
        self._content = b""
        self.decoded = decoded

    def json(self, **kwargs: Any) -> Any:
        return self.decoded


class Bearer(AuthBase):
    """`Authorization: Bearer …`. Raises ValueError when the token can't stand in a header."""

    def __init__(self, token: str) -> None:
        self._token = _header_safe(token, "the bearer token")

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        r.headers["Authorization"] = f"Bearer {self._token}"
        return r


def basic(username: str, password: str) -> AuthBase:
    """`Authorization: Basic …`."""
    return HTTPBasicAuth(username.strip().encode(), password.strip("\r\n").encode())


class _ForOrigin(AuthBase):
    """Sends credentials to one origin only, whatever else the session may be made to ask."""

    def __init__(self, auth: AuthBase, origin: tuple[str, str]) -> None:
        self._auth = auth
        self._origin = origin

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        return self._auth(r) if origin_of(r.url or "") == self._origin else r


class _PinnedCa(HTTPAdapter):
    """Trusts the given certificates and no others."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__(max_retries=Retry(0, read=False))

    def init_poolmanager(
        self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any
    ) -> None:
        super().init_poolmanager(connections, maxsize, block, ssl_context=self._context, **pool_kwargs)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Leave the context as it is: the base class would add the public authorities to it."""
        conn.cert_reqs = "CERT_REQUIRED"


def context_of(ca: bytes) -> ssl.SSLContext:
    """A context that trusts the PEM certificates in `ca` alone. Raises ValueError when there are none."""
    unreadable = ValueError("the CA bundle holds no PEM certificate that can be read")
    if not ca.strip():
        raise unreadable  # an empty bundle would mean the public authorities
    try:
        return ssl.create_default_context(cadata=ca.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise unreadable from None


def origin_of(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower()


class BoundedSession(requests.Session):
    """One per thread and source. With status 200 `request` returns only whole, small, complete answers; else
    it raises.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_seconds: float,
        max_bytes: int,
        auth: AuthBase | None = None,
        ca: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__()
        self.trust_env = False  # no proxy, netrc or CA bundle from the environment
        self.auth = None if auth is None else _ForOrigin(auth, origin_of(address))
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        # Compression would let a small body grow without bound.
        self.headers.update({"Accept": "application/json", "Accept-Encoding": "identity"})
        self._origin = origin_of(address)
        self._timeout_seconds = timeout_seconds
        self._max_bytes = max_bytes
        self._ca = ca
        self.last = Decoded(0, {})
        """The newest answer: prometheus-api-client hands on its result without the result's type."""

    def mount(self, prefix: str, adapter: Any) -> None:
        """What the client mounts for its address gives way to the adapter with our CA."""
        ca = getattr(self, "_ca", None)  # the base class mounts in its constructor
        super().mount(prefix, adapter if ca is None else _PinnedCa(ca))

    def get_redirect_target(self, resp: requests.Response) -> None:
        """None, so that requests neither follows a redirect nor reads the body that came with it."""

    def request(self, method: str, url: str, **kwargs: Any) -> Decoded:  # type: ignore[override]  # keywords only
        """As the base class, but: parameters in the body of a POST, no redirects, read up to the limits,
        decoded.
        """
        if origin_of(url) != self._origin:
            raise Refused(Fault(Reason.REDIRECTED, "only the source's own origin is asked"))
        deadline = time.monotonic() + self._timeout_seconds
        if method.upper() == "POST":
            kwargs["data"] = kwargs.pop("params", None)
        kwargs |= {
            "allow_redirects": False,
            "stream": True,
            "timeout": (min(CONNECT_SECONDS, self._timeout_seconds), self._timeout_seconds),
        }
        response = super().request(method, url, **kwargs)
        try:
            self.last = self._decoded(response, deadline)
        finally:
            response.close()  # a body that was read to its end has given its connection back already
        return self.last

    def _decoded(self, response: requests.Response, deadline: float) -> Decoded:
        status = response.status_code
        if 300 <= status < 400:
            raise Refused(
                Fault(
                    Reason.REDIRECTED,
                    f"the source answered with a redirect (HTTP {status}): give the address that it leads to",
                )
            )
        if status != 200:
            return Decoded(status, self._error_body(response, deadline))
        decoded = decode(self._read(response, deadline, self._max_bytes))
        if isinstance(decoded, Fault):
            raise Refused(decoded)
        fault = envelope_fault(decoded)
        if fault is not None:
            raise Refused(fault)
        return Decoded(status, decoded)

    def _error_body(self, response: requests.Response, deadline: float) -> Mapping[str, Any]:
        """What an error says about itself, if it is short and JSON; the status is what counts."""
        try:
            decoded = decode(self._read(response, deadline, READ_BYTES))
        except requests.exceptions.RequestException:
            return {}
        return {} if isinstance(decoded, Fault) else decoded

    def _read(self, response: requests.Response, deadline: float, max_bytes: int) -> bytes:
        declared = response.headers.get("Content-Length", "")
        if declared.isdigit() and int(declared) > max_bytes:
            raise Refused(self._too_large())
        body = bytearray()
        try:
            # read1 returns after every packet, so a source that drips can't hold the thread beyond the
            # deadline.
            while chunk := response.raw.read1(READ_BYTES, decode_content=False):
                body += chunk
                if len(body) > max_bytes:
                    raise Refused(self._too_large())
                if time.monotonic() > deadline:
                    raise requests.exceptions.ReadTimeout
        except ReadTimeoutError:
            raise requests.exceptions.ReadTimeout from None
        except HTTPError:
            raise requests.exceptions.ConnectionError from None
        response.raw.release_conn()
        return bytes(body)

    def _too_large(self) -> Fault:
        return Fault(
            Reason.TOO_LARGE,
            f"the answer is larger than {self._max_bytes / 2**20:g} MiB: narrow the selector, it matches too many series",
        )


def fault_of_status(status: int, error_type: str) -> Fault:
    """The fault for a status that is not 200. `error_type` as `answers.error_type` gives it."""
    if status in (401, 403):
        return Fault(Reason.UNAUTHORIZED, f"the source refuses the credentials (HTTP {status})")
    if 400 <= status < 500:
        return Fault(Reason.CLIENT_ERROR, f"the source refuses the question (HTTP {status}){error_type}")
    if status >= 500:
        return Fault(Reason.SERVER_ERROR, f"the source fails (HTTP {status}){error_type}")
    return Fault(Reason.QUERY_ERROR, f"the source answered with HTTP {status}, where 200 is due")


def fault_of_exception(error: requests.exceptions.RequestException, timeout_seconds: float) -> Fault:
    """The fault for what requests raises; the exception's text is not used, it may hold more than is meant
    for people.
    """
    if isinstance(error, Refused):
        return error.fault
    if isinstance(error, requests.exceptions.SSLError):
        return Fault(
            Reason.TLS_ERROR,
            "the source's certificate is not trusted or TLS failed: check `ca` and the address",
        )
    if isinstance(error, requests.exceptions.Timeout):
        return Fault(Reason.TIMEOUT, f"the source gave no whole answer within {timeout_seconds:g} s")
    return Fault(
        Reason.UNREACHABLE,
        "the source can't be reached, or closed the connection before its answer was whole",
    )


def _header_safe(text: str, what: str) -> str:
    text = text.strip()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{what} must be one line of printable ASCII without spaces")
    return text
