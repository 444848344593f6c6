"""runnel generate: exactly the prompt and the text."""

import fcntl
import json
import os
import signal
import struct
import subprocess
import termios
import time

import e2e

STORY = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she saw "
    "a big, red ball. She wanted to play with it, but it was too high."
)
PROMPT = f" <|user|>{e2e.QUESTION}<|end|><|assistant|>"


class Generate(e2e.TestCase):
    def test_the_reference_story(self):
        model = e2e.shared("models/stories260K-f32.gguf")
        result = self.succeed("generate", model, "-p", "Once upon a time", "-n", "57", "--greedy")
        self.assertEqual(result.out.decode(), STORY + "\n")
        self.assertIn("tokens", result.err)

    def test_ends_with_the_turn(self):
        result = self.succeed("generate", e2e.DEMO, "-p", PROMPT, "--greedy", "--quiet")
        self.assertEqual(result.out.decode(), PROMPT + e2e.ANSWER + "\n")
        self.assertEqual(result.err, "")

    def test_goes_on_when_ends_are_ignored(self):
        ended = self.succeed("generate", e2e.DEMO, "-p", PROMPT, "--greedy", "-n", "60", "--json")
        went_on = self.succeed(
            "generate", e2e.DEMO, "-p", PROMPT, "--greedy", "-n", "60", "--json", "--ignore-eos"
        )
        self.assertLess(json.loads(ended.out)["generated_tokens"], 60)
        self.assertEqual(json.loads(went_on.out)["generated_tokens"], 60)

    def test_one_token_is_told_in_the_singular(self):
        notes = self.succeed("generate", e2e.DEMO, "-p", "", "-n", 1, "--ignore-eos").err
        self.assertIn("prompt 1 token in ", notes)
        self.assertIn("text 1 token in ", notes)
        self.fail_cleanly("perplexity", e2e.DEMO, "-p", "", code=1, naming="the text has 1 token;")

    def test_json(self):
        result = self.succeed("generate", e2e.DEMO, "-p", PROMPT, "--greedy", "--json")
        report = json.loads(result.out)
        self.assertEqual((report["prompt"], report["text"]), (PROMPT, e2e.ANSWER))
        self.assertEqual(report["finish"], "end")
        self.assertGreater(report["prompt_tokens"], 10)
        self.assertGreater(report["generated_tokens_per_s"], 0)

    def test_stop_texts(self):
        result = self.succeed(
            "generate", e2e.DEMO, "-p", PROMPT, "--greedy", "--json", "--stop", "nothing of it", "--stop", " you"
        )
        report = json.loads(result.out)
        self.assertEqual(report["text"], e2e.ANSWER.split(" you")[0])
        self.assertEqual(report["finish"], "stop text")

    def test_prompt_from_file_and_input(self):
        path = self.write("prompt.txt", PROMPT.encode())
        for arguments, stdin in ((["-f", path], b""), (["-f", "-"], PROMPT.encode()), ([], PROMPT.encode())):
            result = self.succeed("generate", e2e.DEMO, *arguments, "--greedy", stdin=stdin)
            self.assertEqual(result.out.decode(), PROMPT + e2e.ANSWER + "\n")

    def test_a_newline_at_the_end_of_a_file_is_no_part_of_the_prompt(self):
        for ending, kept in ((b"\n", ""), (b"\r\n", ""), (b"\n\n", "\n"), (b" ", " "), (b"\r", "\r")):
            text = b"It was" + ending
            path = self.write("prompt.txt", text)
            for arguments, stdin in ((["-f", path], b""), (["-f", "-"], text), ([], text)):
                result = self.succeed("generate", e2e.DEMO, *arguments, "-n", "1", "--json", stdin=stdin)
                self.assertEqual(json.loads(result.out)["prompt"], "It was" + kept)
        result = self.succeed("generate", e2e.DEMO, "-p", "It was\n", "-n", "1", "--json")
        self.assertEqual(json.loads(result.out)["prompt"], "It was\n")
        self.fail_cleanly("generate", e2e.DEMO, "--no-bos", stdin=b"\n", naming="the prompt is empty")
        self.assertIn("A newline that ends a file", self.succeed("generate", "--help").out.decode())

    def test_special_tokens_can_be_plain_text(self):
        parsed = self.succeed("generate", e2e.DEMO, "-p", PROMPT, "-n", "1", "--json", "--no-bos")
        plain = self.succeed(
            "generate", e2e.DEMO, "-p", PROMPT, "-n", "1", "--json", "--no-bos", "--no-parse-special"
        )
        self.assertGreater(json.loads(plain.out)["prompt_tokens"], json.loads(parsed.out)["prompt_tokens"])

    def test_threads_do_not_change_the_text(self):
        texts = {
            self.succeed("generate", e2e.DEMO, "-p", "It was", "-n", "80", "-t", threads, "--seed", "7").out
            for threads in (1, 2, 3)
        }
        self.assertEqual(len(texts), 1)

    def test_a_seed_that_is_drawn_gives_its_text_again(self):
        def report(seed):
            flags = ("-p", "It was", "-n", "60", "--temp", "1.5", "--seed", seed, "--json")
            return json.loads(self.succeed("generate", e2e.DEMO, *flags).out)

        drawn, other = report("random"), report("random")
        self.assertNotEqual((drawn["seed"], drawn["text"]), (other["seed"], other["text"]))
        again = report(drawn["seed"])
        self.assertEqual((again["seed"], again["text"]), (drawn["seed"], drawn["text"]))

    def test_a_prompt_longer_than_the_window(self):
        flags = ("generate", e2e.DEMO, "-p", "A word. " * 500, "-n", "5", "--json", "--window", "64")
        remedy = "a larger --window, or let them stream through it (--overflow stream)"
        self.fail_cleanly(*flags, "--overflow", "error", code=1, naming=remedy)
        result = self.succeed(*flags)
        self.assertIn("no longer seen", result.err)
        report = json.loads(result.out)
        self.assertEqual(report["generated_tokens"], 5)
        self.assertGreater(report["evicted_tokens"], 500)

    def test_without_end_until_interrupted(self):
        with e2e.start("generate", e2e.DEMO, "-p", "It was", "-n", -1, stdin=subprocess.DEVNULL) as process:
            start = process.stdout.read(500)
            process.send_signal(signal.SIGINT)
            rest, notes = process.communicate(timeout=e2e.TIMEOUT_S)
        self.assertEqual(process.returncode, 130)
        self.assertTrue((start + rest).startswith(b"It was"))
        (start + rest).decode("utf-8")  # whole characters only
        self.assertIn(b"stopped", notes)

    def wait_until_full(self, pipe):
        """One that takes 4096 bytes, and that nobody reads from."""
        n_waiting, end = 0, time.monotonic() + 60
        while n_waiting < 4000 and time.monotonic() < end:
            time.sleep(0.2)
            n_waiting = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]
        self.assertGreaterEqual(n_waiting, 4000)
        time.sleep(0.3)

    def stuck(self, *arguments):
        """The program at work, held up by a reader that takes nothing."""
        process = e2e.start(*arguments)
        self.addCleanup(process.kill)
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        process.stdin.write(b"Hello!\n")
        process.stdin.close()
        process.stdin = None
        self.wait_until_full(process.stdout)
        return process

    def test_ctrl_c_while_the_reader_waits_loses_nothing(self):
        flags = ("generate", e2e.DEMO, "-p", "It was", "--greedy", "--ignore-eos", "-t", 1)
        with self.stuck(*flags, "-n", -1) as process:
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
            self.assertIsNone(process.poll())
            text, notes = process.communicate(timeout=e2e.TIMEOUT_S)
        self.assertEqual(process.returncode, 130, notes)
        self.assertIn(b"stopped", notes)
        self.assertGreater(len(text), 4000)
        self.assertTrue(self.succeed(*flags, "-n", len(text) // 2).out.startswith(text[:-1]))

    def expect_end(self, process, number, n_times):
        """By the last of so many signals."""
        for _ in range(n_times):
            time.sleep(0.3)
            self.assertIsNone(process.poll())
            process.send_signal(number)
        self.assertEqual(process.wait(timeout=60), 128 + number)

    def test_ctrl_c_twice_while_the_reader_waits(self):
        with self.stuck("generate", e2e.DEMO, "-p", "It was", "-n", -1) as process:
            self.expect_end(process, signal.SIGINT, 2)

    def test_a_chat_is_kept_while_the_reader_waits(self):
        session = self.folder / "evening.session"
        for number, n_times in ((signal.SIGTERM, 1), (signal.SIGINT, 2)):
            with self.stuck("chat", "--forever", "--session", session) as process:
                made = session.stat().st_size
                self.expect_end(process, number, n_times)
            self.assertGreater(session.stat().st_size, made)
            session.unlink()

    def start_unblocked(self, *arguments):
        """With pipes that do not block at its own ends; then our ends of standard input and output."""
        (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
        fcntl.fcntl(out_write, fcntl.F_SETPIPE_SZ, 4096)
        for end in (in_read, out_write):
            os.set_blocking(end, False)
        process = subprocess.Popen([e2e.RUNNEL, *map(str, arguments)], stdin=in_read, stdout=out_write)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for end in (in_read, out_write):
            os.close(end)
        return process, os.fdopen(in_write, "wb", buffering=0), os.fdopen(out_read, "rb")

    def test_standard_files_that_do_not_block(self):
        text = b"Where would you like to eat? " * 500
        expected = self.succeed("tokenize", e2e.DEMO, stdin=text).out
        self.assertGreater(len(expected), 8192)  # more than the pipe takes
        process, given, shown = self.start_unblocked("tokenize", e2e.DEMO)
        with given, shown:
            for part in (text[:1000], text[1000:]):
                time.sleep(0.3)
                given.write(part)
            given.close()
            time.sleep(0.5)
            self.assertEqual(shown.read(), expected)
        self.assertEqual(process.wait(timeout=e2e.TIMEOUT_S), 0)

    def test_ctrl_c_twice_while_a_reader_that_does_not_block_waits(self):
        process, given, shown = self.start_unblocked("generate", e2e.DEMO, "-p", "It was", "-n", -1, "-q")
        with given, shown:
            self.wait_until_full(shown)
            self.expect_end(process, signal.SIGINT, 2)

    def test_a_reader_that_leaves(self):
        with e2e.start("generate", e2e.DEMO, "-p", "It was", "-n", -1, stdin=subprocess.DEVNULL) as process:
            process.stdout.read(10)
            process.stdout.close()
            notes = process.stderr.read()
            process.wait(timeout=e2e.TIMEOUT_S)
        self.assertEqual((process.returncode, notes), (0, b""))

    def test_a_full_disk(self):
        with open("/dev/full", "wb") as full:
            process = subprocess.run(
                [e2e.RUNNEL, "generate", str(e2e.DEMO), "-p", "It was", "-n", "5"],
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=e2e.TIMEOUT_S,
            )
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"cannot write", process.stderr)


e2e.main()
