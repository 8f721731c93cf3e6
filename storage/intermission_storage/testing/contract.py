"""`EventLogContract`: the suite that every event log must pass.

A test module inherits it and says how logs are opened:

    import pytest
    from my_store import MyEventLog

    from intermission_storage import EventLog
    from intermission_storage.testing.contract import EventLogContract, Harness

    class MyHarness(Harness):
        def __init__(self, path):
            self.path = path

        def open(self) -> EventLog:
            return MyEventLog(self.path)

    class TestMyEventLog(EventLogContract):
        @pytest.fixture
        def harness(self, tmp_path):
            return MyHarness(tmp_path / "log")

Each test has a storage of its own. What is true of one store only, such as what a crash of the machine
does to it, is not in here.
"""

from intermission_storage.testing.also import Also
from intermission_storage.testing.appends import Appends
from intermission_storage.testing.claims import Claims
from intermission_storage.testing.deletion import Deletion
from intermission_storage.testing.harness import Harness
from intermission_storage.testing.indexes import Indexes
from intermission_storage.testing.outcomes import Outcomes
from intermission_storage.testing.reading import Reading
from intermission_storage.testing.values import Values

__all__ = ["EventLogContract", "Harness"]


class EventLogContract(Appends, Also, Values, Reading, Indexes, Claims, Deletion, Outcomes):
    """Inherit this in a class whose name begins with `Test`, and define the fixture `harness`."""
