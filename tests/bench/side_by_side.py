#!/usr/bin/env python3
"""Runnel beside llama.cpp: the same model with random weights, the same tokens, turn by turn.

Makes the model with `runnel synth`, installs llama-cpp-python (built for this machine) into a virtual environment,
starts one process for each contender, has them work in turns, one at a time, and prints medians and their ratios:

    side_by_side.py --build build --shape tinyllama-1.1b --type q8_0 --threads 1,2 --depth 4096

What the rows and columns mean is told in README.md beside this file.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from common import DECODE_BYTES, Library, Session, machine, note, table, tokens_for

PEER = "llama-cpp-python"
BATCH = 512  # tokens the peer reads together
SINKS = 4
BOUND = ", bound"  # behind the name of a contender of runnel: what memory alone would let it do


# ---- The contenders, each driven through its own C interface. Tokens are fed, not sampled, by both.


class Runnel:
    def __init__(self, options):
        self.library, self.options = Library(options["build"]), options
        self.model, n_vocab = self.library.model(options["model"])
        self.tokens = tokens_for(options["n_most"], n_vocab)
        self.open(max(options["n_prompt"], options["n_decode"] + 1))

    def open(self, window):
        settings = {"cache": self.options["cache"], "isa": self.options["isa"]}
        self.session = Session(self.library, self.model, window=window, sinks=SINKS, **settings)

    def threads(self, n):
        self.session.set("threads", n)

    def clear(self):
        self.session.reset()

    def prompt(self, n):
        self.session.feed(self.tokens, 0, n)

    def step(self, i):
        self.session.feed(self.tokens, i, 1)

    # A window of `depth` tokens, filled: from here on each token pushes one out.
    def fill(self, depth, threads):
        self.session.close()
        self.open(depth - SINKS)
        self.threads(threads)
        self.prompt(depth)

    def rewind(self, depth):
        pass

    # Tokens a second at which memory gives what a token reads that sees n others, as `runnel bench` has it.
    def bound(self, n, threads):
        library, rate, cache, scratch = self.library, ctypes.c_double(), ctypes.c_int64(), ctypes.c_int64()
        with library.config(threads=threads, isa=self.options["isa"]) as config:
            library("runnel_measure_read", self.model, config, ctypes.byref(rate))
        with library.config(cache=self.options["cache"], sinks=SINKS, window=max(1, n - SINKS), batch=1) as config:
            library("runnel_model_session_bytes", self.model, config, ctypes.byref(cache), ctypes.byref(scratch))
        return rate.value / (library.lib.runnel_model_fact(self.model, DECODE_BYTES) + cache.value)


class LlamaCpp:
    def __init__(self, options):
        import llama_cpp

        self.api = api = llama_cpp
        self.log = api.llama_log_callback(lambda level, text, user: None)
        api.llama_log_set(self.log, None)
        api.llama_backend_init()
        params = api.llama_model_default_params()
        params.use_extra_bufts = options["repack"]
        self.model = api.llama_model_load_from_file(options["model"].encode(), params)
        if not self.model:
            raise RuntimeError("cannot load " + options["model"])
        self.tokens = tokens_for(options["n_most"], api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model)))
        params = api.llama_context_default_params()
        params.n_ctx = max(options["n_prompt"], options["n_decode"] + 1, options["depth"] + options["n_decode"])
        params.n_batch = params.n_ubatch = BATCH
        params.n_seq_max, params.kv_unified = 2, True
        params.type_k = params.type_v = {"f16": 1, "q8_0": 8}[options["cache"]]
        self.context = api.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError("cannot make a context")
        self.memory = api.llama_get_memory(self.context)
        self.batch = api.llama_batch_init(BATCH, 0, 1)

    def feed(self, begin, n):
        for at in range(begin, begin + n, BATCH):
            first = ctypes.cast(ctypes.byref(self.tokens, at * 4), ctypes.POINTER(ctypes.c_int32))
            self.decode(self.api.llama_batch_get_one(first, min(BATCH, begin + n - at)))

    def feed_sequence(self, sequence, begin, n):
        self.batch.n_tokens = n
        for i in range(n):
            self.batch.token[i], self.batch.pos[i] = self.tokens[begin + i], begin + i
            self.batch.n_seq_id[i], self.batch.seq_id[i][0], self.batch.logits[i] = 1, sequence, i + 1 == n
        self.decode(self.batch)

    def decode(self, batch):
        if self.api.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        self.api.llama_synchronize(self.context)

    def threads(self, n):
        self.api.llama_set_n_threads(self.context, n, n)

    def clear(self):
        self.api.llama_memory_clear(self.memory, True)

    def prompt(self, n):
        self.feed(0, n)

    def step(self, i):
        self.feed(i, 1)

    # Each batch is read as a sequence of its own, at its place, and then handed to the first: the same cache, but that
    # no batch attends to those before it, which would take hours at 32,768. The numbers in it do not matter to time.
    def fill(self, depth, threads):
        self.threads(threads)
        self.clear()
        for begin in range(0, depth, BATCH):
            self.feed_sequence(1, begin, min(BATCH, depth - begin))
            self.api.llama_memory_seq_cp(self.memory, 1, 0, -1, -1)
            self.api.llama_memory_seq_rm(self.memory, 1, -1, -1)

    # It cannot stream: what was decoded is dropped again.
    def rewind(self, depth):
        self.api.llama_memory_seq_rm(self.memory, 0, depth, -1)


def resident_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def work(options):
    """A contender's process: one request a line on standard input, one answer a line on standard output."""
    if options["engine"] == "llama.cpp":
        import llama_cpp  # noqa: F401  not part of what it takes to load a model
    before = resident_bytes()
    start = time.perf_counter()
    contender = {"runnel": Runnel, "llama.cpp": LlamaCpp}[options["engine"]](options)
    contender.threads(options["threads"])
    load_s = time.perf_counter() - start
    contender.clear()
    contender.step(0)
    first_token_s = time.perf_counter() - start

    def timed(call):
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    def decode():
        for i in range(options["n_decode"]):
            contender.step(i)

    def answer(request):
        part, threads = request["part"], request["threads"]
        contender.threads(threads)
        if part == "prompt":
            contender.clear()
            return options["n_prompt"] / timed(lambda: contender.prompt(options["n_prompt"]))
        if part == "decode":
            contender.clear()
            contender.step(0)
            return options["n_decode"] / timed(decode)
        if part == "fill":
            return options["depth"] / timed(lambda: contender.fill(options["depth"], threads))
        if part == "decode at depth":
            contender.rewind(options["depth"])
            return options["n_decode"] / timed(decode)
        if part == "bound of decode":
            return contender.bound(options["n_decode"] // 2 + 2, threads)
        if part == "bound of decode at depth":
            return contender.bound(options["depth"], threads)
        if part == "load":
            return load_s
        if part == "facts":
            return {"load_s": load_s, "first_token_s": first_token_s, "memory_bytes": resident_bytes() - before}
        raise ValueError(part)

    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


class Worker:
    """One contender: a process, or some at once that are all asked the same."""

    def __init__(self, python, options, copies):
        self.name = options["name"]
        command = [python, __file__, "--work", json.dumps(options)]
        self.processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(copies)
        ]

    def ask(self, part, threads):
        for process in self.processes:
            process.stdin.write(json.dumps({"part": part, "threads": threads}) + "\n")
            process.stdin.flush()
        return [self.answer(process, part) for process in self.processes]

    def answer(self, process, part):
        line = process.stdout.readline()
        if not line:
            sys.exit(f"{self.name}: ended with code {process.wait()} in part '{part}'")
        return json.loads(line)

    def close(self):
        for process in self.processes:
            process.stdin.close()
            process.wait()


