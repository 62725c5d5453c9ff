"""The environment and the command line of a container, as the kubelet would make them."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from devcluster.addresses import listen_address
from devcluster.kubeapi import Json

REPOSITORY = Path(__file__).resolve().parents[2]
"""Where containers start, so that ``python -m devcluster.sample`` works."""

HOST_IP = "127.0.0.1"


class ConfigMissing(Exception):
    """Something that the environment refers to is not there (yet): try again later."""


class ConfigSource(Protocol):
    """Reads ConfigMaps and Secrets; None when there is none of that name."""

    async def config_map(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """The data of a ConfigMap."""

    async def secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """The decoded data of a Secret."""


def base_environment(pod_name: str, pod_ip: str) -> dict[str, str]:
    """What every container gets: nothing of the agent's own environment but the way to programs."""
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "HOME": os.environ.get("HOME", "/"),
        "LANG": "C.UTF-8",
        "HOSTNAME": pod_name,
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONUNBUFFERED": "1",
        "POD_LISTEN_IP": listen_address(pod_ip),
    }


async def container_environment(
    pod: Json, container: Json, *, node_name: str, pod_ip: str, source: ConfigSource
) -> dict[str, str]:
    """The base environment, then ``envFrom``, then ``env`` with ``$(VAR)`` expanded.

    Raises ConfigMissing with the kubelet's words when a ConfigMap, a Secret or a key is missing and not
    optional.
    """
    namespace = pod["metadata"]["namespace"]
    environment = base_environment(pod["metadata"]["name"], pod_ip)
    for entry in container.get("envFrom") or []:
        prefix = entry.get("prefix", "")
        data = await _whole(namespace, entry, source)
        environment.update({prefix + key: value for key, value in data.items()})
    for entry in container.get("env") or []:
        if "valueFrom" in entry:
            value = await _value_from(pod, entry["valueFrom"], node_name, pod_ip, source)
            if value is None:
                continue
        else:
            value = expand(entry.get("value", ""), environment)
        environment[entry["name"]] = value
    return environment


async def _whole(namespace: str, entry: Json, source: ConfigSource) -> Mapping[str, str]:
    if "configMapRef" in entry:
        kind, reference = "configmap", entry["configMapRef"]
        data = await source.config_map(namespace, reference["name"])
    else:
        kind, reference = "secret", entry["secretRef"]
        data = await source.secret(namespace, reference["name"])
    if data is None:
        if reference.get("optional"):
            return {}
        raise ConfigMissing(f'{kind} "{reference["name"]}" not found')
    return data


async def _value_from(
    pod: Json, value_from: Json, node_name: str, pod_ip: str, source: ConfigSource
) -> str | None:
    namespace = pod["metadata"]["namespace"]
    if "fieldRef" in value_from:
        return _field(pod, value_from["fieldRef"]["fieldPath"], node_name, pod_ip)
    if "configMapKeyRef" in value_from:
        kind, title, reference = "configmap", "ConfigMap", value_from["configMapKeyRef"]
        data = await source.config_map(namespace, reference["name"])
    elif "secretKeyRef" in value_from:
        kind, title, reference = "secret", "Secret", value_from["secretKeyRef"]
        data = await source.secret(namespace, reference["name"])
    else:
        raise ConfigMissing(f"the development cluster cannot resolve {', '.join(value_from)} in valueFrom")
    if data is not None and reference["key"] in data:
        return data[reference["key"]]
    if reference.get("optional"):
        return None
    if data is None:
        raise ConfigMissing(f'{kind} "{reference["name"]}" not found')
    raise ConfigMissing(f"couldn't find key {reference['key']} in {title} {namespace}/{reference['name']}")


def _field(pod: Json, path: str, node_name: str, pod_ip: str) -> str:
    metadata = pod["metadata"]
    simple = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": node_name,
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": HOST_IP,
        "status.hostIPs": HOST_IP,
    }
    if path in simple:
        return str(simple[path])
    keyed = re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path)
    if keyed:
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    raise ConfigMissing(f"the development cluster cannot resolve the field {path}")


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Replace ``$(VAR)`` where VAR is known, leave it where not; ``$$`` stands for one dollar sign."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return environment.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^()]*)\)", replacement, text)


def command_line(container: Json, environment: Mapping[str, str]) -> list[str]:
    """``command`` + ``args`` expanded, with ``python`` being the interpreter that runs the agent."""
    words = [expand(word, environment) for key in ("command", "args") for word in container.get(key) or []]
    if words and words[0] in ("python", "python3"):
        words[0] = sys.executable
    return words
