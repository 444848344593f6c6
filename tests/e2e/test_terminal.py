"""On a terminal: runnel chat, typing, commands, Ctrl-C and Ctrl-D; and progress."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unittest

import e2e

CTRL_C, CTRL_D, CTRL_S, CTRL_Z = b"\x03", b"\x04", b"\x13", b"\x1a"
STYLES = re.compile(rb"\x1b\[[0-9;]*m")  # bold, dim, colours, and back
PROMPT = "\x1b[1m>\x1b[0m "  # bold, and what is typed and answered is not


class Terminal:
    """The program on a terminal of its own; the history goes to a folder."""

    def __init__(self, folder, *arguments, term="xterm", no_color="", program=(e2e.RUNNEL,)):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            e2e.default_signals()
            os.environ["NO_COLOR"] = no_color  # empty it counts as not set
            os.environ.update(
                {"TERM": term, "HOME": str(folder), "XDG_STATE_HOME": str(folder), "LC_ALL": "C.UTF-8"}
            )
            os.execvp(program[0], [*program, *arguments])
        self.seen = b""

    def type(self, keys):
        os.write(self.fd, keys if isinstance(keys, bytes) else keys.encode())

    def read_some(self, seconds):
        if self.fd < 0:
            time.sleep(seconds)
            return b""
        if not select.select([self.fd], [], [], seconds)[0]:
            return b""
        try:
            return os.read(self.fd, 65536)
        except OSError:  # the program has closed the terminal
            return b""

    def read_until(self, condition, what):
        """Reads until the condition holds; `what` is what was waited for in vain."""
        end = time.monotonic() + 60
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"no {what} in {self.seen!r}")
            self.seen += self.read_some(0.1)

    def expect(self, text):
        """Reads until the text comes; what was read up to its end is returned and done with."""
        wanted = text.encode()
        self.read_until(lambda: wanted in self.seen, repr(text))
        at = self.seen.index(wanted) + len(wanted)
        before, self.seen = self.seen[:at], self.seen[at:]
        return before

    def quiet(self, seconds=0.5):
        """Whether nothing comes for so long."""
        return not self.seen and not self.read_some(seconds)

    def exit_code(self):
        end = time.monotonic() + 240  # with sanitizers, on a slow machine, what takes seconds takes a minute
        while time.monotonic() < end:
            self.seen += self.read_some(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                while rest := self.read_some(0):  # written since we looked
                    self.seen += rest
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f"still running: {self.seen!r}")

    def hang_up(self):
        """The window is closed."""
        os.close(self.fd)
        self.fd = -1

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self.fd >= 0:
            os.close(self.fd)


def can_open_terminals():
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError:
        return False
    return True


NEEDS_TERMINALS = unittest.skipUnless(
    can_open_terminals(), "no terminals to be had: in a root of its own, /dev/pts has to be mounted"
)


@NEEDS_TERMINALS
class TerminalProgress(e2e.TestCase):
    def test_a_line_of_progress_is_no_wider_than_the_terminal(self):
        text = self.write("text", b"Where would you like to eat? " * 3000)
        for n_columns in (19, 20, 28, 44, 200):  # at 19 the label fills its room, at 28 "0:07 left" does
            with self.subTest(n_columns):
                terminal = Terminal(
                    self.folder, "perplexity", str(e2e.DEMO), "-f", str(text), "--stream", "-t", "1", "--batch", "1"
                )
                self.addCleanup(terminal.close)
                fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, n_columns, 0, 0))
                for _ in range(3):
                    shown = terminal.expect(" %  ").split(b"\x1b[K")[-1] + terminal.expect("\r")[:-1]
                    shown = STYLES.sub(b"", shown).decode()
                    self.assertIn("perplexity"[: n_columns - 10], shown)
                    self.assertLess(len(shown), n_columns)


@NEEDS_TERMINALS
class TerminalInterrupt(e2e.TestCase):
    """Ctrl-C while a bar is shown: the bar goes, the exit code is 130, and no part of a file stays."""

    def interrupted(self, *arguments, last_words=rb"\Z"):
        before = os.listdir(self.folder)
        terminal = Terminal(self.folder, *map(str, arguments))
        self.addCleanup(terminal.close)
        terminal.expect(" %  ")
        terminal.type(CTRL_C)
        self.assertEqual(terminal.exit_code(), 130)
        self.assertRegex(terminal.seen, rb"\r\x1b\[K" + last_words)
        self.assertEqual(os.listdir(self.folder), before)

    def long_text(self):
        return self.write("text", b"Where would you like to eat? " * 60000)

    def test_quantize(self):
        model = self.folder / "model.gguf"
        self.succeed("synth", "--shape", "smollm2-135m", model)
        calibration = self.write("text", b"Where would you like to eat? " * 1000)
        self.interrupted("quantize", model, self.folder / "out.gguf", "-t", 1, "--calibrate", calibration)

    def test_synth(self):
        self.interrupted("synth", "--shape", "qwen3-1.7b", "--type", "q8_0", self.folder / "out.gguf", "-t", 1)

    def test_bench(self):
        self.interrupted("bench", e2e.DEMO, "--repeat", 10000, "-t", 1)
        self.interrupted("bench", e2e.DEMO, "-p", 0, "--depth", 600, "--repeat", 10000, "-t", 1)

    def test_perplexity(self):
        slow = ("perplexity", e2e.DEMO, "-f", self.long_text(), "-t", 1)
        scored = rb"[^%]*PPL = [^%]*when Ctrl-C ended it[^%]*\Z"
        self.interrupted(*slow, last_words=scored)
        self.interrupted(*slow, "--stream", last_words=scored)
        self.interrupted(*slow, "--compare", "--tokens", 100000, "--svg", self.folder / "out.svg")
        scored = rb"PPL  [^%]*99 % KLD [^%]* %\r\n[^%]*when Ctrl-C ended it[^%]*\Z"
        self.interrupted(*slow, "--kl-divergence", "--base", e2e.DEMO, last_words=scored)

    def test_inspect(self):
        pictures = self.folder / "pictures"
        pictures.mkdir()
        flags = ("-f", self.long_text(), "--max-tokens", 100000, "-t", 1, "--svg", pictures)
        self.interrupted("inspect", e2e.DEMO, *flags)
        self.assertEqual(os.listdir(pictures), [])

    def test_prompts(self):
        self.interrupted("generate", e2e.DEMO, "-f", self.long_text(), "-t", 1)
        tokens = ",".join(["1"] * 40000)
        self.interrupted("logits", e2e.DEMO, "--tokens", tokens, "--out", self.folder / "out", "-t", 1)

    def test_a_signal_that_ends_at_once(self):
        terminal = Terminal(self.folder, "bench", str(e2e.DEMO), "--repeat", "10000")
        self.addCleanup(terminal.close)
        terminal.expect(" %  ")
        os.kill(terminal.pid, signal.SIGTERM)
        self.assertEqual(terminal.exit_code(), -signal.SIGTERM)
        self.assertTrue(terminal.seen.endswith(b"\r\x1b[K"), terminal.seen)

    def test_a_signal_ends_a_bar_that_ctrl_s_holds_back(self):
        """Also where standard input is no terminal."""
        text = self.long_text()
        for script in ('exec "$0" "$@" -f text', 'exec "$0" "$@" < text'):
            shell = ("sh", "-c", f"cd {text.parent}; {script}", e2e.RUNNEL)
            terminal = Terminal(self.folder, "perplexity", "-t", "1", program=shell)
            self.addCleanup(terminal.close)
            terminal.expect(" %  ")
            terminal.type(CTRL_S)
            time.sleep(0.5)
            os.kill(terminal.pid, signal.SIGTERM)
            self.assertEqual(terminal.exit_code(), -signal.SIGTERM)
            self.assertTrue(terminal.seen.endswith(b"\r\x1b[K"), terminal.seen)

    def test_no_bar_where_it_cannot_be_erased(self):
        terminal = Terminal(self.folder, "bench", str(e2e.DEMO), "--repeat", "60", "-n", "0", "-t", "1", term="dumb")
        self.addCleanup(terminal.close)
        self.assertEqual(terminal.exit_code(), 0)
        self.assertNotIn(b"\x1b", terminal.seen)


@NEEDS_TERMINALS
class TerminalChat(e2e.TestCase):
    def start(self, *arguments):
        terminal = Terminal(self.folder, "chat", *arguments)
        self.addCleanup(terminal.close)
        terminal.expect("/help")
        terminal.expect(PROMPT)
        return terminal

    def answering(self, *arguments):
        """In the middle of an answer, or while its message is read."""
        terminal = self.start(*arguments)
        terminal.type("Hello!\n")
        terminal.expect("\n")
        return terminal

    def leave(self, terminal):
        terminal.type(CTRL_D)
        self.assertEqual(terminal.exit_code(), 0)

    def goes_on_from(self, session):
        """There is a last answer, which can be had again."""
        terminal = self.start("--session", str(session))
        terminal.type("/regen\n")
        terminal.expect("tokens/s]")
        terminal.expect(PROMPT)
        self.leave(terminal)

    def test_answers_and_leaves_on_ctrl_d(self):
        terminal = self.start("--greedy")
        terminal.type(e2e.QUESTION + "\n")
        terminal.expect(e2e.ANSWER)
        terminal.expect("tokens/s]")
        terminal.expect(PROMPT)
        self.leave(terminal)

    def test_commands(self):
        terminal = self.start("--greedy")
        terminal.type("/help\n")
        for name in ("/reset", "/system", "/pin", "/undo", "/stats", "/set", "/regen"):
            terminal.expect(name)
        terminal.type("/regen\n")  # nothing to answer again: told, and the chat goes on
        terminal.expect(PROMPT)
        terminal.type("/abacus\n")
        terminal.expect("no command /abacus")
        terminal.type(e2e.QUESTION + "\n")
        terminal.expect(e2e.ANSWER)
        terminal.expect("tokens/s]")
        terminal.type("/regen\n")
        terminal.expect(e2e.ANSWER)  # greedy: the same again
        terminal.type("/set temp 0.25\n")
        terminal.expect("temperature = 0.25")
        terminal.type("/set temp  0.5\n")  # two blanks
        terminal.expect("temperature = 0.5")
        for setting in ("abacus", "abacus 1", "vocab_only", "vocab_only true"):
            terminal.type(f"/set {setting}\n")
            terminal.expect(f"there is no setting {setting.split()[0]}; /set lists them all")
        terminal.type("/set temp hot\n")
        terminal.expect("from 0 to 100")
        terminal.type("/set temp 0\n")
        terminal.expect("temperature = 0")
        terminal.type("/set stop abc\n")
        terminal.expect("stop = abc")
        terminal.type("/set stop \"\"\n")
        terminal.expect("stop = \x1b[0m")
        machine = json.loads(self.succeed("info", "--json").out)["machine"]
        for setting, value, choice in (
            ("isa", "", machine["isa"]),
            ("threads", "0 ", machine["default_threads"]),
            ("window", "0 ", 512 - 3),  # tokens of the cache, of which the first 3 stay
            ("template", "", "runnel-demo"),
        ):
            terminal.type(f"/set {setting}\n")
            terminal.expect(f"{setting} = {value}({choice})")
        terminal.type("/stats\n")
        terminal.expect("tokens so far")
        terminal.type("/reset\n")
        terminal.expect("starts over")
        terminal.type(e2e.OTHER_QUESTION + "\n")
        terminal.expect(e2e.OTHER_ANSWER)  # as if nothing had been said before
        terminal.type("/system You are a bank.\n")
        terminal.expect("system prompt")
        terminal.type("/quit\n")
        self.assertEqual(terminal.exit_code(), 0)

    def test_what_only_begins_as_a_command_is_a_message(self):
        talk = self.folder / "talk.txt"
        terminal = self.start("-n", "3", "--transcript", str(talk))
        messages = ("// a comment", "/etc/passwd is what?", "/", " /stats", "/2 of it")
        for message in messages:
            terminal.type(message + "\n")
            terminal.expect("tokens/s]")
            terminal.expect(PROMPT)
        terminal.type("/tmp is full\n")
        terminal.expect("there is no command /tmp; /help lists them")
        terminal.expect(PROMPT)
        terminal.type("/system\\\nYou are a bank.\n")
        terminal.expect("starts over with this system prompt")
        terminal.expect(PROMPT)
        self.leave(terminal)
        said = [line[len("You: ") :] for line in talk.read_text().splitlines() if line.startswith("You: ")]
        self.assertEqual(said, list(messages))
        self.assertIn("system prompt: You are a bank.", talk.read_text())

    def test_regret_and_pins(self):
        terminal = self.start("--greedy")
        terminal.type("/undo\n")
        terminal.expect("no exchange")
        terminal.type("/pin\n")
        terminal.expect("no text")
        terminal.type(e2e.OTHER_QUESTION + "\n")
        terminal.expect(e2e.OTHER_ANSWER)
        terminal.expect("tokens/s]")
        terminal.type("/undo\n")
        terminal.expect("taken back")
        terminal.type(e2e.QUESTION + "\n")
        terminal.expect(e2e.ANSWER)  # as if nothing had been said before
        terminal.expect("tokens/s]")
        terminal.type("/pin My name is Ann.\n")
        terminal.expect("tokens read again")
        terminal.type("/stats\n")
        terminal.expect("exchanges seen  1")
        terminal.type("At 7 pm.\n")
        terminal.expect("tokens/s]")
        terminal.type("/undo\n")
        terminal.expect("taken back")
        terminal.type("/regen\n")
        terminal.expect("tokens/s]")
        terminal.type("/set evict\n")
        terminal.expect("evict = auto")
        terminal.type("/quit\n")
        self.assertEqual(terminal.exit_code(), 0)

    def test_a_system_prompt_that_leaves_no_window_changes_nothing(self):
        terminal = self.start("--window", "60")
        terminal.type("/system " + "Be kind. " * 40 + "\n")
        terminal.expect("larger --window")
        terminal.expect(PROMPT)
        terminal.type("/reset\n")
        terminal.expect("the conversation starts over")
        terminal.expect(PROMPT)
        self.leave(terminal)

    def test_a_pin_that_is_stopped_stays(self):
        session, talk = self.folder / "long.session", self.folder / "talk.txt"
        flags = ("--session", str(session), "--window", "40000", "-t", "1")
        self.succeed("chat", *flags, "-n", 1, stdin=b"Where would you like to eat? " * 1200 + b"\n")
        terminal = self.start(*flags, "--transcript", str(talk))
        terminal.type("/pin My name is Ann.\n")
        terminal.expect("\n")
        time.sleep(0.2)
        terminal.type(CTRL_C)
        terminal.expect("the text is pinned, and the conversation is empty")
        terminal.expect(PROMPT)
        terminal.type("/reset\n")
        terminal.expect("starts over")
        terminal.expect(PROMPT)
        self.leave(terminal)
        self.assertIn("(the conversation starts over; system prompt: My name is Ann.)", talk.read_text())

    def test_ctrl_c_stops_an_answer_and_the_chat_goes_on(self):
        terminal = self.answering("--forever", "--greedy")
        time.sleep(0.5)
        terminal.type(CTRL_C)
        terminal.expect("tokens/s]")
        terminal.expect(PROMPT)
        terminal.seen = b""
        self.assertTrue(terminal.quiet())
        terminal.type("/stats\n")
        terminal.expect("tokens so far")
        terminal.expect(PROMPT)
        self.leave(terminal)

    def test_an_empty_line_goes_on_for_ever_again(self):
        terminal = self.answering("--forever", "-n", "1")
        for keys in ("", "\n"):
            terminal.type(keys)
            terminal.read_until(lambda: len(terminal.seen) >= 1000, "more than -n allows an answer")
            terminal.type(CTRL_C)
            terminal.expect(PROMPT)
        self.leave(terminal)
        help_text = " ".join(self.succeed("chat", "--help").out.decode().split())
        self.assertIn("after an answer, which alone -n bounds, the model goes on", help_text)
        self.assertIn("an empty line has it go on again", help_text)

    def test_a_message_that_is_stopped_while_it_is_read(self):
        talk = self.folder / "talk.txt"
        terminal = self.start("--window", "40000", "-t", "1", "--transcript", str(talk))
        terminal.type("\x1b[200~" + "Where would you like to eat? " * 3000 + "\x1b[201~")
        terminal.expect("eat?")
        terminal.type("\r")
        terminal.read_until(talk.read_bytes, "message in the transcript")
        terminal.seen = b""
        terminal.type(CTRL_C)
        shown = terminal.expect("stopped before the message was read: it is not part of the conversation")
        self.assertIn(b"tokens so far", shown)
        self.assertNotIn(b"tokens/s", shown)
        terminal.expect(PROMPT)
        terminal.type("/undo\r")
        terminal.expect("no exchange")
        terminal.expect(PROMPT)
        self.leave(terminal)
        self.assertIn("(stopped before the message was read", talk.read_text())

    def reading(self):
        """While a bar shows how far it reads."""
        slow = ("--isa", "scalar", "-t", "1", "--batch", "8", "--window", "3000", "-n", "3")
        terminal = self.answering(*slow, "--system", "Be a bank. " * 120)
        terminal.expect("reading")
        terminal.expect(" left")
        return terminal

    def ends_with(self, last_words, terminal):
        os.kill(terminal.pid, signal.SIGTERM)
        self.assertEqual(terminal.exit_code(), -signal.SIGTERM)
        self.assertTrue(terminal.seen.endswith(last_words), terminal.seen)

    def test_a_signal_while_a_bar_is_shown(self):
        self.ends_with(b"\r\x1b[K\x1b[?2004l", self.reading())

    def test_a_signal_after_a_bar_was_shown(self):
        terminal = self.reading()
        terminal.expect("tokens/s]")
        terminal.expect(PROMPT)
        self.ends_with(b"\x1b[?2004l", terminal)

    def test_ctrl_c_twice_leaves(self):
        terminal = self.start()
        terminal.type("half a line" + CTRL_C.decode())
        terminal.expect("Ctrl-C again")
        terminal.type("/stats\n")  # the half line is gone, and the count starts anew
        terminal.expect("tokens so far")
        terminal.expect(PROMPT)
        terminal.type(CTRL_C)
        terminal.expect("Ctrl-C again")
        terminal.expect(PROMPT)
        terminal.type(CTRL_C)
        self.assertEqual(terminal.exit_code(), 0)

    def test_ctrl_c_asks_first_when_an_answer_was_stopped_before(self):
        terminal = self.answering("--forever", "--greedy")
        time.sleep(0.5)
        terminal.type(CTRL_C)
        terminal.expect("tokens/s]")
        terminal.expect(PROMPT)
        terminal.type(CTRL_C)
        terminal.expect("Ctrl-C again")
        terminal.expect(PROMPT)
        terminal.type(CTRL_C)
        self.assertEqual(terminal.exit_code(), 0)

    def test_ctrl_c_between_answer_and_prompt_does_not_leave(self):
        terminal = self.answering("--forever", "--greedy")
        for _ in range(3):
            time.sleep(0.5)
            terminal.type(CTRL_C)
            terminal.expect("so far")  # of the status line: the answer is over
            terminal.type(CTRL_C)
            terminal.expect(PROMPT)
            terminal.type("/stats\n")
            terminal.expect("kept for ever")
            terminal.expect(PROMPT)
            terminal.type("Hello!\n")
            terminal.expect("\n")
        time.sleep(0.5)
        terminal.type(CTRL_C)
        terminal.expect(PROMPT)
        self.leave(terminal)

    def test_ctrl_c_twice_in_a_hurry_stops_an_answer_and_no_more(self):
        slow = ("--isa", "scalar", "-t", "1", "--batch", "512", "--window", "3000", "--forever")
        for system in ("Be a bank.", "Be a bank. " * 120):  # of which the longer one is still read
            terminal = self.start(*slow, "--system", system)
            for _ in range(2):
                terminal.type("Hello!\n")
                terminal.expect("\n")
                time.sleep(0.5)
                terminal.seen = b""
                terminal.type(CTRL_C)
                time.sleep(0.005)
                terminal.type(CTRL_C)
                terminal.expect("so far")
                terminal.expect(PROMPT)
            self.leave(terminal)

    def test_ctrl_c_that_drops_a_message_does_not_leave(self):
        terminal = self.start()
        terminal.type(CTRL_C)
        terminal.expect("Ctrl-C again")
        terminal.expect(PROMPT)
        for typed, shown in (("half a line", "half a line"), ("a line\\\n", "… ")):
            terminal.type(typed)
            terminal.expect(shown)
            time.sleep(0.5)
            terminal.type(CTRL_C)
            terminal.expect("Ctrl-C again")
            terminal.expect(PROMPT)
        terminal.type(CTRL_C)
        self.assertEqual(terminal.exit_code(), 0)

    def test_ctrl_space_does_nothing(self):
        terminal = self.start()
        for keys in ("\0/st\0ats\n", "/stats\0\r", "\0/stat\0\t\r"):
            terminal.type(keys)
            terminal.expect("tokens so far")
            terminal.expect(PROMPT)
        for keys in (CTRL_C, CTRL_D):
            time.sleep(0.5)
            terminal.type("\0")
            time.sleep(0.2)  # Ctrl-C drops what is not read yet
            terminal.type(keys)
        self.assertEqual(terminal.exit_code(), 0)
        self.assertIn(b"Ctrl-C again", terminal.seen)

    def test_ctrl_d_in_an_answer_leaves_after_it(self):
        terminal = self.start("--greedy", "-n", "2000", "--ignore-eos", "-t", "1")
        terminal.type(e2e.QUESTION + "\n")
        terminal.expect(e2e.ANSWER)
        self.leave(terminal)
        self.assertIn(b"tokens/s]", terminal.seen)

    def test_ctrl_d_as_a_command_begins_leaves_after_it(self):
        for i in range(10):
            terminal = self.start()
            terminal.type("/stats\n")
            if i % 2:
                terminal.expect("tokens so far")
            self.leave(terminal)

    def test_ctrl_c_stops_an_answer_however_much_was_typed_before_it(self):
        for typed in ("x" * 6000 + "\r", "a line of pasted text\r" * 300):
            with self.subTest(typed[:10]):
                terminal = self.answering("--forever", "-t", "1")
                terminal.type(typed)
                time.sleep(0.5)
                terminal.type(CTRL_C)
                terminal.expect("tokens/s]")
                terminal.expect(PROMPT)
                terminal.seen = b""
                self.assertTrue(terminal.quiet())  # what was typed before is dropped
                self.leave(terminal)

    def test_ctrl_c_that_drops_what_is_about_to_be_read(self):
        terminal = self.answering("--forever", "-t", "1")
        for _ in range(10):
            terminal.read_until(lambda: len(terminal.seen) >= 1000, "long answer")
            time.sleep(0.05)
            # Stopped, mostly once it knows of the key and has not read it.
            terminal.type("x")
            os.kill(terminal.pid, signal.SIGSTOP)
            os.waitpid(terminal.pid, os.WUNTRACED)
            terminal.type(CTRL_C)
            time.sleep(0.01)
            os.kill(terminal.pid, signal.SIGCONT)
            terminal.expect(PROMPT)
            terminal.type("/stats\n")  # after that no prompt is left to come, though one is drawn anew
            terminal.expect("scratch")
            terminal.expect(PROMPT)
            terminal.type("\n")  # goes on
        time.sleep(0.5)
        terminal.type(CTRL_C)
        terminal.expect(PROMPT)
        self.leave(terminal)

    def transcript_of_typing_in_an_answer(self, keys):
        talk = self.folder / "talk.txt"
        flags = ("--greedy", "-n", "1000", "--ignore-eos", "-t", "1", "--transcript", str(talk))
        terminal = self.start(*flags)
        terminal.type(e2e.QUESTION + "\n")
        terminal.expect(e2e.ANSWER)
        terminal.type(keys)
        self.assertNotIn(b"tokens/s]", terminal.seen)  # still answering
        terminal.expect("tokens/s]")
        terminal.expect("tokens/s]")
        terminal.expect(PROMPT)
        self.leave(terminal)
        return talk.read_text()

    def test_what_is_typed_in_an_answer_is_the_next_message(self):
        talk = self.transcript_of_typing_in_an_answer("y\x7f" + "x" * 6000 + "\r")
        self.assertIn("You: " + "x" * 6000 + "\n", talk)

    def test_a_paste_is_one_message(self):
        paste = "\x1b[200~first \tone\rsecond\r\nthird\x01\x04\x1b[D\r\x1b[201~"
        talk = self.folder / "talk.txt"
        terminal = self.start("-n", "5", "--transcript", str(talk))
        terminal.type(paste + "\r")
        terminal.expect("tokens/s]")
        terminal.expect(PROMPT)
        terminal.type("\x1b")  # alone it is what it was
        time.sleep(0.2)
        terminal.type("b/st\x1b[D\x1b[Cats\r")
        terminal.expect("tokens so far")
        terminal.expect(PROMPT)
        terminal.type("\x1b[200~lost" + CTRL_C.decode())
        terminal.expect("Ctrl-C again")
        terminal.expect(PROMPT)
        terminal.type("\x1b[201~/stats\r")
        terminal.expect("tokens so far")
        terminal.expect(PROMPT)
        self.leave(terminal)
        self.assertTrue(terminal.seen.endswith(b"\x1b[?2004l"), terminal.seen)
        said = "first \tone\n  second\n  third[D"
        self.assertIn(said + "\n", talk.read_text())
        self.assertEqual(talk.read_text().count("You: "), 1)
        self.assertIn(f"You: {said}\n", self.transcript_of_typing_in_an_answer(paste + "\r"))

    def test_a_signal_that_ends_an_answer_leaves_the_terminal_as_it_was(self):
        for number in (signal.SIGTERM, signal.SIGQUIT):
            with self.subTest(number):
                terminal = self.answering("--forever", "-t", "1")
                time.sleep(0.5)
                self.assertFalse(termios.tcgetattr(terminal.fd)[3] & termios.ICANON)
                os.kill(terminal.pid, number)
                self.assertEqual(terminal.exit_code(), -number)
                local_modes = termios.tcgetattr(terminal.fd)[3]
                self.assertTrue(local_modes & termios.ICANON and local_modes & termios.ECHO)
                self.assertTrue(terminal.seen.endswith(b"\x1b[?2004l"), terminal.seen)

    def stopped(self, *arguments, typed=""):
        """After Ctrl-Z, under a shell that has the terminal's modes told and goes on; it sets none itself."""
        script = '"$0" "$@"; echo stopped; stty -a; echo goes on; fg; echo left with $?'
        terminal = Terminal(self.folder, "chat", *arguments, program=("sh", "-m", "-c", script, e2e.RUNNEL))
        self.addCleanup(terminal.close)
        terminal.expect(PROMPT)
        terminal.type(typed)
        terminal.expect(typed.replace("\n", "\r\n"))  # Ctrl-Z drops what is not read
        time.sleep(0.5)
        terminal.type(CTRL_Z)
        self.assertIn("\x1b[?2004l", terminal.expect("stopped").decode())
        modes = terminal.expect("goes on").decode().split()
        for mode in ("icanon", "echo", "icrnl"):
            self.assertIn(mode, modes)
        return terminal

    def leave_to_shell(self, terminal):
        terminal.type(CTRL_D)
        terminal.expect("left with 0")

    def test_ctrl_z_at_a_line_and_back(self):
        terminal = self.stopped(typed="/sta")
        terminal.expect(PROMPT + "/sta")  # what was typed is there again
        terminal.type("t\t\n")  # and edited as before
        terminal.expect("tokens so far")
        terminal.expect(PROMPT)
        self.leave_to_shell(terminal)

    def test_ctrl_z_in_an_answer_and_back(self):
        terminal = self.stopped("--forever", "-t", "1", typed="Hello!\n")
        time.sleep(1)  # until the terminal is taken again
        terminal.type("/stats\r")
        terminal.type(CTRL_C)
        terminal.expect(PROMPT)
        self.leave_to_shell(terminal)

    def test_a_new_size_of_the_window(self):
        terminal = self.start()
        terminal.type("/stats" + " " * 30)
        terminal.expect("/stats" + " " * 30)
        fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
        terminal.expect("\r\x1b[J" + PROMPT + "/stats")  # drawn again, not behind what was there
        terminal.type("\n")
        terminal.expect("tokens so far")
        self.leave(terminal)

    def test_nothing_is_styled_where_no_color_is_set(self):
        for no_color in ("1", ""):
            terminal = Terminal(self.folder, "chat", "--greedy", no_color=no_color)
            self.addCleanup(terminal.close)
            shown = terminal.expect("/help") + terminal.expect(">")
            for line, answer in (
                ("/abacus", "no command /abacus"),
                ("/set temp 0.5", "temperature = 0.5"),
                (e2e.QUESTION, e2e.ANSWER),
                ("/stats", "tokens so far"),
            ):
                terminal.type(line + "\n")
                shown += terminal.expect(answer) + terminal.expect(">")
            self.leave(terminal)
            shown += terminal.seen
            self.assertEqual(STYLES.search(shown) is None, no_color == "1", shown)

    def test_every_setting_is_an_option(self):
        terminal = self.start()
        terminal.type("/set\n")
        listed = re.findall(r"([a-z0-9_]+) = ", STYLES.sub(b"", terminal.expect(PROMPT)).decode())
        self.leave(terminal)
        text = self.succeed("chat", "--help").out.decode()
        parts = re.search(r"\nRunning:\n(.*?)\n\nExamples:", text, re.DOTALL).group(1)
        options = [name.replace("-", "_") for name in re.findall(r"^  (?:-[a-z],)?--([a-z0-9-]+)", parts, re.MULTILINE)]
        self.assertEqual(listed + ["greedy"], options)  # which is --temperature 0
        self.assertGreater(len(listed), 20)

    def test_no_pastes_are_marked_where_there_are_no_sequences(self):
        terminal = Terminal(self.folder, "chat", term="dumb")
        self.addCleanup(terminal.close)
        terminal.expect("leaves.")
        self.leave(terminal)
        self.assertNotIn(b"\x1b[?2004", terminal.seen)

    def test_editing_history_and_completion(self):
        terminal = self.start("--greedy")
        terminal.type("/stax\x7fts\n")  # backspace
        terminal.expect("tokens so far")
        terminal.expect(PROMPT)
        terminal.type("\x10\n")  # Ctrl-P: the line before
        terminal.expect("tokens so far")
        terminal.expect(PROMPT)
        terminal.type("/stat\t\n")
        terminal.expect("tokens so far")
        terminal.expect(PROMPT)
        terminal.type("caf\u00e9x\x7f\x7f\x7f\x7f\x7f/stats\n")  # an accent is one character
        terminal.expect("tokens so far")
        terminal.expect(PROMPT)
        self.leave(terminal)
        self.assertIn("/stats", (self.folder / "runnel" / "history").read_text())

    def test_moving_in_a_line_longer_than_the_screen(self):
        home, end, erase_all = "\x01", "\x05", "\x01\x0b"
        terminal = self.start()
        for typed in ("x" * 4000, "e\u0301" * 1000):  # the screen has 24 rows of 80 columns
            terminal.type(f"\x1b[200~{typed}\x1b[201~{home}{end}" + "z" * 2000 + erase_all + "/stats\r")
            terminal.expect("tokens so far")
            terminal.expect(PROMPT)
        self.leave(terminal)

    def test_chats_side_by_side_keep_the_history_of_both(self):
        terminals = [self.start("--greedy") for _ in range(2)]
        for terminal, line in zip(terminals * 2, ("/stats", "/undo", "/set seed", "/help")):
            terminal.type(line + "\n")
            terminal.expect(PROMPT)
        for terminal in terminals:
            self.leave(terminal)
        history = (self.folder / "runnel" / "history").read_text().splitlines()
        self.assertEqual(history[1:], ["/stats", "/undo", "/set\\040seed", "/help"])

    def test_a_command_that_takes_nothing_gets_nothing(self):
        terminal = self.start("--greedy")
        terminal.type("/quit smoking\n")
        terminal.expect("/quit takes nothing")
        terminal.expect(PROMPT)
        terminal.type("/set threads 1000\n")
        terminal.expect("[1,000 threads on ")
        terminal.expect(PROMPT)
        self.leave(terminal)

    def test_what_to_do_is_told_where_only_the_input_is_a_terminal(self):
        terminal, input_end = pty.openpty()
        self.addCleanup(os.close, terminal)
        with e2e.start("chat", "--greedy", stdin=input_end) as process:
            os.close(input_end)
            os.write(terminal, e2e.QUESTION.encode() + b"\n" + CTRL_D)
            out, err = process.communicate(timeout=e2e.TIMEOUT_S)
        self.assertEqual((process.returncode, out.decode()), (0, e2e.ANSWER + "\n"))
        self.assertEqual(err, b"Type a message a line; Ctrl-D ends.\n")

    def test_sessions_are_saved_loaded_and_kept(self):
        kept, other = self.folder / "kept.session", self.folder / "other.session"
        terminal = self.start("--greedy", "--session", str(kept))
        terminal.type("/load\n")
        terminal.expect("nothing was said yet")
        terminal.type(e2e.QUESTION + "\n")
        terminal.expect(e2e.ANSWER)
        terminal.expect(PROMPT)
        terminal.type(f"/save {other}\n")
        terminal.expect(f"saved to {other}")
        terminal.type("/save /none/at/all\n")
        terminal.expect("/none/at/all: cannot be created: No such file")
        terminal.type("/save \"~/my evening\"\n")
        terminal.expect("saved to ")
        terminal.expect(PROMPT)
        self.assertTrue((self.folder / "my evening").exists())
        terminal.type("/load ~/my evening\n")
        terminal.expect("You: " + e2e.QUESTION)
        terminal.type("/reset\n")
        terminal.expect("starts over")
        terminal.type(f"/load {other}\n")
        terminal.expect("You: " + e2e.QUESTION)
        terminal.expect("Model: " + e2e.ANSWER)
        terminal.expect(PROMPT)
        terminal.type(f"/load {e2e.DEMO}\n")
        terminal.expect("no session file")
        terminal.expect(PROMPT)
        terminal.type(CTRL_C)
        terminal.expect("Ctrl-C again")
        terminal.expect(PROMPT)
        terminal.type(CTRL_C)
        self.assertEqual(terminal.exit_code(), 0)
        self.assertGreater(kept.stat().st_size, 10000)  # kept as it was when the chat was left
        self.goes_on_from(kept)

    def test_a_session_is_not_saved_over_the_model_or_the_transcript(self):
        model, talk = self.write("model.gguf", e2e.DEMO.read_bytes()), self.folder / "talk.txt"
        terminal = self.start(str(model), "--transcript", str(talk))
        terminal.type(f"/save {model}\n")
        terminal.expect("is the model too")
        terminal.type(f"/save {talk}\n")
        terminal.expect("is the transcript too")
        terminal.expect(PROMPT)
        self.leave(terminal)
        self.assertEqual(model.read_bytes(), e2e.DEMO.read_bytes())
        self.assertEqual(talk.read_bytes(), b"")

    def test_a_session_is_saved_over_no_other_file(self):
        diary, short = self.write("diary", b"Dear diary\n"), self.write("short", b"runnel")
        empty, session = self.write("empty", b""), self.folder / "session"
        terminal = self.start()
        for other in (diary, short):
            before = other.read_bytes()
            terminal.type(f"/save {other}\n")
            terminal.expect(f"{other}: this is no session file of runnel; name another file")
            terminal.expect(PROMPT)
            self.assertEqual(other.read_bytes(), before)
        terminal.type(f"/load {empty}\n")
        terminal.expect("the file is empty")
        for path in (empty, session, session):
            terminal.type(f"/save {path}\n")
            terminal.expect(f"saved to {path}")
            terminal.expect(PROMPT)
            self.assertTrue(path.read_bytes().startswith(b"runnelS"))
        self.leave(terminal)

    @unittest.skipIf(os.geteuid() == 0, "root reads every file")
    def test_a_session_is_saved_over_no_file_that_cannot_be_read(self):
        other = self.write("other", b"runnelS")
        other.chmod(0)
        terminal = self.start()
        terminal.type(f"/save {other}\n")
        terminal.expect(f"{other}: cannot tell whether this is a session file of runnel: Permission denied")
        terminal.expect(PROMPT)
        self.leave(terminal)

    def test_a_session_is_kept_over_no_other_file(self):
        kept = self.folder / "kept.session"
        terminal = self.start("--session", str(kept))
        kept.write_bytes(b"Dear diary\n")
        terminal.type(CTRL_D)
        terminal.expect("this is no session file of runnel")
        terminal.expect("leaving again loses it")
        terminal.expect(PROMPT)
        terminal.type(CTRL_D)
        self.assertEqual(terminal.exit_code(), 1)
        self.assertEqual(kept.read_bytes(), b"Dear diary\n")

    def test_a_session_is_kept_when_the_terminal_goes(self):
        kept = self.folder / "kept.session"
        terminal = self.start("--greedy", "--session", str(kept))
        terminal.type(e2e.QUESTION + "\n")
        terminal.expect(e2e.ANSWER)
        terminal.expect(PROMPT)
        terminal.hang_up()
        # The end of the input may be seen before the signal.
        self.assertIn(terminal.exit_code(), (0, 128 + signal.SIGHUP))
        self.goes_on_from(kept)

    def test_a_session_is_kept_when_asked_to_end(self):
        kept = self.folder / "kept.session"
        terminal = self.start("--greedy", "--forever", "--session", str(kept))
        made = kept.stat().st_size
        terminal.type(e2e.QUESTION + "\n")
        terminal.expect(e2e.ANSWER)
        os.kill(terminal.pid, signal.SIGTERM)
        self.assertEqual(terminal.exit_code(), 128 + signal.SIGTERM)
        self.assertGreater(kept.stat().st_size, made)
        terminal = self.start("--session", str(kept))
        self.leave(terminal)

    def test_a_session_is_kept_when_asked_to_end_after_ctrl_s(self):
        for for_ever in ([], ["--forever"]):  # at the prompt, and in an answer
            kept = self.folder / f"{len(for_ever)}.session"
            terminal = self.start("--greedy", "--session", str(kept), *for_ever)
            made = kept.stat().st_size
            terminal.type(e2e.QUESTION + "\n")
            terminal.expect(e2e.ANSWER)
            if not for_ever:
                terminal.expect(PROMPT)
            terminal.type(CTRL_S)
            time.sleep(0.5)
            os.kill(terminal.pid, signal.SIGTERM)
            self.assertEqual(terminal.exit_code(), 128 + signal.SIGTERM)
            self.assertGreater(kept.stat().st_size, made)

    def test_a_signal_ends_what_ctrl_s_holds_back(self):
        terminal = self.answering("--forever", "-t", "1")
        terminal.type(CTRL_S)
        time.sleep(0.5)
        os.kill(terminal.pid, signal.SIGTERM)
        self.assertEqual(terminal.exit_code(), -signal.SIGTERM)
        self.assertTrue(terminal.seen.endswith(b"\x1b[?2004l"), terminal.seen)

    def test_a_session_that_cannot_be_kept_is_told_before_one_leaves(self):
        folder = self.folder / "gone"
        folder.mkdir()
        terminal = self.start("--session", str(folder / "kept.session"))
        (folder / "kept.session").unlink()
        folder.rmdir()
        terminal.type(CTRL_D)
        terminal.expect("leaving again loses it")
        terminal.expect(PROMPT)
        terminal.type(CTRL_D)
        self.assertEqual(terminal.exit_code(), 1)


e2e.main()
