"""What several tests share."""

from __future__ import annotations

import pytest

from support import PLACEMENTS, Placed


@pytest.fixture(params=PLACEMENTS, ids=str)
def placed(request: pytest.FixtureRequest) -> Placed:
    """Each way of placing states; the result must not depend on it."""
    return request.param
