"""Sessions: one actor each, the directory that alone sends to them, and reading them from the log."""

from intermission.sessions.catalog import Sessions

__all__ = ["Sessions"]
