#!/usr/bin/env python3
"""The inner loops of the int8 product on ARM, where no ARM machine is at hand: what they consist of, what a model of
the processor makes of them, and how many instructions a whole product executes.

    tests/bench/arm_loops.py                                  g++-aarch64-linux-gnu, llvm-mca
    tests/bench/arm_loops.py --rows i8mm --show prefill       the instructions themselves
    tests/bench/arm_loops.py --executed                       the third table, too; qemu-user, some seconds for each line
    tests/bench/arm_loops.py --compiler clang++-14 --mca llvm-mca-19 --cpus neoverse-n1,neoverse-v1

Kernels are compiled with the flags in simd/meson.build. The loops are those over whole blocks of 32 inputs: they are
told apart by how many dots they make and add up, and how much they load. What the tables say: README.md beside this
file. Exit status 1: a loop was not found.
"""

import argparse
import ast
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from common import ROOT

BLOCK = 32  # inputs
LANES = 4
# Multiply-adds of one instruction.
DOTS = {"smmla": 32, "sdot": 16, "smull": 8, "smull2": 8, "smlal": 8, "smlal2": 8}
# What carries the sum of a block into a result at the least, in instructions of as many cycles as a fused addition.
ADDITIONS = {"g128": 1, "g32": 2}
# Instructions that wait for nothing, for what a core can do at best.
OPERANDS = {"smmla": "v{0}.4s, v30.16b, v31.16b", "sdot": "v{0}.4s, v30.16b, v31.16b", "smull": "v{0}.8h, v30.8b, v31.8b",
            "smull2": "v{0}.8h, v30.16b, v31.16b", "smlal": "v{0}.8h, v30.8b, v31.8b", "smlal2": "v{0}.8h, v30.16b, v31.16b",
            "sadalp": "v{0}.4s, v30.8h", "fmla": "v{0}.4s, v30.4s, v31.4s"}


# ---- Compiling


def build_flags(row):
    """Those of simd/meson.build."""
    text = (ROOT / "simd/meson.build").read_text()
    args = re.search(rf"'{row}': {{[^}}]*'args': (\[[^]]*\])", text)
    common = re.search(r"kernel_args = cpp.get_supported_arguments\(([^)]*)\)", text)
    if not args or not common or "(sanitized ? '2' : '3')" not in text:
        sys.exit("simd/meson.build no longer has the flags where this script looks for them")
    return ["-std=c++20", "-O3", "-fPIC", "-DNDEBUG", "-fvisibility=hidden", *ast.literal_eval(f"[{common[1]}]"),
            *ast.literal_eval(args[1]), f"-Dxsimd=xsimd_{row}"]


class Compiler:
    def __init__(self, name, flags, folder):
        self.flags = flags
        self.command = [name] + (["--target=aarch64-linux-gnu"] if "clang" in name else [])
        self.folder = folder
        (folder / "include").mkdir()
        (folder / "include/xsimd").symlink_to("/usr/include/xsimd")

    def __call__(self, source, out, *flags):
        out = self.folder / out
        subprocess.run([*self.command, *flags, f"-I{ROOT}", "-isystem", self.folder / "include", source, "-o", out], check=True)
        return out

    def row(self, row, kind):
        source = ROOT / f"simd/isa/{row}.cpp"
        return self(source, f"{row}{'.s' if kind == '-S' else '.o'}", *build_flags(row), *self.flags, kind)


# ---- Reading what came out


class Instruction:
    def __init__(self, text):
        self.text = text.strip()
        self.name, _, self.operands = self.text.partition("\t")
        self.target = re.search(r"(\.L[\w$]+)$", self.text)
        self.target = self.target[1] if self.target else None
        memory = re.search(r"\[([xw]\d+|sp)\b", self.operands)
        self.base = memory[1] if memory else None
        self.registers = re.findall(r"\b([vqdsxw]\d+|[xw]zr|sp)\b", self.operands.split("[")[0])

    def is_load(self):
        return self.name.startswith("ld")

    def is_store(self):
        return self.name.startswith("st")

    def is_vector(self):
        return bool(self.registers) and self.registers[0][0] in "vqds" and self.registers[0] != "sp"

    def bytes(self):
        """What a vector load reads."""
        if not self.is_vector():
            return 0
        if self.name.startswith("ld1"):
            element = {"b": 1, "h": 2, "s": 4, "d": 8}
            one = re.search(r"\.\d*([bhsd])}\[\d", self.operands)
            if self.name == "ld1r":
                one = re.search(r"\.\d+([bhsd])}", self.operands)
            if one:
                return element[one[1]]
            return sum(int(n) * element[kind] for n, kind in re.findall(r"\.(\d+)([bhsd])\b", self.operands))
        return sum({"q": 16, "d": 8, "s": 4}[r[0]] for r in self.registers if r[0] in "qds" and r != "sp")