@contextlib.contextmanager
def busy_programs(n):
    """n other programs that never wait for anything."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


# ---- The comparison


def install_peer(venv):
    """Builds the peer for this processor, once; the virtual environment's Python."""
    python = venv / "bin" / "python"
    installed = python.exists() and subprocess.run([python, "-c", "import llama_cpp"], capture_output=True)
    if not installed or installed.returncode != 0:
        note(f"installing {PEER} into {venv}: it is compiled, which takes some minutes")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        flags = os.environ.get("CMAKE_ARGS", "-DGGML_NATIVE=ON")
        environment = dict(os.environ, CMAKE_ARGS=flags + " -DCMAKE_BUILD_TYPE=Release")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-binary", PEER, PEER], check=True, env=environment)
    return python


def make(path, command):
    """The file, made where it is not there yet."""
    if not path.exists():
        note(f"making {path}")
        subprocess.run(command, check=True)
    return path


def make_model(options, folder):
    if options.model:
        return options.model
    path = folder / f"{options.shape}-{options.type}.gguf"
    return make(path, [options.build / "runnel", "synth", "--shape", options.shape, "--type", options.type, path])


def pack(options, model, folder):
    path = folder / (model.stem + "-packed.gguf")
    return make(path, [options.build / "runnel", "quantize", model, path, "--type", "i8"])


