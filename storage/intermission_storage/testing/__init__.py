"""What every event log must pass, for the authors of other stores.

harness.py     Harness: what the suite has to know of a store
background.py  calls in threads that are waited for, but not for ever
appends.py     numbers, positions, batches
values.py      what comes back equal, and what is refused
reading.py     pages, streams, following
indexes.py     index entries
claims.py      claims, tokens, fencing, owners
deletion.py    what a deleted stream leaves behind
outcomes.py    `submit` and its `done`, closing
contract.py    EventLogContract: all of it, with an example

These modules need pytest; nothing else in the package imports them.
"""

import pytest

__all__ = ["contract"]

_MODULES = (
    "harness",
    "background",
    "appends",
    "values",
    "reading",
    "indexes",
    "claims",
    "deletion",
    "outcomes",
)

# Before any of them is imported, or their assertions would not say what they compared.
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

from intermission_storage.testing import contract  # noqa: E402 - see above
