"""Drives the operator through the simulated world, and watches over what must always be true while it writes."""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gatewright_analysis.kinds.rollout import Phase
from gatewright_analysis.ledger import Ledger, Segment, fold, segment_index
from gatewright_analysis.names import (
    CHANGED_BY,
    DECISION,
    FINALIZER,
    GATED_LABEL,
    IN_FLIGHT,
    LEDGER_LABEL,
    PINNED,
)
from gatewright_analysis.reasons import Reason
from gatewright_operator.errors import ApiError
from gatewright_operator.keys import Key
from gatewright_operator.metrics import Metrics
from gatewright_operator.plan.actions import Emit
from gatewright_operator.plan.core import plan
from gatewright_operator.reconcile import Reconciler
from gatewright_operator.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    GATE_ORDERS,
    GATE_REVIEWS,
    HTTPROUTES,
    PODS,
    ROLLOUTS,
    SERVICES,
)
from tests.property.rollouts.server import OPERATOR, Crash, Object, SimApi, Watch, Write, clone
from tests.property.rollouts.world import CANARY, NAME, NS, Judge, SimWorld, is_canary, version_of

KEY = Key("rollout", NS, NAME)
AT_REST = (None, "Idle", "RolledBack", "Held")


class SilentRecorder:
    """Takes Events and posts none."""

    def event(self, regarding: Object, type: str, reason: str, message: str, action: str) -> None:
        assert message and Reason(reason), "an Event has a reason and a sentence"


class NoTicker:
    """GateRuns are judged by the world's script."""

    contract_by_digest: Any = None

    def forget(self, key: Key) -> None: ...
    def forget_source(self, name: str) -> None: ...

    async def tick(self, key: Key, raw: Object) -> float | None:
        return None


