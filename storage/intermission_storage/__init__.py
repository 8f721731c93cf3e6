"""The event log of Intermission: streams of numbered records. It knows nothing of actors or agents.

errors.py      every error of a log
record.py      Record: one thing that happened, as plain values
log.py         EventLog: what the runtime asks of a store
codec.py       Record <-> bytes
memory_log.py  MemoryEventLog: for tests and the first minute
lmdb_log.py    LmdbEventLog: on disk, a durable commit for each append
"""

from intermission_storage.errors import (
    ConflictError,
    EncodingError,
    LogClosedError,
    LogCorruptError,
    LogFullError,
    LogVersionError,
    StorageError,
)
from intermission_storage.lmdb_log import LmdbEventLog
from intermission_storage.log import EventLog
from intermission_storage.memory_log import MemoryEventLog
from intermission_storage.record import Record

__all__ = [
    "ConflictError",
    "EncodingError",
    "EventLog",
    "LmdbEventLog",
    "LogClosedError",
    "LogCorruptError",
    "LogFullError",
    "LogVersionError",
    "MemoryEventLog",
    "Record",
    "StorageError",
]
