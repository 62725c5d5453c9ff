"""`kubectl_complete-gate`: what kubectl's shell completion asks of a plugin.

kubectl calls it with the words after `gate`, the last of which is to be completed and may be empty. It prints one candidate
a line, a tab and a description behind it, and last a colon and a number that tells the shell what else to do.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import IntFlag

from gatewright_cli.errors import GateError, UsageError
from gatewright_cli.flags import SHORT, SWITCHES, WITH_VALUE, KubeFlags, take
from gatewright_cli.kube import Kube, Object, path
from gatewright_cli.output import ago, clean, shorten
from gatewright_cli.parser import gate_parser

PATIENCE = "3s"
"""Nobody waits longer for a tab."""
_ROLLOUT, _CHECK, _FILE = "ROLLOUT", "ROLLOUT/CHECK", "FILE"
_LENGTHS = {"--expires": ("1h", "4h", "24h", "72h"), "--timeout": ("30s", "10m", "1h")}


class Then(IntFlag):
    """What the shell does with the answer, by the numbers of kubectl's own completion (cobra)."""

    FILES = 0
    NO_SPACE = 2
    NO_FILES = 4
    ONLY_THESE_FILES = 8
    KEEP_ORDER = 32


@dataclass(frozen=True)
class Answer:
    """Candidates as (word, description), and what to do with them."""

    words: tuple[tuple[str, str], ...] = ()
    then: Then = Then.NO_FILES


NOTHING = Answer()


def main() -> int:
    """Entry point. Never complains: a shell in the middle of a line has no place for it."""
    try:
        answer = complete(sys.argv[1:])
    except (GateError, SystemExit):
        answer = NOTHING
    for word, description in answer.words:
        print(f"{word}\t{shorten(description, 80)}" if description else word)
    print(f":{int(answer.then)}")
    return 0


def complete(argv: Sequence[str]) -> Answer:
    """What could stand for the last word. Raises GateError when the API server has to be asked and does not answer."""
    *before, word = argv or [""]
    last = before[-1] if before else ""
    flag = SHORT.get(last, last)
    if flag in WITH_VALUE:
        return _value_of_kubectl(flag, before[:-1], word)
    flags, rest = take(before)
    parser: argparse.ArgumentParser = gate_parser()
    positional: list[str] = []
    words = iter(rest)
    for each in words:
        commands = _commands(parser)
        if each.startswith("-"):
            option = _option(parser, each)
            if option is not None and option.nargs is None and "=" not in each and next(words, None) is None:
                return _value(option, word)
        elif commands is not None:
            if each not in commands:
                return NOTHING
            parser = commands[each]
        else:
            positional.append(each)
    if word.startswith("-"):
        return _options(parser, word)
    commands = _commands(parser)
    if commands is not None:
        return _matching(word, _helps(parser))
    return _argument(parser, positional, word, flags)


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser] | None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return None


def _helps(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return [(str(each.dest), str(each.help or "")) for each in action._choices_actions]
    return []


def _option(parser: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    name = word.partition("=")[0]
    return next((action for action in parser._actions if name in action.option_strings), None)


def _options(parser: argparse.ArgumentParser, word: str) -> Answer:
    own = [
        (name, str(action.help or "").partition(";")[0])
        for action in parser._actions
        for name in action.option_strings
        if name.startswith("--")
    ]
    kubectl = [(name, "kubectl's own") for name in sorted(WITH_VALUE | SWITCHES)]
    return _matching(word, [*own, *kubectl])


def _value(option: argparse.Action, word: str) -> Answer:
    names = option.option_strings
    if option.choices is not None:
        return _matching(word, [(str(each), "") for each in option.choices])
    if option.metavar == _FILE:
        return Answer(then=Then.FILES)
    lengths = next((_LENGTHS[name] for name in names if name in _LENGTHS), ())
    return replace(_matching(word, [(each, "") for each in lengths]), then=Then.NO_FILES | Then.KEEP_ORDER)


def _argument(parser: argparse.ArgumentParser, positional: list[str], word: str, flags: KubeFlags) -> Answer:
    wanted = [action for action in parser._actions if not action.option_strings]
    if not wanted:
        return NOTHING
    here = wanted[min(len(positional), len(wanted) - 1)]
    if here.metavar == _FILE:
        return Answer((("yaml", ""), ("yml", ""), ("json", "")), Then.ONLY_THESE_FILES)
    if len(positional) >= len(wanted) or (
        positional and wanted[0].nargs == "?" and positional[0] not in _words(wanted[0])
    ):
        return NOTHING
    if here.metavar == _CHECK:
        return _check(word, flags)
    verbs = [(verb, "") for verb in _words(here)]
    return replace(_matching(word, [*verbs, *_rollouts(flags)]), then=Then.NO_FILES | Then.KEEP_ORDER)


def _words(action: argparse.Action) -> tuple[str, ...]:
    return tuple(str(each) for each in action.choices or ())


def _rollouts(flags: KubeFlags) -> list[tuple[str, str]]:
    """Names and what they are at; what is held comes first, the longest held before all."""
    now = datetime.now(UTC)
    found = sorted(_kube(flags).rollouts_here(), key=_urgency)
    return [(each["metadata"]["name"], _at(each, now)) for each in found]


def _urgency(rollout: Object) -> tuple[bool, str, str]:
    status = rollout.get("status") or {}
    held = status.get("phase") == "Held"
    since = str((status.get("hold") or {}).get("since", "")) if held else ""
    return not held, since, str(rollout["metadata"]["name"])


def _at(rollout: Object, now: datetime) -> str:
    status = rollout.get("status") or {}
    hold = status.get("hold")
    if status.get("phase") == "Held" and hold:
        return f"held {ago(hold.get('since'), now)}: {clean(hold.get('reason', ''))}"
    return clean(status.get("phase") or "new")


def _check(word: str, flags: KubeFlags) -> Answer:
    name, slash, _ = word.rpartition("/")
    if not slash:
        names = [(f"{each}/", at) for each, at in _rollouts(flags)]
        return replace(_matching(word, names), then=Then.NO_FILES | Then.NO_SPACE | Then.KEEP_ORDER)
    kube = _kube(flags)
    rollout = kube.rollout(name.rpartition("/")[2])
    contract = kube.get(
        path("gatecontracts", rollout["metadata"]["namespace"], rollout["spec"]["contractRef"]["name"])
    )
    checks = contract["spec"].get("checks") or []
    return _matching(word, [(f"{name}/{each['id']}", clean(each.get("title", ""))) for each in checks])


def _value_of_kubectl(flag: str, before: Sequence[str], word: str) -> Answer:
    if flag == "--kubeconfig":
        return Answer(then=Then.FILES)
    ask = {"--namespace": ["get", "namespaces"], "--context": ["config", "get-contexts"]}.get(flag)
    if ask is None:
        return NOTHING
    try:
        flags, _ = take(before)
    except UsageError:
        return NOTHING
    names = _kube(flags).names(ask)
    return _matching(word, [(name, "") for name in names])


def _kube(flags: KubeFlags) -> Kube:
    if flags.has("--request-timeout"):
        return Kube.of(flags)
    return Kube.of(replace(flags, passed=(*flags.passed, ("--request-timeout", PATIENCE))))


def _matching(word: str, candidates: Sequence[tuple[str, str]]) -> Answer:
    return Answer(tuple(each for each in candidates if each[0].startswith(word)))


if __name__ == "__main__":
    sys.exit(main())