class Operator:
    """One process: its connection, its cache, and what it holds in memory."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.api = SimApi(world.server)
        self.watch: Watch = world.server.watch()
        self.reconciler = Reconciler(
            api=self.api,  # type: ignore[arg-type]
            cache=self.watch.cache,
            recorder=SilentRecorder(),  # type: ignore[arg-type]
            metrics=Metrics(),
            ticker=NoTicker(),  # type: ignore[arg-type]
            clock=world.server.clock,
        )

        self._due_at: datetime | None = None
        self._saw = -1

    def die(self) -> None:
        """Its memory is gone, and nobody tells it anything any more."""
        self.world.server.watches.remove(self.watch)

    async def work(self) -> ApiError | None:
        """Reconciles when something changed or the time has come that the reconciler asked for."""
        server = self.world.server
        if server.version == self._saw and (self._due_at is None or server.now < self._due_at):
            return None
        before = server.version
        try:
            seconds = await self.reconciler(KEY)
        except ApiError as error:
            self._due_at, self._saw = server.now, -1
            return error
        self._due_at = None if seconds is None else server.now + timedelta(seconds=seconds)
        # What it wrote itself comes back to it as an event.
        self._saw = before
        return None

    async def next_actions(self) -> tuple[Any, ...]:
        """What would be done now."""
        raw = self.watch.cache.get(ROLLOUTS, NS, NAME)
        if raw is None:
            return ()
        _, snapshot = await self.reconciler._observer.observe(raw)
        return plan(snapshot).actions


class Watchdog:
    """Looks at every write, and says what must never be so. Speaks of one Rollout name, whatever its UID."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.entries: list[Object] = []
        self._texts: dict[tuple[str, str], str] = {}
        self.violations: list[str] = []
        self.people_routed = False
        """A person changed weights or pins: what users meet from then on is also of that person's making."""
        world.server.observers.append(self.saw)

    def fork(self, world: SimWorld) -> "Watchdog":
        twin = copy.copy(self)
        twin.world = world
        twin.entries, twin._texts, twin.violations = (
            list(self.entries),
            dict(self._texts),
            list(self.violations),
        )
        world.server.observers.append(twin.saw)
        return twin

    def saw(self, write: Write) -> None:
        after, before = write.after, write.before
        name = (after or before or {})["metadata"]["name"]
        ours = write.user == OPERATOR
        if write.resource == CONFIGMAPS and LEDGER_LABEL in (
            (after or before or {})["metadata"].get("labels") or {}
        ):
            self._ledger(name, after)
        if write.resource == HTTPROUTES and ours and before and after:
            self._route(before, after)
        if write.resource == DEPLOYMENTS and name == NAME and before and after:
            self._deployment(before, after, ours=ours)
        if write.resource == PODS and after is None and before:
            self._pod_gone(before)
        if (
            write.resource in (HTTPROUTES, SERVICES)
            and not ours
            and before
            and before.get("spec") != (after or {}).get("spec")
        ):
            self.people_routed = True
        if write.resource in (HTTPROUTES, SERVICES, PODS, DEPLOYMENTS):
            self._traffic()

    def must(self, true: bool, sentence: str) -> None:
        if not true:
            self.violations.append(sentence)
            raise AssertionError(sentence)

    # ---- the ledger

    def _ledger(self, name: str, after: Object | None) -> None:
        self.must(after is not None, "a ledger segment was deleted")
        assert after is not None
        data = after.get("data") or {}
        for key, text in sorted(data.items()):
            known = self._texts.get((name, key))
            self.must(known is None or known == text, f"ledger entry {key} was changed")
            if known is None:
                self._texts[name, key] = text
                entry = json.loads(text)
                twin = [e for e in self.entries if e["key"] == entry["key"]]
                self.must(not twin, f"one event stands in the ledger twice: {entry['key']}")
                self._judge_entry(entry)
                self.entries.append(entry)
        kept = [key for (segment, key) in self._texts if segment == name]
        self.must(set(kept) <= set(data), "a ledger entry was taken away")

    def _judge_entry(self, entry: Object) -> None:
        if entry["key"]["kind"] == "Back" and entry["body"]["then"] == "RolledBack":
            self.must(
                self._may_roll_back(entry),
                f"rolled back without a breach, a rejection or an order: {entry['body']}",
            )

    def _may_roll_back(self, entry: Object) -> bool:
        """HOLD is the fall-through: going back as refused needs somebody or something that said so."""
        revision = entry["key"]["revision"]
        runs = self.world.runs()
        convicted = any(
            run.spec.revision == revision
            and (
                run.status.breach is not None
                or (run.status.verdict and run.status.verdict.decision == "ROLLBACK")
            )
            for run in runs
        )
        decisions = [
            obj["spec"]
            for resource in (GATE_REVIEWS, GATE_ORDERS)
            for obj in self.world.server.list(resource, NS)
            if obj["spec"]["revision"] == revision
        ]
        rejected = any(d.get("decision") == "Reject" or d.get("order") == "Abort" for d in decisions)
        return convicted or rejected or entry["body"]["reason"] in ("HoldTimedOut", "PodFailure")

    def flow(self, revision: str | None = None) -> list[Object]:
        """Entries of the latest attempt that began (of a revision), from its Started on."""
        starts = [
            n
            for n, e in enumerate(self.entries)
            if e["key"]["kind"] == "Started" and revision in (None, e["key"]["revision"])
        ]
        if not starts:
            return []
        first = self.entries[starts[-1]]["key"]
        return [e for e in self.entries[starts[-1] :] if e["key"]["revision"] == first["revision"]]

    def gate_passed(self, flow: list[Object], step: str) -> bool:
        for entry in flow:
            key, body = entry["key"], entry["body"]
            if key["kind"] == "Verdict" and key["step"] == step and body["verdict"]["decision"] == "PROMOTE":
                return True
            if (
                key["kind"] == "Review"
                and body["spec"]["decision"] == "Approve"
                and body["spec"]["step"] == step
            ):
                return True
        return False

    # ---- effects

    def _route(self, before: Object, after: Object) -> None:
        rises = False
        for rule, was in zip(after["spec"]["rules"], before["spec"]["rules"], strict=True):
            weights = {r["name"]: r["weight"] for r in rule["backendRefs"]}
            old = {r["name"]: r["weight"] for r in was["backendRefs"]}
            self.must(
                {k: v for k, v in weights.items() if k == "legacy"}
                == {k: v for k, v in old.items() if k == "legacy"},
                "a third backend's weight was changed",
            )
            rises = rises or weights.get(CANARY, 0) * sum(old.values()) > old.get(CANARY, 0) * sum(
                weights.values()
            )
        if not rises:
            return
        flow = self.flow()
        kinds = [e["key"]["kind"] for e in flow]
        ended = {"Promoted", "Back", "Restoring", "RolledBack", "Completed"} & set(kinds)
        self.must(not ended, f"the canary's weight was raised after {ended}")
        asked = [e for e in flow if e["key"]["kind"] == "WeightSet"]
        self.must(bool(asked), "the canary's weight was raised before any weight stood in the ledger")
        percent, step = self.world.canary_percent(), int(asked[-1]["key"]["step"])
        self.must(
            percent == asked[-1]["body"]["weight"],
            f"the weight was raised to {percent}, and the ledger speaks of {asked[-1]['body']['weight']}",
        )
        for gate in self._gates_before(step):
            self.must(
                self.gate_passed(flow, gate),
                f"weight {percent} without the verdict of the gate at step {gate}",
            )

    def _gates_before(self, step: int) -> list[str]:
        return [str(n) for n, s in enumerate(self.world.steps) if "gate" in s and n < step]

    def _deployment(self, before: Object, after: Object, *, ours: bool) -> None:
        runs_now = not after["spec"].get("paused")
        changed = before["spec"]["template"] != after["spec"]["template"]
        released = before["spec"].get("paused") and runs_now
        if not ours or not (released or (changed and runs_now)):
            return
        revision = version_of(after)
        live = [r for r in self.world.sets_of(after) if r["spec"]["replicas"] or self.world.pods_of(r)]
        if all(version_of(r) == revision for r in live):
            return
        started = self.flow()[:1]
        if started and revision == started[0]["body"]["stable"]["revision"]:
            # The way back never waits for the ledger.
            return
        last = [e for e in self.entries if e["key"]["kind"] in ("Promoted", "Restoring")]
        self.must(bool(last), f"{revision} was let go without a word in the ledger")
        if last[-1]["key"]["kind"] == "Restoring":
            self.must(
                last[-1]["body"]["to"]["revision"] == revision,
                "restored to another version than the ledger says",
            )
            return
        self.must(
            last[-1]["key"]["revision"] == revision,
            f"{revision} was let go, and not the version that was promoted",
        )
        flow = self.flow(revision)
        self.must("Back" not in [e["key"]["kind"] for e in flow], "let go after the way back was decided")
        if last[-1]["body"]["reason"] != "Overridden":
            for gate in self._gates_before(len(self.world.steps)):
                self.must(
                    self.gate_passed(flow, gate), f"promoted without the verdict of the gate at step {gate}"
                )

    def _pod_gone(self, pod: Object) -> None:
        if is_canary(pod) or self.world.pods_were_touched:
            return
        kinds = [e["key"]["kind"] for e in self.flow()]
        if not kinds or {"RolledBack", "Restored", "Completed"} & set(kinds):
            return
        self.must(
            bool({"Promoted", "Restoring"} & set(kinds)),
            f"stable's pod {pod['metadata']['name']} went before any promotion",
        )

    def _traffic(self) -> None:
        """Nobody's request meets a Service without pods, or the new version outside its weight."""
        world = self.world
        if world.server.get(HTTPROUTES, NS, NAME) is None or self.people_routed or not self.entries:
            return
        if world.server.get(DEPLOYMENTS, NS, NAME) is None:
            return
        stable, canary = world.endpoints("checkout"), world.endpoints(CANARY)
        shares = world.shares()
        if any(s for s, _ in shares) and not world.pods_were_touched:
            self.must(bool(stable), "stable has traffic and no pods")
        if any(c for _, c in shares):
            self.must(bool(canary), "the canary has traffic and no ready pod")
            versions = {version_of(p) for p in canary}
            self.must(len(versions) == 1, f"pods of several versions behind the canary Service: {versions}")
        kinds = {e["key"]["kind"] for e in self.flow()}
        if world.traffic == "gatewayAPI" and not {"Promoted", "Restoring"} & kinds:
            self.must(
                not any(is_canary(p) for p in stable),
                "the stable Service sends requests to canary pods outside their weight",
            )


