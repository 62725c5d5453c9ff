"""Result files of evaluations → evidence records (statistics.md section 9). Pure: bytes in, records out.

    record = import_file(data, "results.json", suite="faithfulness", form=Format.PROMPTFOO)
    packed = pack(record)

Everything that can be wrong with a file is an ImportProblem.
"""

from gatewright_analysis.results.importing import detect, import_file, import_pair
from gatewright_analysis.results.options import Format, Options
from gatewright_analysis.results.problem import ImportProblem, RecordTooLarge
from gatewright_analysis.results.record import (
    MAX_ITEMS,
    MAX_PACKED_BYTES,
    SCHEMA,
    EvidenceRecord,
    Judge,
    Packed,
    RecordKind,
    Revision,
    Source,
    Subject,
    Tool,
    pack,
    unpack,
)

__all__ = [
    "MAX_ITEMS",
    "MAX_PACKED_BYTES",
    "SCHEMA",
    "EvidenceRecord",
    "Format",
    "ImportProblem",
    "Judge",
    "Options",
    "Packed",
    "RecordKind",
    "RecordTooLarge",
    "Revision",
    "Source",
    "Subject",
    "Tool",
    "detect",
    "import_file",
    "import_pair",
    "pack",
    "unpack",
]
