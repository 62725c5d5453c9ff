"""`gatewright evidence`: what it prints, what it writes, what it refuses, and by which exit code."""

import io
import json
import re
import shlex
import sys
from typing import Any

import pytest

from gatewright_analysis.results import EvidenceRecord, unpack
from gatewright_cli import evidence
from gatewright_cli.errors import AlreadyExists, Exit, GateError, NotAllowed
from gatewright_cli.flags import KubeFlags, take
from gatewright_cli.kube import Object, explain
from gatewright_cli.main import gatewright
from gatewright_cli.parser import gatewright_parser
from tests.unit.result_files import FILES

SIMPLE, LOG, STABLE = (
    str(FILES / name)
    for name in ("promptfoo/simple.json", "inspect/refunds.eval", "inspect/refunds-stable.eval")
)
IMAGE = f"sha256:{'a' * 64}"


class FakeKube:
    """ConfigMaps by path, as the API server would keep them."""

    def __init__(self, flags: KubeFlags) -> None:
        self.flags = flags
        self.objects: dict[str, Object] = {}
        self.refusal: GateError | None = None

    def namespace(self) -> str:
        return self.flags.namespace or "default"

    def create(self, raw_path: str, manifest: Object) -> Object:
        if self.refusal is not None:
            raise self.refusal
        name = manifest["metadata"]["name"]
        if f"{raw_path}/{name}" in self.objects:
            raise AlreadyExists(f'configmaps "{name}" already exists.')
        return self.objects.setdefault(f"{raw_path}/{name}", manifest)

    def get(self, raw_path: str) -> Object:
        return self.objects[raw_path]


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> FakeKube:
    fake = FakeKube(KubeFlags())

    def of(flags: KubeFlags) -> FakeKube:
        fake.flags = flags
        return fake

    monkeypatch.setattr(evidence.Kube, "of", of)
    return fake


def push(*more: str) -> int:
    return gatewright(["evidence", "push", SIMPLE, "--suite", "refunds", "--image", IMAGE, *more])


def test_import_shows_what_would_be_pushed(capsys: pytest.CaptureFixture[str]) -> None:
    assert gatewright(["evidence", "import", LOG, "--suite", "refunds", "--scorer", "passed"]) == Exit.OK
    out = capsys.readouterr().out
    assert "refunds: samples of inspect 0.3.285" in out
    assert "verdicts  8 of 10: 4 good, 4 bad; 2 missing (20 %)" in out
    assert "would be ConfigMap evidence-refunds-" in out


def test_import_prints_the_record_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert gatewright(["evidence", "import", SIMPLE, "--suite", "refunds", "-o", "json"]) == Exit.OK
    said = json.loads(capsys.readouterr().out)
    record = EvidenceRecord.model_validate(said["record"])
    assert (record.good, record.bad) == (6, 3)
    assert said["digest"] == record.digest
    assert said["configMap"] == f"evidence-refunds-{record.digest[7:19]}"


def test_import_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"item_id": 1, "pass": true}')))
    assert gatewright(["evidence", "import", "-", "--suite", "refunds"]) == Exit.OK
    assert "1 of 1: 1 good, 0 bad; none missing" in capsys.readouterr().out


def test_import_counts_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["evidence", "import", LOG, "--paired-with", STABLE, "--suite", "refunds", "--scorer", "letters"]
    assert gatewright(line) == Exit.OK
    assert "8 of 10: 2 won, 3 lost, 3 ties; 2 missing (20 %)" in capsys.readouterr().out


def test_push_writes_an_immutable_config_map(kube: FakeKube, capsys: pytest.CaptureFixture[str]) -> None:
    assert push("-n", "shop", "--world", "model=answers-2026-03", "--image", f"shop/judge@{IMAGE}") == Exit.OK
    ((path, written),) = kube.objects.items()
    digest = written["metadata"]["annotations"]["gatewright.dev/evidence-digest"]
    name = f"evidence-refunds-{digest[7:19]}"
    assert path == f"/api/v1/namespaces/shop/configmaps/{name}"
    assert written["metadata"]["labels"] == {"gatewright.dev/evidence-suite": "refunds"}
    assert written["immutable"] is True
    record = unpack(written["binaryData"]["record.json.gz"], digest)
    assert record.subject.images == (IMAGE,)
    assert record.subject.world == {"model": "answers-2026-03"}
    assert f"pushed as ConfigMap {name} in shop" in capsys.readouterr().out


