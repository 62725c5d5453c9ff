"""What each kind of sink is sent, byte for byte: `golden_notices/` holds the bodies.

Write them anew after a change that is meant: python -m tests.unit.test_notice_forms
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gatewright_analysis.kinds.sink import NoticeKind, NotificationSinkSpec
from gatewright_analysis.notify.forms import Request, UnusableSecret, request, signature
from gatewright_analysis.notify.notices import Notice, ending, of_source
from tests.unit.notices import NOON, at, held, notices, source

GOLDEN = Path(__file__).with_name("golden_notices")
SECRET = b"s3cret-0123456789"
SLACK_URL = b"https://hooks.slack.com/services/T0/B0/s3cret-0123456789"
COMMON = {"secretRef": {"name": "s", "key": "k"}, "cluster": "west", "reviewURL": "https://gate.example.com/"}
ADDRESS = {"address": "https://hooks.example.com/gate"}


def spec(**fields: Any) -> NotificationSinkSpec:
    return NotificationSinkSpec.model_validate(COMMON | fields)


SINKS = {
    "slack": (spec(slack={}), SLACK_URL),
    "webhook": (spec(webhook={}, **ADDRESS), SECRET),
    "pagerduty": (spec(pagerDuty={}), SECRET),
    "cloudevents": (spec(cloudEvents={}, **ADDRESS), SECRET),
    "cdevents": (spec(cloudEvents={"format": "CDEvents"}, **ADDRESS), SECRET),
}
HOSTILE = "<!channel> *all* `rm` & \u202egnp.exe\x1b[31m ```\n@here <https://evil.example|click>"


def _notices() -> dict[str, Notice]:
    first, escalated = notices(held(escalated_at=at(15)))
    hostile = notices(held(message=HOSTILE, initiator=HOSTILE))[0]
    down = of_source(source(ready="False"), [first])
    assert down is not None
    end = ending(
        NoticeKind.HELD, first.subject, "shop", "checkout", at(20), "reviewer-a approved step 2 of 4."
    )
    return {"held": first, "escalated": escalated, "hostile": hostile, "source-down": down, "ended": end}


CASES = [(sink, name) for sink in SINKS for name in _notices()]


def _sent(sink: str, notice: Notice, *, repetition: bool = False) -> Request:
    chosen, secret = SINKS[sink]
    return request(chosen, notice, secret, NOON, repetition=repetition)


def _pretty(body: bytes) -> str:
    return json.dumps(json.loads(body), indent=2) + "\n"


@pytest.mark.parametrize(("sink", "name"), CASES)
def test_a_sink_is_sent_what_the_golden_file_says(sink: str, name: str) -> None:
    wanted = (GOLDEN / f"{sink}-{name}.json").read_text(encoding="utf-8")
    assert _pretty(_sent(sink, _notices()[name]).body) == wanted


@pytest.mark.parametrize(("sink", "name"), CASES)
def test_no_secret_is_in_a_body_but_the_pager_s_routing_key(sink: str, name: str) -> None:
    sent = _sent(sink, _notices()[name])
    body = json.loads(sent.body)
    if sink == "pagerduty":
        assert body.pop("routing_key") == SECRET.decode()
    assert "s3cret" not in json.dumps(body) and "s3cret" not in repr(sent)


@pytest.mark.parametrize("sink", SINKS)
def test_what_others_wrote_steers_no_reader(sink: str) -> None:
    body = _sent(sink, _notices()["hostile"]).body.decode("ascii")
    for control in ("\\u202e", "\\u001b", "\\n@here"):
        assert control not in body
    if sink == "slack":
        assert "<!channel>" not in body and "<https://evil" not in body
        marked = [b["text"]["text"] for b in json.loads(body)["blocks"] if b["text"]["type"] == "mrkdwn"]
        assert not any("all" in text or "evil" in text for text in marked), (
            "markup is read only in what is ours"
        )


def test_slack_gets_three_commands_to_paste_and_a_link() -> None:
    blocks = json.loads(_sent("slack", _notices()["held"]).body)["blocks"]
    code = next(b["text"]["text"] for b in blocks if b["text"]["text"].startswith("```"))
    assert code.strip("`").splitlines() == list(_notices()["held"].commands)
    assert blocks[-1]["text"]["text"] == "<https://gate.example.com/holds/shop/checkout|Review it>"


def test_slack_s_limits_hold_for_the_longest_texts() -> None:
    long = notices(held(message="&" * 1024, blocking=tuple(f"check-{n:057d}" for n in range(64))))[0]
    body = json.loads(_sent("slack", long).body)
    assert len(body["blocks"]) <= 50
    assert all(len(b["text"]["text"]) <= (150 if b["type"] == "header" else 3000) for b in body["blocks"])


def test_a_repetition_is_marked_where_no_key_tells_it() -> None:
    body = json.loads(_sent("slack", _notices()["held"], repetition=True).body)
    assert body["text"] == "checkout in shop is held at step 2 of 4 (west) (possibly a repetition)"
    assert json.loads(_sent("webhook", _notices()["held"], repetition=True).body)["repetition"] is True


def test_a_slack_token_posts_to_its_channel() -> None:
    sink = spec(slack={"channel": "C012345"})
    sent = request(sink, _notices()["held"], b"xoxb-1\n", NOON, repetition=False)
    assert sent.url == "https://slack.com/api/chat.postMessage" and sent.says_ok
    assert sent.headers["Authorization"] == "Bearer xoxb-1"
    assert json.loads(sent.body)["channel"] == "C012345"


@pytest.mark.parametrize(
    ("fields", "secret", "words"),
    [
        ({"slack": {}}, b"xoxb-1", "slack.channel is needed"),
        ({"slack": {}}, b"http://hooks.example.com/x", "not https"),
        ({"slack": {}}, b"", "one line of printable ASCII"),
        ({"pagerDuty": {}}, b"two lines\nof it", "one line of printable ASCII"),
        ({"webhook": {}, **ADDRESS}, b"", "the signing key is empty"),
        ({"cloudEvents": {}, **ADDRESS}, b"\xff", "one line of printable ASCII"),
    ],
)
def test_a_secret_that_can_not_be_used_is_told_as_a_sentence_without_it(
    fields: dict[str, Any], secret: bytes, words: str
) -> None:
    with pytest.raises(UnusableSecret, match=words) as refused:
        request(spec(**fields), _notices()["held"], secret, NOON, repetition=False)
    assert not secret or secret.decode("latin-1") not in str(refused.value)


def test_the_signature_is_over_time_and_body() -> None:
    # printf '%s' '1700000000.{}' | openssl dgst -sha256 -hmac key
    known = "sha256=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae"
    assert signature(b"key", "1700000000", b"{}") == known
    assert signature(b"key", "1700000001", b"{}") != known
    sent = _sent("webhook", _notices()["held"])
    assert sent.headers["X-Gatewright-Signature"] == signature(
        SECRET, sent.headers["X-Gatewright-Timestamp"], sent.body
    )


@pytest.mark.parametrize("sink", ["webhook", "cloudevents", "cdevents"])
def test_the_idempotency_key_is_the_notice_s_own(sink: str) -> None:
    held_, escalated = _notices()["held"], _notices()["escalated"]
    assert _sent(sink, held_).headers["Idempotency-Key"] == held_.key
    assert _sent(sink, held_, repetition=True).headers["Idempotency-Key"] == held_.key
    assert _sent(sink, escalated).headers["Idempotency-Key"] != held_.key


def test_a_hold_is_one_incident_from_its_first_notice_to_its_end() -> None:
    told = [json.loads(_sent("pagerduty", _notices()[name]).body) for name in ("held", "escalated", "ended")]
    assert [event["event_action"] for event in told] == ["trigger", "trigger", "resolve"]
    assert len({event["dedup_key"] for event in told}) == 1
    assert [event["payload"]["severity"] for event in told[:2]] == ["warning", "critical"]


def test_cloud_events_have_the_attributes_that_the_standard_demands() -> None:
    for name, notice in _notices().items():
        for sink in ("cloudevents", "cdevents"):
            event = json.loads(_sent(sink, notice).body)
            assert event["specversion"] == "1.0" and event["id"] == notice.key, name
            assert event["source"] == "/gatewright/west" and event["type"]
        context = event["data"]["context"]
        assert (context["id"], context["source"], context["type"], context["timestamp"]) == (
            event["id"],
            event["source"],
            event["type"],
            event["time"],
        )
        assert event["subject"] == event["data"]["subject"]["id"]


def test_without_a_cluster_and_a_review_page_nothing_is_said_of_them() -> None:
    bare = NotificationSinkSpec.model_validate({"webhook": {}, "secretRef": COMMON["secretRef"], **ADDRESS})
    body = json.loads(request(bare, replace(_notices()["held"]), SECRET, NOON, repetition=False).body)
    assert "cluster" not in body and "reviewURL" not in body
    assert body["title"] == "checkout in shop is held at step 2 of 4"


if __name__ == "__main__":
    for sink_name, case in CASES:
        (GOLDEN / f"{sink_name}-{case}.json").write_text(_pretty(_sent(sink_name, _notices()[case]).body))
