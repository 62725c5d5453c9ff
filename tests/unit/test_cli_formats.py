"""`-o`: what each format prints, and which of them a command has."""

import argparse
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from gatewright_cli import formats, main, parser
from gatewright_cli.errors import Exit
from gatewright_cli.formats import Output
from gatewright_cli.main import kubectl_gate
from gatewright_cli.view import View
from tests.unit.cli_objects import check, held, run

SMALL = {
    "digest": "sha256:ab",
    "n": 3,
    "ratio": 0.25,
    "none": None,
    "flag": True,
    "list": [{"a": "b"}],
    "empty": [],
}


def test_yaml_says_what_json_says() -> None:
    assert yaml.safe_load(formats.yaml_of(SMALL)) == SMALL


def test_yaml_keeps_the_order_of_what_people_read() -> None:
    assert formats.yaml_of({"b": 1, "a": 2}) == "b: 1\na: 2\n"


@pytest.mark.parametrize(
    "revision", ["0123456789", "3e12345678", "1234567890", "1_000", ".5", "0x1f", "2030-01-01"]
)
def test_a_string_that_kubectl_would_read_as_a_number_is_quoted(revision: str) -> None:
    assert formats.yaml_of({"revision": revision}) == f'revision: "{revision}"\n'


def test_words_of_an_enum_are_plain_words_in_yaml() -> None:
    assert formats.yaml_of({"output": Output.WIDE, "pair": (1, 2)}) == "output: wide\npair:\n- 1\n- 2\n"


def test_names_are_what_kubectl_prints_and_takes(capsys: pytest.CaptureFixture[str]) -> None:
    formats.show_names("rollout", ["checkout"])
    printed = capsys.readouterr().out
    assert printed == "rollout.gatewright.dev/checkout\n"
    assert main._name(printed.strip()) == "checkout"


def test_an_error_is_yaml_where_yaml_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code = kubectl_gate(["status", "pod/x", "-o", "yaml"])
    said = yaml.safe_load(capsys.readouterr().out)
    assert code == Exit.USAGE
    assert said["error"]["sentence"] == "'pod/x' is not a Rollout."


class OneRollout:
    """Stands for the API server: one Rollout, held, and its run."""

    class flags:  # noqa: N801 - an attribute of a Kube
        repeated = ""
        namespace = "shop"

    def rollout(self, name: str) -> dict[str, Any]:
        return held()

    def rollouts_here(self) -> list[dict[str, Any]]:
        return [held()]

    def me_and_may(self, verb: str, rollouts: Any) -> tuple[str, list[bool]]:
        return "sre-1", [True for _ in rollouts]

    def get_all(self, paths: Any) -> list[Any]:
        return [run(check()) if "gateruns" in path else held() for path in paths]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatewright_cli.kube.Kube.of", lambda flags: OneRollout())


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("command", ["status checkout", "holds", "review checkout"])
def test_json_and_yaml_are_the_same_data(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert kubectl_gate([*command.split(), "-o", "json"]) == Exit.OK
    as_json = json.loads(capsys.readouterr().out)
    assert kubectl_gate([*command.split(), "-o", "yaml"]) == Exit.OK
    assert yaml.safe_load(capsys.readouterr().out) == as_json
    assert as_json


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("command", ["status checkout", "holds"])
def test_names_can_be_handed_to_the_next_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert kubectl_gate([*command.split(), "-o", "name"]) == Exit.OK
    assert capsys.readouterr().out == "rollout.gatewright.dev/checkout\n"


@pytest.mark.usefixtures("cluster")
def test_wide_cuts_nothing_and_says_what_each_check_says(capsys: pytest.CaptureFixture[str]) -> None:
    kubectl_gate(["status", "checkout"])
    narrow = capsys.readouterr().out
    kubectl_gate(["status", "checkout", "-o", "wide"])
    wide = capsys.readouterr().out
    head = View(held()).status["ledger"]["head"]
    sentence = "http-success: 99.48 % of 812 requests were good."
    assert (head in wide, sentence in wide) == (True, True)
    assert (head in narrow, sentence in narrow) == (False, False)


def test_what_changes_on_the_screen_has_no_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert kubectl_gate(["status", "checkout", "--watch", "-o", "name"]) == Exit.USAGE
    assert "--watch shows text, or JSON or YAML" in capsys.readouterr().err


def leaves(one: argparse.ArgumentParser, words: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    below = [action for action in one._actions if isinstance(action, argparse._SubParsersAction)]
    for action in below:
        for name, each in action.choices.items():
            yield from leaves(each, f"{words} {name}".strip())
    if not below:
        yield words, one


@pytest.mark.parametrize("command", [words for words, _ in leaves(parser.gate_parser())])
def test_every_command_has_json_and_yaml_and_says_what_each_format_is(command: str) -> None:
    one = dict(leaves(parser.gate_parser()))[command]
    [output] = [action for action in one._actions if "--output" in action.option_strings]
    offered = list(output.choices or ())
    assert {"json", "yaml"} <= set(offered) or command == "ledger export"
    assert all(f"{each}: " in str(output.help) for each in offered)
