"""One nursery for the tests of a module: it imports all once."""

from collections.abc import Iterator

import pytest

from nursery import Nursery


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    """Give the module's nursery."""
    with Nursery() as made:
        yield made
