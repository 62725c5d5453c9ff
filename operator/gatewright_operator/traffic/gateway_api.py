"""HTTPRoute weights. Only the `weight` of the two backendRefs changes, in the rules that name both Services. Pure."""

import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gatewright_analysis.names import DECISION

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RouteView:
    """What `plan` reads of an HTTPRoute. Weights are those of the first selected rule; `mixed` if the rules differ."""

    name: str
    resource_version: str
    selected_rules: int
    stable_weight: int | None
    canary_weight: int | None
    mixed: bool
    third_backend: bool
    """Another backend stands beside the two in a selected rule and keeps its weight, and so its share."""
    accepted: bool
    refusal: str
    decision: str
    last_writer: str
    written_at: datetime | None
    """When its spec was last written, to the second."""

    @property
    def canary_percent(self) -> int:
        """Share of the canary between the two backends, in percent; an absent weight is 1, as the Gateway API says.

        0 where no rule has both: then no request is sent to the canary by us.
        """
        if not self.selected_rules:
            return 0
        canary = 1 if self.canary_weight is None else self.canary_weight
        stable = 1 if self.stable_weight is None else self.stable_weight
        return round(100 * canary / (canary + stable)) if canary + stable else 0

    def weights_for(self, percent: int) -> tuple[int, int]:
        """(stable, canary) for a canary share in percent. Beside a third backend their sum stays as it is."""
        total = (self.stable_weight or 0) + (self.canary_weight or 0) if self.third_backend else 100
        canary = max(1, round(total * percent / 100)) if percent else 0
        return total - canary, canary


def _is(ref: Json, service: str) -> bool:
    return bool(
        ref.get("name") == service and ref.get("kind", "Service") == "Service" and not ref.get("group")
    )


def _pair(rule: Json, stable: str, canary: str) -> tuple[Json, Json] | None:
    refs = rule.get("backendRefs") or []
    found_stable = [r for r in refs if _is(r, stable)]
    found_canary = [r for r in refs if _is(r, canary)]
    return (found_stable[0], found_canary[0]) if len(found_stable) == len(found_canary) == 1 else None


def route_view(
    obj: Json, *, stable: str, canary: str, last_writer: str, written_at: datetime | None
) -> RouteView:
    """Parses a live HTTPRoute as seen by a Rollout that names these two Services."""
    selected = [
        (rule, pair)
        for rule in obj["spec"].get("rules", ())
        if (pair := _pair(rule, stable, canary)) is not None
    ]
    pairs = [pair for _, pair in selected]
    weights = [(s.get("weight"), c.get("weight")) for s, c in pairs]
    generation = obj["metadata"].get("generation", 0)
    parents = (obj.get("status") or {}).get("parents") or []
    refusal = "no gateway has reported on the route yet" if not parents else ""
    for parent in parents:
        found = {c["type"]: c for c in parent.get("conditions", ())}
        for kind in ("Accepted", "ResolvedRefs"):
            condition = found.get(kind)
            if condition is None or condition.get("observedGeneration", 0) < generation:
                refusal = refusal or f"the gateway has not observed generation {generation} yet ({kind})"
            elif condition["status"] != "True":
                refusal = refusal or f"{kind} is {condition['status']}: {condition.get('message', '')}"
    return RouteView(
        name=obj["metadata"]["name"],
        resource_version=obj["metadata"]["resourceVersion"],
        selected_rules=len(pairs),
        stable_weight=weights[0][0] if weights else None,
        canary_weight=weights[0][1] if weights else None,
        mixed=len(set(weights)) > 1,
        third_backend=any(len(rule["backendRefs"]) > 2 for rule, _ in selected),
        accepted=not refusal,
        refusal=refusal,
        decision=(obj["metadata"].get("annotations") or {}).get(DECISION, ""),
        last_writer=last_writer,
        written_at=written_at,
    )


def with_weights(
    obj: Json, *, stable: str, canary: str, stable_weight: int, canary_weight: int, decision: str | None
) -> Json:
    """A copy of the route with new weights and decision mark (None removes the mark); everything else as it was."""
    route = copy.deepcopy(obj)
    for rule in route["spec"].get("rules", ()):
        pair = _pair(rule, stable, canary)
        if pair is not None:
            pair[0]["weight"], pair[1]["weight"] = stable_weight, canary_weight
    annotations = dict(route["metadata"].get("annotations") or {})
    annotations.pop(DECISION, None)
    if decision is not None:
        annotations[DECISION] = decision
    if annotations:
        route["metadata"]["annotations"] = annotations
    else:
        route["metadata"].pop("annotations", None)
    return route
