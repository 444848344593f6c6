#include "output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "console.h"
#include "errors.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

Failure failure(const std::string& path, const char* what) {
  return Failure(path + ": " + what + ": " + std::strerror(errno));
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  std::error_code ignored, unknown;
  const fs::file_status status = fs::status(path_, ignored);
  const bool direct = fs::exists(status) && !fs::is_regular_file(status);
  if (!direct && fs::is_symlink(path_, ignored)) {
    const fs::path target = fs::weakly_canonical(path_, unknown);
    if (!unknown) path_ = target.string();
  }
  written_path_ = direct ? path_ : path_ + ".part" + std::to_string(getpid());
  file_ = std::fopen(written_path_.c_str(), "wb");
  if (!file_) throw failure(path_, "cannot write");
  temporary_ = !direct;
}

OutputFile::~OutputFile() {
  if (file_) std::fclose(file_);
  if (temporary_) std::remove(written_path_.c_str());
}

void OutputFile::write(const void* data, std::size_t n_bytes) {
  if (std::fwrite(data, 1, n_bytes, file_) != n_bytes) throw failure(path_, "cannot write");
}

void OutputFile::finish() {
  if (std::fclose(std::exchange(file_, nullptr)) != 0) throw failure(path_, "cannot write");
  if (temporary_ && std::rename(written_path_.c_str(), path_.c_str()) != 0)
    throw failure(path_, "cannot rename the finished file to it");
  temporary_ = false;
}

void write_file(const std::string& path, std::string_view content) {
  OutputFile file(path);
  file.write(content.data(), content.size());
  file.finish();
  write_note("wrote " + path);
}

void refuse_same_file(const std::string& written, const std::string& other, const char* what_the_other_is) {
  std::error_code none_yet;
  const bool same =
      !written.empty() && !other.empty() && (written == other || fs::equivalent(written, other, none_yet));
  if (same) throw UsageError(written + ": is the " + what_the_other_is + " too; name another file");
}

}  // namespace cli
