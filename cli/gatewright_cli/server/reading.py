"""What one page needs of the cluster, read with the page's rights as far as the viewer's reach."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from gatewright_analysis.names import LEDGER_LABEL, ROLLOUT_LABEL
from gatewright_cli.kube import Object
from gatewright_cli.server import evidence
from gatewright_cli.server.cluster import Absent, Cluster, Right, Viewer
from gatewright_cli.server.evidence import Plots
from gatewright_cli.server.explained import explain, held_of, is_held
from gatewright_cli.server.rights import Kept, Rights

_LIST_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Held:
    """A HOLD in force."""

    rollout: Object
    run: Object | None
    contract: Object | None
    """As it is now; None where it is gone or the viewer may not read it."""
    review: Object
    """As `kubectl gate review -o json`."""
    plots: Plots
    may_approve: bool


@dataclass(frozen=True, slots=True)
class Over:
    """A Rollout that is not held now. `decisions` are the newest of people, None where the viewer may not read them."""

    rollout: Object
    decisions: Sequence[Object] | None


class Reading:
    """All methods raise Trouble when the API server does not answer, and Absent for what is not there or not to be seen."""

    def __init__(self, cluster: Cluster, rights: Rights, namespaces: Sequence[str] = ()) -> None:
        self._cluster = cluster
        self._rights = rights
        self._namespaces = tuple(dict.fromkeys(namespaces))
        self._listed: Kept[str, list[Object]] = Kept(seconds=_LIST_SECONDS)

    async def queue(self, viewer: Viewer) -> list[tuple[Object, bool]]:
        """What is held where the viewer may read it, the longest first; each with whether they may approve it."""
        held = await self._listed.get("", self._all_held)
        spaces = await self._rights.readable(viewer, (each["metadata"]["namespace"] for each in held))
        own = [each for each in held if each["metadata"]["namespace"] in spaces]
        may = await asyncio.gather(
            *(
                self._rights.may_approve(viewer, each["metadata"]["namespace"], each["metadata"]["name"])
                for each in own
            )
        )
        return list(zip(own, may, strict=True))

    async def _all_held(self) -> list[Object]:
        found = await asyncio.gather(
            *(self._cluster.every("rollouts", name) for name in self._namespaces or (None,))
        )
        return held_of([each for some in found for each in some])

    async def hold(self, viewer: Viewer, namespace: str, name: str) -> Held | Over:
        if self._namespaces and namespace not in self._namespaces:
            raise Absent(namespace)
        # Asked before anything is read, so that the time of the answer tells nothing of what is there.
        if not await self._rights.may_read(viewer, namespace):
            raise Absent(namespace)
        rollout = await self._cluster.get("rollouts", namespace, name)
        if not is_held(rollout):
            return Over(rollout, await self._decisions(viewer, namespace, name))
        return await self._held(viewer, rollout)

    async def _held(self, viewer: Viewer, rollout: Object) -> Held:
        meta, hold = rollout["metadata"], rollout["status"]["hold"]
        namespace, name = str(meta["namespace"]), str(meta["name"])
        runs, own, contract, approve, reads_maps = await asyncio.gather(
            self._cluster.every("gateruns", namespace, f"{ROLLOUT_LABEL}={name}"),
            self._cluster.find("gateruns", namespace, str(hold["run"])),
            self._contract(viewer, namespace, str(rollout["spec"]["contractRef"]["name"])),
            self._rights.may_approve(viewer, namespace, name),
            self._rights.may(viewer, Right("list", "configmaps", namespace, group="")),
        )
        review = explain(rollout, own, contract, runs)
        if not reads_maps:
            drawn = Plots(problem=f"You may not list ConfigMaps in {namespace}, and the evidence is in one.")
        else:
            drawn = await self._plots(rollout, own, contract, runs, [c["id"] for c in review["checks"]])
        return Held(rollout, own, contract, review, drawn, approve)

    async def _contract(self, viewer: Viewer, namespace: str, name: str) -> Object | None:
        if not await self._rights.may(viewer, Right("get", "gatecontracts", namespace, name)):
            return None
        return await self._cluster.find("gatecontracts", namespace, name)

    async def _decisions(self, viewer: Viewer, namespace: str, name: str) -> list[Object] | None:
        kinds = ("gatereviews", "gateorders")
        if not await self._rights.all(viewer, (Right("list", kind, namespace) for kind in kinds)):
            return None
        found = await asyncio.gather(*(self._cluster.every(kind, namespace) for kind in kinds))
        own = [each for some in found for each in some if each["spec"].get("rollout") == name]
        return sorted(own, key=lambda each: str(each["metadata"].get("creationTimestamp")), reverse=True)

    async def _plots(
        self,
        rollout: Object,
        run: Object | None,
        contract: Object | None,
        runs: Sequence[Object],
        checks: Sequence[str],
    ) -> Plots:
        namespace, name = rollout["metadata"]["namespace"], rollout["metadata"]["name"]
        kept = _kept_in(run)
        if run is None or not kept:
            return Plots(problem="No gate has judged here, so there is no evidence to draw.")
        config_map = await self._cluster.find("configmaps", namespace, kept)
        if config_map is None:
            return Plots(problem=f"The evidence is gone: there is no ConfigMap {kept}.")
        others = {each["metadata"]["name"]: _kept_in(each) for each in runs}
        wanted = [others[each] for each in evidence.needed(config_map) if others.get(each)]
        more, segments = await asyncio.gather(
            asyncio.gather(*(self._cluster.find("configmaps", namespace, each) for each in wanted)),
            self._cluster.every("configmaps", namespace, f"{LEDGER_LABEL}={name}"),
        )
        digest = str(run["spec"].get("contractDigest", ""))
        maps = [config_map, *(each for each in more if each is not None)]

        def draw() -> Plots:
            pinned = evidence.contract_of(digest, contract, segments)
            return evidence.plots(str(rollout["status"]["hold"]["evidenceDigest"]), maps, pinned, checks)

        # Thousands of windows take a while to judge again, and others wait for their page.
        return await asyncio.to_thread(draw)


def _kept_in(run: Object | None) -> str:
    return str((((run or {}).get("status") or {}).get("evidence") or {}).get("configMap") or "")
