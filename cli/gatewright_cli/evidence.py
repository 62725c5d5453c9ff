"""`gatewright evidence import` and `push`: the result file of an evaluation, as a record that contracts find.

A record is pushed as an immutable ConfigMap whose name carries its digest, so that the same push twice is one.
"""

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gatewright_analysis.names import EVIDENCE_DIGEST, EVIDENCE_RECORD_KEY, EVIDENCE_SUITE_LABEL
from gatewright_analysis.results import (
    EvidenceRecord,
    Format,
    ImportProblem,
    Options,
    Packed,
    RecordKind,
    Subject,
    import_file,
    import_pair,
    pack,
    unpack,
)
from gatewright_analysis.results.reading import MAX_FILE_BYTES
from gatewright_cli.errors import AlreadyExists, Exit, GateError, UsageError
from gatewright_cli.flags import KubeFlags
from gatewright_cli.formats import Output, show
from gatewright_cli.kube import Kube, Object, path
from gatewright_cli.output import clean, print_lines, share, table

_DIGEST = re.compile(r"(?:[^@\s]+@)?(sha256:[0-9a-f]{64})")
_SUITE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
HOW_TO_GET_A_DIGEST = "docker buildx imagetools inspect IMAGE --format '{{.Manifest.Digest}}'"
ITEMS_OF = {
    RecordKind.SAMPLES: "[cluster, good, bad, missing]",
    RecordKind.SCORES: "[cluster, n, total of scores, missing]",
    RecordKind.PAIRS: "[cluster, wins, losses, ties, missing]",
}


def run(flags: KubeFlags, args: argparse.Namespace) -> Exit:
    """Raises GateError with the importer's sentence and the file's name, UsageError for flags that make no sense."""
    pushing = args.action == "push"
    if not pushing and (flags.passed or flags.namespace):
        raise UsageError("`evidence import` speaks to no cluster.", then="gatewright evidence push --help")
    record = read(args)
    try:
        packed = pack(record)
    except ImportProblem as problem:
        raise GateError(f"{args.file}: {problem}") from problem
    if not pushing:
        _show(args, record, packed, f"would be ConfigMap {name_of(record.suite, packed)}", {})
        return Exit.OK
    kube = Kube.of(flags)
    namespace = kube.namespace()
    created = push(kube, namespace, record, packed)
    where = f"ConfigMap {name_of(record.suite, packed)} in {namespace}"
    state = {"namespace": namespace, "created": created}
    _show(args, record, packed, f"pushed as {where}" if created else f"already there: {where}", state)
    return Exit.OK


def read(args: argparse.Namespace) -> EvidenceRecord:
    """The record of the file, or of the two files, that the command line names."""
    if not _SUITE.fullmatch(args.suite):
        raise UsageError(
            f"{args.suite!r} is no name of a suite: lower-case letters, digits and dashes, up to 63."
        )
    subject = subject_of(args.image, args.world)
    options = Options(
        kind=None if args.kind is None else RecordKind(args.kind),
        provider=args.provider,
        prompt=args.prompt,
        metric=args.metric,
        scorer=args.scorer,
        cluster_by=args.cluster_by,
        revision=args.revision,
    )
    form = None if args.format is None else Format(args.format)
    data, name = _bytes_of(args.file)
    try:
        if args.paired_with is None:
            return import_file(data, name, suite=args.suite, form=form, options=options, subject=subject)
        other, other_name = _bytes_of(args.paired_with)
        return import_pair(
            data, name, other, other_name, suite=args.suite, form=form, options=options, subject=subject
        )
    except ImportProblem as problem:
        raise GateError(f"{args.file}: {problem}") from problem


def subject_of(images: list[str], world: list[str]) -> Subject:
    """Raises UsageError for an image without a digest, and for a declaration that is no KEY=VALUE."""
    digests = []
    for image in images:
        found = _DIGEST.fullmatch(image)
        if found is None:
            raise UsageError(
                f"{image!r} carries no digest, and a tag may mean another image tomorrow: give REF@sha256:….",
                then=HOW_TO_GET_A_DIGEST,
            )
        digests.append(found[1])
    declared: dict[str, str] = {}
    for pair in world:
        key, equals, value = pair.partition("=")
        if not equals or not value or key in declared:
            raise UsageError(f"--world {pair!r}: write KEY=VALUE, and each key once.")
        declared[key] = value
    try:
        return Subject(images=tuple(sorted(set(digests))), world=declared)
    except ValidationError as error:
        what = ".".join(str(place) for place in error.errors()[0]["loc"] if place != "[key]")
        raise UsageError(
            f"{what}: up to 64 images and 64 declarations; a key has letters, digits, dots, dashes and slashes, "
            "a value up to 1,024 characters."
        ) from error


