"""The kinds of `gatewright.dev/v1alpha1` as pydantic models; the CRDs are generated from them."""

from gatewright_analysis.kinds.contract import GateContract
from gatewright_analysis.kinds.review import GateOrder, GateReview
from gatewright_analysis.kinds.rollout import Rollout
from gatewright_analysis.kinds.sink import NotificationSink
from gatewright_analysis.kinds.source import MetricSource

__all__ = ["GateContract", "GateOrder", "GateReview", "MetricSource", "NotificationSink", "Rollout"]
