"""runnel chat through pipes: answers on standard output and nothing else."""

import json
import os
import signal
import time

import e2e


class PipedChat(e2e.TestCase):
    def test_answers_as_the_reference_does(self):
        for question, answer in ((e2e.QUESTION, e2e.ANSWER), (e2e.OTHER_QUESTION, e2e.OTHER_ANSWER)):
            result = self.succeed("chat", "--greedy", stdin=f"{question}\n".encode())
            self.assertEqual(result.out.decode(), answer + "\n")
            self.assertEqual(result.err, "")

    def test_each_line_is_a_turn(self):
        lines = f"{e2e.QUESTION}\n\nAt 7 pm please.\r\nThank you"  # an empty line; CRLF; no newline at the end
        result = self.succeed("chat", e2e.DEMO, "--greedy", stdin=lines.encode())
        answers = result.out.decode().splitlines()
        self.assertEqual(answers[0], e2e.ANSWER)
        self.assertEqual(len(answers), 3, result)
        self.assertTrue(all(answers), result)

    def test_json(self):
        lines = f"{e2e.QUESTION}\nTwo\\\nlines\n".encode()
        result = self.succeed("chat", e2e.DEMO, "--greedy", "-n", "30", "--json", stdin=lines)
        plain = self.succeed("chat", e2e.DEMO, "--greedy", "-n", "30", stdin=lines)
        reports = [json.loads(line) for line in result.out.splitlines()]
        self.assertEqual("".join(report["answer"] + "\n" for report in reports), plain.out.decode())
        self.assertEqual([report["message"] for report in reports], [e2e.QUESTION, "Two\nlines"])
        self.assertEqual((reports[0]["finish"], reports[0]["unseen_tokens"]), ("end", 0))
        self.assertGreater(reports[0]["generated_tokens"], 3)
        self.assertLess(reports[0]["tokens_so_far"], reports[1]["tokens_so_far"])
        cut = json.loads(self.succeed("chat", "-n", "1", "--json", stdin=b"Hi\n").out)
        self.assertEqual((cut["finish"], cut["generated_tokens"]), ("length", 1))
        self.fail_cleanly("chat", "--json", "--forever", stdin=b"Hi\n", code=2, naming="--forever")

    def test_a_line_that_ends_in_a_backslash_goes_on_in_the_next(self):
        talk = self.folder / "talk.txt"
        lines = b"I want to book a table\\\r\nfor two.\nAt 7 pm.\\"
        self.succeed("chat", "-n", "3", "--transcript", talk, stdin=lines)
        said = [turn.split("Model: ")[0] for turn in talk.read_text().split("You: ")[1:]]
        self.assertEqual(said, ["I want to book a table\n  for two.\n", "At 7 pm.\n"])

    def test_input_that_cannot_be_read(self):
        folder = os.open(self.folder, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        with e2e.start("chat", stdin=folder) as process:
            out, err = process.communicate(timeout=e2e.TIMEOUT_S)
        self.assertEqual((process.returncode, out), (1, b""))
        self.assertEqual(err, b"runnel: standard input: cannot read: Is a directory\n")

    def test_later_turns_see_earlier_ones(self):
        after = self.succeed("chat", "--greedy", stdin=f"{e2e.QUESTION}\nAt 7 pm.\n".encode())
        alone = self.succeed("chat", "--greedy", stdin=b"At 7 pm.\n")
        self.assertNotEqual(after.out.splitlines()[1], alone.out.splitlines()[0])

    def test_a_conversation_longer_than_the_window_goes_on(self):
        lines = f"{e2e.QUESTION}\nAt 7 pm.\n".encode() * 10
        result = self.succeed("chat", "--window", "60", "--sinks", "4", "--greedy", "-n", "40", stdin=lines)
        self.assertGreaterEqual(len(result.out.splitlines()), 15)

    def test_the_oldest_exchange_leaves_or_the_oldest_token(self):
        lines = f"{e2e.QUESTION}\nAt 7 pm.\n{e2e.OTHER_QUESTION}\nPlay some jazz.\n".encode() * 3
        flags = ("chat", "--window", "80", "--temp", "1", "-n", "20")
        by_turn = self.succeed(*flags, stdin=lines)
        self.assertEqual(by_turn.err, "")
        self.assertEqual(self.succeed(*flags, "--evict", "turn", stdin=lines).out, by_turn.out)
        by_token = self.succeed(*flags, "--evict", "token", stdin=lines)
        self.assertEqual(len(by_token.out.splitlines()), 12)
        self.assertNotEqual(by_token.out, by_turn.out)

    def test_a_message_longer_than_the_window(self):
        line = " ".join([e2e.QUESTION] * 20).encode() + b"\n"
        flags = ("chat", "--window", "60", "--greedy", "-n", "5")
        result = self.succeed(*flags, stdin=line)
        self.assertIn("no longer seen", result.err)
        self.fail_cleanly(*flags, "--overflow", "error", stdin=line, code=1, naming="(--overflow stream)")

    def test_a_system_prompt_that_leaves_no_window(self):
        self.fail_cleanly("chat", "--window", "20", "--system", "Be kind. " * 40, stdin=b"Hi\n", code=2, naming="window")
        for window, sinks in ((1, 0), (1, 1), (2, 1)):
            flags = ("--window", window, "--sinks", sinks)
            self.fail_cleanly("chat", *flags, stdin=b"Hi\n", code=2, naming="window")
        self.succeed("chat", "--window", "1", "--sinks", "4", "-n", "5", stdin=b"Hi\nthere\n")

    def test_sampling_repeats_with_its_seed(self):
        answers = [
            self.succeed("chat", "--temp", "1.5", "--seed", seed, stdin=b"Find me a film.\n").out
            for seed in (1, 1, 2, 3, 4)
        ]
        self.assertEqual(answers[0], answers[1])
        self.assertGreater(len(set(answers)), 1)

    def test_the_answer_can_be_limited(self):
        result = self.succeed("chat", "--greedy", "-n", "2", stdin=f"{e2e.QUESTION}\n".encode())
        self.assertTrue(e2e.ANSWER.startswith(result.out.decode().strip()), result)
        self.assertLess(len(result.out), len(e2e.ANSWER))

    def test_no_input_is_no_answer(self):
        self.assertEqual(self.succeed("chat", stdin=b"").out, b"")

    def test_any_bytes_are_a_message(self):
        self.succeed("chat", "-n", "5", stdin=b"\xff\xfe\x00caf\xc3\xa9 \xf0\x9f\x8c\x8a <|end|></s>\n")

    def test_a_system_prompt_is_taken(self):
        result = self.succeed("chat", "--system", "You are a bank.", "--greedy", stdin=b"Hello!\n")
        self.assertTrue(result.out.strip())

    def test_a_model_without_a_form_says_how_to_give_one(self):
        model = e2e.shared("models/stories260K-f32.gguf")
        self.fail_cleanly("chat", model, stdin=b"Hello\n", code=1, naming="set --template to one of: chatml, ")
        self.succeed("chat", model, "--template", "chatml", "-n", "5", stdin=b"Hello\n")

    def test_for_ever_lasts_until_interrupted(self):
        with e2e.start("chat", "--forever", "--greedy") as process:
            process.stdin.write(b"Hello!\n")
            process.stdin.flush()
            self.assertTrue(process.stdout.read(400))  # more than any answer of this model
            time.sleep(0.1)
            self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=e2e.TIMEOUT_S)
            self.assertEqual(process.returncode, 130)


e2e.main()
