"""Waits that a cancel scope ends at once, for tools and other code that may block its thread.

Each is named as the method that it stands for, and takes the object first: `get(queue)` for `queue.get()`. It
looks at the current scope, or the one given as `scope=`; where there is neither, it is the plain wait.

queues.py     get, put: queues of `queue`
locks.py      acquire, locked: locks and semaphores
waits.py      wait, wait_for, join: events, conditions, processes, threads, queues
futures.py    result, wait_futures: futures of `concurrent.futures`
processes.py  run, popen, communicate: child processes
sockets.py    sock_guard: whatever waits for a socket
databases.py  sqlite: transactions of SQLite
aborting.py   ends a wait inside other people's code
parking.py    ends a wait of our own
"""

from intermission.blocking.databases import sqlite
from intermission.blocking.futures import result, wait_futures
from intermission.blocking.locks import acquire, locked
from intermission.blocking.processes import communicate, popen, run
from intermission.blocking.queues import get, put
from intermission.blocking.sockets import sock_guard
from intermission.blocking.waits import join, wait, wait_for

__all__ = [
    "acquire",
    "communicate",
    "get",
    "join",
    "locked",
    "popen",
    "put",
    "result",
    "run",
    "sock_guard",
    "sqlite",
    "wait",
    "wait_for",
    "wait_futures",
]
