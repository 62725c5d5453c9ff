"""The evidence record: what a result file says, counted per cluster, in the one form that is pushed and judged.

No prompt, no answer and no explanation is in it: names, digests and counts alone (statistics.md section 9).
"""

import base64
import gzip
import json
import math
import zlib
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from gatewright_analysis.kinds.base import Digest, Label, Model, Name, Timestamp
from gatewright_analysis.ledger.canonical import canonical, digest_of_bytes, digest_of_json
from gatewright_analysis.results.problem import ImportProblem, RecordTooLarge

SCHEMA: Final = "gatewright.dev/evidence/v1"
MAX_ITEMS: Final = 200_000
MAX_PACKED_BYTES: Final = 900_000
"""Of a record as a ConfigMap carries it: compressed, in base64. A ConfigMap holds 1 MiB with all around it."""
MAX_RECORD_BYTES: Final = 32 * 1024 * 1024
"""Of a record before compression: more than `MAX_ITEMS` items can take."""

Count = Annotated[int, Field(ge=0, le=2**53 - 1, strict=True)]
Amount = Count | Annotated[float, Field(ge=0, le=2**53 - 1, allow_inf_nan=False)]
Cluster = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$", max_length=16)]
ShortText = Annotated[str, Field(min_length=1, max_length=1024)]
WorldKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?$", max_length=253)]

_WHAT_TO_DO: Final = (
    "Use fewer items: draw a sample of the data set (with a fixed seed) and evaluate that, or join items that "
    "belong together with --cluster-by."
)


class RecordKind(StrEnum):
    """What an item of the record counts."""

    SAMPLES = "samples"
    """`[cluster, good, bad, missing]`"""
    SCORES = "scores"
    """`[cluster, n, total of scores, missing]`; each score is from 0 to 1"""
    PAIRS = "pairs"
    """`[cluster, wins, losses, ties, missing]` of the evaluated version against another on the same items"""


class Tool(Model):
    """What wrote the file."""

    name: Name
    version: ShortText | None = None


class Source(Model):
    """The imported file: name without folders, digest and size in bytes."""

    name: Name
    digest: Digest
    bytes: Count


class Subject(Model):
    """What was evaluated: the images, and the declared world (model ids, prompts' versions, data sets)."""

    images: Annotated[tuple[Digest, ...], Field(max_length=64)] = ()
    world: Annotated[dict[WorldKey, ShortText], Field(max_length=64, default_factory=dict)]


class Revision(Model):
    """The commit that the evaluation ran at, and whether the tree had changes beside it; None: not said."""

    commit: ShortText
    dirty: bool | None = None


class Judge(Model):
    """What gave the verdicts, where that is a model or a program with a version of its own."""

    id: ShortText
    version: ShortText | None = None
    fingerprint: ShortText | None = None


CountedItem = tuple[Cluster, Count, Amount, Count]
PairItem = tuple[Cluster, Count, Count, Count, Count]