# ---- driving

Act = Callable[[SimWorld], None]
When = Callable[[SimWorld], bool]


@dataclass(frozen=True)
class Scenario:
    """What people and the judge do, each act once and in this order, as soon as it is time for it; and how it ends."""

    name: str
    acts: tuple[tuple[When, Act], ...]
    ends: Object
    judge: Judge | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return self.name


class Play:
    """A scenario on its way: the world, who watches over it, and the operator of the moment."""

    def __init__(self, scenario: Scenario, world: SimWorld, watchdog: Watchdog, acted: int = 0) -> None:
        self.scenario = scenario
        self.world = world
        self.watchdog = watchdog
        self.acted = acted
        self.operator = Operator(world)

    @classmethod
    async def begin(cls, scenario: Scenario) -> "Play":
        """With the Deployment adopted, and everything at rest."""
        world = SimWorld(**dict(scenario.options))
        play = cls(scenario, world, Watchdog(world))
        await play.go(until=lambda: world.phase == "Idle" and world.status["message"].endswith("is stable."))
        if scenario.judge is not None:
            world.judge = scenario.judge
        return play

    def fork(self) -> "Play":
        """The same moment with an operator that was just started."""
        world = self.world.fork()
        return Play(self.scenario, world, self.watchdog.fork(world), self.acted)

    def restart(self) -> None:
        self.operator.die()
        self.operator = Operator(self.world)

    def act(self) -> None:
        acts = self.scenario.acts
        if self.acted < len(acts) and acts[self.acted][0](self.world):
            act = acts[self.acted][1]
            self.acted += 1
            act(self.world)

    async def go(self, *, seconds: int = 150, until: Callable[[], bool] | None = None) -> None:
        """Lets time pass until nothing happens any more, or until something is so. An operator that dies is replaced."""
        quiet, error = 0, None
        for _ in range(seconds):
            version = self.world.server.version
            try:
                error = await self.operator.work()
            except Crash:
                self.restart()
            if until is not None and until():
                return
            if until is None:
                self.act()
            self.world.step()
            unchanged = self.world.server.version == version and error is None
            over = self.acted == len(self.scenario.acts) and self.world.phase in AT_REST
            quiet = quiet + 1 if unchanged and over else 0
            if quiet >= 4 and until is None:
                return
        where = f"{self.world.phase}: {self.world.status.get('message')!r}, last error {error!r}"
        raise AssertionError(f"not there after {seconds} s; acts done {self.acted}; it is {where}")

    async def assert_ended(self) -> None:
        """As the scenario says, with nothing left behind, a ledger that closes, and nothing more to do."""
        found = outcome(self.world)
        assert found == {**found, **self.scenario.ends}, f"{self.scenario}: it ended as {found}"
        assert not self.watchdog.violations, self.watchdog.violations
        if self.world.phase != "Held":
            assert_at_home(self.world)
            assert_ledger_closed(self.world)
        left = [a for a in await self.operator.next_actions() if not isinstance(a, Emit)]
        assert not left, f"planned again at the end, it still wants to do {left}"


