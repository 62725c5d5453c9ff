"""Raw PromQL selectors: read strictly, given the matchers of an arm, rendered again. Nothing else of PromQL
is spoken here.

A contract names `metric{label="value"}`; the operator alone decides which arm, which namespace and which time
it is asked for. What is inserted are label values, escaped; a selector that already sets one of those labels
is refused, because it could tell the arms apart by itself.
"""

import functools
import re
import warnings
from dataclasses import dataclass
from typing import Final, Literal

from gatewright_analysis.kinds.run import ArmRef
from gatewright_analysis.kinds.source import Arms, ArmsBy

Operator = Literal["=", "!=", "=~", "!~"]

MAX_SELECTOR_CHARS: Final = 512
POD_SUFFIX: Final = "[a-z0-9]{5}"
"""What the API server appends to a pod's generateName."""

_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NUMBERS: Final = frozenset({"inf", "nan"})
"""Names that PromQL reads as numbers."""
_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"', "'": "'",
}  # fmt: skip
_CODED_ESCAPE: Final = re.compile(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}", flags=re.ASCII)
_RE2_SPECIAL: Final = re.compile(r"[\\.+*?()|\[\]{}^$]")


@dataclass(frozen=True, slots=True)
class Matcher:
    """One label matcher; `value` is the unescaped text (for `=~` and `!~` an RE2 expression, anchored by
    Prometheus).
    """

    label: str
    operator: Operator
    value: str

    def render(self) -> str:
        return f'{self.label}{self.operator}"{escape(self.value)}"'

    @property
    def requires_label(self) -> bool:
        """True when a series without the label can't match: `=` or `=~` with a value that is not empty."""
        if self.operator == "=":
            return self.value != ""
        if self.operator == "=~":
            return not _matches_nothing(self.value)
        return False


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric name and its matchers, in the order they were written."""

    metric: str
    matchers: tuple[Matcher, ...] = ()

    def render(self) -> str:
        if not self.matchers:
            return self.metric
        return f"{self.metric}{{{','.join(matcher.render() for matcher in self.matchers)}}}"

    def range(self, seconds: float) -> str:
        """The range selector over the `seconds` (> 0, to the millisecond) before the evaluation time."""
        millis = round(seconds * 1000)
        if millis <= 0:
            raise ValueError(f"a range must be at least one millisecond, not {seconds} s")
        return f"{self.render()}[{millis}ms]"

    def with_matchers(self, *matchers: Matcher) -> "Selector":
        """The same selector, narrowed. Raises ValueError when one of the labels is set already."""
        for matcher in matchers:
            if any(own.label == matcher.label for own in self.matchers):
                raise ValueError(
                    f"the selector {self.render()} sets the label {matcher.label!r}: leave it out, "
                    "Gatewright adds it for each arm so that the query itself can't tell the arms apart"
                )
        return Selector(self.metric, self.matchers + matchers)

    @property
    def required_labels(self) -> frozenset[str]:
        """Labels that a series must have to be matched at all."""
        return frozenset(matcher.label for matcher in self.matchers if matcher.requires_label)


@functools.lru_cache(maxsize=1024)
def _matches_nothing(expression: str) -> bool:
    """Whether an RE2 expression matches the empty text. What Python's re reads otherwise is taken not to."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return re.fullmatch(expression, "") is not None
    except (re.error, RecursionError):
        return False


