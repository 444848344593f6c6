// Files that commands write.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace cli {

// A file that takes its name when it is complete, so that no reader ever sees half of one. What exists and is
// no regular file (a pipe, /dev/null) is written to directly, and so is standard output (/dev/stdout), file
// or not, behind what is there. A link to a file stays: that file is replaced, and its permissions stay.
// Failure is thrown when something cannot be written.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();  // without finish() nothing is left
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t n_bytes);
  void finish();

 private:
  void open_temporary(const std::filesystem::file_status& replaced);

  std::string path_, written_path_;
  std::FILE* file_ = nullptr;
  bool temporary_ = false;
};

// A stream for an open file, which is closed where there can be none. Null then, and for -1.
std::FILE* stream_of(int file, const char* mode);

// Failure where no file can be written there, before the work is done whose result it is for. A pipe or a
// device is not tried: its reader would take that for all there is.
void expect_writable(const std::string& path);

// Writes all of it, and notes that on standard error. A signal that comes meanwhile is heeded after that, by
// Interrupted.
void write_file(const std::string& path, std::string_view content);

// Figures go to standard output; the pictures of them, which come after, to files of their own: also where
// the reader of standard output has gone.
void write_figures_and_pictures(const std::function<void()>& figures, const std::function<void()>& pictures);

// Of a file, written or read; 0 where it cannot be told.
std::int64_t file_bytes(const std::string& path);

// UsageError where both paths, neither of them empty, name one file.
void refuse_same_file(const std::string& written, const std::string& other, const char* what_the_other_is);

// UsageError where it is the file or pipe that standard output goes to, as /dev/stdout is.
void refuse_standard_output(const std::string& path);

// UsageError where it is the file that standard input comes from: reading what is written would have no end.
void refuse_standard_input(const std::string& path);

}  // namespace cli
