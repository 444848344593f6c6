"""runnel quantize: files that run as the original does, and what is refused; runnel perplexity --kl-divergence."""

import json
import os
import struct
import unittest

import e2e

TEXT = (
    b"Once upon a time there was a little girl named Lily. She loved to play outside in the park with her dog. "
    b"One day they found a big red ball, and a boy came to ask whether it was his. "
)


class Quantize(e2e.TestCase):
    def quantize(self, source, *options, name="out.gguf"):
        out = self.folder / name
        self.succeed("quantize", source, out, *options)
        return out

    def divergence(self, model, base, *options):
        text = self.write("text", TEXT * 20)
        return json.loads(
            self.succeed(
                "perplexity", model, "-f", text, "-c", 128, "--kl-divergence", "--base", base, "--json", *options
            ).out
        )

    def test_every_type_runs_as_the_original_does(self):
        for kind, largest in (("f32", 1e-6), ("f16", 1e-5), ("q8_0", 2e-3), ("i8", 2e-3)):
            out = self.quantize(e2e.DEMO, "--type", kind, name=kind)
            report = self.divergence(out, e2e.DEMO, "--cache", "f32")
            self.assertLess(report["kld_mean"], largest, kind)
            self.assertGreater(report["same_top"], 0.95, kind)
        self.assertLess((self.folder / "i8").stat().st_size, e2e.DEMO.stat().st_size * 0.56)

    def test_json(self):
        out = self.folder / "out.gguf"
        report = json.loads(self.succeed("quantize", e2e.DEMO, out, "--json").out)
        self.assertGreater(report.pop("seconds"), 0)
        sizes = {"model_bytes": e2e.DEMO.stat().st_size, "bytes": out.stat().st_size}
        self.assertEqual(report, {"model": str(e2e.DEMO), "out": str(out), "type": "i8", **sizes})

    def test_calibrated(self):
        calibration = self.write("calibration", (TEXT + b"What a day it was! They all went home to eat a cake. ") * 40)
        plain = self.quantize(e2e.DEMO, name="plain")
        out = self.quantize(e2e.DEMO, "--calibrate", calibration, "--threads", 2, name="calibrated")
        self.assertEqual(out.stat().st_size, plain.stat().st_size)
        self.assertNotEqual(out.read_bytes(), plain.read_bytes())
        self.assertLess(self.divergence(out, e2e.DEMO)["kld_mean"], 2e-3)

    def test_q8_0_goes_through_i8_without_loss(self):
        q8_0 = self.quantize(e2e.DEMO, "--type", "q8_0", name="q8_0")
        packed = self.quantize(q8_0, "--type", "i8", name="packed")
        self.assertEqual(packed.read_bytes()[:4], b"GGUF")
        # Both hold the same weights; only activations differ, which the one rounds and the other does not.
        self.assertLess(self.divergence(packed, q8_0)["kld_mean"], 2e-3)

    def test_tells_tools_what_it_holds(self):
        out = self.quantize(e2e.DEMO)
        data = out.read_bytes()
        for name in (b"runnel.packed.version", b"blk.0.attn_q.weight", b"blk.0.attn_q.weight_scales"):
            self.assertEqual(data.count(struct.pack("<Q", len(name)) + name), 1, name)

    def test_packing_adds_no_parameters(self):
        shape = self.folder / "shape.gguf"  # 172 of its numbers a row, no whole panels
        self.succeed("synth", "--shape", "stories260k", shape)
        for path in (shape, self.quantize(shape)):
            report = json.loads(self.succeed("info", path, "--json").out)["model"]
            self.assertEqual(report["n_parameters"], 260_032)

    def test_the_input_is_never_replaced(self):
        model = self.write("model.gguf", e2e.DEMO.read_bytes())
        link = self.folder / "link.gguf"
        link.symlink_to(model)
        for out in (model, link):
            self.fail_cleanly("quantize", model, out, code=2, naming="is the model too")
        self.assertEqual(model.read_bytes(), e2e.DEMO.read_bytes())
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["link.gguf", "model.gguf"])

    def test_what_cannot_be_done(self):
        out = self.folder / "out"
        self.fail_cleanly("quantize", e2e.DEMO, self.folder / "none" / "out", code=1, naming="none/out")
        self.fail_cleanly("quantize", e2e.DEMO, self.folder, code=1, naming="not a regular file")
        self.fail_cleanly("quantize", self.folder / "none", out, code=1, naming="none")
        self.fail_cleanly("quantize", e2e.DEMO, out, "--type", "q4_0", code=2, naming="i8, q8_0, f16, f32")
        self.fail_cleanly("quantize", e2e.DEMO, out, "--calibrate", self.folder / "none", code=1, naming="none")
        self.fail_cleanly("quantize", e2e.DEMO, out, "--calibrate", self.write("empty", b""), code=1, naming="empty")
        self.fail_cleanly("quantize", e2e.DEMO, out, "--calibrate", self.write("short", b"Hi."), code=1, naming="128")
        text = self.write("text", TEXT * 10)
        self.fail_cleanly("quantize", e2e.DEMO, out, "--type", "f16", "--calibrate", text, code=2, naming="--type i8")
        self.fail_cleanly("quantize", e2e.DEMO, out, "--threads", "many", code=2, naming="threads")
        self.fail_cleanly("quantize", e2e.DEMO, code=2, naming="OUT")
        self.fail_cleanly("quantize", self.write("text", TEXT), out, code=1, naming="text")
        self.assertFalse(out.exists())

    def test_a_packed_file_is_not_packed_again(self):
        out = self.quantize(e2e.DEMO)
        self.fail_cleanly("quantize", out, self.folder / "again", code=1, naming="packed")

    def test_weights_that_are_no_numbers(self):
        source = e2e.DEMO.read_bytes()
        f16_nan = struct.pack("<H", 0x7E00)
        broken = self.write("broken.gguf", source[:-2] + f16_nan)
        result = self.fail_cleanly("quantize", broken, self.folder / "out", "--type", "i8", code=1, naming="row")
        self.assertIn("column", result.err)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["broken.gguf"])

    @unittest.skipIf(os.geteuid() == 0, "root may write anywhere")
    def test_a_folder_that_may_not_be_written(self):
        self.folder.chmod(0o500)
        self.fail_cleanly("quantize", e2e.DEMO, self.folder / "out", code=1, naming="out")

    def test_memory_does_not_grow_with_the_file(self):
        model, out = self.folder / "model.gguf", self.folder / "out"
        self.succeed("synth", "--shape", "smollm2-135m", model)
        most = 100 << 20
        self.assertGreater(model.stat().st_size, 2 * most)  # else there would be nothing to see
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.execv(e2e.RUNNEL, [e2e.RUNNEL, "quantize", str(model), str(out)])
        _, status, usage = os.wait4(pid, 0)
        self.assertEqual(status, 0)
        self.assertLess(usage.ru_maxrss << 10, most)  # it is in kilobytes


