#include "lib/saved/saved_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "lib/io/atomic_file.h"
#include "lib/io/little_endian.h"
#include "lib/saved/xxh64.h"

namespace runnel {
namespace {

constexpr std::string_view magic = "runnelS\n";
constexpr std::size_t header_bytes = 32;  // before the table
constexpr std::size_t entry_bytes = 16;   // of the table
constexpr std::size_t hash_bytes = 8;

struct SectionInfo {
  SectionId id;
  const char* name;
};
constexpr std::array<SectionInfo, 6> known_sections = {{{SectionId::settings, "settings"},
                                                        {SectionId::stream, "stream"},
                                                        {SectionId::sampler, "sampler"},
                                                        {SectionId::logits, "logits"},
                                                        {SectionId::cache, "cache"},
                                                        {SectionId::chat, "chat"}}};

const SectionInfo* find_info(std::uint32_t id) {
  const auto* info =
      std::find_if(known_sections.begin(), known_sections.end(),
                   [id](const SectionInfo& known) { return static_cast<std::uint32_t>(known.id) == id; });
  return info == known_sections.end() ? nullptr : info;
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  Xxh64 hash;
  hash.update(bytes);
  return hash.digest();
}

std::string header_of(std::uint64_t model_hash, std::span<const SectionSource> sections) {
  std::uint64_t n_total = header_bytes + sections.size() * (entry_bytes + hash_bytes) + hash_bytes;
  for (const SectionSource& section : sections) n_total += section.n_bytes;
  std::string header(magic);
  append(header, saved_version);
  append(header, static_cast<std::uint32_t>(sections.size()));
  append(header, model_hash);
  append(header, n_total);
  for (const SectionSource& section : sections) {
    append(header, static_cast<std::uint32_t>(section.id));
    append(header, std::uint32_t{0});
    append(header, section.n_bytes);
  }
  append(header, hash_of(std::as_bytes(std::span(header))));
  return header;
}

// The bytes, and their hash.
Result<void> write_section(AtomicFile& file, const SectionSource& section) {
  Xxh64 hash;
  const std::uint64_t begin = file.n_bytes();
  RUNNEL_TRY(section.give([&](std::span<const std::byte> bytes) {
    hash.update(bytes);
    return file.write(bytes);
  }));
  if (const std::uint64_t written = file.n_bytes() - begin; written != section.n_bytes)
    return error(RUNNEL_INTERNAL, "%s: section %s: %llu bytes were announced, %llu written",
                 file.path().c_str(), section_name(section.id),
                 static_cast<unsigned long long>(section.n_bytes), static_cast<unsigned long long>(written));
  const std::array<std::uint64_t, 1> digest = {hash.digest()};
  return file.write(std::as_bytes(std::span(digest)));
}

}  // namespace

SectionSource section_of(SectionId id, std::span<const std::byte> bytes) {
  return {id, bytes.size(), [bytes](const TakeBytes& take) { return take(bytes); }};
}

const char* section_name(SectionId id) {
  const SectionInfo* info = find_info(static_cast<std::uint32_t>(id));
  return info ? info->name : "";
}

Result<void> write_saved(const std::string& path, std::uint64_t model_hash,
                         std::span<const SectionSource> sections, const std::string& model_path) {
  RUNNEL_ASSIGN(AtomicFile file, AtomicFile::create(path, {model_path}));
  const std::string header = header_of(model_hash, sections);
  RUNNEL_TRY(file.write(std::as_bytes(std::span(header))));
  for (const SectionSource& section : sections) RUNNEL_TRY(write_section(file, section));
  return file.commit();
}

Error SavedFile::bad(std::uint64_t offset, const std::string& what, const std::string& expected,
                     const std::string& found) const {
  return {RUNNEL_BAD_FILE, path_ + ": " + what + " at offset " + std::to_string(offset) + ": expected " +
                               expected + ", found " + found};
}

Result<SavedFile> SavedFile::open(const std::string& path) {
  SavedFile saved;
  saved.path_ = path;
  RUNNEL_ASSIGN(saved.file_, MappedFile::open(path));
  RUNNEL_ASSIGN(const std::size_t n_sections, saved.read_header());
  RUNNEL_TRY(saved.read_table(n_sections));
  RUNNEL_TRY(saved.check_sections());
  return saved;
}

Result<std::size_t> SavedFile::read_header() {
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < magic.size() || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
    return error(RUNNEL_BAD_FILE, "%s: this is no session file of runnel: it does not start with \"runnelS\"",
                 path_.c_str());
  if (bytes.size() < header_bytes + hash_bytes)
    return bad(0, "header", std::to_string(header_bytes + hash_bytes) + " bytes or more",
               std::to_string(bytes.size()) + ": the file is cut short");
  const auto version = load<std::uint32_t>(bytes.data() + 8);
  if (version > saved_version)
    return error(RUNNEL_UNSUPPORTED,
                 "%s: session file of version %u, written by a newer runnel; this one reads version %u",
                 path_.c_str(), version, saved_version);
  if (version != saved_version)
    return bad(8, "version", std::to_string(saved_version), std::to_string(version));
  const auto n_sections = load<std::uint32_t>(bytes.data() + 12);
  if (n_sections < 1 || n_sections > known_sections.size())
    return bad(12, "number of sections", "1 to " + std::to_string(known_sections.size()),
               std::to_string(n_sections));
  model_hash_ = load<std::uint64_t>(bytes.data() + 16);
  const auto n_total = load<std::uint64_t>(bytes.data() + 24);
  if (n_total != bytes.size())
    return bad(24, "size of the file", std::to_string(n_total) + " bytes",
               std::to_string(bytes.size()) + (bytes.size() < n_total ? ": the file is cut short" : ""));
  return static_cast<std::size_t>(n_sections);
}

Result<void> SavedFile::read_table(std::size_t n_sections) {
  const std::span<const std::byte> bytes = file_.bytes();
  const std::size_t table_end = header_bytes + n_sections * entry_bytes;
  if (bytes.size() - hash_bytes < table_end)
    return bad(header_bytes, "table of sections", std::to_string(n_sections * entry_bytes) + " bytes",
               "the end of the file");
  const auto expected = load<std::uint64_t>(bytes.data() + table_end);
  if (const std::uint64_t found = hash_of(bytes.first(table_end)); found != expected)
    return bad(table_end, "checksum of the header", hex(expected), hex(found) + ": the file is damaged");
  std::uint64_t offset = table_end + hash_bytes;
  for (std::size_t i = 0; i < n_sections; ++i) {
    RUNNEL_TRY(add_section(header_bytes + i * entry_bytes, offset));
    offset += sections_.back().bytes.size() + hash_bytes;
  }
  if (offset != bytes.size())
    return bad(offset, "end of the last section", "the end of the file",
               std::to_string(bytes.size() - offset) + " bytes more");
  return {};
}

// entry: where it lies in the table; offset: where the section begins.
Result<void> SavedFile::add_section(std::size_t entry, std::uint64_t offset) {
  const std::span<const std::byte> bytes = file_.bytes();
  const auto id = load<std::uint32_t>(bytes.data() + entry);
  const auto zero = load<std::uint32_t>(bytes.data() + entry + 4);
  const auto size = load<std::uint64_t>(bytes.data() + entry + 8);
  const SectionInfo* info = find_info(id);
  if (!info) return bad(entry, "section", "a known one", "number " + std::to_string(id));
  if (has(info->id)) return bad(entry, "section", "each once", std::string(info->name) + " twice");
  if (zero != 0) return bad(entry + 4, "rest of a section's entry", "0", std::to_string(zero));
  const std::uint64_t n_left = bytes.size() - offset;
  const std::uint64_t most = n_left < hash_bytes ? 0 : n_left - hash_bytes;
  if (n_left < hash_bytes || size > most)
    return bad(entry + 8, std::string("size of section ") + info->name,
               std::to_string(most) + " bytes at most", std::to_string(size));
  sections_.push_back(
      {info->id, offset, bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size))});
  return {};
}

Result<void> SavedFile::check_sections() const {
  for (const Section& section : sections_) {
    const std::uint64_t end = section.offset + section.bytes.size();
    const auto expected = load<std::uint64_t>(file_.bytes().data() + end);
    if (const std::uint64_t found = hash_of(section.bytes); found != expected)
      return bad(end, std::string("checksum of section ") + section_name(section.id), hex(expected),
                 hex(found) + ": the file is damaged");
  }
  return {};
}

const SavedFile::Section* SavedFile::find(SectionId id) const {
  const auto section = std::find_if(sections_.begin(), sections_.end(),
                                    [id](const Section& candidate) { return candidate.id == id; });
  return section == sections_.end() ? nullptr : &*section;
}

Result<SavedFieldReader> SavedFile::section(SectionId id) const {
  const Section* found = find(id);
  if (!found) return error(RUNNEL_BAD_FILE, "%s: section %s is missing", path_.c_str(), section_name(id));
  return SavedFieldReader(path_, section_name(id), found->offset, found->bytes);
}

}  // namespace runnel
