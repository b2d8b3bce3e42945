"""An error of a model keeps what it says about a retry, also on its way through a cluster."""

from __future__ import annotations

import pickle

from mrag.errors import ModelError
from mrag.models.skeleton import final


def test_a_final_error_is_final_after_a_journey() -> None:
    arrived = pickle.loads(pickle.dumps(final("No such label.")))
    assert type(arrived) is ModelError
    assert (str(arrived), arrived.retryable) == ("No such label.", False)
    assert ModelError("Busy.").retryable
