"""runnel info, --help and --version."""

import json
import re
import struct
import time

import e2e


class Info(e2e.TestCase):
    def test_the_demo_model(self):
        report = json.loads(self.succeed("info", e2e.DEMO, "--json", "--all").out)
        model = report["model"]
        self.assertEqual((model["architecture"], model["tokenizer"]), ("llama", "llama"))
        shape = [model[key] for key in ("n_layer", "n_embd", "n_head", "n_head_kv", "head_dim", "n_ff", "n_vocab")]
        self.assertEqual(shape, [6, 256, 4, 2, 64, 704, 4096])
        self.assertEqual(model["n_ctx_train"], 512)
        self.assertEqual(model["token_bos"], 1)
        self.assertEqual(sum(kind["bytes"] for kind in model["tensor_types"].values()), model["weight_bytes"])
        self.assertEqual(sum(tensor["bytes"] for tensor in model["tensors"]), model["weight_bytes"])
        self.assertEqual(model["metadata"]["general.architecture"], "llama")
        self.assertGreater(model["session"]["cache_bytes"], 0)
        self.assertIn(report["machine"]["isa"], report["machine"]["isa_available"])
        self.assertGreaterEqual(report["machine"]["default_threads"], 1)

    def test_threads(self):
        machine = json.loads(self.succeed("info", "--json", "-t", "7").out)["machine"]
        self.assertEqual(machine["threads"], 7)
        default = json.loads(self.succeed("info", "--json").out)["machine"]
        self.assertEqual(default["threads"], default["default_threads"])
        self.assertRegex(self.succeed("info", "-t", "7").out.decode(), r"\n  threads +7\n")

    def test_a_larger_window_needs_a_larger_cache(self):
        sizes = [
            json.loads(self.succeed("info", "--json", "--window", window).out)["model"]["session"]["cache_bytes"]
            for window in (128, 4096)
        ]
        self.assertGreater(sizes[1], 8 * sizes[0])

    def test_for_people(self):
        text = self.succeed("info", "--all").out.decode()
        for word in ("kernels", "OpenBLAS", "threads", "llama", "F16", "cache", "token_embd.weight"):
            self.assertIn(word, text)

    def test_many_keys(self):
        n_keys = 200_000  # of 20 bytes, so that the weights stay aligned
        names = [b"k%06d" % i for i in range(n_keys)]
        data = e2e.DEMO.read_bytes()
        n_own = struct.unpack_from("<Q", data, 16)[0]
        keys = b"".join(struct.pack("<Q7sIB", 7, name, 0, 1) for name in names)
        path = self.write("keys.gguf", data[:16] + struct.pack("<Q", n_own + n_keys) + keys + data[24:])
        start = time.monotonic()
        metadata = json.loads(self.succeed("info", path, "--json", "--all").out)["model"]["metadata"]
        self.assertLess(time.monotonic() - start, 15)
        self.assertEqual(list(metadata)[:n_keys], [name.decode() for name in names])
        self.assertEqual(len(metadata), n_keys + n_own)

    def test_a_vocabulary_alone(self):
        report = json.loads(self.succeed("info", e2e.shared("tokenizers/ggml-vocab-gpt-2.gguf"), "--json").out)
        self.assertEqual((report["model"]["tokenizer"], report["model"]["has_weights"]), ("gpt2", 0))
        self.assertNotIn("cannot_run", report["model"])


