"""``python -m devcluster.demo``: sets everything up, plays the scenes, prints the ledger and verifies it."""

import argparse
import signal
import sys
import time

from devcluster.demo.release import WrongEnd
from devcluster.demo.scenario import RATE_PER_SECOND, SCENES
from devcluster.demo.stage import HOST, Stage
from devcluster.demo.traffic import lost, on_purpose
from devcluster.demo.view import View, view_of_stdout
from devcluster.errors import DevclusterError
from devcluster.instance import Instance

PLAY_ON = """\
To play on, with a cluster of your own that runs until you stop it:
  export PATH=$PWD/.venv/bin:{programs}:$PATH
  python -m devcluster up --detach      # prints KUBECONFIG=…, PROMETHEUS=…, GATEWAY=…: export them
  python -m devcluster install          # the chart, the metric sources, the operator
  kubectl create namespace shop && kubectl apply --server-side -n shop -f examples/checkout/
  python -m devcluster.load $GATEWAY/ --host {host} --rate 100 --duration 900 &
  kubectl -n shop set env deployment/checkout VERSION=v2 && kubectl gate status checkout -n shop --watch
  python -m devcluster down
docs/tutorial/first-rollout.md goes through it step by step."""


def main() -> int:
    """Runs the demo; its exit code: 0 when everything ended as it should, 1 with a sentence when not."""
    argparse.ArgumentParser(
        prog="python -m devcluster.demo",
        description="Four releases of a real service under real traffic: one promoted, two rolled back, one held "
        "until the right person approves it.",
    ).parse_args()
    # The terminal that closes, and a plain `kill`, end it in the same order as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return _play()
    except (DevclusterError, WrongEnd, OSError) as error:
        print(f"The demo did not end as it should: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _play() -> int:
    began = time.monotonic()
    print("Starting a Kubernetes control plane with a node, Prometheus and the gateway Envoy.", flush=True)
    with Instance(report=_say) as cluster:
        with (
            Stage.set(cluster, rate_per_second=RATE_PER_SECOND, say=_say) as stage,
            view_of_stdout() as view,
        ):
            view.say(f"Set up in {time.monotonic() - began:.0f} s.")
            began = time.monotonic()
            for scene in SCENES:
                view.title(scene.title)
                scene.play(stage, view)
            _close(stage, view)
            view.say(f"The whole demo took {time.monotonic() - began:.0f} s after set-up.")
        programs = cluster.program("kubectl").parent
        print(f"\n{PLAY_ON.format(programs=programs, host=HOST)}", flush=True)
    return 0


def _close(stage: Stage, view: View) -> None:
    """The account: what users met, and what stands in the ledger. Raises WrongEnd when a request was lost."""
    view.title("What users met, and what is on record")
    report = stage.traffic.stop()
    view.say(
        f"{report.sent} requests through the gateway; {on_purpose(report)} failed because the sample service was told "
        f"to fail them; {lost(report)} failed otherwise."
    )
    view.say()
    for words in (("ledger", "show", "checkout"), ("ledger", "verify", "checkout")):
        view.say(f"$ kubectl gate {' '.join(words)}")
        view.quote(stage.people.reviewer.gate(*words))
    if lost(report):
        raise WrongEnd(
            f"{lost(report)} requests of users were lost to the release machinery: by version and status "
            f"{report.versions}, without an answer {report.errors}."
        )


def _say(line: str) -> None:
    print(line, flush=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main())