def ledger(world: SimWorld) -> Ledger:
    segments = []
    for raw in world.server.list(CONFIGMAPS, NS, f"{LEDGER_LABEL}={NAME}"):
        index = segment_index(NAME, raw["metadata"]["name"])
        assert index is not None
        segments.append(Segment.of(index, raw.get("data"), sealed=bool(raw.get("immutable"))))
    return Ledger.read(segments)


def kinds_of(watchdog: Watchdog) -> list[str]:
    return [e["key"]["kind"] for e in watchdog.entries]


def without_marks(deployment: Object) -> Object:
    """A Deployment less what is documented as ours, and less what controllers and Kubernetes write."""
    body: Object = clone({k: v for k, v in deployment.items() if k != "status"})
    metadata = body["metadata"]
    for field in ("resourceVersion", "generation"):
        metadata.pop(field, None)
    for mark in (DECISION, CHANGED_BY, IN_FLIGHT, PINNED, "shop/touched"):
        metadata.get("annotations", {}).pop(mark, None)
    metadata.get("labels", {}).pop(GATED_LABEL, None)
    body["spec"].pop("paused", None)
    body["spec"].pop("template")
    return body


def users_bytes(obj: Object) -> Object:
    body: Object = clone({k: v for k, v in obj.items() if k != "status"})
    for field in ("resourceVersion", "generation"):
        body["metadata"].pop(field, None)
    body["metadata"].get("annotations", {}).pop("shop/touched", None)
    return body


