"""`EventLog`: what the runtime asks of a store. It assumes no LMDB and no single machine."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self, TypeAlias, TypedDict, Unpack, cast

from intermission_storage.admission import Request
from intermission_storage.errors import StorageError
from intermission_storage.record import Appended, Head, IndexEntry, Owner, Record
from intermission_storage.wakeup import Latch

__all__ = ["BatchOptions", "Done", "EventLog", "check_batch", "check_index_key", "check_page", "waited"]

Done: TypeAlias = Callable[[Appended | StorageError], None]
"""What `EventLog.submit` calls when a commit is durable or refused."""


class BatchOptions(TypedDict, total=False):
    """What a batch may ask for beside its records: the keywords of `EventLog.submit` and `EventLog.append`.

    Attributes:
        expected: The number of the last record that the writer knows of, 0 for a new stream; `None`, as when
            it is left out, to append to whatever is there.
        token: The claim under which to append; `None` for a stream that nobody may hold.
        claim: Claim the stream with this commit; the token is in `Appended`.
        take_over: With `claim`: take the stream from an owner that lives, too.
        release: Give up the claim with this commit.
        put: Index entries that come into being with this commit, or are replaced.
        drop: Index entries that go with it; their values are ignored, and unknown ones are no error.
        needs: Index entries of the stream that must be there, with these values, or it is a `ConflictError`.
            A stream's last number alone does not tell it from one that was deleted and made anew.
        also: Records that are appended to other streams in the same commit, by the stream's name: to streams
            that many write and nobody claims. An owner that lives and holds one of them refuses the batch.
    """

    expected: int | None
    token: int | None
    claim: bool
    take_over: bool
    release: bool
    put: Sequence[IndexEntry]
    drop: Sequence[IndexEntry]
    needs: Sequence[IndexEntry]
    also: Mapping[str, Sequence[Record]]


class EventLog(Protocol):
    """Streams of numbered records: appended whole or not at all, never changed afterwards.

    A stream comes into being with its first record. The records of a stream are numbered 1, 2, 3, … in the
    order of their commits; clocks order nothing. Every method may be called from any thread.

    A writer that needs a stream for itself *claims* it: an append with `claim=True` is refused with
    `ClaimedError` while an owner that lives holds the stream, and else gets a token; appends under the claim
    carry the token, and one whose claim is gone is refused with `StaleClaimError`. An owner is one opened
    log; it lives until it is closed or its process has died.
    """

    @property
    def owner(self) -> Owner:
        """Who this opened log is in the claims that it makes."""
        ...

    def submit(
        self, stream: str, records: Sequence[Record], done: Done, **options: Unpack[BatchOptions]
    ) -> None:
        """Commit a batch, all of it in one transaction or nothing, and call `done` once with how it went.

        Batches that are submitted to a stream one after another are committed in that order. A batch that
        was taken is committed whatever becomes of the caller. When too many batches wait, the call waits
        for room, unless it is made inside a `done`.

        Args:
            stream: The stream's name: any text.
            records: What happened, in order; their own `seq` is ignored. They may be none.
            done: Called with `Appended` once the commit is durable, as far as the log is, or with the
                `StorageError` that refused it; on another thread, or before `submit` returns. It must be
                quick, and what it raises is logged and goes no further.
            options: What else the batch asks for; see `BatchOptions`.

        Raises:
            EncodingError: A value would not come back equal. `done` is not called.
            LogClosedError: The log is closed. `done` is not called; it may be called with this error if the
                log is closed during the call.
            LogReadOnlyError: The log is open for reading only. `done` is not called.
            ValueError: There is nothing to do, `claim` comes with a `token`, `also` names the batch's own
                stream, or one without records, or the key of an index entry has more than 16 texts.
                `done` is not called.
        """
        ...

    def append(self, stream: str, records: Sequence[Record], **options: Unpack[BatchOptions]) -> Appended:
        """As `submit`, but wait for the commit and return or raise how it went.

        Raises:
            ClaimedError: An owner that lives holds the stream.
            StaleClaimError: The claim of `token` is gone. It is looked at before the position.
            ConflictError: The stream does not end at `expected`, or lacks an entry that the batch needs.
            LogFullError: There is no room.
            StorageError: And whatever `submit` raises.
        """
        ...

    def delete(self, stream: str, *, token: int | None = None, take_over: bool = False) -> bool:
        """Delete a stream, its claim and its index entries, and return whether there was anything.

        A writer that is still under way cannot write it back: its claim is gone. The name is free.

        Raises:
            ClaimedError: An owner that lives holds the stream, `token` is not its claim's, and there is no
                `take_over`.
            StaleClaimError: The claim of `token` is gone.
        """
        ...

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """Return the records of `stream` above number `after`, at most `limit`; none for an unknown stream.

        Raises:
            LogClosedError: The log was closed.
            LogCorruptError: A record cannot be decoded.
            LogVersionError: A record was written by a newer version.
            ValueError: `after` or `limit` is negative.
        """
        ...

    def follow(self, stream: str, *, after: int = 0, timeout: float | None = None) -> list[Record]:
        """Return the records above number `after` as soon as there are any, whoever commits them.

        Returns none when `timeout` seconds have passed without. Deleting the stream is not noticed.

        Raises:
            LogClosedError: The log was closed, also while waiting.
        """
        ...

    def head(self, stream: str) -> Head:
        """Return where the stream stands, and who holds it."""
        ...

    def streams(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """Return the names of the streams, in an order that is the log's own but stays the same.

        Args:
            after: Go on behind this stream of an earlier page, which may be gone meanwhile.
            limit: At most so many.
        """
        ...

    def index(
        self,
        index: str,
        prefix: Iterable[str] = (),
        *,
        after: IndexEntry | None = None,
        limit: int | None = None,
    ) -> list[IndexEntry]:
        """Return the entries of an index whose keys begin with `prefix`, in the log's own, constant order.

        Args:
            index: The index's name; an unknown one is empty.
            prefix: The first texts of the key.
            after: Go on behind this entry of an earlier page, which may be gone meanwhile.
            limit: At most so many.

        Raises:
            ValueError: `limit` is negative, or a key has more than 16 texts.
        """
        ...

    def close(self) -> None:
        """Commit what was submitted, then close the log; the claims of this owner are free from then on.

        Closing twice is allowed; every other call afterwards raises `LogClosedError`.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


