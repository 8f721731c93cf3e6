"""Ids are random, have the form of a UUID of version 4, and are never given out twice."""

import sys
import threading
import uuid

from intermission.ids import new_hex, new_id, random_hex
from tree import run

FORK = """
import os
from intermission.ids import random_hex
random_hex()
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, " ".join(random_hex() for _ in range(600)).encode())
    os._exit(0)
os.wait()
mine = {random_hex() for _ in range(600)}
print(len(mine | set(os.read(read, 1 << 20).decode().split())))
"""


def test_ids_have_the_form_of_a_uuid_of_version_4() -> None:
    for text in (new_hex(), new_id()):
        found = uuid.UUID(text)
        assert (found.version, found.variant) == (4, uuid.RFC_4122)
    assert len(random_hex()) == 32


def test_no_id_is_given_out_twice_whichever_threads_ask() -> None:
    found, start = list[list[str]](), threading.Barrier(4)

    def ask() -> None:
        start.wait(30)
        found.append([random_hex() for _ in range(1000)])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len({one for ids in found for one in ids}) == 4000


def test_a_forked_child_has_other_ids_than_its_parent() -> None:
    finished = run(sys.executable, "-c", FORK)
    finished.check()
    assert finished.output == "1200\n"
