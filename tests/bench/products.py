#!/usr/bin/env python3
"""Runnel's int8 matrix product beside oneDNN's and OpenBLAS's float product, alone, on one core.

Runs bench_products and prints a table of medians, in thousands of millions of multiply-adds a second:

    products.py --build build
    products.py --build build --dnnl-isa AVX512_CORE_VNNI,AVX2

What the rows are is told in README.md beside this file.
"""

import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys

from common import machine, table

NAMES = {
    "runnel": "runnel",
    "runnel_quantizing": "runnel, quantizing",
    "onednn/s8": "oneDNN, s8",
    "onednn/u8": "oneDNN, u8",
    "openblas/f32": "OpenBLAS, f32",
}


def measure(options, pattern, dnnl_isa=None):
    """[(contender, kernel, tokens, multiply-adds a second, or None where the outputs were wrong), ...]"""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    if dnnl_isa:
        environment["DNNL_MAX_CPU_ISA"] = dnnl_isa
    program = options.build / "tests" / "bench" / "bench_products"
    if not program.exists():
        sys.exit(f"{program} is not there: it is built with -Dtests=enabled where libbenchmark-dev is installed")
    command = [program, "--benchmark_format=json"]
    command += [f"--benchmark_filter={pattern}", f"--benchmark_min_time={options.min_time}"]
    command += [f"--benchmark_repetitions={options.repeat}", "--benchmark_enable_random_interleaving=true"]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, text=True)
    if done.returncode != 0 or not done.stdout:  # nothing matches the filter: it has said so
        sys.exit(done.returncode or 1)
    measured = []
    runs = [run for run in json.loads(done.stdout)["benchmarks"] if run["run_type"] == "iteration"]
    for run in sorted(runs, key=lambda run: run["family_index"]):
        contender, variant, n_tok = run["run_name"].split("/")
        name = NAMES.get(contender) or NAMES[f"{contender}/{variant}"]
        name += f", at most {dnnl_isa}" if dnnl_isa else ""
        measured.append((name, run.get("label", ""), int(n_tok), run.get("MAC")))
    return measured


def cell(rates):
    if not rates:
        return ""
    return "wrong" if None in rates else f"{statistics.median(rates) / 1e9:.1f}"


def product_table(measured):
    tokens = sorted({n_tok for _, _, n_tok, _ in measured})
    rates = collections.defaultdict(lambda: collections.defaultdict(list))
    for name, kernel, n_tok, rate in measured:
        rates[name, kernel][n_tok].append(rate)
    rows = [["G multiply-adds/s", "kernel", *(f"{n:,} tokens" if n > 1 else "1 token" for n in tokens)]]
    rows += [[name, kernel, *(cell(by_tokens[n]) for n in tokens)] for (name, kernel), by_tokens in rates.items()]
    return rows


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build", help="runnel's build directory")
    parser.add_argument("--filter", default="-scalar", help="which, as --benchmark_filter; default: all but scalar")
    parser.add_argument("--dnnl-isa", type=lambda text: text.split(","), default=[], metavar="LIST",
                        help="oneDNN also with no more than these (DNNL_MAX_CPU_ISA)")
    parser.add_argument("--repeat", type=int, default=5, help="of each, in random order")
    parser.add_argument("--min-time", type=float, default=0.2, help="seconds of each of these")
    return parser.parse_args()


def main():
    options = parse()
    measured = measure(options, options.filter)
    for isa in options.dnnl_isa:
        measured += measure(options, "onednn", isa)
    print(f"4096 x 4096, 1 thread; {machine()}; medians of {options.repeat}\n")
    print(table(product_table(measured)))
    return 1 if any(rate is None for *_, rate in measured) else 0


if __name__ == "__main__":
    sys.exit(main())
