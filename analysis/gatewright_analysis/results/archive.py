"""The members of an .eval file, which is a ZIP archive: read one by one, within bounds, whatever it says of itself.

Newer versions of Inspect compress with Zstandard (method 93), which Python's zipfile knows from 3.14 on. So the
compressed bytes of such a member are taken as they are, and decompressed here: in frames, and never more at once
than is left of the bound.
"""

import copy
import io
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gatewright_analysis.results.problem import ImportProblem
from gatewright_analysis.results.reading import MAX_FILE_BYTES, shown

MAX_TOTAL_BYTES: Final = 1024 * 1024 * 1024
"""Of all members that are read, decompressed."""
MAX_MEMBERS: Final = 400_000
ZSTANDARD: Final = 93
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTANDARD)
_ENCRYPTED: Final = 0x1
_ENTRY: Final = b"PK\x01\x02"
"""How each entry of an archive's directory begins."""
_CHUNK: Final = 1024 * 1024
MAX_FRAMES: Final = 16
"""Of one member; Inspect begins a new one after 200 MiB. Each takes a decompressor, however little is in it."""
_BROKEN: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
    OverflowError,
    IndexError,
)
"""What zipfile raises on damaged archives, found by damaging them."""


@dataclass
class Archive:
    """An opened archive. `left` is how many decompressed bytes may still come out of it."""

    file: zipfile.ZipFile
    members: dict[str, zipfile.ZipInfo] = field(default_factory=dict)
    left: int = MAX_TOTAL_BYTES
    largest: int = MAX_FILE_BYTES

    @classmethod
    def of(cls, data: bytes) -> "Archive":
        """Raises ImportProblem for what is no archive, is cut off, has too many members, or lists a name twice."""
        # Before zipfile makes objects of them all.
        if data.count(_ENTRY) > MAX_MEMBERS:
            raise ImportProblem(f"The archive has more than {MAX_MEMBERS:,} members: sample the data set.")
        try:
            archive = cls(zipfile.ZipFile(io.BytesIO(data)))
        except _BROKEN as error:
            raise ImportProblem("It is no whole ZIP archive: the file may have been cut off.") from error
        for info in archive.file.infolist():
            if info.filename in archive.members:
                raise ImportProblem("It stands twice in the archive.", shown(info.filename))
            archive.members[info.filename] = info
        return archive

    def read(self, name: str) -> bytes:
        """All of one member. Raises ImportProblem when there is none, it is damaged, or beyond the bounds."""
        info = self.members.get(name)
        if info is None:
            raise ImportProblem(f"The archive has no {name}.")
        if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
            raise ImportProblem("It is encrypted, or compressed in a way that Inspect does not write.", name)
        bound = min(self.left, self.largest)
        try:
            data = (_zstandard if info.compress_type == ZSTANDARD else _plain)(self.file, info, bound)
        except _BROKEN as error:
            raise ImportProblem("It is damaged: copy the file again.", name) from error
        if len(data) > bound:
            raise ImportProblem(
                f"It grows beyond {bound // 2**20} MiB when it is unpacked: leave transcripts out of the log, or "
                "sample the data set.",
                name,
            )
        self.left -= len(data)
        return data


def _plain(file: zipfile.ZipFile, info: zipfile.ZipInfo, bound: int) -> bytes:
    with file.open(info) as member:
        # One byte more than allowed tells a member that is too long from one that just fits.
        return member.read(bound + 1)


def _zstandard(file: zipfile.ZipFile, info: zipfile.ZipInfo, bound: int) -> bytes:
    raw = copy.copy(info)
    raw.compress_type, raw.file_size = zipfile.ZIP_STORED, info.compress_size
    # The checksum is that of the decompressed bytes, so it is compared below and not by zipfile.
    raw.CRC = None  # type: ignore[assignment]
    with file.open(raw) as member:
        data = _frames(member.read, bound)
    if len(data) <= bound and (zlib.crc32(data) != info.CRC or len(data) != info.file_size):
        raise zipfile.BadZipFile("checksum")
    return data


def _frames(read: Callable[[int], bytes], bound: int) -> bytes:
    """Decompress frame after frame, up to one byte beyond `bound`. EOFError: the last frame is not whole."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd  # here, because most files need no Zstandard
    pieces = bytearray()
    pending = read(_CHUNK)
    for _ in range(MAX_FRAMES):
        if not pending:
            return bytes(pieces)
        frame = zstd.ZstdDecompressor()
        while not frame.eof:
            if frame.needs_input and not pending:
                raise EOFError
            try:
                pieces += frame.decompress(pending, min(_CHUNK, bound + 1 - len(pieces)))
            except zstd.ZstdError as error:
                raise zipfile.BadZipFile(str(error)) from error
            if len(pieces) > bound:
                return bytes(pieces)
            pending = read(_CHUNK) if frame.needs_input and not frame.eof else b""
        pending = frame.unused_data or read(_CHUNK)
    raise zipfile.BadZipFile("too many frames")
