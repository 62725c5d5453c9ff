"""kubectl's own flags, taken out of the command line wherever they stand and handed on to kubectl unchanged.

A plugin gets every word after `kubectl gate`; the namespace may stand before or after the subcommand, as
`-n shop`, `-nshop` or `--namespace=shop`. None of the flags is interpreted here but that one.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gatewright_cli.errors import UsageError

WITH_VALUE = frozenset(
    (
        "--as",
        "--as-group",
        "--as-uid",
        "--as-user-extra",
        "--cache-dir",
        "--certificate-authority",
        "--client-certificate",
        "--client-key",
        "--cluster",
        "--context",
        "--kubeconfig",
        "--kuberc",
        "--namespace",
        "--password",
        "--request-timeout",
        "--server",
        "--tls-server-name",
        "--token",
        "--user",
        "--username",
        "--v",
    )
)
SHORT = {"-n": "--namespace", "-s": "--server", "-v": "--v"}
SWITCHES = frozenset(("--disable-compression", "--insecure-skip-tls-verify", "--match-server-version"))
WORTH_REPEATING = frozenset(("--as", "--as-group", "--cluster", "--context", "--kubeconfig", "--user"))
"""Repeated in the commands that we print; never `--token` and the like."""

OWN_WITH_VALUE = frozenset(
    (
        "--reason",
        "--expires",
        "--to",
        "--through",
        "--timeout",
        "--image",
        "--output",
        "-o",
        "--file",
        "-f",
        "--head",
        "--evidence",
        "--suite",
        "--format",
        "--kind",
        "--provider",
        "--prompt",
        "--metric",
        "--scorer",
        "--cluster-by",
        "--paired-with",
        "--revision",
        "--world",
    )
)
"""Our options whose next word is a value even when it looks like one of kubectl's flags."""


@dataclass(frozen=True)
class KubeFlags:
    """What the user told kubectl: (flag, value) pairs without the namespace; value None for a switch."""

    passed: tuple[tuple[str, str | None], ...] = ()
    namespace: str | None = None

    @property
    def argv(self) -> list[str]:
        return [flag if value is None else f"{flag}={value}" for flag, value in self.passed]

    def has(self, flag: str) -> bool:
        return any(name == flag for name, _ in self.passed)

    @property
    def repeated(self) -> str:
        """The flags to repeat in a command that we propose, with a leading blank; empty if there are none."""
        words = [
            f"{flag}={shlex.quote(value)}"
            for flag, value in self.passed
            if flag in WORTH_REPEATING and value is not None
        ]
        return "".join(f" {word}" for word in words)


def take(argv: Sequence[str]) -> tuple[KubeFlags, list[str]]:
    """Split a command line into kubectl's flags and the rest, in order.

    Raises UsageError when a flag that needs a value is the last word, or the namespace is none.
    """
    passed: list[tuple[str, str | None]] = []
    namespace: str | None = None
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        if word == "--":
            rest += [word, *words]
            break
        if word in OWN_WITH_VALUE:
            rest += [word, *_next(words)]
            continue
        flag, value = _parse(word)
        if flag is None:
            rest.append(word)
            continue
        if flag in WITH_VALUE and value is None:
            following = _next(words)
            if not following:
                raise UsageError(f"{word} needs a value.", then="kubectl gate --help")
            value = following[0]
        if flag == "--namespace":
            namespace = value
        else:
            passed.append((flag, value))
    if namespace is not None and not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", namespace):
        raise UsageError(f"{namespace!r} is no name of a namespace.", then="kubectl get namespaces")
    return KubeFlags(tuple(passed), namespace), rest


def _parse(word: str) -> tuple[str | None, str | None]:
    """(long flag, attached value or None), or (None, None) when `word` is no flag of kubectl's."""
    name, equals, attached = word.partition("=")
    if name in WITH_VALUE or name in SWITCHES:
        return name, attached if equals else None
    if word[:2] in SHORT and not word.startswith("--"):
        value = word[2:].removeprefix("=")
        return SHORT[word[:2]], value or None
    return None, None


def _next(words: Iterator[str]) -> list[str]:
    following = next(words, None)
    return [] if following is None else [following]
