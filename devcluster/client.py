"""A small blocking client of the API server, for setting a cluster up. Objects are plain dicts."""

import http.client
import json
import urllib.parse
from pathlib import Path
from typing import Any, Self

from devcluster.access import Access

Json = dict[str, Any]

FIELD_MANAGER = "devcluster"


class ApiRefused(Exception):
    """The API server answered with an error; ``status`` is the HTTP code, the message its own sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Client:
    """One connection to an API server, with the rights of a kubeconfig's user; for one thread at a time."""

    def __init__(self, kubeconfig: Path, *, timeout_seconds: float = 10.0) -> None:
        access = Access.from_kubeconfig(kubeconfig)
        address = urllib.parse.urlsplit(access.server)
        self._headers = {"User-Agent": "devcluster", "Accept": "application/json"}
        if access.token is not None:
            self._headers["Authorization"] = f"Bearer {access.token}"
        self._connection = http.client.HTTPSConnection(
            address.hostname or "127.0.0.1", address.port, timeout=timeout_seconds, context=access.ssl_context
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def request(
        self, method: str, path: str, body: Json | None = None, *, content_type: str = "application/json"
    ) -> Json:
        """One call; the answer's JSON, or ``{"text": …}`` where it is none.

        Raises:
            ApiRefused: any status of 400 or above.
            OSError: no answer, such as while the server starts.
        """
        headers = self._headers | ({"Content-Type": content_type} if body is not None else {})
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = self._connection.getresponse()
            text = response.read().decode()
        except http.client.HTTPException as error:
            self._connection.close()
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        except OSError:
            self._connection.close()
            raise
        try:
            answer = json.loads(text)
        except ValueError:
            answer = {"text": text}
        if response.status >= 400:
            message = answer.get("message") or text
            raise ApiRefused(response.status, str(message)[:2000])
        return answer if isinstance(answer, dict) else {"text": text}

    def create(self, collection: str, body: Json, *, exists_ok: bool = False) -> None:
        """POSTs an object to the path of its collection."""
        try:
            self.request("POST", collection, body)
        except ApiRefused as error:
            if not (exists_ok and error.status == 409):
                raise

    def apply(self, path: str, body: Json) -> Json:
        """Server-side apply of one object at its own path: creates it, or sets the fields of ``body``."""
        query = f"?fieldManager={FIELD_MANAGER}&force=true"
        return self.request("PATCH", path + query, body, content_type="application/apply-patch+yaml")