def functions(assembly):
    """Lists of instructions and of labels' places among them."""
    starts = set(re.findall(r"\.type\s+(\S+),\s*[%@]function", assembly))
    name, found = None, {}
    for line in assembly.splitlines():
        line = line.split("//")[0].rstrip()
        label = re.match(r"([\w.$]+):", line)
        if label and label[1] in starts:
            name = label[1]
            found[name] = ([], {})
        elif name is None:
            continue
        elif label:
            found[name][1][label[1]] = len(found[name][0])
        elif re.match(r"\s+[a-z]", line):
            found[name][0].append(Instruction(line))
    return {name: parts for name, parts in found.items() if "peak" not in name}


def stack_registers(instructions):
    """Those that point into the stack frame at the end of these instructions."""
    pointing = {"sp", "x29"}
    for one in instructions:
        if not one.registers or one.is_store() or one.is_load() or one.registers[0][0] != "x":
            continue
        to, *others = one.registers
        pointing.discard(to)
        if one.name in ("add", "sub", "mov") and others and others[0] in pointing:
            pointing.add(to)
    return pointing


class Loop:
    def __init__(self, row, before, body):
        self.row, self.body = row, body
        self.names = collections.Counter(one.name for one in body)
        self.dots = sum(self.names[name] for name in DOTS)
        self.macs = sum(DOTS[name] * self.names[name] for name in DOTS)
        self.sums = self.macs // (LANES * BLOCK)  # vectors times tokens
        self.additions = sum(one.name == "fmla" and ".4s" in one.operands for one in body)
        multiplications = self.additions + self.names["fmul"]
        self.variant = "g32" if multiplications > self.sums else "g128"  # which has one scale for each sum, not two
        stack = stack_registers(before)
        self.spills = [one for one in body if one.is_store() or (one.is_load() and one.base in stack)]
        self.loads = [one for one in body if one.is_load() and one not in self.spills]
        self.vector = [one for one in body if one.is_vector() and one.name not in DOTS and not one.base]
        self.scalar = len(body) - self.dots - len(self.spills) - len(self.loads) - len(self.vector)
        self.vectors, self.tokens = self.shape()

    def shape(self):
        """Which tile it is: that of which weights and inputs are as many bytes as are loaded from different places."""
        loaded = sum({one.operands.partition("[")[2]: one.bytes() for one in self.loads}.values())
        shapes = [(v, self.sums // v) for v in (4, 8, 16) if self.sums and self.sums % v == 0]
        need = {(v, t): v * LANES * BLOCK + t * (BLOCK + 4) + (8 * v if self.variant == "g32" else 0) for v, t in shapes}
        return min(shapes, key=lambda shape: abs(need[shape] - loaded), default=(0, 0))

    def is_tile(self):
        """Whole blocks, with one or two fused additions for each of their sums."""
        return self.sums > 0 and self.macs == self.sums * LANES * BLOCK and self.additions in (self.sums, 2 * self.sums)

    def kind(self):
        return "decode" if self.tokens == 1 else "prefill"

    def label(self):
        return f"{self.row} {self.kind()} {self.variant}"


def loops(row, assembly):
    """The largest tile of one token and of several, for both variants of the weights; of two as large the one with
    fewer dots (i8mm has dotprod's as well, for few tokens)."""
    best = {}
    for instructions, labels in functions(assembly).values():
        ranges = sorted({(labels[one.target], end + 1) for end, one in enumerate(instructions)
                         if one.target in labels and labels[one.target] <= end})
        for begin, end in ranges:
            if any((b, e) != (begin, end) and begin <= b and e <= end for b, e in ranges):
                continue
            loop = Loop(row, instructions[:begin], instructions[begin:end])
            if not loop.is_tile():
                continue
            key = (loop.kind(), loop.variant)
            if key not in best or (loop.macs, -loop.dots) > (best[key].macs, -best[key].dots):
                best[key] = loop
    return [best.get((kind, variant)) for kind in ("decode", "prefill") for variant in ("g128", "g32")]


# ---- llvm-mca


class Core:
    def __init__(self, mca, cpu):
        self.command = [mca, "-mtriple=aarch64-linux-gnu", f"-mcpu={cpu}", "-instruction-info=false"]
        self.cpu = cpu
        text = self.run(["fmul\tv0.4s, v1.4s, v2.4s"])
        if text is None:
            sys.exit(f"{mca}: no scheduling model for {cpu}")
        # The names of a model's units begin with its own: a core that has no model is given another's.
        units = re.findall(r"^\[\d+(?:\.\d+)?\]\s+- (\w+)", text, re.M)
        self.model = re.sub(r"^Cortex|(Unit|Pipe)$", "", os.path.commonprefix(units))
        version = subprocess.run([mca, "--version"], capture_output=True, text=True, check=True).stdout
        self.llvm = re.search(r"LLVM version (\d+)", version)[1]

    def run(self, instructions, iterations=1000):
        done = subprocess.run([*self.command, f"-iterations={iterations}"], input="\n".join(instructions) + "\n",
                              capture_output=True, text=True)
        return done.stdout if done.returncode == 0 and "not a recognized processor" not in done.stderr else None

    def cycles(self, instructions):
        """For one iteration; None where the core lacks an instruction."""
        texts = [self.run(instructions, iterations) for iterations in (200, 1200)]
        if None in texts:
            return None
        first, second = (int(re.search(r"Total Cycles:\s+(\d+)", text)[1]) for text in texts)
        return (second - first) / 1000

    def ideal(self, loop, additions):
        """Cycles for the dots of a loop alone, none waiting for another; or with the fused additions that the format
        asks for once in a block for each sum."""
        names = [name for name in OPERANDS if name != "fmla" for _ in range(loop.names[name])]
        if additions:
            names += ["fmla"] * (ADDITIONS[loop.variant] * loop.sums)
        return self.cycles([f"{name}\t{OPERANDS[name].format(i % 28)}" for i, name in enumerate(names)])


# ---- Executed


def executed(compiler, rows, sizes):
    """Instructions of one call for each multiply-add: two calls less one, counted by the emulator."""
    for row in rows:
        program = compiler(ROOT / "tests/bench/arm_call.cpp", f"{row}-call", "-std=c++20", "-O2", "-static",
                           f"-DRUNNEL_ROW=kernels_{row}", compiler.row(row, "-c"))
        for n_rows, n_cols, n_tok in sizes:
            for variant in ("g128", "g32"):
                counts = [count_instructions([program, variant, str(n_rows), str(n_cols), str(n_tok), str(calls)])
                          for calls in (1, 2)]
                yield row, variant, n_rows, n_cols, n_tok, (counts[1] - counts[0]) / (n_rows * n_cols * n_tok)


def count_instructions(command):
    qemu = subprocess.Popen(["qemu-aarch64", "-cpu", "max", "-singlestep", "-d", "exec,nochain", *command],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    count = sum(line.startswith(b"Trace") for line in qemu.stderr)
    if qemu.wait() != 0:
        sys.exit(f"{command[0]}: exit status {qemu.returncode}")
    return count


# ---- Tables


def table(head, rows):
    rows = [[str(cell) for cell in row] for row in rows]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def print_counts(found):
    head = ["loop", "rows x tokens", "instructions", "dots", "loads", "other vector", "scalar", "spills",
            "a multiply-add", "a dot"]
    table(head, [[loop.label(), f"{loop.vectors * LANES} x {loop.tokens}", len(loop.body), loop.dots, len(loop.loads),
                  len(loop.vector), loop.scalar, len(loop.spills), f"{len(loop.body) / loop.macs:.4f}",
                  f"{len(loop.body) / loop.dots:.2f}"] for loop in found])


def print_cycles(found, cores):
    lines = []
    for loop in found:
        for core in cores:
            ideal, least = core.ideal(loop, False), core.ideal(loop, True)
            if ideal is None:
                continue  # no such instruction there
            cycles = core.cycles([one.text for one in loop.body])
            lines.append([loop.label(), f"{core.cpu} ({core.model})", core.llvm, f"{cycles:.1f}", f"{loop.macs / cycles:.1f}",
                          f"{loop.macs / ideal:.1f}", f"{100 * ideal / cycles:.0f} %", f"{100 * least / cycles:.0f} %"])
    table(["loop", "core (model)", "LLVM", "cycles", "multiply-adds a cycle", "dots alone", "share",
           "share with additions"], lines)


def newest_mca():
    return next((name for name in [f"llvm-mca-{n}" for n in range(30, 13, -1)] + ["llvm-mca"] if shutil.which(name)), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="dotprod,i8mm", help="of dotprod, i8mm and neon")
    parser.add_argument("--compiler", default="aarch64-linux-gnu-g++")
    parser.add_argument("--flags", default="", help="further ones for the kernels")
    parser.add_argument("--mca", default=newest_mca(), help="the newest that there is")
    parser.add_argument("--cpus", default="neoverse-n1,neoverse-v1")
    parser.add_argument("--executed", action="store_true", help="count what whole products execute, too")
    parser.add_argument("--sizes", default="256x2048x1,256x2048x16", help="of those: rows x columns x tokens")
    parser.add_argument("--show", metavar="PART", help="print the loops with this in their names")
    options = parser.parse_args()
    rows = options.rows.split(",")
    with tempfile.TemporaryDirectory() as name:
        compiler = Compiler(options.compiler, options.flags.split(), pathlib.Path(name))
        found = [loop for row in rows for loop in loops(row, compiler.row(row, "-S").read_text())]
        missing = found.count(None)
        found = [loop for loop in found if loop]
        print_counts(found)
        for loop in found:
            if options.show and options.show in loop.label():
                print(loop.label(), *("    " + one.text.replace("\t", " ") for one in loop.body), sep="\n")
        if options.mca:
            print_cycles(found, [Core(options.mca, cpu) for cpu in options.cpus.split(",")])
        if options.executed:
            sizes = [tuple(map(int, size.split("x"))) for size in options.sizes.split(",")]
            table(["row", "weights", "rows x columns x tokens", "executed instructions a multiply-add"],
                  [[row, variant, f"{n_rows} x {n_cols} x {n_tok}", f"{per_mac:.4f}"]
                   for row, variant, n_rows, n_cols, n_tok, per_mac in executed(compiler, rows, sizes)])
    if missing:
        print(f"{missing} loops not found")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
