"""What tests of agents need.

replies.py           text, calls, error, stream, silent, wire: what a scripted model answers
scripted_model.py    ScriptedModel: a model without a network
model_server.py      ModelServer: the same over real HTTP, on the loopback
protocols.py         the protocols that it speaks, each a Wire (protocol.py), as chat_wire.py
contents_history.py  contents_problems: what no client could make a legal request of
chat_history.py      what an OpenAI chat service would refuse in a conversation
anthropic_history.py what Anthropic's would
gemini_history.py    what Gemini's would
full_port.py         unaccepted: a service that nobody can connect to
sync.py              Gate, Sequencer: hold or order threads, without sleeping
manual_clock.py      ManualClock: time that the test moves
faulty_log.py        FaultyLog: an event log that is slow, fails or stops
held_batches.py      what a slow one has not committed yet
leaks.py             assert_nothing_left: no thread, socket, child or file stays behind
"""

from intermission.testing.contents_history import contents_problems
from intermission.testing.faulty_log import FaultyLog
from intermission.testing.full_port import unaccepted
from intermission.testing.leaks import assert_nothing_left
from intermission.testing.manual_clock import ManualClock
from intermission.testing.model_server import ModelServer
from intermission.testing.replies import Cut, Pings, Silence, calls, error, silent, stream, text, wire
from intermission.testing.scripted_model import ScriptedModel
from intermission.testing.sync import Gate, Sequencer

__all__ = [
    "Cut",
    "FaultyLog",
    "Gate",
    "ManualClock",
    "ModelServer",
    "Pings",
    "ScriptedModel",
    "Sequencer",
    "Silence",
    "assert_nothing_left",
    "calls",
    "contents_problems",
    "error",
    "silent",
    "stream",
    "text",
    "unaccepted",
    "wire",
]
