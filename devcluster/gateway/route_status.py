"""What this gateway says in the status of HTTPRoutes and of its own Gateway, as an implementation does."""

from collections.abc import Mapping

from devcluster.gateway.backends import Key
from devcluster.gateway.routes import CONTROLLER_NAME, Resolution, our_parents
from devcluster.kubeapi import Json


def route_parents(
    route: Json, resolution: Resolution, gateways: Mapping[Key, Json], now: str
) -> list[Json] | None:
    """A route's whole ``status.parents``, other controllers' entries kept; None when it says so already."""
    existing = (route.get("status") or {}).get("parents") or []
    ours = [entry for entry in existing if entry.get("controllerName") == CONTROLLER_NAME]
    others = [entry for entry in existing if entry.get("controllerName") != CONTROLLER_NAME]
    generation = route["metadata"].get("generation", 1)
    refused, unresolved = resolution.refused, resolution.unresolved
    wanted = []
    for parent in our_parents(route, gateways):
        before: list[Json] = next((entry["conditions"] for entry in ours if entry["parentRef"] == parent), [])
        conditions = [
            condition("Accepted", refused, "Accepted", "the route is in force", generation, before, now),
            condition(
                "ResolvedRefs", unresolved, "ResolvedRefs", "all backends exist", generation, before, now
            ),
        ]
        wanted.append({"parentRef": parent, "controllerName": CONTROLLER_NAME, "conditions": conditions})
    return None if wanted == ours else others + wanted


def condition(
    kind: str,
    trouble: tuple[str, str] | None,
    good_reason: str,
    good_message: str,
    generation: int,
    before: list[Json],
    now: str,
) -> Json:
    """A condition; its transition time is kept while its status is the same."""
    reason, message = trouble or (good_reason, good_message)
    status = "True" if trouble is None else "False"
    last = next((entry for entry in before if entry["type"] == kind and entry["status"] == status), None)
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": last["lastTransitionTime"] if last else now,
    }


def gateway_status(gateway: Json, attached_routes: int, now: str) -> Json | None:
    """The status of a Gateway of ours; None when it says so already."""
    status = gateway.get("status") or {}
    generation = gateway["metadata"].get("generation", 1)
    listeners = []
    for listener in gateway["spec"]["listeners"]:
        known = [entry for entry in status.get("listeners") or [] if entry["name"] == listener["name"]]
        before: list[Json] = known[0].get("conditions", []) if known else []
        conditions = [
            condition(kind, None, kind, "", generation, before, now)
            for kind in ("Accepted", "Programmed", "ResolvedRefs")
        ]
        listeners.append(
            {
                "name": listener["name"],
                "supportedKinds": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}],
                "attachedRoutes": attached_routes,
                "conditions": conditions,
            }
        )
    wanted = {
        "addresses": [{"type": "IPAddress", "value": "127.0.0.1"}],
        "conditions": [
            condition(kind, None, kind, "", generation, status.get("conditions") or [], now)
            for kind in ("Accepted", "Programmed")
        ],
        "listeners": listeners,
    }
    return None if all(status.get(key) == value for key, value in wanted.items()) else wanted
