"""What all kinds share: the model base, bounded scalar types, and metadata."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

_DURATION = re.compile(r"(\d+)(ms|s|m|h)")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
DURATION_PATTERN = r"^([0-9]{1,6}(ms|s|m|h)){1,4}$"
"""Six digits at most, so that the sum fits into the nanoseconds that CEL and Go count in."""


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """What the API server checks on a type or field: (CEL expression, sentence that tells what to do)."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


class Model(BaseModel):
    """Base of all wire models: frozen, camelCase, and lenient when reading, as newer versions add fields."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    def wire(self) -> dict[str, Any]:
        """The object as Kubernetes wants it: camelCase keys, JSON values, unset fields left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def parse_duration(text: object) -> object:
    """`"1h30m"` → timedelta. Raises ValueError for other strings; what is no string is left to pydantic."""
    if not isinstance(text, str):
        return text
    if not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(f"{text!r} is not a duration: write it as 30s, 10m, 1h30m or 500ms")
    return timedelta(seconds=sum(int(n) * _UNIT_SECONDS[unit] for n, unit in _DURATION.findall(text)))


def format_duration(value: timedelta) -> str:
    """The shortest spelling with whole units: timedelta(minutes=90) → `"1h30m"`."""
    millis = round(value.total_seconds() * 1000)
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, millis = divmod(millis, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


_DURATION_SCHEMA = {"type": "string", "pattern": DURATION_PATTERN, "maxLength": 20}

Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema(_DURATION_SCHEMA),
]
"""A length of time, written as Kubernetes users write it: `30s`, `10m`, `1h30m`."""


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("a duration longer than 0s is needed here")
    return value


PositiveDuration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    AfterValidator(_positive),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema(
        _DURATION_SCHEMA
        | rules(
            # What is no duration at all is the pattern's complaint; one sentence for one mistake.
            (
                f"!self.matches('{DURATION_PATTERN}') || duration(self) > duration('0s')",
                "A duration longer than 0s is needed here.",
            )
        )
    ),
]
"""A `Duration` that is not zero."""


def _utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def format_time(value: datetime) -> str:
    """RFC 3339 in UTC with microseconds only where there are any (they matter for the clock of a gate)."""
    text = _utc(value).isoformat()
    return text.replace("+00:00", "Z")


Timestamp = Annotated[
    datetime,
    AfterValidator(_utc),
    PlainSerializer(format_time, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Name = Annotated[str, Field(min_length=1, max_length=253)]
Label = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""A DNS label: what check ids and short names are."""
LabelName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")]
"""The name of a metric's label."""
LabelValue = Annotated[str, Field(max_length=63)]
"""The value of a Kubernetes label."""
Text = Annotated[str, Field(max_length=1024)]
Digest = Annotated[str, Field(max_length=71, pattern=r"^sha256:[0-9a-f]{64}$")]

_QUOTED = r"""("([^"\\\n]|\\.)*"|'([^'\\\n]|\\.)*'|`[^`]*`)"""
_MATCHER = rf"[a-zA-Z_][a-zA-Z0-9_]*\s*(=|!=|=~|!~)\s*{_QUOTED}"
SELECTOR_PATTERN = rf"^\s*[a-zA-Z_:][a-zA-Z0-9_:]*\s*(\{{\s*({_MATCHER}\s*(,\s*)?)*\}})?\s*$"
"""Tells a selector from PromQL that computes. Each character counts against CEL's cost budget, so a missing comma passes
here and is found by `evidence.promql`, which reads the selector."""


def _raw(value: str) -> str:
    if not re.fullmatch(SELECTOR_PATTERN, value):
        raise ValueError(f"{value!r}: {RAW_SELECTOR_WANTED}")
    return value


RAW_SELECTOR_WANTED = (
    "A raw selector is wanted: a metric name and, if needed, matchers in braces, as in "
    'http_requests_total{code=~"5.."}. '
    "No function, range, offset or arithmetic: Gatewright counts the increase itself."
)
Selector = Annotated[
    str,
    Field(
        min_length=1,
        max_length=512,
        json_schema_extra=rules((f"self.matches({json.dumps(SELECTOR_PATTERN)})", RAW_SELECTOR_WANTED)),
    ),
    AfterValidator(_raw),
]
"""A raw PromQL selector: `metric{label="value"}`, no function, no range, no offset."""


class ObjectMeta(Model):
    """The part of `metadata` that Gatewright reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()


class Condition(Model):
    """A condition as Kubernetes knows them."""

    type: Annotated[str, Field(max_length=63)]
    """What the condition is about: Ready, Reconciling, Stalled, Held, and so on."""
    status: Annotated[str, Field(pattern="^(True|False|Unknown)$", max_length=7)]
    """True, False or Unknown."""
    reason: Annotated[str, Field(max_length=63)]
    """One word for programs: why the status is what it is."""
    message: Text = ""
    """One sentence for people."""
    last_transition_time: Timestamp | None = None
    """When the status last changed."""
    observed_generation: int | None = None
    """The generation of the object that this condition speaks about."""
