#!/usr/bin/env python3
"""Four million tokens through one session, for each cache type, and what must stay as it was at the start.

    soak.py -f ../shared/text/Thackeray_Pendennis_1850.txt                          the bundled model
    soak.py -f text.txt --model model.gguf --tokens 200000 --bucket 10000 --cache int8
    soak.py -f text.txt --save soak                                                 soak-f16.json, soak-int8.json
    soak.py -f dialogues.txt -- --parse-special                                     with options for runnel

The text is read again whenever it ends. Exit status 1: something did not stay. Times are wall times: on a machine with
other work they tell of that too, and the processor time beside them tells less of it. The time of a token in the first
and the last bucket is shown but not judged: half an hour lies between them, in which a processor's clock changes by
more than 2 %. Whether a token takes longer after four million others is what aging.py finds out, in turns.
"""

import argparse
import json
import pathlib
import subprocess
import sys

from common import DEMO, RUNNEL

LAST = 10  # buckets that are held against the first pass


def stream(options, cache):
    command = [options.runnel, "perplexity", options.model, "-f", options.file, "--stream", "--latency", "--json"]
    command += ["--sinks", 4, "--window", options.window, "--cache", cache, "--threads", options.threads]
    command += ["--tokens", options.tokens, "--buckets", max(1, options.tokens // options.bucket)]
    if options.max_text:
        command += ["--max-tokens", options.max_text]
    command += options.settings
    out = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)


def percent(share):
    return f"{100 * share:+.3f} %"


def verdicts(report):
    """What is claimed, what was found, and whether it holds."""
    drifts = [bucket["ppl"] / bucket["first_pass_ppl"] - 1 for bucket in report["buckets"][-LAST:]]
    drift = max(drifts, key=abs)
    growth = report["resident_bytes_end"] - report["resident_bytes_full_window"]
    all_ = report["latency"]
    tail, cpu_tail = (times["p99_9_us"] / times["median_us"] for times in (all_, all_["cpu"]))
    return [
        (f"perplexity of each of the last {len(drifts)} buckets within 1 % of the first pass",
         f"worst {percent(drift)}", abs(drift) < 0.01),
        ("memory grows by less than 1 MB", f"{growth / 1024:.0f} KiB", growth < 1_000_000),
        ("99.9 % of the tokens take less than 2 medians",
         f"{tail:.2f} medians of {all_['median_us']:.0f} us, longest {all_['max_us'] / 1000:.1f} ms"
         f" (processor time: {cpu_tail:.2f} medians)", tail < 2),
    ]


def first_and_last(report):
    first, last = report["latency_first_bucket"], report["latency_last_bucket"]
    return (f"median token in the first bucket {first['median_us']:.0f} us, in the last {last['median_us']:.0f} us"
            f" (mean processor time {first['cpu']['mean_us']:.0f} and {last['cpu']['mean_us']:.0f} us)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-f", "--file", required=True, help="the text")
    parser.add_argument("--runnel", default=str(RUNNEL))
    parser.add_argument("--model", default=str(DEMO))
    parser.add_argument("--tokens", type=int, default=4_000_000)
    parser.add_argument("--bucket", type=int, default=100_000, help="tokens")
    parser.add_argument("--max-text", type=int, default=0, help="use only so many tokens of the text")
    parser.add_argument("--window", type=int, default=252)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cache", default="f16,int8")
    parser.add_argument("--save", help="keep the reports as SAVE-CACHE.json")
    parser.add_argument("settings", nargs="*", help="options for runnel, after --")
    options = parser.parse_args()

    ok = True
    for cache in options.cache.split(","):
        report = stream(options, cache)
        if options.save:
            pathlib.Path(f"{options.save}-{cache}.json").write_text(json.dumps(report, indent=1) + "\n")
        passes = report["n_tokens"] / report["n_text"]
        print(f"{cache} cache: {report['n_tokens']:,} tokens, {passes:.1f} times the text, in {report['seconds']:.0f} s")
        print("  " + " ".join(f"{bucket['ppl']:.2f}" for bucket in report["buckets"]))
        if passes <= 1:
            sys.exit("the text did not start over: nothing to hold the end against (--max-text)")
        for claim, found, holds in verdicts(report):
            print(f"  {'ok ' if holds else 'NOT'} {claim}: {found}")
            ok = ok and holds
        print(f"  --  {first_and_last(report)}", flush=True)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
