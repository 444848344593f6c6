#!/usr/bin/env python3
"""How the cost of a token grows: with the model, the prompt, what is in view, and threads.

Drives `runnel bench` on models with random int8 weights and prints tables of its medians, each with its share of the
limit that was measured in the same run:

    growth.py --build build
    growth.py --build build --quick
    growth.py --build build --shapes tinyllama-1.1b --depths 4096,32768 --threads 2 --prompts ""

What the tables mean is told in README.md beside this file.
"""

import argparse
import json
import pathlib
import subprocess
import sys

from common import machine, note, table

FULL = {
    "shapes": ["smollm2-135m", "qwen2.5-0.5b", "tinyllama-1.1b", "llama-3.2-1b", "llama-3.2-3b"],
    "shape": "tinyllama-1.1b",
    "prompts": [64, 256, 1024, 4096],
    "depths": [256, 1024, 4096, 16384, 32768],
    "decode": 64,
    "repeat": 5,
}
QUICK = {
    "shapes": ["smollm2-135m", "qwen2.5-0.5b"],
    "shape": "smollm2-135m",
    "prompts": [64, 256, 1024],
    "depths": [256, 1024, 4096],
    "decode": 32,
    "repeat": 3,
}
PROMPT = 512  # tokens, where another thing varies


class Bench:
    """runnel bench --json; what was measured before is not measured again."""

    def __init__(self, options):
        self.options = options
        self.reports = {}

    def __call__(self, shape, cache, prompt=0, decode=0, depth=0):
        flags = ["--shape", shape, "--cache", cache, "-p", prompt, "-n", decode, "--depth", depth]
        flags = tuple(str(flag) for flag in flags)
        if flags not in self.reports:
            note("runnel bench " + " ".join(flags))
            threads = ",".join(str(n) for n in self.options.threads)
            command = [self.options.build / "runnel", "bench", "--int8", *flags, "-t", threads]
            command += ["--repeat", str(self.options.repeat), "--json"]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if done.returncode != 0:
                sys.exit(done.returncode)
            self.reports[flags] = json.loads(done.stdout)
        return self.reports[flags]

    def of_size(self, shape):
        return self(shape, self.options.caches[0], prompt=PROMPT, decode=self.options.decode)

    def of_prompt(self, n):
        return self(self.options.shape, self.options.caches[0], prompt=n)

    def of_depth(self, cache, depth):
        return self(self.options.shape, cache, decode=self.options.decode, depth=depth)


# ---- Tables: lists of rows, the first of them the head.


def threads_text(n):
    return f"{n} thread" if n == 1 else f"{n} threads"


def rate(speed):
    return f"{speed['tokens_per_s']:.4g} ({speed['share_of_limit']:.0%})"


def rates(report, part):
    return [rate(run[part]) for run in report["runs"]]


def size_table(bench, options):
    parts = {"prefill": f"prompt of {PROMPT}", "decode": "decode"}
    heads = [f"{name}, {threads_text(n)}" for name in parts.values() for n in options.threads]
    rows = [["tokens/s", "parameters", "weights", *heads]]
    for shape in options.shapes:
        report = bench.of_size(shape)
        facts = [f"{report['n_parameters'] / 1e6:,.0f} M", f"{report['weight_bytes'] / 1e6:,.0f} MB"]
        rows.append([shape, *facts, *rates(report, "prefill"), *rates(report, "decode")])
    return rows


def prompt_table(bench, options):
    rows = [["prompt of", *(f"tokens/s, {threads_text(n)}" for n in options.threads)]]
    rows += [[f"{n:,}", *rates(bench.of_prompt(n), "prefill")] for n in options.prompts]
    return rows


def by_depth(bench, options, cache):
    """[(name, {threads: speed}), ...]: decoding from an empty cache, and at each depth."""
    reports = {depth: bench.of_depth(cache, depth) for depth in options.depths}
    parts = [("empty", "decode", reports[options.depths[0]])]
    parts += [(f"{depth:,}", "decode_at_depth", report) for depth, report in reports.items()]
    return [(name, {run["threads"]: run[part] for run in report["runs"]}) for name, part, report in parts]