class Divergence(e2e.TestCase):
    def test_of_a_model_from_itself_is_none(self):
        text = self.write("text", TEXT * 20)
        arguments = ["perplexity", e2e.DEMO, "-f", text, "-c", 128]
        report = json.loads(
            self.succeed(*arguments, "--kl-divergence", "--base", e2e.DEMO, "--cache", "f32", "--json").out
        )
        for figure in ("kld_mean", "kld_median", "kld_99", "kld_max", "ln_ppl_ratio"):
            self.assertEqual(report[figure], 0.0, figure)
        self.assertEqual(report["same_top"], 1.0)
        self.assertEqual(report["mode"], "kl-divergence")
        alone = json.loads(self.succeed(*arguments, "--cache", "f32", "--json").out)
        self.assertAlmostEqual(report["ppl"], alone["ppl"], places=9)
        self.assertEqual(report["n_scored"], alone["n_scored"])
        words = self.succeed(*arguments, "--kl-divergence", "--base", e2e.DEMO).out.decode()
        for name in ("mean KLD", "median KLD", "99 % KLD", "max KLD", "same top", "ln PPL ratio"):
            self.assertIn(name, words)

    def test_a_text_on_standard_input(self):
        arguments = ["perplexity", e2e.DEMO, "-f", "-", "-c", 64, "--kl-divergence", "--base", e2e.DEMO]
        self.assertIn(b"mean KLD", self.succeed(*arguments, stdin=TEXT * 5).out)

    def test_what_does_not_go_together(self):
        base = ["--base", e2e.DEMO]
        self.fail_cleanly("perplexity", e2e.DEMO, "-p", "Hello", "--kl-divergence", code=2, naming="--base")
        self.fail_cleanly("perplexity", e2e.DEMO, "-p", "Hello", *base, code=2, naming="--kl-divergence")
        self.fail_cleanly("perplexity", e2e.DEMO, "-p", "Hello", "--kl-divergence", *base, "--stream", code=2)
        stories = e2e.shared("models/stories260K-f32.gguf")
        text = self.write("text", TEXT * 20)
        self.fail_cleanly(
            "perplexity", e2e.DEMO, "-f", text, "--kl-divergence", "--base", stories, code=1, naming="vocabular"
        )

    def test_a_base_with_fewer_positions(self):
        model, base = (
            self.write(name, e2e.with_tokenizer(e2e.shared(f"golden/{name}-dense.gguf").read_bytes(), 128))
            for name in ("llama", "gpt2")
        )
        arguments = ["perplexity", model, "-p", "x" * 300, "--kl-divergence", "--base", base, "-c"]
        self.succeed(*arguments, 128)
        self.fail_cleanly(*arguments, 129, code=2, naming="--chunk: expected 128 at most")


e2e.main()
