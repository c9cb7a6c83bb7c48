"""The vendors' own client libraries, directly at a server and through the gateway."""

import pytest

pytest.register_assert_rewrite("tests.sdk.same")