class EvidenceRecord(Model):
    """Counts per cluster, what they speak about, and where they come from."""

    schema_: Annotated[Literal["gatewright.dev/evidence/v1"], Field(alias="schema")] = SCHEMA
    suite: Label
    """Name of the evaluation, by which a contract finds it."""
    kind: RecordKind
    tool: Tool
    created_at: Timestamp | None = None
    """When the tool made the results, as the file says; None: it doesn't."""
    source: Source
    compared_with: Source | None = None
    """Of pairs: the file of the other version."""
    subject: Subject = Subject()
    revision: Revision | None = None
    judge: Judge | None = None
    seed: Annotated[int, Field(ge=-(2**53) + 1, le=2**53 - 1, strict=True)] | None = None
    expected: Count
    """Verdicts that there should be, by the tool's own word; of pairs: pairs."""
    missing: Count
    """Verdicts that are not there: those of the items, and those whose item is unknown."""
    items: Annotated[tuple[CountedItem | PairItem, ...], Field(max_length=MAX_ITEMS)]
    """One per cluster, sorted by its key."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        for item in self.items:
            _check_item(self.kind, item)
        clusters = [item[0] for item in self.items]
        if any(one >= following for one, following in pairwise(clusters)):
            raise ValueError("the items are not sorted by cluster, or a cluster stands twice")
        if sum(int(item[-1]) for item in self.items) > self.missing:
            raise ValueError("the items miss more verdicts than the record says")
        if self.scored + self.missing != self.expected:
            raise ValueError(
                f"{self.scored} verdicts and {self.missing} missing are not the {self.expected} expected"
            )
        return self

    @property
    def clusters(self) -> int:
        return len(self.items)

    @property
    def scored(self) -> int:
        """Verdicts that are there; of pairs: pairs with both."""
        return sum(_scored(self.kind, item) for item in self.items)

    @property
    def good(self) -> int:
        """Samples that passed, or pairs won; 0 for scores."""
        return 0 if self.kind is RecordKind.SCORES else sum(int(item[1]) for item in self.items)

    @property
    def bad(self) -> int:
        """Samples that failed, or pairs lost; 0 for scores."""
        return 0 if self.kind is RecordKind.SCORES else sum(int(item[2]) for item in self.items)

    @property
    def ties(self) -> int:
        return sum(int(item[3]) for item in self.items) if self.kind is RecordKind.PAIRS else 0

    @property
    def total_of_scores(self) -> float:
        """Sum of all scores; 0 for samples and pairs."""
        return math.fsum(item[2] for item in self.items) if self.kind is RecordKind.SCORES else 0.0

    def canonical_bytes(self) -> bytes:
        """RFC 8785 bytes, which the digest is of."""
        return canonical(self.wire())

    @property
    def digest(self) -> str:
        return digest_of_bytes(self.canonical_bytes())


@dataclass(frozen=True, slots=True)
class Packed:
    """A record as it is pushed: `data` is gzip in base64, `digest` that of the canonical bytes inside."""

    data: str
    digest: str


def pack(record: EvidenceRecord) -> Packed:
    """Same record, same bytes. Raises RecordTooLarge with what to do."""
    plain = record.canonical_bytes()
    data = base64.b64encode(gzip.compress(plain, 9, mtime=0)).decode("ascii")
    if len(data) > MAX_PACKED_BYTES:
        raise RecordTooLarge(
            f"The record of {record.clusters} items takes {len(data):,} bytes; "
            f"up to {MAX_PACKED_BYTES:,} fit into a ConfigMap. {_WHAT_TO_DO}"
        )
    return Packed(data, digest_of_bytes(plain))


def unpack(data: str, digest: str) -> EvidenceRecord:
    """The record that `pack` made. Raises ImportProblem for anything else, also when the digest is another."""
    if len(data) > MAX_PACKED_BYTES:
        raise RecordTooLarge(f"The record takes {len(data):,} bytes; up to {MAX_PACKED_BYTES:,} are read.")
    try:
        reader = zlib.decompressobj(wbits=31)
        plain = reader.decompress(base64.b64decode(data, validate=True), MAX_RECORD_BYTES)
    except (ValueError, zlib.error) as error:
        raise ImportProblem("The record is no gzip in base64: push it again.") from error
    if not reader.eof or reader.unused_data:
        raise ImportProblem("The record is cut off, or larger than any record: push it again.")
    if digest_of_bytes(plain) != digest:
        raise ImportProblem(f"The record has another digest than {digest}: it was changed after the push.")
    try:
        return EvidenceRecord.model_validate(json.loads(plain))
    except (ValidationError, ValueError, RecursionError) as error:
        raise ImportProblem(f"It is no evidence record: {first_error(error)}.") from error


def too_many(items: int) -> RecordTooLarge:
    """The sentence for more clusters than a record may have."""
    return RecordTooLarge(f"The file has {items:,} items; a record has up to {MAX_ITEMS:,}. {_WHAT_TO_DO}")


def cluster_key(value: Any) -> str:
    """First 16 hex digits of the digest of the canonical JSON: items with equal values are one cluster.

    Raises ImportProblem for what canonical JSON can't carry.
    """
    try:
        return digest_of_json(value).removeprefix("sha256:")[:16]
    except TypeError as error:
        raise ImportProblem(f"No cluster can be made of it: {error}.") from error


def first_error(error: Exception) -> str:
    """The first of pydantic's complaints, in one line."""
    if not isinstance(error, ValidationError):
        return "it can't be read as JSON"
    found = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, found['loc'])) or 'the whole'}: {found['msg']}"


def _scored(kind: RecordKind, item: CountedItem | PairItem) -> int:
    match kind:
        case RecordKind.SAMPLES:
            return item[1] + int(item[2])
        case RecordKind.SCORES:
            return item[1]
        case RecordKind.PAIRS:
            return item[1] + int(item[2]) + item[3]


def _check_item(kind: RecordKind, item: CountedItem | PairItem) -> None:
    if len(item) != (5 if kind is RecordKind.PAIRS else 4):
        raise ValueError(f"an item of {kind} has another length than {item!r}")
    if kind is RecordKind.SAMPLES and not float(item[2]).is_integer():
        raise ValueError(f"{item!r} counts no whole number of bad samples")
    if kind is RecordKind.SCORES and item[2] > item[1]:
        raise ValueError(f"{item!r}: scores are at most 1 each")
    if _scored(kind, item) + item[-1] == 0:
        raise ValueError(f"{item!r} counts nothing")
