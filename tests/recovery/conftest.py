"""One nursery for all tests here: it imports everything once."""

from collections.abc import Iterator

import pytest

from nursery import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Give the nursery."""
    with Nursery() as made:
        yield made