def escape(value: str) -> str:
    """A label value as it stands between double quotes in PromQL."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")


def escape_regex(text: str) -> str:
    """`text` as an RE2 expression that matches itself only (what Go's regexp.QuoteMeta does)."""
    return _RE2_SPECIAL.sub(lambda found: "\\" + found.group(), text)


def arm_matchers(arms: Arms, arm: ArmRef, namespace: str) -> tuple[Matcher, Matcher]:
    """The namespace's matcher and the one that picks `arm`. Raises ValueError when the arm lacks what the
    source tells by.
    """
    told_by: dict[ArmsBy, tuple[Operator, str, str]] = {
        ArmsBy.POD_NAME: ("=~", arm.pod_prefix, escape_regex(arm.pod_prefix) + POD_SUFFIX),
        ArmsBy.POD_LABEL: ("=", arm.revision, arm.revision),
        ArmsBy.SERVICE: ("=", arm.service, arm.service),
        ArmsBy.WORKLOAD: ("=", arm.workload, arm.workload),
    }
    operator, given, value = told_by[arms.by]
    if not given:
        raise ValueError(
            f"the source tells arms apart by {arms.by.value}, and this rollout has none for an arm: "
            "use a source that tells them apart by PodName"
        )
    if arms.label == arms.namespace_label:
        raise ValueError(
            f"the source uses the label {arms.label!r} for the arm and for the namespace: they must differ"
        )
    return Matcher(arms.namespace_label, "=", namespace), Matcher(arms.label, operator, value)


def parse_selector(text: str) -> Selector:
    """Read `metric{label="value",…}`. Raises ValueError with one sentence that says what to write instead."""
    return _Parser(text).selector()


class _Parser:
    """One pass over the text; every refusal is a sentence."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_SELECTOR_CHARS:
            raise ValueError(f"a selector may have {MAX_SELECTOR_CHARS} characters, this one has {len(text)}")
        self.text = text
        self.at = 0

    def selector(self) -> Selector:
        self._skip_space()
        metric = self._take(_METRIC)
        if not metric:
            raise self._refused("it must begin with the name of a metric")
        if metric.lower() in _NUMBERS:
            raise self._refused(f"{metric} is a number in PromQL, not a metric")
        self._skip_space()
        matchers = self._matchers() if self._peek() == "{" else ()
        self._skip_space()
        if self.at < len(self.text):
            raise self._refused(self._trailing())
        return Selector(metric, matchers)

    def _matchers(self) -> tuple[Matcher, ...]:
        self.at += 1
        found: list[Matcher] = []
        while True:
            self._skip_space()
            if self._peek() == "}":
                self.at += 1
                return tuple(found)
            label = self._take(_LABEL)
            if not label:
                raise self._refused(
                    "a brace is not closed"
                    if self._ended()
                    else "a label name was expected between the braces"
                )
            if label == "__name__":
                raise self._refused("the metric is named before the braces, not by __name__")
            self._skip_space()
            operator = self._operator(label)
            self._skip_space()
            found.append(Matcher(label, operator, self._string(label)))
            self._skip_space()
            if self._peek() == ",":
                self.at += 1
            elif self._peek() != "}":
                raise self._refused(
                    "a brace is not closed"
                    if self._ended()
                    else f"a comma is missing after the label {label}"
                )

    def _operator(self, label: str) -> Operator:
        operators: tuple[Operator, ...] = ("=~", "!~", "!=", "=")
        for operator in operators:
            if self.text.startswith(operator, self.at):
                self.at += len(operator)
                return operator
        raise self._refused(f"the label {label} needs one of =, !=, =~ or !~")

    def _string(self, label: str) -> str:
        quote = self._peek()
        if quote not in ('"', "'", "`"):
            raise self._refused(f"the value of the label {label} must stand in quotes")
        self.at += 1
        value: list[str] = []
        while not self._ended():
            char = self.text[self.at]
            self.at += 1
            if char == quote:
                return "".join(value)
            if quote == "`":
                value.append(char)
            elif char == "\\":
                value.append(self._escape(label))
            elif char == "\n":
                break
            else:
                value.append(char)
        raise self._refused(f"the quote of the label {label} is not closed")

    def _escape(self, label: str) -> str:
        char = self._peek()
        if char in _SIMPLE_ESCAPES:
            self.at += 1
            return _SIMPLE_ESCAPES[char]
        coded = self._take(_CODED_ESCAPE)
        code = int(coded[1:], 16) if coded[:1] in ("x", "u", "U") else int(coded or "-1", 8)
        # Bytes above 0x7f written as \x or octal would be halves of a character: there is no need for them
        # here.
        limit = 0x7F if coded[:1] not in ("u", "U") else 0x10FFFF
        if not 0 <= code <= limit or 0xD800 <= code <= 0xDFFF:
            raise self._refused(
                f"the value of the label {label} has an escape that PromQL does not know; a backslash is written \\\\"
            )
        return chr(code)

    def _trailing(self) -> str:
        rest = self.text[self.at :]
        word = rest.split(maxsplit=1)[0].lower()
        if rest[0] == "(":
            return "functions and aggregations are not allowed: Gatewright counts the increases of the raw counter itself"
        if rest[0] == "[":
            return "a range is not allowed: Gatewright asks for its own windows"
        if word.startswith("@") or word == "offset":
            return "offset and @ are not allowed: Gatewright asks for its own times"
        if word in ("by", "without"):
            return "functions and aggregations are not allowed: Gatewright counts the increases of the raw counter itself"
        if rest[0] == "}":
            return "a brace is closed that was never opened"
        return "nothing may follow the selector: no arithmetic, no comparison, no second selector"

    def _refused(self, why: str) -> ValueError:
        shown = self.text if len(self.text) <= 80 else self.text[:77] + "..."
        return ValueError(f'{shown!r} is not a raw selector such as metric{{label="value"}}: {why}')

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _ended(self) -> bool:
        return self.at >= len(self.text)

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found.group()

    def _skip_space(self) -> None:
        self._take(_SPACE)