def assert_at_home(world: SimWorld) -> None:
    """Nothing of a release is left on what users own, and nothing of it runs."""
    for (resource, name), original in world.originals.items():
        found = world.server.get(resource, NS, name)
        if resource == DEPLOYMENTS:
            assert found is not None and original is not None
            assert without_marks(found) == without_marks(original), (
                "the Deployment is not as its owner wrote it"
            )
            annotations = found["metadata"].get("annotations") or {}
            left = {IN_FLIGHT, PINNED} & annotations.keys()
            assert not left, f"marks were left on the Deployment: {left}"
        else:
            assert found is not None and original is not None
            assert users_bytes(found) == users_bytes(original), (
                f"{resource.kind} {name} is not as its owner wrote it"
            )
    assert world.server.get(DEPLOYMENTS, NS, CANARY) is None, "the canary was left behind"
    assert not [p for p in world.server.list(PODS, NS) if is_canary(p)], "canary pods were left behind"
    if world.rollout is not None:
        assert FINALIZER not in (world.rollout["metadata"].get("finalizers") or ()), (
            "the finalizer was left behind"
        )


def assert_ledger_closed(world: SimWorld) -> None:
    """The chain verifies, and what it remembers agrees with status."""
    found = ledger(world)
    assert found.broken is None, f"the chain does not verify: {found.broken}"
    if world.rollout is None:
        return
    memory = fold(found.entries, rollout_uid=world.rollout["metadata"]["uid"])
    assert memory.open is None, f"the ledger knows of no end: {memory.open}"
    if world.phase == Phase.ROLLED_BACK:
        assert world.status["rejected"]["revision"] in memory.rejected, (
            "the ledger does not remember the refusal"
        )


def serving(world: SimWorld) -> set[str]:
    """Revisions of the user's own pods."""
    return {version_of(p) for p in world.server.list(PODS, NS) if not is_canary(p)}


def outcome(world: SimWorld) -> dict[str, Any]:
    """What people would say about where it ended: what serves, what is refused, what runs."""
    status = world.status
    return {
        "phase": world.phase,
        "serving": sorted(serving(world)),
        "template": version_of(world.deployment),
        "paused": bool(world.deployment["spec"].get("paused")),
        "stable": (status.get("stable") or {}).get("revision"),
        "rejected": (status.get("rejected") or {}).get("revision"),
        "gated": GATED_LABEL in (world.deployment["metadata"].get("labels") or {}),
        "route": world.shares(),
        "gone": world.rollout is None,
    }
