"""A text without end, at the default settings, does not fall into a loop."""

import json
import signal

import e2e
import repetition

# People's dialogues and stories have 0.82 to 0.93 in this measure; the greedy text of a small model below 0.4.
LEAST = 0.6


class Forever(e2e.TestCase):
    def shares(self, text):
        return repetition.distinct_shares(repetition.tokens_of(e2e.RUNNEL, e2e.DEMO, text))

    def generate(self, *settings):
        prompt = f"<|user|>{e2e.QUESTION}<|end|><|assistant|>"
        result = self.succeed("generate", e2e.DEMO, "-p", prompt, "-n", 2500, "--ignore-eos", "--json", "-t", 1, *settings)
        return json.loads(result.out)["text"]

    def test_a_generated_text_keeps_going(self):
        shares = self.shares(self.generate())
        self.assertEqual(len(shares), 2, shares)
        self.assertGreater(min(shares), LEAST, shares)

    def test_the_measure_sees_a_loop(self):
        self.assertLess(min(self.shares(self.generate("--greedy"))), LEAST)

    def test_a_chat_that_goes_on_by_itself(self):
        with e2e.start("chat", "--forever", "--quiet", "-t", 1) as chat:
            chat.stdin.write(e2e.QUESTION.encode() + b"\n")
            chat.stdin.close()
            text = chat.stdout.read(10000).decode("utf-8", "replace")
            chat.send_signal(signal.SIGINT)
            chat.stdout.read()
            self.assertEqual(chat.wait(e2e.TIMEOUT_S), 130)
        shares = self.shares(text)
        self.assertGreaterEqual(len(shares), 2, text)
        self.assertGreater(min(shares), LEAST, shares)


e2e.main()
