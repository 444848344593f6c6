// Standard output and error: what goes where, and how numbers look to people.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace cli {

bool input_is_terminal();
bool output_is_terminal();
bool error_is_terminal();
bool is_dumb_terminal();  // TERM says that it has no control sequences, or does not say what it is

// Standard input, to wait for and to read. Of a terminal no read waits: Ctrl-C has it drop what was typed,
// also what poll has told of just before, and a read that waits would come back with the next key only. So it
// is opened once more, since what is set of standard input itself is set for the shell too. Where it cannot
// be opened (after su it is another user's), standard input is read as it is.
int input_file();

// Standard input, output and error that the program was started without are /dev/null from here on, so that
// no other file takes their place.
void open_standard_files();

// Chooses a UTF-8 character set for the terminal where the environment names none.
void set_locale();

// Writes to standard output at once. Throws ReaderGone when the reader has closed it, Failure when it cannot
// be written (a full disk), Interrupted when the reader takes nothing and someone presses for the end.
void write_out(std::string_view text);

// The same for text of a model: on a terminal, control characters other than newline and tab are left out, so
// that no text can command the terminal.
void write_model_text(std::string_view text);

bool is_control(char c);  // of ASCII

// What is left of such a text.
std::string without_controls(std::string_view text);

// Writes to standard error: results of people's interest, never part of a command's output.
void write_note(std::string_view text);      // dim on a terminal, ends the line
void write_error(std::string_view message);  // "runnel: " and one line

// The same text on one line, without control characters.
std::string one_line(std::string_view text);

// Each byte that is no part of a character in UTF-8 becomes U+FFFD.
std::string valid_utf8(std::string_view text);

// "\x1b[...m" sequences, empty where standard error is no terminal or NO_COLOR is set.
struct Style {
  const char* dim;
  const char* bold;
  const char* plain;
};
Style error_style();

// "1,234,567"
std::string with_commas(std::int64_t value);
// "1 token", "2,048 tokens"
std::string counted(std::int64_t n, const std::string& noun);
// "12.5 MiB"
std::string bytes_text(std::int64_t n_bytes);
// "3.25", "41.2", "1,234": three or more digits
std::string rate_text(double per_second);
// "%.*f"
std::string fixed(double value, int n_decimals);
// "+3.25 %"
std::string signed_percent(double share);

// Filled up with blanks to so many bytes.
std::string left_aligned(std::string text, std::size_t width);
std::string right_aligned(const std::string& text, std::size_t width);

// Whole file, or standard input for "-".
std::string read_text(const std::string& path);

}  // namespace cli