def depth_table(bench, options):
    heads = [f"{cache} cache, {threads_text(n)}" for cache in options.caches for n in options.threads]
    rows = [["tokens/s at", *heads]]
    columns = [by_depth(bench, options, cache) for cache in options.caches]
    for row in zip(*columns):
        rows.append([row[0][0], *(rate(speeds[n]) for _, speeds in row for n in options.threads)])
    return rows


def cost_table(bench, options):
    """The time of a token and the time in which its bytes can be read: their ratio is to stay flat."""
    heads = [head for n in options.threads for head in (f"ms, {threads_text(n)}", "to read them", "ratio")]
    rows = [["cache", "at", "MB a token", *heads]]
    for cache in options.caches:
        for name, speeds in by_depth(bench, options, cache):
            row = [cache, name, f"{speeds[options.threads[0]]['bytes_per_token'] / 1e6:,.1f}"]
            for n in options.threads:
                ms, bound = (1e3 / speeds[n][key] for key in ("tokens_per_s", "limit_tokens_per_s"))
                row += [f"{ms:.4g}", f"{bound:.4g}", f"{ms / bound:.2f}"]
            rows.append(row)
    return rows


def threads_table(bench, options):
    parts = [(f"prompt of {PROMPT}", "prefill", bench.of_size(options.shape))]
    parts += [("decode", "decode", bench.of_size(options.shape))]
    for depth in options.depths:
        parts.append((f"decode at {depth:,}", "decode_at_depth", bench.of_depth(options.caches[0], depth)))
    rows = [["tokens/s", *(threads_text(n) for n in options.threads)]]
    for name, part, report in parts:
        first, *others = (run[part] for run in report["runs"])
        times = [f"{rate(speed)}, {speed['tokens_per_s'] / first['tokens_per_s']:.2f} x" for speed in others]
        rows.append([name, rate(first), *times])
    return rows


def tables(bench, options):
    """(title, rows), each as soon as it is measured."""
    shape, cache = options.shape, options.caches[0]
    if options.shapes:
        yield f"By model, {cache} cache", size_table(bench, options)
    if options.prompts:
        yield f"By prompt: {shape}", prompt_table(bench, options)
    if options.depths:
        yield f"By depth of a full window: {shape}", depth_table(bench, options)
        yield f"The same beside the time to read what a token needs: {shape}", cost_table(bench, options)
    if len(options.threads) > 1:
        yield f"By threads: {shape}, {cache} cache", threads_table(bench, options)


def names(text):
    return [name for name in text.split(",") if name]


def numbers(text):
    return [int(name) for name in names(text)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build", help="runnel's build directory")
    parser.add_argument("--quick", action="store_true", help="smaller models, fewer and shorter of everything")
    parser.add_argument("--shapes", type=names, metavar="LIST", help="models of the first table; empty: no such table")
    parser.add_argument("--shape", help="the model of the other tables")
    parser.add_argument("--prompts", type=numbers, metavar="LIST", help="tokens; empty: no such table")
    parser.add_argument("--depths", type=numbers, metavar="LIST", help="tokens in view; empty: no such tables")
    parser.add_argument("--threads", type=numbers, metavar="LIST", default=[1, 2])
    parser.add_argument("--caches", type=names, metavar="LIST", default=["int8", "f16"],
                        help="of the tables of depths; the others have the first")
    parser.add_argument("--decode", type=int, help="tokens decoded one by one")
    parser.add_argument("--repeat", type=int, help="passes that count, of each")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="every report of runnel bench, too")
    options = parser.parse_args()
    for name, value in (QUICK if options.quick else FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def main():
    options = parse()
    bench = Bench(options)
    print(f"int8 weights; {machine()}; medians of {options.repeat}; in brackets the share of the limit")
    for title, rows in tables(bench, options):
        print(f"\n{title}\n\n{table(rows)}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(list(bench.reports.values()), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
