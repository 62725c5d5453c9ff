"""What one page needs of the cluster, read with the page's rights as far as the viewer's reach."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from gatewright_analysis.names import LEDGER_LABEL, ROLLOUT_LABEL
from gatewright_cli.kube import Object
from gatewright_cli.server import evidence
from gatewright_cli.server.cluster import Absent, Cluster, Right, Viewer
from gatewright_cli.server.evidence import Plots
from gatewright_cli.server.explained import Case, case_of, evidence_name, held_of, is_held
from gatewright_cli.server.rights import Kept, Rights

_LIST_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Held:
    """A HOLD in force."""

    rollout: Object
    case: Case
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
        kept, unread = None, f"you may not list ConfigMaps in {namespace}"
        if reads_maps:
            kept = await self._cluster.find("configmaps", namespace, evidence_name(hold))
            unread = "" if kept is not None else f"there is no ConfigMap {evidence_name(hold)}"
        case = case_of(rollout, own, runs, contract, kept, unread)
        drawn = Plots(problem=f"The evidence can't be read: {unread}.")
        if kept is not None and own is not None:
            drawn = await self._plots(case, own, kept)
        return Held(rollout, case, drawn, approve)

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

    async def _plots(self, case: Case, run: Object, kept: Object) -> Plots:
        namespace, name = case.view.namespace, case.view.name
        more, segments = await asyncio.gather(
            asyncio.gather(
                *(self._cluster.find("configmaps", namespace, each) for each in evidence.needed(kept))
            ),
            self._cluster.every("configmaps", namespace, f"{LEDGER_LABEL}={name}"),
        )
        maps = [kept, *(each for each in more if each is not None)]
        digest = str(run["spec"].get("contractDigest", ""))
        wanted, judged = str(case.hold["evidenceDigest"]), [str(check["id"]) for check in case.view.checks]

        def draw() -> Plots:
            pinned = evidence.contract_of(digest, case.contract, segments)
            return evidence.plots(wanted, maps, pinned, judged)

        # Thousands of windows take a while to judge again, and others wait for their page.
        return await asyncio.to_thread(draw)
