"""Settings of all tests."""

import os

from hypothesis import settings

# A test that fails only on some days stops whoever comes by that day. The same examples run everywhere; the search for
# new ones is a run of its own: HYPOTHESIS_PROFILE=exploring make test TESTS=tests/property
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("exploring", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
