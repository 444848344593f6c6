// A text file to which a conversation is appended as it goes: who spoke and what was said.
#pragma once
#include <fstream>
#include <string>
#include <string_view>

namespace cli {

// "You: ..." or "Model: ...", further lines set in, and a newline at the end.
std::string marked_message(bool from_user, std::string_view text);

// An empty path: nothing is written. Failure is thrown when something cannot be. All is on its way to the
// disk when a call returns, for nobody knows which will be the last.
class TranscriptFile {
 public:
  explicit TranscriptFile(const std::string& path);

  void add_user(std::string_view text);
  void add_answer(std::string_view piece);  // starts the answer, or goes on with it
  void end_turn();                          // ends the answer
  void remark(std::string_view text);       // of what happened to the conversation, in parentheses

 private:
  void write(std::string_view text);

  std::string path_;
  std::ofstream file_;
  bool in_answer_ = false;
  std::string line_ends_;  // of the answer, not written: perhaps its last
};

}  // namespace cli
