"""A gauge's PromQL with the placeholder `$arm`: found where it stands, and checked that nothing is read beside it.

Not a parser of PromQL, only of its words: strings, comments, braces and brackets are told apart, and each name is a
function, a keyword or a metric by what follows it. Every selector must have `$arm` as one of its matchers, so that
no series of another namespace or arm gets into the value. What can't be read here is refused with a sentence.
"""

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from gatewright_analysis.evidence.promql import Matcher

PLACEHOLDER: Final = "$arm"
_EXAMPLE: Final = "max(process_open_fds{$arm})"

_TOKEN: Final = re.compile(
    r"""
      (?P<space>[ \t\r\n]+ | \#[^\n]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | `[^`]*`)
    | (?P<arm>\$arm(?![A-Za-z0-9_]))
    | (?P<number>(?:[0-9]|\.[0-9])[0-9_.]*(?:[eE][+-]?[0-9]+)?[0-9a-zA-Z_.]*)
    | (?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
    | (?P<operator>=~|!~|!=|==|>=|<=|[-+*/%^=<>,(){}\[\]:@])
    """,
    flags=re.VERBOSE | re.ASCII,
)
_LABEL_LISTS: Final = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_NUMBERS: Final = frozenset({"inf", "nan"})
_BETWEEN: Final = frozenset({"and", "or", "unless", "atan2"})
_COMPARISONS: Final = frozenset({"==", "!=", ">", "<", ">=", "<="})
_AGGREGATORS: Final = frozenset(
    {
        "sum", "avg", "count", "min", "max", "group", "stddev", "stdvar", "topk", "bottomk", "count_values",
        "quantile", "limitk", "limit_ratio",
    }
)  # fmt: skip
_MATCH: Final = frozenset({"=", "!=", "=~", "!~"})


@dataclass(frozen=True, slots=True)
class ArmQuery:
    """A query that was read: rendered by putting an arm's matchers in place of each `$arm`."""

    text: str
    spots: tuple[int, ...]
    """Where each `$arm` begins."""
    selectors: tuple[tuple[int, int], ...]
    """Where each selector begins and ends, its range left out."""
    labels: frozenset[str]
    """Labels that its matchers set."""

    def render(self, *matchers: Matcher) -> str:
        """The whole query. Raises ValueError when it sets one of the matchers' labels itself."""
        return self._render(matchers, 0, len(self.text))

    def render_selectors(self, *matchers: Matcher) -> tuple[str, ...]:
        """Each of its selectors once. Raises ValueError as `render` does."""
        return tuple(dict.fromkeys(self._render(matchers, start, end) for start, end in self.selectors))

    def _render(self, matchers: tuple[Matcher, ...], start: int, end: int) -> str:
        for matcher in matchers:
            if matcher.label in self.labels:
                raise ValueError(
                    f"the query sets the label {matcher.label!r}: leave it out, $arm stands for the matchers of "
                    "namespace and arm, so that the query itself can't tell the arms apart"
                )
        inserted = ",".join(matcher.render() for matcher in matchers)
        at, parts = start, []
        for spot in self.spots:
            if start <= spot < end:
                parts += [self.text[at:spot], inserted]
                at = spot + len(PLACEHOLDER)
        return "".join((*parts, self.text[at:end]))


def parse_arm_query(text: str) -> ArmQuery:
    """Read a query. Raises ValueError with one sentence that says what to write instead."""
    return _Scanner(text).query()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


