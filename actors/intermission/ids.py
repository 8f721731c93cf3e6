"""Random ids, in the form of a UUID of version 4, without making a `UUID` for each."""

import os

__all__ = ["new_hex", "new_id", "random_hex"]

_SIZE = 16  # bytes of an id
_AT_ONCE = 256  # ids
_stock: list[bytes] = []


def random_hex() -> str:
    """Return 32 random digits."""
    try:
        return _stock.pop().hex()
    except IndexError:
        pass
    # One system call for many: each lets go of the interpreter's lock, and other threads take it.
    block = os.urandom(_SIZE * _AT_ONCE)
    _stock.extend(block[start : start + _SIZE] for start in range(_SIZE, len(block), _SIZE))
    return block[:_SIZE].hex()


def new_hex() -> str:
    """Return what `uuid.uuid4().hex` would: 32 digits, of which six bits say what they are."""
    digits = random_hex()
    return f"{digits[:12]}4{digits[13:16]}{_VARIANT[digits[16]]}{digits[17:]}"


def new_id() -> str:
    """Return what `str(uuid.uuid4())` would."""
    digits = new_hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


# A forked child would give out the ids of its parent.
os.register_at_fork(after_in_child=_stock.clear)

_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
