// The container of a session file, little endian, front to back:
//
//   8 bytes  "runnelS\n"
//   u32      version, 1
//   u32      number of sections
//   u64      hash of the model (model_hash.h)
//   u64      bytes of the whole file
//   for each section: u32 what it is (SectionId), u32 zero, u64 its bytes
//   u64      XXH64 of all before it
//   the sections without gaps, each followed by the XXH64 of its bytes
//
// What the sections hold is up to those who save themselves: session_saving.cpp, chat/chat_saving.cpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/io/mapped_file.h"
#include "lib/io/output.h"
#include "lib/result.h"
#include "lib/saved/saved_fields.h"

namespace runnel {

constexpr std::uint32_t saved_version = 1;

enum class SectionId : std::uint32_t { settings = 1, stream, sampler, logits, cache, chat };
const char* section_name(SectionId id);

// A section that is to be written: its size, and what gives out its bytes from front to back.
struct SectionSource {
  SectionId id;
  std::uint64_t n_bytes;
  std::function<Result<void>(const TakeBytes& take)> give;
};
SectionSource section_of(SectionId id, std::span<const std::byte> bytes);  // which have to stay

// The file appears under its name when it is complete; until then, and after an error, an older one stays. It
// is never the model's own (model_path; empty where the model comes from no file).
Result<void> write_saved(const std::string& path, std::uint64_t model_hash,
                         std::span<const SectionSource> sections, const std::string& model_path = {});

// A session file whose sizes fit together and whose hashes are right. Of what it says nothing else is
// checked.
class SavedFile {
 public:
  static Result<SavedFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  std::uint64_t model_hash() const { return model_hash_; }
  bool has(SectionId id) const { return find(id) != nullptr; }
  Result<SavedFieldReader> section(SectionId id) const;  // an error where there is none

 private:
  struct Section {
    SectionId id;
    std::uint64_t offset;
    std::span<const std::byte> bytes;
  };

  const Section* find(SectionId id) const;
  Result<std::size_t> read_header();  // the number of sections
  Result<void> read_table(std::size_t n_sections);
  Result<void> add_section(std::size_t entry, std::uint64_t offset);
  Result<void> check_sections() const;
  Error bad(std::uint64_t offset, const std::string& what, const std::string& expected,
            const std::string& found) const;

  std::string path_;
  MappedFile file_;
  std::uint64_t model_hash_ = 0;
  std::vector<Section> sections_;
};

}  // namespace runnel
