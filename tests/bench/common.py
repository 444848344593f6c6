"""What the scripts beside this file share: the machine they ran on, their tables, and the library through ctypes."""

import contextlib
import ctypes
import os
import pathlib
import platform
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "cli" / "demo" / "runnel-demo-f16.gguf"
RUNNEL = ROOT / "build" / "runnel"


# ---- What they print


def note(text):
    print(text, file=sys.stderr, flush=True)


def machine():
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} threads, {time.strftime('%Y-%m-%d')}"


def table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


# ---- The library

DECODE_BYTES = 20  # RUNNEL_DECODE_BYTES of enum runnel_fact


def tokens_for(n, n_vocab):
    """Tokens to feed, the same for every contender."""
    return (ctypes.c_int32 * n)(*((i * 7919 + 13) % n_vocab for i in range(n)))


class Library:
    """librunnel of a build directory. A call that gives no 0 ends the script with the library's own words."""

    def __init__(self, build):
        self.lib = ctypes.CDLL(str(pathlib.Path(build) / "lib" / "librunnel.so"))
        self.lib.runnel_last_error.restype = ctypes.c_char_p
        self.lib.runnel_model_fact.restype = ctypes.c_int64

    def __call__(self, name, *arguments):
        if getattr(self.lib, name)(*arguments) != 0:
            sys.exit(self.lib.runnel_last_error().decode())

    @contextlib.contextmanager
    def config(self, **settings):
        config = ctypes.c_void_p()
        self("runnel_config_new", ctypes.byref(config))
        for name, value in settings.items():
            self("runnel_config_set", config, name.encode(), str(value).encode())
        yield config
        self.lib.runnel_config_free(config)

    def model(self, path):
        """An open model and the size of its vocabulary."""
        model = ctypes.c_void_p()
        self("runnel_model_open", str(path).encode(), None, ctypes.byref(model))
        return model, self.lib.runnel_model_fact(model, 0)


class Session:
    def __init__(self, library, model, **settings):
        self.library, self.handle = library, ctypes.c_void_p()
        with library.config(**settings) as config:
            library("runnel_session_open", model, config, ctypes.byref(self.handle))

    def feed(self, tokens, begin, n):
        at = ctypes.byref(tokens, begin * 4)
        self.library("runnel_session_feed", self.handle, at, ctypes.c_size_t(n), None, None)

    def set(self, name, value):
        self.library("runnel_session_set", self.handle, name.encode(), str(value).encode())

    def reset(self):
        self.library("runnel_session_reset", self.handle)

    def close(self):
        self.library.lib.runnel_session_close(self.handle)
