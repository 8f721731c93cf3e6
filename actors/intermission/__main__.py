"""`python -m intermission` is `intermission`."""

from intermission.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
