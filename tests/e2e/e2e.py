"""What the end-to-end tests share: the program under test, its data, and how to run it."""

import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import unittest

RUNNEL = os.environ["RUNNEL"]
SOURCE_ROOT = pathlib.Path(os.environ["RUNNEL_SOURCE_ROOT"])
DEMO = SOURCE_ROOT / "cli" / "demo" / "runnel-demo-f16.gguf"
SHARED = SOURCE_ROOT.parent / "shared"
TIMEOUT_S = 300

QUESTION = "I want to book a table for two in San Jose."
ANSWER = "What time would you like to eat?"
OTHER_QUESTION = "Can you find me a cheap hotel in Paris?"
OTHER_ANSWER = (
    "I found 10 hotels. How about the 1 star hotel called Ac Hotel By Marriott Paris Porte Maillot?"
)


class Result:
    """stdout and stderr are bytes; a code below 0 is the signal that ended the program."""

    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout
        self.err = process.stderr.decode("utf-8", "replace")

    def __repr__(self):
        return f"code {self.code}, out {self.out!r}, err {self.err!r}"


def run(*arguments, stdin=b""):
    command = [RUNNEL, *map(str, arguments)]
    return Result(subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT_S))


def commands(folder, model=DEMO):
    """Every command with what it needs; all but synth on this model."""
    out = folder / "out"
    yield "chat", model
    yield "generate", model, "-p", "Hello", "-n", "2"
    yield "info", model
    yield "tokenize", model, "-p", "Hello"
    yield "perplexity", model, "-p", "Hello " * 40, "-c", "16"
    yield "logits", model, "--tokens", "1,2", "--out", out
    yield "quantize", model, out
    yield "inspect", model, "-p", "Hello there"
    yield "bench", model
    yield "synth", "--shape", "stories260k", out


def default_signals():
    """For a child of ours: shells and nohup hand down signals that are ignored."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start(*arguments, stdin=subprocess.PIPE):
    """The program at work, its output in pipes: to talk to, or to interrupt."""
    command = [RUNNEL, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=stdin, stdout=pipe, stderr=pipe, preexec_fn=default_signals)


def shared(name):
    """A file of the reference data; the test is skipped where there is none."""
    path = SHARED / name
    if not path.exists():
        raise unittest.SkipTest(f"no reference data: {path} is absent")
    return path


class TestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def succeed(self, *arguments, stdin=b""):
        result = run(*arguments, stdin=stdin)
        self.assertEqual(result.code, 0, f"runnel {arguments}: {result}")
        return result

    def perplexity(self, *arguments):
        """The report of `runnel perplexity` on one thread."""
        return json.loads(self.succeed("perplexity", *arguments, "--json", "-t", 1).out)

    def fail_cleanly(self, *arguments, stdin=b"", code=None, naming=""):
        """One line on standard error that names the trouble, nothing on standard output, no signal."""
        result = run(*arguments, stdin=stdin)
        what = f"runnel {arguments}: {result}"
        if code is None:
            self.assertIn(result.code, (1, 2), what)
        else:
            self.assertEqual(result.code, code, what)
        self.assertEqual(result.out, b"", what)
        self.assertTrue(result.err.startswith("runnel: "), what)
        self.assertEqual(result.err.count("\n"), 1, what)
        self.assertTrue(result.err.endswith("\n"), what)
        self.assertIn(naming, result.err, what)
        return result


def patched(data, key, change):
    """GGUF bytes with the value after a length-prefixed string `key` changed: change(data, offset after key)."""
    at = data.index(struct.pack("<Q", len(key)) + key) + 8 + len(key)
    changed = bytearray(data)
    change(changed, at)
    return bytes(changed)


def with_type(tensor, type_id):
    """The demo model's bytes, with another type for a tensor."""

    def change(data, at):
        # u32 rank, u64 extent[rank], u32 type
        rank = struct.unpack_from("<I", data, at)[0]
        struct.pack_into("<I", data, at + 4 + 8 * rank, type_id)

    return patched(DEMO.read_bytes(), tensor, change)


def with_other_architecture():
    """The demo model's bytes, with an architecture of that many x."""

    def change(data, at):
        # u32 type 8 (string), u64 length, text
        length = struct.unpack_from("<Q", data, at + 4)[0]
        data[at + 12 : at + 12 + length] = b"x" * length

    return patched(DEMO.read_bytes(), b"general.architecture", change)


def gguf_text(content):
    """As a GGUF file has it."""
    return struct.pack("<Q", len(content)) + content


def with_tokenizer(data, n_vocab):
    """The bytes of a GGUF file without a tokenizer, with one whose tokens are the printable characters."""
    names = [b"<unk>", *(bytes([character]) for character in range(33, 127))]
    names += [b"unused%d" % i for i in range(len(names), n_vocab)]
    string, array, f32, i32 = 8, 9, 6, 5  # value types of gguf.md
    entries = b"".join(
        gguf_text(b"tokenizer.ggml." + key) + value
        for key, value in (
            (b"model", struct.pack("<I", string) + gguf_text(b"llama")),
            (b"tokens", struct.pack("<IIQ", array, string, n_vocab) + b"".join(map(gguf_text, names))),
            (b"scores", struct.pack("<IIQ", array, f32, n_vocab) + bytes(4 * n_vocab)),
            (b"token_type", struct.pack(f"<IIQ{n_vocab}i", array, i32, n_vocab, 2, *[1] * (n_vocab - 1))),
        )
    )
    fill = gguf_text(b"fill") + struct.pack("<I", string)
    entries += fill + gguf_text(b" " * (-(len(entries) + len(fill) + 8) % 32))  # tensors stay aligned

    def rename(changed, at):
        changed[at - 1 : at] = b"_"

    data = patched(data, b"tokenizer.ggml.model", rename)  # "no_vocab"
    n_entries = struct.unpack_from("<Q", data, 16)[0]
    return data[:16] + struct.pack("<Q", n_entries + 4 + 1) + entries + data[24:]


def main():
    unittest.main(verbosity=2)
