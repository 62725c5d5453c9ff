"""Gated Deployments that no Rollout names any more: their marks come off, so that nothing is held for nobody."""

import logging
from typing import Any

from gatewright_analysis.names import GATED_LABEL, ROLLOUT_LABEL
from gatewright_analysis.reasons import Reason
from gatewright_operator.api import Api
from gatewright_operator.cache import Cache
from gatewright_operator.errors import NotFound
from gatewright_operator.plan.adopt import serving
from gatewright_operator.plan.marks import unmark
from gatewright_operator.posting import Recorder
from gatewright_operator.resources import DEPLOYMENTS, REPLICASETS, ROLLOUTS
from gatewright_operator.workload import deployment_view, owned_by, replica_set_view

log = logging.getLogger(__name__)

Json = dict[str, Any]


async def release_orphans(api: Api, cache: Cache, recorder: Recorder, namespace: str) -> None:
    """Un-pauses only a Deployment whose template is the one that serves; any other stays paused, and an Event says so."""
    rollouts = cache.all(ROLLOUTS, namespace)
    named = {r["spec"]["workloadRef"]["name"] for r in rollouts}
    alive = {r["metadata"]["name"] for r in rollouts}
    for raw in cache.all(DEPLOYMENTS, namespace):
        view = deployment_view(raw)
        if view.labels.get(GATED_LABEL) == "canary" and view.labels.get(ROLLOUT_LABEL) not in alive:
            # An operator that had lost its turn made it after another had cleared up.
            await api.delete(DEPLOYMENTS, namespace, view.name, uid=view.uid)
            continue
        if not view.gated or view.name in named or view.deleting:
            continue
        labels = ",".join(f"{k}={v}" for k, v in view.selector.items())
        sets = await api.list(REPLICASETS, namespace, labels=labels)
        serves = serving(tuple(replica_set_view(r) for r in sets if owned_by(r, view.uid)), view)
        change = unmark(view, serves.revision if serves else "")
        body: Json = {"metadata": {"labels": {GATED_LABEL: None}, "annotations": dict(change.annotations)}}
        if change.paused is False:
            body["spec"] = {"paused": None}
        try:
            written = await api.patch(
                DEPLOYMENTS, namespace, view.name, body, resource_version=view.resource_version
            )
        except NotFound:
            continue  # It went too, as when its namespace is deleted.
        cache.drop(DEPLOYMENTS, written)
        if view.paused and change.paused is None:
            recorder.event(
                raw,
                "Warning",
                Reason.DELETED,
                f"Its Rollout is gone; {view.name} carries a template that was never promoted and stays paused. Resume it, or put the old template back.",
                "Release",
            )
        log.info("guard released", extra={"deployment": view.name, "namespace": namespace})