def push(kube: Kube, namespace: str, record: EvidenceRecord, packed: Packed) -> bool:
    """Create the ConfigMap; False when this very record is there already.

    Raises NotAllowed without the right, and GateError when the name is taken by something else.
    """
    body = config_map(record, packed)
    name = body["metadata"]["name"]
    try:
        kube.create(path("configmaps", namespace), body)
    except AlreadyExists:
        if not _is_this(kube.get(path("configmaps", namespace, name)), packed):
            raise GateError(
                f"ConfigMap {name} is there already and does not hold this record: somebody else wrote it. Delete it, "
                "and push again.",
                then=f"kubectl get configmap {name} -n {namespace} -o yaml",
            ) from None
        return False
    return True


def config_map(record: EvidenceRecord, packed: Packed) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name_of(record.suite, packed),
            "labels": {EVIDENCE_SUITE_LABEL: record.suite},
            "annotations": {EVIDENCE_DIGEST: packed.digest},
        },
        "immutable": True,
        "binaryData": {EVIDENCE_RECORD_KEY: packed.data},
    }


def name_of(suite: str, packed: Packed) -> str:
    """`evidence-SUITE-` and the first 12 hex digits of the record's digest."""
    return f"evidence-{suite}-{packed.digest.removeprefix('sha256:')[:12]}"


def _is_this(found: Object, packed: Packed) -> bool:
    """Not by the bytes: another version of zlib compresses the same record to others."""
    annotations = found.get("metadata", {}).get("annotations") or {}
    data = (found.get("binaryData") or {}).get(EVIDENCE_RECORD_KEY)
    if annotations.get(EVIDENCE_DIGEST) != packed.digest or not found.get("immutable") or data is None:
        return False
    try:
        unpack(data, packed.digest)
    except ImportProblem:
        return False
    return True


def _bytes_of(file: str) -> tuple[bytes, str]:
    """Content and name. One byte more than is read is enough to know that a file is too large."""
    try:
        if file == "-":
            return sys.stdin.buffer.read(MAX_FILE_BYTES + 1), "stdin"
        with Path(file).open("rb") as stream:
            return stream.read(MAX_FILE_BYTES + 1), os.path.basename(file)
    except OSError as error:
        raise GateError(f"{file} can't be read: {error.strerror or error}.") from error


def _show(
    args: argparse.Namespace, record: EvidenceRecord, packed: Packed, outcome: str, state: Object
) -> None:
    if args.output in (Output.JSON, Output.YAML):
        name = name_of(record.suite, packed)
        answer = {"configMap": name, "digest": packed.digest, **state, "record": record.wire()}
        show(answer, Output(args.output))
    else:
        print_lines(summary(record, packed, outcome))


def summary(record: EvidenceRecord, packed: Packed, outcome: str) -> list[str]:
    """What the record says, a line each."""
    rows: list[tuple[str, Any]] = [
        ("suite", f"{record.suite}: {record.kind} of {record.tool.name} {record.tool.version or ''}"),
        ("file", f"{record.source.name}, {record.source.digest}"),
        ("compared", None if record.compared_with is None else f"with {record.compared_with.name}"),
        ("made", record.created_at and f"{record.created_at:%Y-%m-%d %H:%M:%S}Z"),
        ("verdicts", verdicts(record)),
        ("clusters", f"{record.clusters}, each {ITEMS_OF[record.kind]}"),
        ("commit", record.revision and f"{record.revision.commit}{_DIRTY[record.revision.dirty]}"),
        ("judge", record.judge and f"{record.judge.id} {record.judge.version or ''}"),
        ("seed", record.seed),
        ("images", ", ".join(record.subject.images)),
        ("world", ", ".join(f"{key}={value}" for key, value in sorted(record.subject.world.items()))),
        ("record", f"{packed.digest}, {len(packed.data):,} bytes packed"),
    ]
    shown = [(title, clean(value)) for title, value in rows if value not in (None, "")]
    return [*table(shown), outcome]


_DIRTY = {True: ", with changes beside it", False: "", None: ", it is not known whether with changes"}


def verdicts(record: EvidenceRecord) -> str:
    """`38 of 40: 35 good, 3 bad; 2 missing (5 %)`"""
    if record.kind is RecordKind.SAMPLES:
        counts = f"{record.good} good, {record.bad} bad"
    elif record.kind is RecordKind.PAIRS:
        counts = f"{record.good} won, {record.bad} lost, {record.ties} ties"
    else:
        counts = f"mean {record.total_of_scores / record.scored:.4f}" if record.scored else "no score"
    absent = (
        f"{record.missing} missing ({share(record.missing / record.expected)})"
        if record.missing
        else "none missing"
    )
    return f"{record.scored} of {record.expected}: {counts}; {absent}"