class _Scanner:
    """One pass over the words."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._words()
        self._at = 0
        self._spots: list[int] = []
        self._selectors: list[tuple[int, int]] = []
        self._labels: set[str] = set()

    def query(self) -> ArmQuery:
        while (token := self._peek()).kind != "end":
            self._at += 1
            match token.kind, token.text:
                case "arm", _:
                    self._refuse(f"$arm must stand between the braces of a selector: {_EXAMPLE}")
                case "name", _:
                    self._name(token)
                case _, "{":
                    self._selector(token.start)
                case _, "}":
                    self._refuse("a brace is closed that was never opened")
                case _, "[":
                    self._skip_to("]")
                case _, "@":
                    self._refuse("offset and @ are not allowed: Gatewright asks at its own times")
                case "string", literal if PLACEHOLDER in literal:
                    self._refuse(
                        "$arm stands in quotes, where it is text like any other: put it between braces"
                    )
        if not self._spots:
            self._refuse(f"it has no selector with $arm: {_EXAMPLE}")
        return ArmQuery(self._text, tuple(self._spots), tuple(self._selectors), frozenset(self._labels))

    def _words(self) -> list[_Token]:
        found, at = [], 0
        while at < len(self._text):
            token = _TOKEN.match(self._text, at)
            if token is None:
                self._refuse(f"{self._text[at : at + 12]!r} can't be read; is a quote not closed?")
            kind = token.lastgroup or ""
            if kind != "space":
                found.append(_Token(kind, token.group(), at, token.end()))
            at = token.end()
        return [*found, _Token("end", "", at, at)]

    def _name(self, token: _Token) -> None:
        following, word = self._peek(), token.text.lower()
        if following.text == "{":
            self._at += 1
            self._selector(token.start)
        elif word == "offset":
            self._refuse("offset and @ are not allowed: Gatewright asks at its own times")
        elif word in _LABEL_LISTS and following.text == "(":
            self._skip_to(")")
        elif following.text == "(" or word in _NUMBERS or self._operates(word):
            return  # a function, a number, or an operator
        elif word in _AGGREGATORS and following.text.lower() in ("by", "without"):
            return
        else:
            self._refuse(
                f"{token.text} has no $arm, so it would read the series of all namespaces: write {token.text}{{$arm}}"
            )

    def _operates(self, word: str) -> bool:
        """Whether a keyword that has just been read is one where it stands: a metric may have its name, too."""
        if self._at < 2:
            return False
        before = self._tokens[self._at - 2]
        if word == "bool":
            return before.text in _COMPARISONS
        if word in ("group_left", "group_right"):
            return before.text == ")"
        ended = before.kind in ("number", "string") or before.text in (")", "}", "]")
        return word in _BETWEEN and (ended or before.text.lower() in _NUMBERS)

    def _selector(self, start: int) -> None:
        """Matchers between commas; the opening brace has been read."""
        arms = 0
        while (token := self._take()).text != "}" or token.kind == "string":
            if token.kind == "arm":
                arms += 1
                self._spots.append(token.start)
            elif token.kind in ("name", "string") and self._peek().text in _MATCH:
                self._matcher(token)
            elif token.kind != "string":  # a string alone is a metric's name that needs quotes
                self._refuse(
                    "a brace is not closed"
                    if token.kind == "end"
                    else 'between braces only $arm and matchers such as code="200" may stand, with commas between'
                )
            if self._peek().text == ",":
                self._at += 1
            elif self._peek().text != "}":
                self._refuse("a comma is missing between two matchers, or a brace is not closed")
        end = token.end
        if arms != 1:
            shown = self._text[start:end]
            sentence = (
                "has $arm more than once"
                if arms
                else "has no $arm, so it would read the series of all namespaces"
            )
            self._refuse(f"the selector {shown} {sentence}: put $arm once between its braces")
        self._selectors.append((start, end))

    def _matcher(self, label: _Token) -> None:
        self._at += 1
        value = self._take()
        if value.kind != "string":
            self._refuse(f"the value of the label {label.text} must stand in quotes")
        if PLACEHOLDER in value.text:
            self._refuse("$arm stands in quotes, where it is text like any other: put it between braces")
        name = label.text[1:-1] if label.kind == "string" else label.text
        if label.kind == "string" and "\\" in name:
            self._refuse(f"the label {label.text} is written with a backslash: write it without")
        if name == "__name__":
            self._refuse("the metric is named before the braces, not by __name__")
        self._labels.add(name)

    def _skip_to(self, closing: str) -> None:
        while (token := self._take()).text != closing:
            if token.kind == "end":
                self._refuse(f"{closing} is missing")
            if token.kind == "arm":
                self._refuse(f"$arm must stand between the braces of a selector: {_EXAMPLE}")

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _refuse(self, why: str) -> NoReturn:
        shown = self._text if len(self._text) <= 80 else self._text[:77] + "..."
        raise ValueError(f"{shown!r} can't be asked as a gauge: {why}")
