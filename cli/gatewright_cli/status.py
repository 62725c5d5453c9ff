"""`kubectl gate status`: where a Rollout stands; and, with `--wait`, what became of the release."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gatewright_cli import wait
from gatewright_cli.errors import Exit, GateError, NotAllowed, Unreachable
from gatewright_cli.formats import Output, show, show_names, yaml_of
from gatewright_cli.kube import Kube
from gatewright_cli.output import Style, fold, print_lines, span
from gatewright_cli.report import line_of, render, summary
from gatewright_cli.view import Reader, View

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Options:
    """What the command line asked for; `timeout` counts from the start and only with `wait`."""

    name: str
    wait: bool = False
    watch: bool = False
    image: str | None = None
    timeout: timedelta = timedelta(minutes=10)
    output: Output = Output.TEXT


def run(kube: Kube, options: Options) -> Exit:
    """The command. Raises GateError; with `wait`, the exit code is the verdict's."""
    reader = Reader(kube, options.name)
    if not options.wait and not options.watch:
        _show(reader.read(), options, kube.flags.repeated)
        return Exit.OK
    looks = follow(reader, options, time.monotonic, time.sleep)
    if options.watch:
        return _watch(looks, options, kube.flags.repeated)
    view, finding = None, wait.Finding(None, "")
    for view, finding in looks:  # noqa: B007 - the last one counts
        pass
    return _end(view, finding, options, kube.flags.repeated)


def follow(
    reader: Reader, options: Options, clock: Callable[[], float], sleep: Callable[[float], object]
) -> Iterator[tuple[View | None, wait.Finding]]:
    """Look each second until there is an answer; forever without `wait`. Survives an absent API server."""
    # Polling, not a watch: one that a proxy dropped in silence looks like a quiet one, for good.
    deadline = clock() + options.timeout.total_seconds()
    target: wait.Target | None = None
    stalled_since: float | None = None
    view: View | None = None
    while True:
        try:
            view = reader.read()
        except Unreachable as error:
            if not options.wait and view is None:
                raise
            finding = wait.Finding(None, error.sentence)
        else:
            if options.wait and view.deployment is None and view.unread:
                raise NotAllowed(
                    f"Without the workload there is no telling which release to wait for: {view.unread[0]}"
                )
            target, finding = wait.look(target, options.image, view.rollout, view.deployment)
        now = clock()
        if not finding.provisional:
            stalled_since = None
        elif stalled_since is None:
            stalled_since = now
        lasting = stalled_since is not None and now - stalled_since >= wait.STALLED_FOR.total_seconds()
        done = finding.code is not None and (not finding.provisional or lasting)
        if options.wait and not done and now >= deadline:
            after = span(options.timeout)
            finding, done = (
                wait.Finding(Exit.TIMED_OUT, f"No verdict within {after}. {finding.sentence}"),
                True,
            )
        yield view, finding if done else wait.Finding(None, finding.sentence)
        if options.wait and done:
            return
        sleep(min(POLL_SECONDS, max(deadline - now, 0.05)) if options.wait else POLL_SECONDS)


def _show(view: View, options: Options, repeated: str) -> None:
    now = datetime.now(UTC)
    if options.output.for_programs:
        show(summary(view), options.output)
    elif options.output is Output.NAME:
        show_names("rollout", [view.name])
    else:
        wide = options.output is Output.WIDE
        print_lines(render(view, now, Style.of(sys.stdout), repeated, wide=wide))


def _end(view: View | None, finding: wait.Finding, options: Options, repeated: str) -> Exit:
    """Print where the wait ended, and return its code."""
    code = Exit.ERROR if finding.code is None else finding.code
    if options.output.for_programs:
        outcome = {"code": int(code), "name": code.name.lower(), "sentence": finding.sentence}
        show({**({} if view is None else summary(view)), "outcome": outcome}, options.output)
        return code
    if view is None:
        raise GateError(finding.sentence)
    _show(view, options, repeated)
    if options.output is Output.NAME:
        print(finding.sentence, file=sys.stderr)
    else:
        print_lines(["", *fold(finding.sentence, "")])
    return code


def _watch(looks: Iterator[tuple[View | None, wait.Finding]], options: Options, repeated: str) -> Exit:
    """On a terminal one screen that changes; elsewhere a line, or JSON on a line, for each change."""
    if sys.stdout.isatty() and not options.output.for_programs:
        from gatewright_cli.live import screen

        finding = screen(looks, repeated)
        print_lines(["", *fold(finding.sentence, "")])
        return Exit.ERROR if finding.code is None else finding.code
    last = ""
    finding = wait.Finding(None, "")
    for view, finding in looks:  # noqa: B007 - the last one counts
        if view is None:
            continue
        shown = summary(view)
        match options.output:
            case Output.JSON:
                line = said = json.dumps(shown, ensure_ascii=False)
            case Output.YAML:
                line = said = f"---\n{yaml_of(shown)}".rstrip("\n")
            case _:
                line = line_of(view)
                said = f"{datetime.now(UTC):%H:%M:%S}Z  {line}"
        if line != last:
            print(said, flush=True)
        last = line
    code = Exit.ERROR if finding.code is None else finding.code
    print(finding.sentence, file=sys.stderr if options.output.for_programs else sys.stdout)
    return code