def peer_quantize(paths):
    """Run by the virtual environment's Python."""
    import llama_cpp

    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = getattr(llama_cpp, "LLAMA_FTYPE_MOSTLY_" + paths["type"].upper())
    params.allow_requantize = True
    log = llama_cpp.llama_log_callback(lambda level, text, user: None)
    llama_cpp.llama_log_set(log, None)
    partial = paths["to"] + ".partial"  # what an interrupt leaves is not taken for the file
    if llama_cpp.llama_model_quantize(paths["from"].encode(), partial.encode(), ctypes.byref(params)) != 0:
        sys.exit(f"llama.cpp cannot make {paths['type']} of {paths['from']}")
    os.replace(partial, paths["to"])


def peer_pack(python, model, kind, folder):
    path = folder / f"{model.stem}-peer-{kind}.gguf"
    paths = {"type": kind, "from": str(model), "to": str(path)}
    return make(path, [python, __file__, "--peer-quantize", json.dumps(paths)])


def contenders(options, python, model, folder):
    common = {
        "n_prompt": options.prompt,
        "n_decode": options.decode,
        "depth": options.depth,
        "n_most": max(options.prompt, options.decode, options.depth, 1),
        "threads": max(options.threads),
    }
    runnel = dict(common, engine="runnel", build=str(options.build), model=str(model), isa=options.isa)
    peer = dict(common, engine="llama.cpp", repack=not options.no_repack, model=str(model))
    chosen = [
        dict(runnel, name="runnel, f16 cache", cache="f16"),
        dict(runnel, name="runnel, int8 cache", cache="int8"),
        dict(peer, name="llama.cpp, f16 cache", cache="f16"),
        dict(peer, name="llama.cpp, q8_0 cache", cache="q8_0"),
    ]
    if options.packed:
        packed = str(pack(options, model, folder))
        chosen[0:0] = [
            dict(runnel, name="runnel packed, f16 cache", cache="f16", model=packed),
            dict(runnel, name="runnel packed, int8 cache", cache="int8", model=packed),
        ]
    for kind in options.peer_type:
        packed = str(peer_pack(python, model, kind, folder))
        chosen += [
            dict(peer, name=f"llama.cpp {kind}, f16 cache", cache="f16", model=packed),
            dict(peer, name=f"llama.cpp {kind}, q8_0 cache", cache="q8_0", model=packed),
        ]
    return [one for one in chosen if not options.only or any(part in one["name"] for part in options.only)]


