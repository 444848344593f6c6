"""Bad input: one clear line, an exit code other than 0, never a signal."""

import json
import os
import struct
import subprocess

import e2e


def widen(data, at):
    # u32 type 4 (u32), u32 value
    struct.pack_into("<I", data, at + 4, 1 << 20)


class BadFiles(e2e.TestCase):
    def check(self, path, naming="", without=()):
        """Of every command that reads a model, but those without which this is bad input."""
        for arguments in e2e.commands(self.folder, path):
            if arguments[0] not in ("synth", *without):
                self.fail_cleanly(*arguments, stdin=b"Hello\n", code=1, naming=naming or str(path))
                self.assertFalse((self.folder / "out").exists(), arguments)

    def test_missing(self):
        self.check(self.folder / "missing.gguf")

    def test_directory(self):
        self.check(self.folder)

    def test_empty(self):
        self.check(self.write("empty.gguf", b""))

    def test_text(self):
        self.check(self.write("text.gguf", b"Call me Ishmael. Some years ago, never mind how long precisely...\n" * 9))

    def test_truncated(self):
        data = e2e.DEMO.read_bytes()
        for n_bytes in (3, 4, 20, 1000, 50_000):
            self.check(self.write(f"cut{n_bytes}.gguf", data[:n_bytes]))
        # With all of its tokenizer a file still tokenizes.
        self.check(self.write("cut.gguf", data[: len(data) // 2]), without=("tokenize",))

    def test_weights_that_are_no_numbers(self):
        """One that is NaN makes NaN of all that comes after it."""
        data = bytearray(e2e.DEMO.read_bytes())
        data[-4000:-3998] = b"\x00\x7e"  # f16
        path = self.write("nan.gguf", bytes(data))
        self.check(path, naming="number", without=("info", "tokenize", "logits", "generate", "quantize"))
        self.fail_cleanly("quantize", path, self.folder / "out", code=1, naming="holds nan at row ")
        result = e2e.run("generate", path, "-p", "Hello", "-n", "2")  # writes the prompt first
        self.assertEqual((result.code, result.out), (1, b"Hello"))
        self.assertIn("none of its results is a number", result.err)
        self.fail_cleanly("inspect", path, "-p", "Hello " * 10, code=1, naming="the activations are not numbers")
        of_this = f"{path}: the model's results are not numbers"
        text = ("-p", "Hello " * 40)
        chunks = ("-c", 16, "--kl-divergence", "--base")
        for mode in (("--stream",), ("--compare", "--window", 16), ("-c", 16), (*chunks, e2e.DEMO), (*chunks, path)):
            self.fail_cleanly("perplexity", path, *text, *mode, code=1, naming=of_this)
        self.fail_cleanly("perplexity", e2e.DEMO, *text, *chunks, path, code=1, naming=of_this)

    def test_rows_that_a_batch_would_need_gigabytes_for(self):
        data = e2e.patched(e2e.DEMO.read_bytes(), b"llama.feed_forward_length", widen)
        self.check(self.write("wide.gguf", data), naming="makes rows of 1048576 numbers", without=("tokenize",))

    def test_unknown_architecture(self):
        self.check(self.write("unknown.gguf", e2e.with_other_architecture()), naming="xxxxx", without=("info", "tokenize"))

    def test_weights_that_no_part_uses(self):
        data = e2e.DEMO.read_bytes().replace(b"blk.5.attn_q.bias", b"blk.5.attn_x.bias")
        self.check(self.write("weights.gguf", data), naming="blk.5.attn_x.bias", without=("info", "tokenize"))

    def test_unknown_tensor_type(self):
        data = e2e.with_type(b"output_norm.weight", 9999)
        self.check(self.write("type.gguf", data), naming="9999", without=("tokenize",))

    def test_a_line_break_in_a_name_stays_on_the_line(self):
        result = self.fail_cleanly("info", "no such\nfile\x1b[31m\x9b31m", code=1)
        for control in ("\x1b", "\x9b"):
            self.assertNotIn(control, result.err)


class BadFlags(e2e.TestCase):
    def bad(self, *arguments, naming=""):
        self.fail_cleanly(*arguments, stdin=b"Hello\n", naming=naming)

    def test_numbers(self):
        numbers = ("-1", "-9223372036854775809", "18446744073709551616", "1e30", "nan", "inf", "abc", "", "0x10", "5 5")
        for flag in ("--threads", "--window", "--sinks", "--batch", "--top-k"):
            for number in numbers:
                self.bad("chat", flag, number, naming=flag)
        for flag in ("--temp", "--top-p", "--min-p", "--typical-p", "--repetition-penalty"):
            for number in ("-1", "1e30", "nan", "abc", ""):
                self.bad("generate", e2e.DEMO, "-p", "x", flag, number)
        for number in ("-2", "99999999999999999999", "1.5", "abc", ""):
            self.bad("generate", e2e.DEMO, "-p", "x", "-n", number, naming="--n-tokens")
        for number in ("-1", "0", "1", "99999999999999999999", "abc", ""):
            self.bad("perplexity", e2e.DEMO, "-p", "Hello", "-c", number, naming="--chunk")
        for number in ("-1", "0", "99999999999999999999", "abc"):
            self.bad("perplexity", e2e.DEMO, "-p", "Hello", "--chunks", number, naming="--chunks")

    def test_whole_numbers_are_decimal(self):
        report = self.succeed("generate", e2e.DEMO, "-p", "x", "-n", "010", "--ignore-eos", "--json").out
        self.assertEqual(json.loads(report)["generated_tokens"], 10)
        report = self.perplexity(e2e.DEMO, "-p", "Hello " * 40, "-c", "09", "--score-from", "08", "--chunks", "02")
        self.assertEqual((report["chunk"], report["n_scored"]), (9, 2))
        report = self.succeed("inspect", "-p", "Hello " * 40, "--max-tokens", "010", "--json").out
        self.assertEqual(json.loads(report)["n_tokens"], 10)
        models = [self.folder / seed for seed in ("010", "10", "8")]
        for path in models:
            self.succeed("synth", "--shape", "stories260k", "--seed", path.name, path)
        decimal, same, octal = [path.read_bytes() for path in models]
        self.assertEqual(decimal, same)
        self.assertNotEqual(decimal, octal)

    def test_huge_windows_need_memory_or_fail(self):
        for flags in (("--window", "16777216"), ("--sinks", "1048576", "--window", "16777216"), ("--batch", "65536")):
            result = e2e.run("generate", e2e.DEMO, "-p", "x", "-n", "2", "--greedy", *flags)
            self.assertIn(result.code, (0, 1), f"{flags}: {result}")

    def test_choices(self):
        self.bad("chat", "--cache", "f12", naming="f16")
        self.bad("chat", "--evict", "half", naming="--evict")
        self.bad("chat", "--overflow", "1", naming="--overflow")
        self.bad("generate", e2e.DEMO, "-p", "x", "--overflow", "", naming="--overflow")
        self.bad("chat", "--isa", "abacus", naming="abacus")
        self.bad("chat", "--template", "{% abacus %}", naming="template")
        self.bad("chat", "--ignore-eos=perhaps", naming="--ignore-eos")
        self.bad("generate", e2e.DEMO, "-p", "x", "--logit-bias", "1", naming="--logit-bias")
        self.bad("generate", e2e.DEMO, "-p", "x", "--logit-bias", "99999999=1")

    def test_the_command_line(self):
        for arguments in (
            ("abacus",),
            ("chat", "--abacus"),
            ("chat", e2e.DEMO, "second.gguf"),
            ("generate", e2e.DEMO, "-p"),
            ("generate", e2e.DEMO, "-p", "x", "-f", "y"),
            ("generate", e2e.DEMO, "-p", "x", "--greedy", "--temp", "1"),
            ("perplexity", e2e.DEMO, "-p", "x", "--stream", "-c", "16"),
            ("logits", e2e.DEMO),
            ("quantize",),
            ("quantize", e2e.DEMO),
            ("logits", e2e.DEMO, "--tokens", "1"),
            ("--abacus",),
        ):
            self.fail_cleanly(*arguments, code=2, naming="--help")

    def test_empty_names(self):
        for arguments in (
            ("chat", ""),
            ("chat", "--session", ""),
            ("chat", "--transcript", ""),
            ("info", ""),
            ("quantize", e2e.DEMO, ""),
            ("quantize", e2e.DEMO, self.folder / "out.gguf", "--calibrate", ""),
            ("synth", "--shape", "stories260k", ""),
            ("logits", e2e.DEMO, "--tokens", "1", "--out", ""),
            ("perplexity", e2e.DEMO, "-p", "x", "--kl-divergence", "--base", ""),
        ):
            self.fail_cleanly(*arguments, stdin=b"Hello\n", code=2, naming="empty")

    def test_an_equals_sign_with_nothing_behind_it(self):
        """What follows is an argument of its own: here a model, which would be written over."""
        model = self.write("model.gguf", e2e.DEMO.read_bytes())
        for *arguments, option in (
            ("logits", "--tokens", "1", "--out"),
            ("chat", "--transcript"),
            ("chat", "--session"),
            ("perplexity", "-p", "x", "--compare", "--svg"),
            ("inspect", "-p", "Hello there", "--svg"),
        ):
            naming = f"{option}: expected a name, got an empty one"
            self.fail_cleanly(*arguments, f"{option}=", model, stdin=b"Hello\n", code=2, naming=naming)
        self.assertEqual(os.listdir(self.folder), ["model.gguf"])
        self.assertEqual(model.read_bytes(), e2e.DEMO.read_bytes())
        missing = self.folder / "missing.gguf"
        for arguments in (("chat", "--system="), ("generate", "-p", "x", "--stop="), ("generate", "--prompt=")):
            self.fail_cleanly(*arguments, missing, stdin=b"Hello\n", code=1, naming="missing.gguf")
        self.fail_cleanly("generate", "-p", "x", "--int8=", code=2, naming="--int8= ends without a value")
        self.fail_cleanly("info", "--json=", code=2, naming="--json= ends without a value")

    def test_what_only_looks_like_an_option_without_a_value(self):
        for option in (("-q", "-p"), ("-qp",), ("--quiet", "--prompt")):
            result = self.succeed("generate", *option, "--file=", "-n", 1)
            self.assertTrue(result.out.startswith(b"--file="), result)
        self.assertTrue(self.succeed("generate", "-q", "--prompt=--file=", "-n", 1).out.startswith(b"--file="))
        self.fail_cleanly("info", "--", "--isa=", code=1, naming="--isa=: ")

    def test_figures_that_make_no_sense(self):
        self.bad("inspect", "-p", "Hello there", "--sinks", 0, naming="--sinks")
        self.bad("inspect", "-p", "Hi", "--sinks", 100, naming="sinks (100)")
        for ratio in ("nan", "1", "abc", "", "0x3", "+3", " 3", "2,5", "1e999"):
            self.bad("inspect", "-p", "Hello there", "--ratio", ratio, naming="--ratio")
        self.bad("bench", e2e.DEMO, "--depth", 3, naming="--depth")
        self.bad("info", "--isa", "abacus", naming="abacus")

    def test_closed_standard_files(self):
        for closed in ((0,), (0, 1), (1, 2), (0, 1, 2)):
            with self.subTest(closed):
                close = lambda files=closed: [os.close(file) for file in files]
                process = subprocess.run([e2e.RUNNEL, "chat", "-n", "2"], preexec_fn=close, timeout=60, check=False)
                self.assertEqual(process.returncode, 0)

    def test_help_that_cannot_be_written(self):
        for arguments in (["--help"], ["info", "--help"], ["--version"]):
            with open("/dev/full", "wb") as full:
                process = subprocess.run(
                    [e2e.RUNNEL, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
                )
            self.assertEqual(process.returncode, 1)
            self.assertIn(b"standard output", process.stderr)

    def test_texts_that_cannot_be_read(self):
        for command in ("generate", "tokenize", "perplexity"):
            self.fail_cleanly(command, e2e.DEMO, "-f", self.folder / "missing.txt", code=1, naming="missing.txt")
            self.fail_cleanly(command, e2e.DEMO, "-f", self.folder, code=1, naming=str(self.folder))
            folder = os.open(self.folder, os.O_RDONLY)
            self.addCleanup(os.close, folder)
            process = subprocess.run(
                [e2e.RUNNEL, command, e2e.DEMO], stdin=folder, capture_output=True, timeout=60, check=False
            )
            self.assertEqual(process.returncode, 1)
            self.assertIn(b"standard input: cannot read", process.stderr)


e2e.main()
