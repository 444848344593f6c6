// A new file that appears under its name only when it is complete: written next to the target as
// NAME.partial-0, flushed to the disk, then renamed over it, the folder flushed too. Without commit() nothing
// remains of it. A process that is killed while it writes leaves its partial file, which the next writer of
// that name takes away; the lock that writers hold tells it from one that is still written. So there are
// never more of them than writers at work at once, and one.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/io/output.h"

namespace runnel {

class AtomicFile final : public Output {
 public:
  // `inputs` are files the caller still reads: a target that is one of them, under whatever name, is refused
  // (RUNNEL_BAD_ARGUMENT). So is one that exists and is not a regular file. Links are followed, also to where
  // there is no file yet. All else that can go wrong here and below is RUNNEL_IO with the system's reason.
  static Result<AtomicFile> create(const std::string& path, const std::vector<std::string>& inputs);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile() override;

  Result<void> begin(std::uint64_t) override { return {}; }
  Result<void> write(std::span<const std::byte> bytes) override;
  std::uint64_t n_bytes() const override { return n_bytes_; }
  const std::string& path() const override { return path_; }

  // Makes the file appear, replacing an older one of its name, whose permissions it takes whatever the
  // process's umask (as far as the file system has permissions). Nothing can be written after that, whether
  // it succeeds or not.
  Result<void> commit() override;

 private:
  AtomicFile() = default;
  Result<void> open_partial(mode_t mode, const std::vector<std::string>& inputs);
  Error failed(const char* what, int code) const;
  void discard() noexcept;

  std::string path_;
  std::string partial_;  // name until commit(); empty when there is no such file
  int fd_ = -1;
  std::uint64_t n_bytes_ = 0;
};

}  // namespace runnel
