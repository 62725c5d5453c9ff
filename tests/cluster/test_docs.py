"""The manifests that the pages show are accepted by a real API server, field by field."""

import re
from pathlib import Path

import pytest
import yaml

from devcluster import Instance
from tests.cluster.support import Manifest, apply, kubectl

pytestmark = pytest.mark.cluster

DOCS = Path(__file__).resolve().parents[2] / "docs"


def manifests() -> list[tuple[str, Manifest]]:
    """Page and manifest, for every object of ours in a page's YAML block or in a YAML file."""
    texts = [(path, path.read_text(encoding="utf-8")) for path in sorted(DOCS.rglob("*.yaml"))]
    for page in sorted([*DOCS.glob("tutorial/*.md"), *DOCS.glob("how-to/*.md")]):
        blocks = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        texts += [(page, block) for block in blocks]
    found = [(path.name, document) for path, text in texts for document in yaml.safe_load_all(text)]
    # A page may also show a part of one, which no API server can be asked about.
    whole = [(name, document) for name, document in found if "apiVersion" in document]
    return [
        (name, document) for name, document in whole if document["apiVersion"].startswith("gatewright.dev/")
    ]


MANIFESTS = manifests()


def test_the_pages_show_manifests() -> None:
    assert {"GateContract", "Rollout", "MetricSource", "NotificationSink"} <= {
        manifest["kind"] for _, manifest in MANIFESTS
    }


@pytest.mark.parametrize(
    ("page", "manifest"), MANIFESTS, ids=[f"{page}: {manifest['kind']}" for page, manifest in MANIFESTS]
)
def test_a_manifest_of_the_pages_is_accepted(api_only: Instance, page: str, manifest: Manifest) -> None:
    kubectl(["create", "namespace", "shop"], api_only.kubeconfig)
    answer = apply(manifest, api_only.kubeconfig, "--dry-run=server")
    assert answer.ok, f"{page}: {answer.err}"
