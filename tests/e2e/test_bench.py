"""runnel synth and runnel bench: models with random weights, and what is measured on them."""

import json
import struct

import e2e

SHAPE = "stories260k"  # 260,032 parameters: fast
QUICK = ("-p", "16", "-n", "8", "--repeat", "2")


class Synth(e2e.TestCase):
    def synth(self, name, *arguments):
        path = self.folder / name
        result = self.succeed("synth", "--shape", SHAPE, path, *arguments)
        self.assertEqual((result.out, result.err), (b"", ""))
        return path

    def test_the_file_is_a_model_of_that_shape(self):
        report = json.loads(self.succeed("info", self.synth("a.gguf", "--type", "f16"), "--json", "--all").out)["model"]
        shape = [report[key] for key in ("n_layer", "n_embd", "n_head", "n_head_kv", "head_dim", "n_ff", "n_vocab")]
        self.assertEqual(shape, [5, 64, 8, 4, 8, 172, 512])
        self.assertEqual((report["architecture"], report["n_parameters"]), ("llama", 260_032))
        for tensor in report["tensors"]:
            self.assertEqual(tensor["type"], "F16" if len(tensor["shape"]) > 1 else "F32", tensor["name"])

    def test_the_same_seed_gives_the_same_bytes(self):
        first = self.synth("a.gguf", "--seed", "7", "--threads", "1").read_bytes()
        second = self.folder / "b.gguf"  # three threads are remarked on where there are fewer cores
        self.succeed("synth", "--shape", SHAPE, second, "--seed", "7", "--threads", "3")
        self.assertEqual(second.read_bytes(), first)
        self.assertNotEqual(self.synth("c.gguf", "--seed", "8").read_bytes(), first)
        largest = self.synth("d.gguf", "--seed", "18446744073709551615").read_bytes()
        self.assertNotIn(largest, (first, self.synth("e.gguf", "--seed", "9223372036854775807").read_bytes()))

    def test_json(self):
        out = self.folder / "a.gguf"
        report = json.loads(self.succeed("synth", "--shape", SHAPE, out, "--seed", "7", "--json").out)
        self.assertEqual(
            report,
            {"out": str(out), "shape": SHAPE, "type": "f16", "seed": 7, "bytes": out.stat().st_size},
        )

    def test_every_type_runs(self):
        for kind in ("f32", "f16", "bf16", "q8_0"):
            model = self.synth(f"{kind}.gguf", "--type", kind)
            out = self.folder / f"{kind}.logits"
            self.succeed("logits", model, "--tokens", "1,100,200,300", "--out", out)
            logits = struct.unpack(f"<{4 * 512}f", out.read_bytes())
            self.assertLess(max(map(abs, logits)), 100.0)
            self.assertGreater(max(map(abs, logits)), 0.1)

    def test_text_goes_through_its_tokenizer(self):
        model = self.synth("a.gguf")
        ids = self.succeed("tokenize", model, "-p", "Hi \N{SLIGHTLY SMILING FACE}").out.split()
        # BOS, the blank that goes before a text, and the bytes, which begin at 3; blanks are 259
        expected = [1, 259, *(3 + byte for byte in b"Hi"), 259, *(3 + byte for byte in "\N{SLIGHTLY SMILING FACE}".encode())]
        self.assertEqual([int(token) for token in ids], expected)
        self.succeed("generate", model, "-p", "Hi", "-n", "3", "--greedy", "--ignore-eos")

    def test_bad_arguments(self):
        out = self.folder / "out.gguf"
        self.fail_cleanly("synth", "--shape", "abacus", out, code=2, naming="tinyllama-1.1b")
        self.fail_cleanly("synth", "--shape", SHAPE, "--type", "q4_k", out, code=2, naming="q8_0")
        for seed in ("-1", "1.5", "abc", "18446744073709551616", ""):
            self.fail_cleanly("synth", "--shape", SHAPE, "--seed", seed, out, code=2, naming="--seed")
        self.fail_cleanly("synth", out, code=2, naming="--shape")
        self.fail_cleanly("synth", "--shape", SHAPE, code=2, naming="OUT")
        self.fail_cleanly("synth", "--shape", SHAPE, "--threads", "0.5", out, code=2, naming="--threads")
        self.fail_cleanly("synth", "--shape", SHAPE, self.folder, code=1, naming="not a regular file")
        self.fail_cleanly("synth", "--shape", SHAPE, self.folder / "no" / "such.gguf", code=1)
        self.assertEqual(list(self.folder.iterdir()), [])