def read_once(path):
    """So that the first contender's load does not wait for the disk, for all of them."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def compare(workers, options):
    """{(part, threads): {contender: [tokens a second, ...]}}, in turns."""
    parts = [("prompt", options.prompt), ("decode", options.decode), ("decode at depth", options.decode * options.depth)]
    results = {}
    for part, size in parts:
        if size == 0:
            continue
        if part == "decode at depth":
            for worker in workers:
                note(f"filling the window: {worker.name}")
                worker.ask("fill", max(options.threads))
        for threads in options.threads:
            rates = results[part, threads] = {worker.name: [] for worker in workers}
            bounded = [w for w in workers if options.bounds and part != "prompt" and w.name.startswith("runnel")]
            rates.update({worker.name + BOUND: [] for worker in bounded})
            for turn in range(options.repeat + 1):
                for worker in workers:
                    time.sleep(options.pause / 1000)
                    each = worker.ask(part, threads)
                    if turn > 0:  # the first warms up
                        rates[worker.name].append(statistics.mean(each))
                        if worker in bounded:
                            rates[worker.name + BOUND].append(statistics.mean(worker.ask("bound of " + part, threads)))
            note(f"{part}, threads {threads}: " + ", ".join(f"{statistics.median(r):.4g}" for r in rates.values()))
    return results


def part_name(part, options):
    return {"prompt": f"prompt of {options.prompt}", "decode at depth": f"decode at {options.depth}"}.get(part, part)


def tables(results, facts, names, options):
    """Rates and their spread; each of runnel's divided by each of the peer's; load time and memory."""
    ours = [name for name in names if name.startswith("runnel")]
    peers = [name for name in names if not name.startswith("runnel")]
    rated = names + [name + BOUND for name in ours if options.bounds]
    rates = [["tokens/s", "threads", *rated]]
    ratios = [["ratio", "threads", "of", *(f"to {name}" for name in peers)]]

    def spread(values):
        return f"{statistics.median(values):.4g} ({min(values):.4g}-{max(values):.4g})" if values else ""

    for (part, threads), by_name in results.items():
        medians = {name: statistics.median(values) for name, values in by_name.items()}
        head = [part_name(part, options), str(threads)]
        rates.append(head + [spread(by_name.get(name)) for name in rated])
        dividends = [name for name in medians if name not in peers]
        ratios += [head + [a] + [f"{medians[a] / medians[b]:.2f}" for b in peers] for a in dividends]
    costs = [["", *names]]
    for label, key, scale, unit in (
        ("load", "load_s", 1e3, "ms"),
        ("first token", "first_token_s", 1e3, "ms"),
        ("peak memory", "memory_bytes", 2**-20, "MiB"),
    ):
        costs.append([label] + [f"{facts[name][key] * scale:.0f} {unit}" for name in names])
    return [rates, ratios, costs] if ours and peers else [rates, costs]


def at_least(least):
    def number(text):
        if (n := int(text)) < least:
            raise argparse.ArgumentTypeError(f"{n} is below {least}")
        return n

    return number


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "runnel-bench"
    parser.add_argument("--build", type=pathlib.Path, default="build", help="runnel's build directory")
    parser.add_argument("--venv", type=pathlib.Path, default=cache / "venv", help="where the peer is, or is to be")
    parser.add_argument("--folder", type=pathlib.Path, help="where models are kept; default: a temporary one")
    parser.add_argument("--model", type=pathlib.Path, help="a GGUF file in place of --shape and --type")
    parser.add_argument("--shape", default="tinyllama-1.1b")
    parser.add_argument("--type", default="q8_0")
    parser.add_argument("--packed", action="store_true", help="runnel also on the same weights packed as int8")
    parser.add_argument("--peer-type", action="append", default=[], help="the peer also on its own q4_0, q4_k_m ... of it")
    parser.add_argument("--prompt", type=at_least(0), default=512, help="tokens; 0: no such part")
    parser.add_argument("--decode", type=at_least(0), default=64, help="tokens decoded one by one; 0: no such part")
    parser.add_argument("--depth", type=at_least(0), default=0, help="tokens in the cache meanwhile; 0: no such part")
    parser.add_argument("--threads", type=lambda text: list(map(at_least(1), text.split(","))), default=[1, 2])
    parser.add_argument("--repeat", type=at_least(1), default=5, help="turns that count")
    parser.add_argument("--pause", type=at_least(0), default=0, help="milliseconds before each turn: README.md")
    parser.add_argument("--isa", default="", help="runnel's kernels (runnel info), in place of the best; README.md")
    parser.add_argument("--only", action="append", help="contenders with this in their name; may be repeated")
    parser.add_argument("--busy", type=at_least(0), default=0, help="other programs that compute all the while")
    parser.add_argument("--at-once", type=at_least(1), default=1, help="copies of each contender at once; means")
    parser.add_argument("--no-repack", action="store_true", help="the peer without its own packed layouts (and AMX)")
    parser.add_argument("--bounds", action="store_true", help="also what memory alone would let runnel decode")
    parser.add_argument("--json", action="store_true", help="every measurement, as JSON")
    return parser.parse_args()


def main():
    modes = {"--work": work, "--peer-quantize": peer_quantize}
    if len(sys.argv) > 1 and sys.argv[1] in modes:
        return modes[sys.argv[1]](json.loads(sys.argv[2]))
    options = parse()
    python = install_peer(options.venv)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        model = make_model(options, folder)
        workers = []
        for one in contenders(options, python, model, folder):
            read_once(one["model"])
            workers.append(Worker(python, one, options.at_once))
            workers[-1].ask("load", max(options.threads))  # the next one has the machine to itself for that
        with busy_programs(options.busy):
            results = compare(workers, options)
        facts = {worker.name: worker.ask("facts", max(options.threads))[0] for worker in workers}
        for worker in workers:
            worker.close()
    names = [worker.name for worker in workers]
    if options.json:
        measured = [{"part": part, "threads": n, "tokens_per_s": rates} for (part, n), rates in results.items()]
        print(json.dumps({"machine": machine(), "model": model.name, "facts": facts, "results": measured}, indent=2))
    else:
        print(f"{model.name}; {machine()}; medians of {options.repeat}\n")
        print("\n\n".join(table(rows) for rows in tables(results, facts, names, options)))
    return None


if __name__ == "__main__":
    main()
