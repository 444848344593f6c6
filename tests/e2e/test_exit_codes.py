"""Exit codes: 2 where the command line is wrong, whether the program or its library finds that; 1 for all else."""

import subprocess

import e2e

SHAPE = "stories260k"


class ExitCodes(e2e.TestCase):
    def usage(self, *arguments, naming):
        result = self.fail_cleanly(*arguments, stdin=b"Hello\n", code=2, naming=naming)
        self.assertIn(f"(see runnel {arguments[0]} --help)", result.err)

    def failure(self, *arguments, naming):
        result = self.fail_cleanly(*arguments, stdin=b"Hello\n", code=1, naming=naming)
        self.assertNotIn("--help", result.err)

    def test_unknown_options_are_named(self):
        for arguments in e2e.commands(self.folder):
            self.usage(*arguments, "--abacus", "7", naming="no option --abacus")

    def test_bad_settings(self):
        for arguments in e2e.commands(self.folder):
            if arguments[0] == "tokenize":  # it has no settings
                continue
            self.usage(*arguments, "--threads", "many", naming="--threads: ")
            if arguments[0] in ("quantize", "synth"):
                continue
            self.usage(*arguments, "--cache", "f12", naming="--cache: ")
            self.usage(*arguments, "--isa", "abacus", naming="--isa: ")

    def test_what_only_the_model_tells(self):
        self.usage("generate", e2e.DEMO, "-p", "x", "--logit-bias", "4096=1", naming="--logit-bias: ")
        for token in ("4096", "-1"):
            self.usage("logits", e2e.DEMO, f"--tokens=1,{token}", "--out", self.folder / "out", naming="--tokens: ")
        self.usage("chat", "--template", "abacus", naming="--template")
        self.usage("chat", "--system", "Be brief. " * 40, "--window", "16", naming="larger --window")

    def test_a_window_that_the_model_cannot_have(self):
        learned = e2e.shared("golden/gpt2-dense.gguf")
        for arguments in (("info", learned), ("logits", learned, "--tokens", "1", "--out", self.folder / "out")):
            self.usage(*arguments, "--window", "100000", naming="--window: ")

    def test_what_does_not_go_together(self):
        out = self.folder / "out"
        self.usage("quantize", e2e.DEMO, e2e.DEMO, naming="is the model too")
        self.usage("quantize", e2e.DEMO, out, "--type", "q8_0", "--calibrate", e2e.DEMO, naming="--calibrate")
        self.usage("quantize", e2e.DEMO, out, "--type", "q4", naming="--type")
        self.usage("synth", "--shape", "abacus", out, naming="--shape")
        self.usage("synth", "--shape", SHAPE, "--type", "i8", out, naming="--type")
        self.usage("bench", "--shape", "abacus", naming="--shape")
        self.usage("perplexity", e2e.DEMO, "-p", "x", "--window", "8", naming="--stream")
        self.usage("inspect", "-p", "Hello there", "--sinks", "0", naming="--sinks")
        self.usage("chat", "--greedy", "--temp", "1", naming="--temperature and --greedy do not go together")
        self.usage("perplexity", e2e.DEMO, "--stream", "--chunk", "9", naming="do not go together")
        self.usage("perplexity", e2e.DEMO, "--every", "2", naming="--every goes only with --compare")
        self.usage("bench", e2e.DEMO, "--type", "f16", naming="--type goes only with --shape")

    def test_values_that_are_missing_or_too_many(self):
        self.usage("chat", "-n", naming="--n-tokens needs a value")
        self.usage("generate", "-p", naming="--prompt needs a value")
        for value in ("banana", "2", "no"):
            self.usage("info", f"--json={value}", naming="--json takes no value")
        self.usage("generate", "-p", "x", "--greedy=no", naming="--greedy takes no value")

    def test_of_an_option_given_twice_the_last_counts(self):
        prompt = ("generate", e2e.DEMO, "--greedy", "-t", "1", "-q")
        once = self.succeed(*prompt, "-p", "Hello", "-n", "3").out
        self.assertEqual(self.succeed(*prompt, "-p", "Bye", "-n", "9", "-p", "Hello", "-n", "3").out, once)
        self.usage(*prompt, "-p", "Hello", "-n", "3", "-n", "many", naming="--n-tokens: ")

    def test_more_threads_than_cores_are_remarked_on(self):
        few, many = (self.succeed("info", e2e.DEMO, "-t", n).err for n in (1, 1000))
        self.assertEqual(few, "")
        self.assertIn("[1,000 threads on ", many)
        self.assertIn("[256 threads on ", self.succeed("bench", e2e.DEMO, "-p", 0, "-n", 0, "-t", "1,256").err)

    def test_lists_end_with_a_number(self):
        self.usage("logits", e2e.DEMO, "--tokens", "1,2,", "--out", self.folder / "out", naming="token 3 of the list")

    def test_files_and_texts(self):
        out, missing = self.folder / "no" / "out", self.folder / "missing.gguf"
        for arguments in e2e.commands(self.folder, missing):
            if arguments[0] != "synth":
                self.failure(*arguments, naming="missing.gguf")
        self.failure("quantize", e2e.DEMO, out, naming="No such file")
        self.failure("synth", "--shape", SHAPE, out, naming="No such file")
        self.failure("synth", "--shape", SHAPE, self.folder, naming="not a regular file")
        self.failure("logits", e2e.DEMO, "--tokens", "1", "--out", out, naming="No such file")
        self.failure("quantize", e2e.DEMO, self.folder / "out", "--calibrate", self.write("short", b"x"), naming="text")
        self.failure("generate", e2e.DEMO, "-p", "", "--no-bos", naming="prompt is empty")
        self.failure("generate", e2e.DEMO, "-p", "x " * 99, "--window", 8, "--overflow", "error", naming="window")
        self.failure("perplexity", e2e.DEMO, "-p", "x", naming="tokens")
        self.failure("inspect", "-p", "", naming="has 1 token;")

    def test_what_is_no_command_and_no_option(self):
        self.fail_cleanly("abacus", "--fast", code=2, naming="no option --fast")
        self.fail_cleanly("abacus", code=2, naming="no command abacus")
        self.fail_cleanly("--json", "info", code=2, naming="no option --json before the command")
        self.fail_cleanly("info", e2e.DEMO, "second", code=2, naming='argument "second"')
        self.fail_cleanly("word", "chat", "--tmep", "1", code=2, naming='nothing takes the argument "word"')

    def test_what_was_meant_is_told(self):
        for wrong, right in (("chta", "chat"), ("tokenise", "tokenize"), ("--info", "info"), ("benchh", "bench")):
            self.fail_cleanly(wrong, "--greedy", code=2, naming=f"no command {wrong}; did you mean {right}?")
        self.fail_cleanly("--versoin", code=2, naming="no option --versoin; did you mean --version?")
        self.usage("chat", "--temprature=0.5", naming="no option --temprature; did you mean --temperature?")
        self.usage("info", e2e.DEMO, "--jsno", naming="no option --jsno; did you mean --json?")
        for arguments in (("abacus",), ("ch",), ("info", "--abacus"), ("chat", "--vocab-only")):
            self.assertNotIn("did you mean", self.fail_cleanly(*arguments, code=2, naming="there is no").err)

    def test_help_tells_them(self):
        help_text = self.succeed("--help").out.decode()
        for code in ("0 done", "1 it could not be done", "2 the command line is wrong", "130 stopped by Ctrl-C"):
            self.assertIn(code, " ".join(help_text.split()))
        self.assertIn("a chat on a terminal that one leaves so: 0", " ".join(help_text.split()))

    def test_a_reader_that_has_gone_is_no_error(self):
        logits = ("logits", e2e.DEMO, "--tokens", ",".join(["1"] * 100), "--out", "/dev/stdout")
        text = ("generate", e2e.DEMO, "-p", "Once", "-n", "2000", "-q")
        for arguments in (("--help",), ("info", "--all"), text, logits):
            with e2e.start(*arguments, stdin=subprocess.DEVNULL) as process:
                process.stdout.close()
                self.assertEqual(process.stderr.read(), b"")
                self.assertEqual(process.wait(timeout=e2e.TIMEOUT_S), 0)


e2e.main()