_MAX_KEY_TEXTS = 16  # of an index key; on LMDB, with two digests before it, 288 bytes of 511
_TOO_MANY = 2**62


def check_page(after: int, limit: int | None) -> None:
    """Refuse bounds of a page that mean nothing.

    Raises:
        ValueError: One of them is negative.
    """
    if after < 0:
        raise ValueError(f"after is {after}: records are numbered from 1")
    if limit is not None and limit < 0:
        raise ValueError(f"limit is {limit}: a page holds no fewer than 0")
    if after >= _TOO_MANY or (limit or 0) >= _TOO_MANY:
        raise ValueError(f"after is {after} and limit is {limit}: no log holds that many")


def check_batch(request: Request, records: Sequence[Record]) -> None:
    """Refuse a batch that does nothing, contradicts itself, or claims a stream without a record.

    Raises:
        ValueError: It is one of these.
    """
    if not (records or request.put or request.drop or request.release or request.also):
        raise ValueError("a batch needs a record, an index entry or a release")
    if request.stream in request.also:
        raise ValueError("also is for other streams: give the records of this one as the batch's")
    if not all(request.also.values()):
        raise ValueError("also needs records for each stream that it names")
    if request.claim:
        if request.token is not None:
            raise ValueError("a batch that claims its stream has no token yet: give claim or token, not both")
        if not records:
            raise ValueError("a claim comes with a record")
    elif request.take_over:
        raise ValueError("take_over goes with claim")


def check_index_key(index: str, key: object) -> None:
    """Refuse the key of an index entry, or its first texts, if a store might have no room for it.

    Raises:
        TypeError: It is no tuple of texts.
        ValueError: It has too many texts.
    """
    texts = cast("tuple[object, ...]", key)
    if not (isinstance(key, tuple) and all(isinstance(text, str) for text in texts)):
        raise TypeError(f"a key of index {index!r} is {key!r}, which is no tuple of texts")
    if len(texts) > _MAX_KEY_TEXTS:
        raise ValueError(f"a key of index {index!r} has {len(texts)} texts, more than {_MAX_KEY_TEXTS} texts")


def waited(submit: Callable[[Done], None]) -> Appended:
    """Submit with a `done` that this call waits for, and return or raise how it went."""
    answered = Latch()
    outcomes: list[Appended | StorageError] = []

    def done(outcome: Appended | StorageError) -> None:
        outcomes.append(outcome)
        answered.open()

    submit(done)
    answered.wait()
    if isinstance(outcomes[0], StorageError):
        raise outcomes[0]
    return outcomes[0]
