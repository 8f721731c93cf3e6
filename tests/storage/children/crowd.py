"""Many threads that open a log and append to the same streams: crowd.py PATH NAME THREADS STREAMS APPENDS.

Each thread appends so many records to each stream. It says "ready" before anything is opened and waits for
a message; then the threads begin at a barrier. At the end it says "done".
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from children import say, told
from intermission_storage import Kind, LmdbEventLog, Record


def main(path: str, name: str, *sizes: str) -> None:
    """Append, and raise whatever a thread raised."""
    threads, streams, appends = map(int, sizes)
    barrier = Barrier(threads)

    def work(thread: int) -> None:
        barrier.wait(60)
        with LmdbEventLog(path) as log:
            for number in range(appends):
                for stream in range(streams):
                    data = {"writer": f"{name}.{thread}", "number": number}
                    log.append(f"s{stream}", [Record(Kind.EVENT, data)])

    with ThreadPoolExecutor(threads) as pool:
        say("ready")
        told()
        for _ in pool.map(work, range(threads)):
            pass
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
