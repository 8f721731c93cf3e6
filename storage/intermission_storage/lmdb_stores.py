"""`STORES`: which logs this process has open. One path is opened once, and shared by who opens it again."""

import atexit
import os
import threading
from pathlib import Path

from intermission_storage.errors import LogReadOnlyError
from intermission_storage.lmdb_store import LmdbStore

__all__ = ["STORES", "Stores"]

_PATIENCE = 10.0  # seconds that the end of the process waits for the last commits


class Stores:
    """The open stores by their real paths, counted. LMDB forbids to open a path twice in one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, LmdbStore] = {}
        self._users: dict[str, int] = {}

    def take(
        self, path: Path, *, sync: bool, map_size: int, max_size: int | None, read_only: bool
    ) -> LmdbStore:
        """Return the store at `path`, opened if need be. `give_back` must follow.

        Raises:
            StorageError: It cannot be opened; see `LmdbEventLog`.
            ValueError: It is open with another `sync` or `max_size`.
        """
        key = os.path.realpath(path)
        with self._lock:
            store = self._open.get(key)
            if store is None:
                store = LmdbStore(
                    Path(key), sync=sync, map_size=map_size, max_size=max_size, read_only=read_only
                )
                self._open[key] = store
                self._users[key] = 0
            store.environment.check_usable()
            store.environment.check_place()
            if store.environment.read_only and not read_only:
                raise LogReadOnlyError(
                    f"{path} is open in this process for reading only: close that log first"
                )
            if not read_only and store.sync != sync:
                raise ValueError(f"{path} is open in this process with sync={store.sync}, not sync={sync}")
            if not read_only and store.max_size != max_size:
                raise ValueError(
                    f"{path} is open in this process with max_size={store.max_size}, not max_size={max_size}"
                )
            self._users[key] += 1
            return store

    def give_back(self, store: LmdbStore) -> None:
        """Undo `take`: the last one closes the store."""
        with self._lock:
            key = next((key for key, opened in self._open.items() if opened is store), None)
            if key is None:
                return
            if self._users[key] == 1:
                store.close()
                del self._open[key]
            self._users[key] -= 1

    def flush(self) -> None:
        """Commit what was submitted to any store, before the end of the process ends the writers' threads."""
        for store in list(self._open.values()):
            store.flush(timeout=_PATIENCE)

    def forget_others(self) -> None:
        """In a fork: another thread of the parent may have had the lock, and is not here to let go of it."""
        self._lock = threading.Lock()


STORES = Stores()
atexit.register(STORES.flush)
os.register_at_fork(after_in_child=STORES.forget_others)
