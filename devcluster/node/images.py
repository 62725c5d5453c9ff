"""Images in a cluster that runs none: names are checked, digests are made up, and faults can be provoked."""

import hashlib
import json
import re
from pathlib import Path

IMAGE_ID_ANNOTATION = "devcluster.gatewright.dev/image-id"
"""On a pod: report this digest (``sha256:…``) or imageID for its containers, whatever their images."""

_REFERENCE = re.compile(
    r"(?:[a-zA-Z0-9.-]+(?::[0-9]+)?/)?[a-z0-9]+(?:(?:[._]|__|-+|/)[a-z0-9]+)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


class ImageError(Exception):
    """The image cannot be had; ``reason`` and ``backoff_reason`` are the kubelet's words for it."""

    def __init__(self, reason: str, message: str, backoff_reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.backoff_reason = backoff_reason or reason


def pull(image: str, has_command: bool, registry: Path) -> str:
    """The imageID of an image.

    ``registry`` is a JSON file ``{"IMAGE": "sha256:…"}`` that may be absent: a tag listed there has that
    digest, so a test can move a tag between two starts of a container. Raises ImageError: InvalidImageName
    for what is no reference; ErrImagePull for a name with ``missing`` in it, and where a container names no
    command (an image would bring one, and there are none here).
    """
    if not _REFERENCE.fullmatch(image):
        raise ImageError(
            "InvalidImageName", f'Failed to apply default image tag "{image}": invalid reference format'
        )
    if "missing" in image:
        raise ImageError("ErrImagePull", f'failed to pull image "{image}": not found', "ImagePullBackOff")
    if not has_command:
        message = (
            f'image "{image}" has no command: the development cluster runs processes, give the container one'
        )
        raise ImageError("ErrImagePull", message, "ImagePullBackOff")
    name, _, digest = image.partition("@sha256:")
    if not digest:
        tags = json.loads(registry.read_text()) if registry.exists() else {}
        digest = (
            str(tags.get(image, "")).removeprefix("sha256:") or hashlib.sha256(image.encode()).hexdigest()
        )
    return image_id(name, f"sha256:{digest}")


def image_id(image: str, digest: str) -> str:
    """How the kubelet reports a digest of an image."""
    if "@" in digest:
        return digest
    name = image.partition("@")[0]
    repository, colon, tag = name.rpartition(":")
    return f"docker-pullable://{repository if colon and '/' not in tag else name}@{digest}"
