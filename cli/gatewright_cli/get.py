"""`kubectl gate get`: Rollouts as trees of steps and checks; with `--watch` as they change."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gatewright_analysis.names import REVISION_LABEL, ROLLOUT_LABEL
from gatewright_cli.errors import Exit, GateError, Unreachable
from gatewright_cli.formats import Output, show, show_names
from gatewright_cli.kube import Kube, Object, path
from gatewright_cli.output import Style, print_lines
from gatewright_cli.tree import data, nodes, render, revision_of
from gatewright_cli.view import View, run_name

POLL_SECONDS = 1.0

Tree = tuple[View, Sequence[Object]]
"""A Rollout with the runs that are shown below it."""


@dataclass(frozen=True)
class Options:
    """What the command line asked for; without `name` all Rollouts of the namespace, or of all."""

    name: str = ""
    everywhere: bool = False
    watch: bool = False
    output: Output = Output.TEXT


class Reader:
    """Reads the trees again and again. Raises GateError."""

    def __init__(self, kube: Kube, options: Options) -> None:
        self._kube = kube
        self._options = options
        self._namespace: str | None = None

    def read(self) -> list[Tree]:
        if self._options.name:
            return [self._one()]
        rollouts = (
            self._kube.list_all(path("rollouts", None))
            if self._options.everywhere
            else self._kube.rollouts_here()
        )
        views = [View(each) for each in rollouts]
        if self._options.output is Output.NAME:
            return [(view, ()) for view in views]
        # Of many Rollouts only the gate that matters now: all runs of all would be thousands of objects.
        present = [(place, run_name(view.status)) for place, view in enumerate(views)]
        wanted = [(place, run) for place, run in present if run]
        answers = self._kube.get_all([path("gateruns", views[place].namespace, run) for place, run in wanted])
        runs = {
            place: (answer,)
            for (place, _), answer in zip(wanted, answers, strict=True)
            if not isinstance(answer, GateError)
        }
        return [(view, runs.get(place, ())) for place, view in enumerate(views)]

    def _one(self) -> Tree:
        name = self._options.name
        if self._namespace is None:
            rollout = self._kube.rollout(name)
            self._namespace = str(rollout["metadata"]["namespace"])
        else:
            rollout = self._kube.get(path("rollouts", self._namespace, name))
        view = View(rollout)
        if self._options.output is Output.NAME:
            return view, ()
        labels = f"{ROLLOUT_LABEL}%3D{name}%2C{REVISION_LABEL}%3D{revision_of(view)}"
        runs = self._kube.list_all(path("gateruns", view.namespace, query=f"labelSelector={labels}"))
        return view, runs if revision_of(view) else ()


def run(kube: Kube, options: Options) -> Exit:
    """The command. Raises GateError."""
    reader = Reader(kube, options)
    if not options.watch:
        _show(reader.read(), options, kube)
        return Exit.OK
    frames = follow(reader.read, time.sleep)
    if sys.stdout.isatty() and not options.output.for_programs:
        from gatewright_cli.live import redraw

        style = Style.of(sys.stdout)
        redraw(
            _lines(trees, options, style) if isinstance(trees, list) else [trees.sentence] for trees in frames
        )
        return Exit.OK
    last: dict[str, str] = {}
    for trees in frames:
        if isinstance(trees, GateError):
            print(trees.sentence, file=sys.stderr)
            continue
        shown = changes(trees, options, datetime.now(UTC))
        for key, line in shown.items():
            if last.get(key) != line:
                print(
                    line if options.output.for_programs else f"{datetime.now(UTC):%H:%M:%S}Z  {line}",
                    flush=True,
                )
        last = shown
    return Exit.OK


def follow(
    read: Callable[[], list[Tree]], sleep: Callable[[float], object]
) -> Iterator[list[Tree] | GateError]:
    """A look each second, for ever; an API server that is away for a while does not end it."""
    seen = False
    while True:
        try:
            yield read()
            seen = True
        except Unreachable as error:
            if not seen:
                raise
            yield error
        sleep(POLL_SECONDS)


def changes(trees: Sequence[Tree], options: Options, now: datetime) -> dict[str, str]:
    """A line for each thing that may change, by its key: one that differs from the last look is printed."""
    if options.output.for_programs:
        return {
            f"{view.namespace}/{view.name}": json.dumps(data(view, runs), ensure_ascii=False)
            for view, runs in trees
        }
    found = [node for view, runs in trees for node in nodes(view, runs, now, whole=bool(options.name))]
    return {node.key: node.line for node in found}


def _show(trees: list[Tree], options: Options, kube: Kube) -> None:
    if options.output is Output.NAME:
        show_names("rollout", [view.name for view, _ in trees])
    elif options.output.for_programs:
        found = [data(view, runs) for view, runs in trees]
        show(found[0] if options.name else found, options.output)
    elif not trees:
        namespace = kube.flags.namespace
        scope = "anywhere" if options.everywhere else f"in {namespace}" if namespace else "in this namespace"
        print(f"There is no Rollout {scope}.", file=sys.stderr)
    else:
        print_lines(_lines(trees, options, Style.of(sys.stdout)))


def _lines(trees: Sequence[Tree], options: Options, style: Style) -> list[str]:
    now = datetime.now(UTC)
    found = [node for view, runs in trees for node in nodes(view, runs, now, whole=bool(options.name))]
    return render(found, style, wide=options.output is Output.WIDE, namespaced=options.everywhere)
