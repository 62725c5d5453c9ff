"""The operator's real process with a reconcile that decides nothing: it tells on stdout what it was woken
for.

`python stub_operator.py OPTIONS…` prints one JSON line per reconcile: the key, what the cache holds of it,
and how many objects of each kind are known. A key that is named `slow…` takes two seconds, one that is named
`broken…` fails.
"""

import asyncio
import json
import sys
from typing import Any

from gatewright_operator.cache import Cache
from gatewright_operator.keys import Key
from gatewright_operator.main import main
from gatewright_operator.resources import GATE_RUNS, METRIC_SOURCES, ROLLOUTS
from gatewright_operator.watched import WATCHED
from gatewright_operator.workers import Reconcile

KINDS = {"rollout": ROLLOUTS, "run": GATE_RUNS, "source": METRIC_SOURCES}


def build(*, cache: Cache, recorder: Any, identity: str, **_: Any) -> Reconcile:
    """A reconcile that only tells."""

    async def reconcile(key: Key) -> float | None:
        found = cache.get(KINDS[key.kind], key.namespace, key.name)
        line = {
            "key": str(key),
            "version": found["metadata"]["resourceVersion"] if found else None,
            "known": {w.resource.plural: cache.count(w.resource) for w in WATCHED},
            "identity": identity,
        }
        if found is not None and key.kind == "rollout":
            recorder.event(found, "Normal", "Adopted", f"{key.name} was seen.", "Adopt")
        print(json.dumps(line), flush=True)
        if key.name.startswith("slow"):
            await asyncio.sleep(2)
            print(json.dumps({"key": str(key), "finished": True}), flush=True)
        if key.name.startswith("broken"):
            raise RuntimeError("broken on purpose")
        return None

    return reconcile


if __name__ == "__main__":
    sys.exit(main(build=build))
