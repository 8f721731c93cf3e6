"""The event log of Intermission: streams of numbered records. It knows nothing of actors or agents.

record.py            Kind, Record, Owner, Claim, IndexEntry: the values
errors.py            every error of a log
log.py               EventLog: what the runtime asks of a store
codec.py             records <-> bytes
log_metrics.py       what a log counts of its commits
  histogram.py         how often something was how large
admission.py         claims and positions: whether a batch may be committed
memory_log.py        MemoryEventLog: for tests and the first minute
lmdb_log.py          LmdbEventLog: on disk
  lmdb_stores.py       one store for each path in a process
  lmdb_store.py        what the logs of one path share
  group_writer.py      the thread that commits what waits together
  lmdb_batch.py        what one transaction does
  wakeup.py            waiting without a lock that a signal handler could find held
  lmdb_reader.py       everything that is read
  lmdb_environment.py  growth, forks, errors of LMDB
  lmdb_gate.py         no transaction while the map changes
  lmdb_file.py         a file that was cut short
  lmdb_owners.py       which processes live
  lmdb_turn.py         which process may write, and how long the others wait
  lmdb_schema.py       databases and keys
"""

import logging

from intermission_storage.check import Checkable, Report, verify
from intermission_storage.dump import export
from intermission_storage.errors import (
    ClaimedError,
    ConflictError,
    EncodingError,
    LogBusyError,
    LogClosedError,
    LogCorruptError,
    LogForkedError,
    LogFullError,
    LogReadOnlyError,
    LogVersionError,
    StaleClaimError,
    StorageError,
)
from intermission_storage.histogram import SECONDS, Histogram
from intermission_storage.lmdb_log import LmdbEventLog
from intermission_storage.log import BatchOptions, EventLog
from intermission_storage.log_metrics import Measured
from intermission_storage.memory_log import MemoryEventLog
from intermission_storage.record import Appended, Claim, Head, IndexEntry, Kind, Owner, Record

# As the runtime does under `intermission`: it is left to the program whether anybody listens.
logging.getLogger("intermission.storage").addHandler(logging.NullHandler())

__all__ = [
    "SECONDS",
    "Appended",
    "BatchOptions",
    "Checkable",
    "Claim",
    "ClaimedError",
    "ConflictError",
    "EncodingError",
    "EventLog",
    "Head",
    "Histogram",
    "IndexEntry",
    "Kind",
    "LmdbEventLog",
    "LogBusyError",
    "LogClosedError",
    "LogCorruptError",
    "LogForkedError",
    "LogFullError",
    "LogReadOnlyError",
    "LogVersionError",
    "Measured",
    "MemoryEventLog",
    "Owner",
    "Record",
    "Report",
    "StaleClaimError",
    "StorageError",
    "export",
    "verify",
]
