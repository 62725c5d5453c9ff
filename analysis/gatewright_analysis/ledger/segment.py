"""A segment of the ledger: one ConfigMap, `NAME-ledger-0000` and on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SEGMENT_ENTRIES: Final = 128
SEGMENT_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Segment:
    """Entries under numbered keys. A sealed one is an immutable ConfigMap: the API server refuses changes."""

    index: int
    items: tuple[tuple[str, str], ...] = ()
    """(key, text), by key."""
    sealed: bool = False

    @classmethod
    def of(cls, index: int, data: Mapping[str, str] | None, *, sealed: bool = False) -> "Segment":
        """From a ConfigMap's `data` and `immutable`."""
        return cls(index, tuple(sorted((data or {}).items())), sealed)

    @property
    def data(self) -> dict[str, str]:
        """As a ConfigMap holds it."""
        return dict(self.items)

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return sum(len(text.encode()) for _, text in self.items)

    def has_room(self, texts: tuple[str, ...]) -> bool:
        """True when all of `texts` fit. An empty segment takes anything that a ConfigMap carries."""
        if not self.items:
            return True
        size = self.size + sum(len(text.encode()) for text in texts)
        return len(self.items) + len(texts) <= SEGMENT_ENTRIES and size <= SEGMENT_BYTES

    @staticmethod
    def key_of(sequence: int) -> str:
        """The key of entry `sequence`, counted over the whole ledger."""
        return f"{sequence:08d}"


def segment_name(rollout: str, index: int) -> str:
    """Name of the ConfigMap of segment `index`."""
    return f"{rollout}-ledger-{index:04d}"


def segment_index(rollout: str, name: str) -> int | None:
    """The index of the ConfigMap `name` in the ledger of `rollout`, None when it is none of its segments."""
    prefix, _, digits = name.rpartition("-")
    if prefix != f"{rollout}-ledger" or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits) if segment_name(rollout, int(digits)) == name else None
