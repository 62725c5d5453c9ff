"""What a Job and its pods are read as: a breach needs an exit code of its own, a report exactly two whole numbers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewright_analysis.evidence.model import Counts, Fault, JobFacts, JobPhase
from gatewright_analysis.kinds.evidence import JobReport
from gatewright_analysis.reasons import Reason
from gatewright_operator.job_facts import MAX_COUNT, MAX_REPORT_BYTES, facts, read_report
from tests.unit.job_objects import NAME, Json, complete, condition, ended, failed, job, pod, waiting

CODE, COUNTS = JobReport.EXIT_CODE, JobReport.COUNTS
GOOD = '{"good": 980, "bad": 20}'
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available",
}
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([1])


def trouble(found: JobFacts) -> tuple[str, str]:
    assert found.trouble is not None, found
    return found.trouble.reason.value, found.trouble.detail


class TestOnItsWay:
    def test_a_job_without_a_pod_waits_and_one_whose_pod_runs_runs(self) -> None:
        assert facts(job(), [], CODE) == JobFacts(NAME, JobPhase.WAITING)
        assert facts(job(active=1), [pod("Pending")], CODE) == JobFacts(NAME, JobPhase.WAITING)
        assert facts(job(active=1), [pod("Running")], CODE) == JobFacts(NAME, JobPhase.RUNNING)

    @pytest.mark.parametrize(
        ("stuck", "reason", "words"),
        [
            (pod("Pending", conditions=[UNSCHEDULABLE]), "PodsUnschedulable", "0/1 nodes are available"),
            (pod("Pending", waiting("ImagePullBackOff")), "ImageTrouble", "ImagePullBackOff"),
            (
                pod("Pending", waiting("CreateContainerConfigError", 'secret "s" not found')),
                "PodsNotReady",
                'secret "s" not found',
            ),
        ],
    )
    def test_a_pod_that_cannot_start_is_trouble_while_it_lasts(
        self, stuck: Json, reason: str, words: str
    ) -> None:
        found = facts(job(active=1), [stuck], CODE)
        assert found.phase is JobPhase.WAITING
        assert trouble(found)[0] == reason and words in trouble(found)[1]
        assert facts(job(active=1), [pod("Running")], CODE).trouble is None

    def test_pods_of_another_job_of_the_same_name_are_not_looked_at(self) -> None:
        other = pod("Failed", ended(1), owner="an-older-job")
        assert facts(job(active=1), [other], CODE) == JobFacts(NAME, JobPhase.WAITING)
        assert facts(failed(), [other], CODE).exit_code is None

    def test_a_condition_that_is_not_true_says_nothing(self) -> None:
        early = job(
            condition("Failed", "BackoffLimitExceeded", status="False"), condition("FailureTarget", "x")
        )
        assert facts(early, [pod("Failed", ended(1))], CODE).phase is JobPhase.WAITING

    def test_a_suspended_job_says_what_to_do(self) -> None:
        assert trouble(facts(job(condition("Suspended")), [], CODE)) == (
            "JobTrouble",
            f"Job {NAME} is suspended: leave suspend out of the jobTemplate's spec",
        )

    def test_a_job_that_is_being_deleted_is_gone(self) -> None:
        leaving = job()
        leaving["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
        found = facts(leaving, [pod("Running")], CODE)
        assert found.phase is JobPhase.FAILED and "not started twice" in trouble(found)[1]


class TestExitCode:
    def test_a_complete_job_has_succeeded(self) -> None:
        assert facts(complete(), [pod("Succeeded", ended())], CODE) == JobFacts(NAME, JobPhase.SUCCEEDED)
        assert facts(complete(), [], CODE) == JobFacts(NAME, JobPhase.SUCCEEDED), "its pods may be gone"

    def test_a_job_that_never_ran_a_pod_has_not(self) -> None:
        """`completions: 0` is complete at once."""
        found = facts(job(condition("Complete")), [], CODE)
        assert found.phase is JobPhase.FAILED and "without a pod that succeeded" in trouble(found)[1]

    def test_the_exit_code_of_the_container_that_failed_is_the_breach(self) -> None:
        pods = [pod("Failed", ended(0, name="proxy"), ended(3))]
        assert facts(failed(), pods, CODE) == JobFacts(NAME, JobPhase.FAILED, exit_code=3)

    def test_of_two_that_failed_it_is_the_first(self) -> None:
        pods = [pod("Failed", ended(143, name="proxy", at=9), ended(3, at=4))]
        assert facts(failed(), pods, CODE).exit_code == 3

    def test_an_init_container_may_be_the_one(self) -> None:
        pods = [pod("Failed", initContainerStatuses=[ended(7, name="prepare")])]
        assert facts(failed(), pods, CODE) == JobFacts(NAME, JobPhase.FAILED, exit_code=7)

    @pytest.mark.parametrize(
        ("reason", "pods"),
        [
            ("DeadlineExceeded", [pod("Failed", ended(1))]),
            ("DeadlineExceeded", []),
            ("FailedIndexes", [pod("Failed", ended(1))]),
            ("SomethingNew", [pod("Failed", ended(1))]),
            ("", [pod("Failed", ended(1))]),
            ("BackoffLimitExceeded", []),
            ("BackoffLimitExceeded", [pod("Failed", ended(1), reason="Evicted")]),
            ("BackoffLimitExceeded", [pod("Failed", ended(137), reason="NodeLost")]),
            ("BackoffLimitExceeded", [pod("Failed", ended(143), conditions=[DISRUPTED])]),
            ("BackoffLimitExceeded", [pod("Failed", ended(137, reason="OOMKilled"))]),
            ("BackoffLimitExceeded", [pod("Failed", ended(128, reason="StartError"))]),
            ("BackoffLimitExceeded", [pod("Failed", ended(137, reason="ContainerStatusUnknown"))]),
            ("BackoffLimitExceeded", [pod("Failed")]),
            ("BackoffLimitExceeded", [pod("Running", ended(1))]),
            ("PodFailurePolicy", []),
            ("PodFailurePolicy", [pod("Failed", ended(1)), pod("Failed", reason="Evicted", number=1)]),
        ],
    )
    def test_what_the_cluster_did_is_never_a_breach(self, reason: str, pods: list[Json]) -> None:
        found = facts(failed(reason), pods, CODE)
        assert found.phase is JobPhase.FAILED
        assert trouble(found)[0] == "JobTrouble"

    def test_a_pod_that_somebody_deleted_is_no_breach(self) -> None:
        deleted = pod("Failed", ended(143))
        deleted["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
        assert trouble(facts(failed(), [deleted], CODE))[0] == "JobTrouble"

    def test_a_failure_policy_that_names_the_code_is_a_breach(self) -> None:
        pods = [pod("Failed", reason="Evicted"), pod("Failed", ended(42), number=1)]
        found = facts(failed("PodFailurePolicy", backoff_limit=3), pods, CODE)
        assert found == JobFacts(NAME, JobPhase.FAILED, exit_code=42)

    @pytest.mark.parametrize(("limit", "needed"), [(0, 1), (2, 3), (None, 7)])
    def test_more_own_failures_than_the_backoff_limit_are_needed(
        self, limit: int | None, needed: int
    ) -> None:
        """An eviction takes a try away that might have passed."""
        evicted = pod("Failed", reason="Evicted", number=20)
        pods = [pod("Failed", ended(1), number=n) for n in range(needed)]
        assert facts(failed(backoff_limit=limit), [*pods, evicted], CODE).exit_code == 1
        assert facts(failed(backoff_limit=limit), [*pods, evicted], CODE).trouble is None
        assert facts(failed(backoff_limit=limit), [*pods[1:], evicted], CODE).trouble is not None


class TestCounts:
    def test_the_report_of_the_container_that_ended_last_counts(self) -> None:
        early = ended(message='{"good": 1, "bad": 1}', at=3, name="first")
        pods = [pod("Succeeded", early, ended(message=GOOD, at=4))]
        assert facts(complete(), pods, COUNTS) == JobFacts(NAME, JobPhase.SUCCEEDED, good=980, bad=20)

    def test_a_failed_pod_before_the_one_that_succeeded_reports_nothing(self) -> None:
        pods = [
            pod("Failed", ended(1, '{"good": 9, "bad": 0}')),
            pod("Succeeded", ended(message=GOOD), number=1),
        ]
        assert facts(complete(backoff_limit=1), pods, COUNTS).good == 980

    @pytest.mark.parametrize(
        ("pods", "words"),
        [
            ([], "0 of its pods are there"),
            (
                [pod("Succeeded", ended(message=GOOD)), pod("Succeeded", ended(message=GOOD), number=1)],
                "2 of its",
            ),
            ([pod("Succeeded", ended())], "wrote no termination message"),
            ([pod("Succeeded")], "wrote no termination message"),
            ([pod("Succeeded", ended(message=GOOD, at=1), ended(at=2, name="last"))], "wrote no termination"),
            (
                [pod("Succeeded", ended(message=GOOD), ended(message=GOOD, name="second"))],
                "several containers ended last",
            ),
        ],
    )
    def test_a_report_that_is_missing_or_twice_there_is_no_evidence(
        self, pods: list[Json], words: str
    ) -> None:
        found = facts(complete(), pods, COUNTS)
        assert (found.good, found.bad) == (None, None)
        assert trouble(found)[0] == "NoData" and words in trouble(found)[1]

    def test_a_job_that_exits_otherwise_did_not_report(self) -> None:
        found = facts(failed(), [pod("Failed", ended(2, GOOD))], COUNTS)
        assert (found.exit_code, found.good, found.bad) == (2, None, None)
        assert trouble(found) == (
            "JobTrouble",
            f"Job {NAME} ended with exit code 2 instead of reporting counts; see its log",
        )


class TestReports:
    @pytest.mark.parametrize(
        ("text", "counts"),
        [
            (GOOD, Counts(980, 20)),
            ('{"bad":0,"good":0}\n', Counts(0, 0)),
            (f'{{"good": {MAX_COUNT}, "bad": {MAX_COUNT}}}', Counts(MAX_COUNT, MAX_COUNT)),
            (GOOD + " " * (MAX_REPORT_BYTES - len(GOOD)), Counts(980, 20)),
        ],
    )
    def test_two_whole_numbers_are_counts(self, text: str, counts: Counts) -> None:
        assert read_report(text) == counts

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", Reason.NO_DATA),
            ("ok", Reason.NO_DATA),
            ("null", Reason.NO_DATA),
            ("[]", Reason.NO_DATA),
            ("{}", Reason.NO_DATA),
            ("980", Reason.NO_DATA),
            ('[["good", 1], ["bad", 0]]', Reason.NO_DATA),
            ('{"good": 980}', Reason.NO_DATA),
            ('{"good": 980, "bad": 20, "n": 1000}', Reason.NO_DATA),
            ('{"good": 1, "good": 980, "bad": 0}', Reason.NO_DATA),
            ('{"Good": 980, "bad": 0}', Reason.NO_DATA),
            ("{'good': 980, 'bad': 0}", Reason.NO_DATA),
            (GOOD + GOOD, Reason.NO_DATA),
            (GOOD + " " * MAX_REPORT_BYTES, Reason.NO_DATA),
            ('{"good": "' + "é" * 2048 + '", "bad": 0}', Reason.NO_DATA),
            ("[" * 4000, Reason.NO_DATA),
            ("[" * 2000 + "]" * 2000, Reason.NO_DATA),
            ('{"a":' * 800, Reason.NO_DATA),
            ("\ud800", Reason.NO_DATA),
            ("\x00", Reason.NO_DATA),
            ('{"good": -1, "bad": 0}', Reason.NOT_A_NUMBER),
            ('{"good": 1.0, "bad": 0}', Reason.NOT_A_NUMBER),
            ('{"good": 1e3, "bad": 0}', Reason.NOT_A_NUMBER),
            ('{"good": true, "bad": 0}', Reason.NOT_A_NUMBER),
            ('{"good": "980", "bad": 0}', Reason.NOT_A_NUMBER),
            ('{"good": null, "bad": 0}', Reason.NOT_A_NUMBER),
            ('{"good": {"good": 1}, "bad": 0}', Reason.NOT_A_NUMBER),
            ('{"good": [], "bad": 0}', Reason.NOT_A_NUMBER),
            ('{"good": NaN, "bad": 0}', Reason.NOT_A_NUMBER),
            ('{"good": Infinity, "bad": 0}', Reason.NOT_A_NUMBER),
            ('{"good": 1, "bad": -Infinity}', Reason.NOT_A_NUMBER),
            (f'{{"good": {MAX_COUNT + 1}, "bad": 0}}', Reason.NOT_A_NUMBER),
            ('{"good": ' + "9" * 4000 + ', "bad": 0}', Reason.NOT_A_NUMBER),
        ],
    )
    def test_everything_else_is_refused_with_a_sentence_and_without_its_words(
        self, text: str, reason: Reason
    ) -> None:
        found = read_report(text)
        assert isinstance(found, Fault) and found.reason is reason, found
        assert '{"good": 980, "bad": 20}' in found.detail, "it shows what to write"
        assert len(found.detail) < 200

    @given(st.dictionaries(st.sampled_from(["good", "bad", "x"]), VALUES, max_size=3))
    def test_whatever_json_says_it_is_two_whole_numbers_or_refused(self, value: dict[str, Any]) -> None:
        found = read_report(json.dumps(value))
        if isinstance(found, Counts):
            assert value == {"good": found.good, "bad": found.bad}
            assert type(value["good"]) is int and type(value["bad"]) is int
        else:
            assert found.reason in (Reason.NO_DATA, Reason.NOT_A_NUMBER)

    @given(st.text(max_size=40))
    def test_no_text_is_an_exception(self, text: str) -> None:
        found = read_report(text)
        assert isinstance(found, Fault) or text.strip().startswith("{")