def test_pushing_the_same_twice_is_one(kube: FakeKube, capsys: pytest.CaptureFixture[str]) -> None:
    assert push() == Exit.OK
    assert push("-o", "json") == Exit.OK
    assert len(kube.objects) == 1
    out = capsys.readouterr().out
    assert json.loads(out[out.index("{") :])["created"] is False


def test_what_was_evaluated_is_part_of_the_record(kube: FakeKube) -> None:
    assert (push(), push("--world", "model=other")) == (Exit.OK, Exit.OK)
    assert len(kube.objects) == 2


@pytest.mark.parametrize("field", ["annotations", "immutable", "binaryData"])
def test_a_config_map_of_that_name_that_is_another_is_no_success(
    kube: FakeKube, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    push()
    (written,) = kube.objects.values()
    if field == "annotations":
        written["metadata"]["annotations"] = {}
    elif field == "immutable":
        written["immutable"] = False
    else:
        written["binaryData"] = {"record.json.gz": "aGVsbG8="}
    assert push() == Exit.ERROR
    assert "is there already and does not hold this record" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("shop/checkout:v2", "'shop/checkout:v2' carries no digest"),
        ("sha256:abc", "carries no digest"),
        (f"shop/checkout@sha256:{'A' * 64}", "carries no digest"),
        ("", "carries no digest"),
    ],
)
def test_an_image_without_a_digest_is_refused_with_the_way_to_get_it(
    kube: FakeKube, capsys: pytest.CaptureFixture[str], image: str, said: str
) -> None:
    assert push("--image", image) == Exit.USAGE
    err = capsys.readouterr().err
    assert said in err and "docker buildx imagetools inspect IMAGE" in err
    assert not kube.objects


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--world", "model"], "write KEY=VALUE"),
        (["--world", "model="], "write KEY=VALUE"),
        (["--world", "a=1", "--world", "a=2"], "each key once"),
        (["--world", "a b=1"], "a key has letters, digits, dots, dashes and slashes"),
        (["--suite", "Refunds"], "'Refunds' is no name of a suite"),
        (["--kind", "pairs"], "invalid choice: 'pairs'"),
        (["-n", "Shop"], "is no name of a namespace"),
    ],
)
def test_a_line_that_makes_no_sense_is_a_usage_error(
    kube: FakeKube, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    assert push(*more) == Exit.USAGE
    assert said in capsys.readouterr().err
    assert not kube.objects


def test_push_needs_an_image(capsys: pytest.CaptureFixture[str]) -> None:
    assert gatewright(["evidence", "push", SIMPLE, "--suite", "refunds"]) == Exit.USAGE
    assert "required: --image" in capsys.readouterr().err


def test_import_takes_no_flags_of_kubectl(capsys: pytest.CaptureFixture[str]) -> None:
    assert gatewright(["evidence", "import", SIMPLE, "--suite", "refunds", "-n", "shop"]) == Exit.USAGE
    assert "speaks to no cluster" in capsys.readouterr().err


@pytest.mark.parametrize("output", [[], ["-o", "json"]])
def test_a_file_that_is_no_evidence_is_an_error_that_names_it(
    capsys: pytest.CaptureFixture[str], output: list[str]
) -> None:
    assert gatewright(["evidence", "import", LOG, "--suite", "refunds", *output]) == Exit.ERROR
    said = capsys.readouterr()
    assert f"error: {LOG}: The log has several scores; choose one with --scorer" in said.err
    assert not output or "choose one with --scorer" in json.loads(said.out)["error"]["sentence"]


def test_a_file_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert gatewright(["evidence", "import", "/nowhere.json", "--suite", "refunds"]) == Exit.ERROR
    assert "/nowhere.json can't be read: No such file or directory." in capsys.readouterr().err


def test_a_refusal_is_told_by_its_exit_code(kube: FakeKube) -> None:
    kube.refusal = NotAllowed("configmaps is forbidden.")
    assert push() == Exit.NOT_ALLOWED


def test_kubectls_word_for_a_taken_name_is_known() -> None:
    error: Any = explain('Error from server (AlreadyExists): configmaps "evidence-a" already exists\n')
    assert isinstance(error, AlreadyExists)
    assert error.sentence == 'configmaps "evidence-a" already exists.'


def test_the_commands_that_the_page_shows_are_understood() -> None:
    page = FILES.parents[2] / "docs" / "how-to" / "push-evidence.md"
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    commands = re.findall(r"^[ $]*(gatewright evidence .*)$", text, flags=re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        _, rest = take(shlex.split(command)[1:])
        parsed = gatewright_parser().parse_args(rest)
        assert (parsed.command, parsed.action in ("import", "push")) == ("evidence", True), command
