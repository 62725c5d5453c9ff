"""ConfigMaps and Secrets as containers get them."""

import asyncio
import base64
from collections.abc import Mapping

from devcluster.kubeapi import ApiError, Json, KubeApi, NotFound
from devcluster.resources import CONFIG_MAPS, SECRETS, Resource


class ApiConfigSource:
    """Reads ConfigMaps and Secrets from the API server, fresh for each start of a container."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def config_map(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """The data of a ConfigMap."""
        item = await self._read(CONFIG_MAPS, namespace, name)
        return None if item is None else item.get("data") or {}

    async def secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """The decoded data of a Secret."""
        item = await self._read(SECRETS, namespace, name)
        if item is None:
            return None
        data = item.get("data") or {}
        return {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}

    async def _read(self, resource: Resource, namespace: str, name: str) -> Json | None:
        while True:
            try:
                return await self._api.get(resource, name, namespace)
            except NotFound:
                return None
            except ApiError as error:
                if error.status in (401, 403):
                    raise
                await asyncio.sleep(0.5)
