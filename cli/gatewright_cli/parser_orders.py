"""The command lines of `pause`, `resume` and `override`."""

from typing import TYPE_CHECKING

from gatewright_cli import parser

if TYPE_CHECKING:
    from gatewright_cli.parser import _Commands


def add(commands: "_Commands") -> None:
    parser._decision(
        commands,
        "pause",
        "let a release go no further, until a resume",
        "Writes a GateOrder: no weight rises and nothing is promoted until somebody orders resume. What has traffic\n"
        "goes on being judged, and a breach still rolls back at once. Needs the verb `operate` on the Rollout.",
        example="kubectl gate pause checkout -n shop --reason 'the payment provider is down'",
    )
    parser._decision(
        commands,
        "resume",
        "let a paused release go on",
        "Writes a GateOrder: ends a pause that was ordered, and a step that waits, before its time if it has one.\n"
        "Needs the verb `operate` on the Rollout.",
        example="kubectl gate resume checkout -n shop --reason 'the payment provider is back'",
    )
    override = parser._decision(
        commands,
        "override",
        "in an emergency: past the gates, loudly",
        "Writes a GateOrder: the release is promoted now, or goes on at a later step, whatever its gates say; with\n"
        "your name and reason in the ledger, an Event and the status. Breaches still roll back, unless you say\n"
        "otherwise. Needs the verb `override` on the Rollout.",
        example="kubectl gate override checkout -n shop --to promote --expires 30m --reason 'the old version loses orders'",
    )
    override.add_argument(
        "--to",
        metavar="promote|STEP",
        required=True,
        help="to 100 %% now, or the number of a later step, as `status` counts them",
    )
    override.add_argument(
        "--expires",
        metavar="WHEN",
        required=True,
        help="when the order ends: a length up to 1h (30m) or a time in RFC 3339",
    )
    override.add_argument(
        "--ignore-breach",
        action="store_true",
        help="until then, breaches are recorded and do not roll back",
    )