class NotMadeFor(e2e.TestCase):
    """Models that runnel cannot run: what their files hold is shown, and why not; their tokenizers serve."""

    def setUp(self):
        super().setUp()
        self.other_type = self.write("type.gguf", e2e.with_type(b"blk.0.attn_q.weight", 25))  # I16, as large as F16
        self.other_architecture = self.write("architecture.gguf", e2e.with_other_architecture())

    def check(self, path, reason, architecture):
        model = json.loads(self.succeed("info", path, "--json", "--all").out)["model"]
        demo = json.loads(self.succeed("info", e2e.DEMO, "--json", "--all").out)["model"]
        self.assertIn(reason, model["cannot_run"])
        self.assertEqual((model["architecture"], model["has_weights"]), (architecture, 0))
        for key in ("tokenizer", "n_vocab", "weight_bytes"):
            self.assertEqual(model[key], demo[key], key)
        self.assertEqual(len(model["tensors"]), len(demo["tensors"]))
        text = self.succeed("info", path).out.decode()
        self.assertRegex(text, rf"\n  cannot run  .*{re.escape(reason)}")
        self.assertRegex(text, r"\n  weights  +12\.5 MiB\n")
        self.assertNotIn("session takes", text)
        ids = self.succeed("tokenize", e2e.DEMO, "-p", "Hello world").out
        self.assertEqual(self.succeed("tokenize", path, "-p", "Hello world").out, ids)
        self.fail_cleanly("generate", path, "-p", "Hello", code=1, naming=reason)

    def test_weights_of_another_type(self):
        self.check(self.other_type, "tensor 'blk.0.attn_q.weight'", "llama")
        types = json.loads(self.succeed("info", self.other_type, "--json").out)["model"]["tensor_types"]
        self.assertEqual((types["I16"], types["F16"]["tensors"]), ({"tensors": 1, "bytes": 2 * 256 * 256}, 43))

    def test_another_architecture(self):
        self.check(self.other_architecture, 'architecture "xxxxx" is not known', "xxxxx")

    def test_damage_is_told_alone(self):
        for data, naming in ((self.other_type.read_bytes(), "found I16 (25)"), (e2e.DEMO.read_bytes(), "cut short")):
            self.fail_cleanly("info", self.write("model.gguf", data[:-1]), code=1, naming=naming)


class Help(e2e.TestCase):
    def test_no_command_is_help(self):
        self.assertEqual(self.succeed().out, self.succeed("--help").out)

    def test_every_command_has_help_with_examples(self):
        overview = re.search(r"\nCommands:\n(.*?)\n\n", self.succeed("--help").out.decode(), re.DOTALL).group(1)
        commands = re.findall(r"^  ([a-z]+) ", overview, re.MULTILINE)
        self.assertEqual(sorted(commands), sorted(arguments[0] for arguments in e2e.commands(self.folder)))
        for command in commands:
            text = self.succeed(command, "--help").out.decode()
            self.assertIn(f"Examples:\n  runnel {command}", text)

    def test_the_bundled_model_is_the_default(self):
        out = self.folder / "logits"
        for command, *arguments in (
            ("generate", "-p", "Hello", "-n", "5", "-q", "--greedy"),
            ("tokenize", "-p", "Hello"),
            ("perplexity", "-p", "Hello " * 40, "-c", "16", "-t", "1"),
            ("logits", "--tokens", "1,300", "--out", out, "-t", "1"),
        ):
            written = []
            for model in ([], [e2e.DEMO]):
                written.append(self.succeed(command, *model, *arguments).out)
                if out.exists():
                    written[-1] += out.read_bytes()
            self.assertEqual(written[0], written[1])
            self.assertIn("without one the bundled demo model", self.help(command))

    def help(self, command):
        """As one line."""
        return " ".join(self.succeed(command, "--help").out.decode().split())

    def test_required_options_are_marked(self):
        for command, name in (("logits", "--tokens"), ("logits", "--out"), ("synth", "--shape")):
            self.assertRegex(self.help(command), f"{name} [A-Z]+ [^;]*; required ")

    def test_the_defaults_of_settings_are_those_of_the_command(self):
        for command, cache, sinks in (("generate", "f16", 4), ("logits", "f32", 4), ("inspect", "f32", 1)):
            text = self.help(command)
            self.assertRegex(text, f"--cache VALUE [^-]*default {cache} ")
            self.assertRegex(text, f"--sinks VALUE [^-]*default {sinks} ")
        self.assertIn("default all of the text", self.help("inspect"))
        # and those that it runs with
        out = {}
        for cache in ([], ["--cache", "f32"], ["--cache", "int8"]):
            path = self.folder / f"logits{len(out)}"
            self.succeed("logits", e2e.DEMO, "--tokens", "1,403,407,261", "--out", path, *cache)
            out[len(out)] = path.read_bytes()
        self.assertEqual(out[0], out[1])
        self.assertNotEqual(out[0], out[2])

    def test_version(self):
        self.assertRegex(self.succeed("--version").out.decode(), r"^runnel \d+\.\d+\.\d+\n$")

    def test_settings_are_options(self):
        text = self.succeed("chat", "--help").out.decode()
        options = set(re.findall(r"--[a-z-]+", text))
        self.assertLessEqual(
            {"--threads", "--sinks", "--window", "--cache", "--temperature", "--temp", "--top-k", "--top-p", "--min-p"},
            options,
        )


e2e.main()