class Bench(e2e.TestCase):
    def bench(self, *arguments):
        return json.loads(self.succeed("bench", *arguments, *QUICK, "--json").out)

    def check_speed(self, speed, n_tokens):
        self.assertEqual(speed["tokens"], n_tokens)
        self.assertGreater(speed["slowest"], 0.0)
        self.assertLessEqual(speed["slowest"], speed["tokens_per_s"])
        self.assertLessEqual(speed["tokens_per_s"], speed["fastest"])
        self.assertAlmostEqual(speed["share_of_limit"], speed["tokens_per_s"] / speed["limit_tokens_per_s"])

    def test_a_shape(self):
        report = self.bench("--shape", SHAPE, "--type", "q8_0", "-t", "1,2", "--depth", "40")
        self.assertEqual((report["model"], report["type"], report["n_parameters"]), (SHAPE, "Q8_0", 260_032))
        self.assertGreater(report["first_token_s"], 0.0)
        self.assertGreater(report["peak_memory_bytes"], report["weight_bytes"])
        self.assertEqual([run["threads"] for run in report["runs"]], [1, 2])
        for run in report["runs"]:
            self.check_speed(run["prefill"], 16)
            self.check_speed(run["decode"], 8)
            self.check_speed(run["decode_at_depth"], 8)
            self.assertEqual(run["prefill"]["limited_by"], "int8 multiply-adds")
            self.assertEqual(run["decode"]["limited_by"], "read bandwidth")
            # 40 tokens in the cache: 5 layers, keys and values of 4 heads of 8 numbers in f16, in blocks of 16 tokens
            seen = run["decode_at_depth"]["bytes_per_token"] - run["decode"]["bytes_per_token"]
            self.assertAlmostEqual(seen, (40 - 5.5) * 5 * 2 * 4 * 8 * 2, delta=16 * 5 * 2 * 4 * 8 * 2)

    def test_a_file(self):
        report = self.bench(e2e.DEMO, "-t", "1")
        self.assertEqual((report["type"], report["synthetic"]), ("F16", False))
        run = report["runs"][0]
        self.assertIn(run["prefill"]["limited_by"], ("int16 multiply-adds", "f32 multiply-adds"))  # by the processor
        self.assertNotIn("decode_at_depth", run)
        run = self.bench(e2e.DEMO, "-t", "1", "--isa", "scalar")["runs"][0]
        self.assertEqual(run["prefill"]["limited_by"], "f32 multiply-adds")
        self.assertNotIn("decode_at_depth", run)

    def test_parts_can_be_left_out(self):
        report = json.loads(self.succeed("bench", "--shape", SHAPE, "-p", "0", "-n", "2", "--repeat", "1", "--json").out)
        self.assertNotIn("prefill", report["runs"][0])
        self.check_speed(report["runs"][0]["decode"], 2)
        report = json.loads(self.succeed("bench", "--shape", SHAPE, "-p", "0", "-n", "0", "--json").out)
        self.assertGreater(report["runs"][0]["read_bytes_per_s"], 0.0)

    def test_memory_is_its_own(self):
        held = b"x" * 2**28  # of whoever starts it, and not only promised
        report = self.bench("--shape", SHAPE)
        self.assertLess(report["peak_memory_bytes"], len(held) // 2)
        self.assertGreater(report["peak_memory_bytes"], report["weight_bytes"])

    def test_learned_positions(self):
        model = e2e.shared("golden/gpt2-dense.gguf")  # 128 of them, of which 4 are sinks
        report = json.loads(self.succeed("bench", model, "-n", 2, "--repeat", 1, "--json").out)
        self.check_speed(report["runs"][0]["prefill"], 124)
        for option, most in (("-p", 124), ("-n", 123), ("--depth", 128)):
            self.fail_cleanly("bench", model, option, most + 1, code=2, naming=f"{option}: expected {most} at most")

    def test_for_people(self):
        text = self.succeed("bench", "--shape", SHAPE, "--depth", "40", "--isa", "scalar", *QUICK).out.decode()
        for word in (SHAPE, "F16", "prompt of 16", "decode at 40", "f32 multiply-adds", "read bandwidth", "GB/s"):
            self.assertIn(word, text)

    def test_bad_arguments(self):
        def bad(*arguments, naming):
            self.fail_cleanly("bench", *arguments, code=2, naming=naming)

        for flag in ("-p", "-n", "--depth"):
            for number in ("-1", "1.5", "abc", "99999999999999999999", "1e9", ""):
                bad("--shape", SHAPE, flag, number, naming=flag)
        for threads in ("0", "-1", "1,x", "1,,2", "1,", "99999999999", "", ","):
            bad("--shape", SHAPE, "-t", threads, naming="--threads")
        bad("--shape", SHAPE, "--repeat", "0", naming="--repeat")
        bad("--shape", "abacus", naming="tinyllama-1.1b")
        bad("--shape", SHAPE, "--type", "i32", naming="q8_0")
        bad("--shape", SHAPE, "--depth", "4", naming="--depth")
        bad("--shape", SHAPE, "--depth", "40", "-n", "0", naming="--depth")
        bad("--shape", SHAPE, "--isa", "abacus", naming="--isa")
        bad("--shape", SHAPE, "--cache", "f12", naming="--cache")
        bad("--shape", SHAPE, e2e.DEMO, naming="MODEL")
        bad(e2e.DEMO, "--type", "f16", naming="--shape")
        self.fail_cleanly("bench", self.folder / "missing.gguf", code=1, naming="missing.gguf")
        self.fail_cleanly("bench", e2e.shared("tokenizers/ggml-vocab-gpt-2.gguf"), code=1)


e2e.main()
