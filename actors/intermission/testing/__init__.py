"""What tests of agents need.

replies.py        text, calls, error, wire: what a scripted model answers
scripted_model.py ScriptedModel: a model without a network
model_server.py   ModelServer: the same over real HTTP, on the loopback
sync.py           Gate, Sequencer: hold or order threads, without sleeping
manual_clock.py   ManualClock: time that the test moves
faulty_log.py     FaultyLog: an event log that is slow, fails or stops
held_batches.py   what a slow one has not committed yet
leaks.py          assert_nothing_left: no thread, socket, child or file stays behind
"""

from intermission.testing.faulty_log import FaultyLog
from intermission.testing.leaks import assert_nothing_left
from intermission.testing.manual_clock import ManualClock
from intermission.testing.model_server import ModelServer
from intermission.testing.replies import calls, error, text, wire
from intermission.testing.scripted_model import ScriptedModel
from intermission.testing.sync import Gate, Sequencer

__all__ = [
    "FaultyLog",
    "Gate",
    "ManualClock",
    "ModelServer",
    "ScriptedModel",
    "Sequencer",
    "assert_nothing_left",
    "calls",
    "error",
    "text",
    "wire",
]
