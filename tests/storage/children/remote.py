"""Has a log open and does what a `RemoteLog` tells it: one command a line, one answer for each."""

import resource
from typing import Any

from children import say, told
from intermission_storage import Kind, LmdbEventLog, Record


class Commands:
    """What a `RemoteLog` may ask for."""

    log: LmdbEventLog

    def open(self, path: str, **options: Any) -> None:
        """Open the log."""
        self.log = LmdbEventLog(path, **options)

    def append(self, stream: str, text: str, **options: Any) -> tuple[int, int | None]:
        """Append a record."""
        return self.log.append(stream, [Record(Kind.EVENT, {"text": text})], **options)

    def fill(self, stream: str, text: str) -> None:
        """Append one record after another, until one is refused."""
        while True:
            self.append(stream, text)

    def limit_files(self, size: int | None) -> None:
        """Let no file grow beyond a size, or let it again."""
        _, highest = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (highest if size is None else size, highest))

    def texts(self, stream: str) -> list[str]:
        """Read a stream."""
        return [record.data["text"] for record in self.log.read(stream)]

    def delete(self, stream: str) -> bool:
        """Delete a stream."""
        return self.log.delete(stream)

    def close(self) -> None:
        """Close the log."""
        self.log.close()


def main() -> None:
    """Do commands until there are no more."""
    commands = Commands()
    while (command := told()) is not None:
        name, arguments, options = command
        try:
            result = getattr(commands, name)(*arguments, **options)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test hears of it
            say({"error": [type(error).__name__, str(error)]})
        else:
            say({"result": result})


if __name__ == "__main__":
    main()
