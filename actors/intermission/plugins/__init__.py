"""Plugins: what looks at, and may change, every run of an app."""

from intermission.plugins.base import Plugin

__all__ = ["Plugin"]
