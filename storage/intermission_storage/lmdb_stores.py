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
        # A signal handler may close a log while its thread opens or closes another.
        self._lock = threading.RLock()
        self._open: dict[str, LmdbStore] = {}
        self._users: dict[str, int] = {}

    def take(
        self,
        path: Path,
        *,
        sync: bool,
        map_size: int,
        max_size: int | None,
        read_only: bool,
        turn_timeout: float = 30.0,
    ) -> LmdbStore:
        """Return the store at `path`, opened if need be. `give_back` must follow.

        Raises:
            StorageError: It cannot be opened; see `LmdbEventLog`.
            ValueError: It is open with another `sync`, `max_size` or `turn_timeout`.
        """
        key = os.path.realpath(path)
        with self._lock:
            # Counted first, so that a signal handler that closes a log of the same path ends no store here.
            self._users[key] = self._users.get(key, 0) + 1
            try:
                store = self._open.get(key)
                if store is None:
                    store = self._open[key] = LmdbStore(
                        Path(key),
                        sync=sync,
                        map_size=map_size,
                        max_size=max_size,
                        read_only=read_only,
                        turn_timeout=turn_timeout,
                    )
                store.environment.check_usable()
                store.environment.check_place()
                if not read_only:
                    _check_options(store, path, sync=sync, max_size=max_size, turn_timeout=turn_timeout)
            except BaseException:
                self._leave(key)
                raise
            return store

    def give_back(self, store: LmdbStore) -> None:
        """Undo `take`: the last one closes the store."""
        with self._lock:
            key = next((key for key, opened in list(self._open.items()) if opened is store), None)
            if key is not None:
                self._leave(key)

    def _leave(self, key: str) -> None:
        # Closed before it is forgotten: where that fails, it can be tried again.
        store = self._open.get(key)
        if self._users[key] == 1 and store is not None:
            store.close()
            self._open.pop(key, None)  # for a signal handler may have done all of this meanwhile
        left = self._users.pop(key, 1) - 1
        if left:
            self._users[key] = left

    def flush(self) -> None:
        """Commit what was submitted to any store, before the end of the process ends the writers' threads."""
        for store in list(self._open.values()):
            store.flush(timeout=_PATIENCE)

    def forget_others(self) -> None:
        """In a fork: another thread of the parent may have had the lock, and is not here to let go of it."""
        self._lock = threading.RLock()


def _check_options(store: LmdbStore, path: Path, **wanted: object) -> None:
    if store.environment.read_only:
        raise LogReadOnlyError(f"{path} is open in this process for reading only: close that log first")
    for name, value in wanted.items():
        has = getattr(store, name)
        if has != value:
            raise ValueError(f"{path} is open in this process with {name}={has}, not {name}={value}")


STORES = Stores()
atexit.register(STORES.flush)
os.register_at_fork(after_in_child=STORES.forget_others)
