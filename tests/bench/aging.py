#!/usr/bin/env python3
"""Whether a token takes longer after four million others: an old and a new session in one process, in turns.

    aging.py --build build                                       the bundled model, f16 and int8 caches
    aging.py --build build --model model.gguf --tokens 400000 --cache int8

One session reads --tokens tokens, the other fills its window. Then each reads a token, and so on: whatever else the
machine does hits both alike. Beside them, in the same turns, is a checksum that takes about as long and waits for
nothing: what its slowest calls take on top is the machine's own. Exit status 1: something did not hold.
"""

import argparse
import pathlib
import statistics
import sys
import time
import zlib

from common import DEMO, Library, Session, machine, tokens_for

MOST_SLOWER = 0.02
MOST_TAIL = 2.0  # medians


def timed(call):
    begin = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - begin


def checksum_of_about(ns):
    """A call that takes about so long."""
    part = bytes(4096)
    each = statistics.median(timed(lambda: zlib.crc32(part)) for _ in range(1000))
    data = bytes(int(4096 * ns / each))
    return lambda: zlib.crc32(data)


class Times:
    def __init__(self, times):
        times = sorted(times)
        self.median = statistics.median(times)
        self.tail = times[int(0.999 * len(times))] / self.median

    def __str__(self):
        return f"median {self.median / 1000:.1f} us, 99.9 % within {self.tail:.2f} medians"


def in_turns(old, new, tokens, n):
    guess = statistics.median(timed(lambda: new.feed(tokens, i, 1)) for i in range(200))
    checksum = checksum_of_about(guess)
    old_times, new_times, checksum_times = [], [], []
    pairs = [(old, old_times), (new, new_times)]
    for i in range(n):
        at = i % len(tokens)
        for session, times in pairs:
            times.append(timed(lambda: session.feed(tokens, at, 1)))
        checksum_times.append(timed(checksum))
        pairs.reverse()  # what comes second finds the weights in the cache
    return [Times(times) for times in (old_times, new_times, checksum_times)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build", help="runnel's build directory")
    parser.add_argument("--model", default=str(DEMO))
    parser.add_argument("--tokens", type=int, default=4_000_000, help="that the old session has read")
    parser.add_argument("--turns", type=int, default=50_000, help="tokens that are timed, of each")
    parser.add_argument("--window", type=int, default=252)
    parser.add_argument("--cache", type=lambda text: text.split(","), default=["f16", "int8"], metavar="LIST")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()

    library = Library(options.build)
    model, n_vocab = library.model(options.model)
    n_fed = max(4096, 2 * options.window)  # at a time
    tokens = tokens_for(n_fed, n_vocab)
    print(f"{pathlib.Path(options.model).name}, 4 + {options.window} tokens, {options.threads} thread(s); {machine()}")
    ok = True
    for cache in options.cache:
        settings = {"sinks": 4, "window": options.window, "cache": cache, "threads": options.threads}
        old, new = Session(library, model, **settings), Session(library, model, **settings)
        for _ in range(max(1, options.tokens // len(tokens))):
            old.feed(tokens, 0, len(tokens))
        new.feed(tokens, 0, 2 * options.window)
        aged, fresh, checksum = in_turns(old, new, tokens, options.turns)
        slower = aged.median / fresh.median - 1
        print(f"{cache} cache, after {options.tokens:,} tokens: {aged}\n"
              f"  a new session: {fresh}\n  a checksum: {checksum}")
        for claim, found, holds in [
            ("a token takes as long as in a new session, within 2 %", f"{100 * slower:+.2f} %",
             abs(slower) < MOST_SLOWER),
            ("99.9 % of the tokens take less than 2 medians", f"{aged.tail:.2f}", aged.tail < MOST_TAIL),
        ]:
            print(f"  {'ok ' if holds else 'NOT'} {claim}: {found}", flush=True)
            ok = ok and holds
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
