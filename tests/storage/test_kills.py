"""A writer that is killed with `kill -9` has lost nothing that it had shown, and left nothing by halves."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import scale
from children import Child
from intermission_storage import Kind, LmdbEventLog, Record
from intermission_storage.lmdb_file import page_problems

KILLS = scale.rounds(20, 100)
MODES = ["waiting", "open", "free", "free", "free"]
STREAMS = ["claimed", "left", "right"]
PARTS = [0, 1, 2]  # the records of a batch


@dataclass
class Life:
    """What a writer said from its beginning to its death."""

    said: list[list[Any]]

    @property
    def shown(self) -> set[int]:
        """The batches that it reported as durable."""
        return {message[1] for message in self.said if message[0] == "shown"}

    @property
    def commit_was_open(self) -> bool:
        """Whether it died between the filling of a transaction and the end of its commit."""
        points = [message[0] for message in self.said if message[0] in {"open", "closed"}]
        return points[-1:] == ["open"]

    @property
    def append_waited(self) -> bool:
        """Whether it died with an append submitted that no commit had taken up."""
        submitted = sum(message[0] == "submit" for message in self.said)
        reported = sum(message[0] in {"shown", "refused"} for message in self.said)
        return not self.commit_was_open and submitted > reported


def live(path: Path, mode: str, commits: int) -> Life:
    """Run a writer, and kill it at the commit of that number."""
    said: list[list[Any]] = []
    with Child("writer", path, mode, str(commits)) as child:
        while not said or said[-1] != ["here"]:
            said.append(child.hear())
        child.kill()
        return Life(said + child.rest())


def batches(log: LmdbEventLog) -> set[int]:
    """Return the batches in the log, asserting that each is whole, and that the numbers have no gaps."""
    found: set[int] = set()
    for stream in STREAMS:
        records = log.read(stream)
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        assert log.head(stream).position == len(records)
        events = [record.data for record in records if record.kind == Kind.EVENT]
        for first in range(0, len(events), len(PARTS)):
            batch = events[first : first + len(PARTS)]
            assert [(part["batch"], part["part"]) for part in batch] == [
                (batch[0]["batch"], part) for part in PARTS
            ]
            assert batch[0]["batch"] not in found
            found.add(batch[0]["batch"])
    return found


@pytest.mark.scenario("E7")
def test_nothing_shown_is_lost_and_nothing_is_half_there_however_often_the_writer_is_killed(
    tmp_path: Path,
) -> None:
    chance = random.Random(7)
    path = tmp_path / "log"
    shown: set[int] = set()
    lives: list[Life] = []
    for kill in range(KILLS):
        life = live(path, MODES[kill % len(MODES)], chance.randint(1, 12))
        lives.append(life)
        assert life.commit_was_open or life.append_waited
        assert not any(message[0] == "refused" for message in life.said)
        shown |= life.shown
        with LmdbEventLog(path) as log:
            there = batches(log)
            assert shown <= there
            # An index entry came with each batch, in the same commit.
            assert {int(entry.key[0]) for entry in log.index("batches")} == there
            claimed = log.append("claimed", [Record(Kind.RUN_STARTED, {})], claim=True, release=True)
            assert claimed.position == log.head("claimed").position
    assert page_problems(path) == []
    assert len(shown) > KILLS
    assert sum(life.commit_was_open for life in lives) >= scale.rounds(4, 15)
    assert sum(life.append_waited for life in lives) >= scale.rounds(4, 15)
