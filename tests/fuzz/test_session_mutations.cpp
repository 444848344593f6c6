// Damaged session files: refused with a message that names the file, and the conversation is as it was; or,
// where the damage fits a session that could be, loaded and talked on with. No crash, no hang, and never
// memory out of proportion. Checksums are not the only line of defence: most of this is done with right ones.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/chat/chat.h"
#include "lib/saved/saved_file.h"
#include "lib/saved/xxh64.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/allocations.h"
#include "tests/support/folder.h"
#include "tests/support/paths.h"

namespace runnel::test {
namespace {

constexpr std::size_t allowed_beyond_file = std::size_t{1} << 20;  // bytes
constexpr std::size_t header_bytes = 32, entry_bytes = 16, hash_bytes = 8;

// A file in memory, under a name, so that thousands are no work for a disk.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("session", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }
  void set(Bytes bytes) const {
    ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(bytes.size())), 0);
    ASSERT_EQ(::pwrite(fd_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

 private:
  int fd_;
};

std::uint64_t hash_of(Bytes bytes) {
  Xxh64 hash;
  hash.update(bytes);
  return hash.digest();
}

struct Section {
  std::size_t begin, end;  // its hash comes after
};

// As far as the table makes sense.
std::vector<Section> sections_of(Bytes file) {
  std::vector<Section> sections;
  if (file.size() < header_bytes) return sections;
  const std::size_t n = std::min<std::size_t>(load<std::uint32_t>(file.data() + 12), 16);
  std::size_t at = header_bytes + n * entry_bytes + hash_bytes;
  for (std::size_t i = 0; i < n && at < file.size(); ++i) {
    const auto size = load<std::uint64_t>(file.data() + header_bytes + i * entry_bytes + 8);
    if (size > file.size() - at || file.size() - at - size < hash_bytes) break;
    sections.push_back({at, at + static_cast<std::size_t>(size)});
    at = sections.back().end + hash_bytes;
  }
  return sections;
}

// With right checksums, of header and sections.
std::vector<std::byte> with_checksums(Bytes damaged) {
  std::vector<std::byte> file(damaged.begin(), damaged.end());
  const auto put = [&](std::size_t begin, std::size_t end) {
    if (end > file.size() || file.size() - end < hash_bytes) return;
    const std::uint64_t hash = hash_of(Bytes(file).subspan(begin, end - begin));
    std::memcpy(file.data() + end, &hash, sizeof hash);
  };
  if (file.size() < header_bytes) return file;
  put(0, header_bytes + std::min<std::size_t>(load<std::uint32_t>(file.data() + 12), 16) * entry_bytes);
  for (const Section& section : sections_of(file)) put(section.begin, section.end);
  return file;
}

class SessionMutations : public testing::Test {
 protected:
  void SetUp() override {
    Settings settings;
    for (const auto& [name, value] :
         {std::pair{"window", "40"}, {"batch", "8"}, {"cache", "int8"}, {"threads", "1"}})
      ASSERT_TRUE(settings.set(name, value));
    auto model = Model::open(demo_model(), settings);
    ASSERT_TRUE(model);
    session_ = std::move(*Session::open(*model, settings));
    auto chat = Chat::open(*session_, settings);
    ASSERT_TRUE(chat);
    chat_ = std::make_unique<Chat>(std::move(*chat));
    ASSERT_TRUE(chat_->start("You are a bank."));
    for (const char* line : {"Hello!", "Book a table.", "At 7 pm."})
      ASSERT_TRUE(chat_->say(line, 8, nullptr, nullptr));
    original_ = expected_ = saved();
  }

  std::string saved() const {
    EXPECT_TRUE(chat_->save(folder_.file("saved")));
    return read_bytes(folder_.file("saved"));
  }
  Bytes original() const { return std::as_bytes(std::span(original_)); }

  // Keys and values that are no numbers make such logits, of which none can be chosen.
  template <class T>
  static void expect_choice(const Result<T>& chosen) {
    if (!chosen) {
      EXPECT_NE(chosen.error().message.find("none of its results is a number"), std::string::npos)
          << chosen.error().message;
    }
  }

  // What was loaded is used in every way there is, and can be saved and loaded again.
  void use() const {
    session_->visible();
    if (session_->logits()) expect_choice(session_->sample());
    const Token token = 5;
    EXPECT_TRUE(session_->feed({&token, 1}, nullptr, nullptr));
    (void)chat_->again(1, nullptr, nullptr);
    expect_choice(chat_->say("Go on.", 2, nullptr, nullptr));
    (void)chat_->undo();
    (void)chat_->pin("Be brief.");
    expect_choice(chat_->say("And on.", 2, nullptr, nullptr));
    saved();
    const auto again = chat_->load(folder_.file("saved"));
    EXPECT_TRUE(again) << again.error().message;
  }

  void check(Bytes damaged, const std::string& what, bool must_refuse) {
    file_.set(damaged);
    reset_allocation_peak();
    const Result<void> result = chat_->load(file_.path());
    ASSERT_LT(allocation_peak(), 2 * damaged.size() + allowed_beyond_file) << what;
    if (result) {
      ASSERT_FALSE(must_refuse) << what;
      ++n_loaded_;
      use();
      expected_ = saved();
      return;
    }
    const Error& refusal = result.error();
    ASSERT_EQ(refusal.message.rfind(file_.path() + ": ", 0), 0u) << what << ": " << refusal.message;
    ASSERT_TRUE(refusal.status == RUNNEL_BAD_FILE || refusal.status == RUNNEL_UNSUPPORTED ||
                refusal.status == RUNNEL_BAD_ARGUMENT)
        << what << ": status " << refusal.status;
    // Comparing takes much longer than loading.
    if (++n_refused_ % 50 == 0) {
      ASSERT_TRUE(saved() == expected_) << what;
    }
  }

  auto refused() {
    return [this](Bytes damaged, const std::string& what) { check(damaged, what, true); };
  }
  // With right checksums it may be a session after all.
  auto checked() {
    return [this](Bytes damaged, const std::string& what) { check(with_checksums(damaged), what, false); };
  }

  Folder folder_;
  MemoryFile file_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Chat> chat_;
  std::string original_, expected_;
  int n_loaded_ = 0, n_refused_ = 0;
};

TEST_F(SessionMutations, the_whole_file_loads) {
  check(original(), "nothing", false);
  EXPECT_EQ(n_loaded_, 1);
  EXPECT_EQ(sections_of(original()).size(), 6u);
}

TEST_F(SessionMutations, cut_around_every_section_and_anywhere) {
  std::vector<std::size_t> sizes = {1, 7, 8, 31, 32, 33};
  for (const Section& section : sections_of(original())) {
    for (const std::size_t edge :
         {section.begin - hash_bytes, section.begin, section.end, section.end + hash_bytes}) {
      for (const std::size_t size : {edge - 1, edge, edge + 1}) sizes.push_back(size);
    }
  }
  for (const std::size_t size : sizes) {
    if (size >= original_.size()) continue;
    const Bytes part = original().first(size);
    check(part, "cut to " + std::to_string(size), true);
    // And with a header that says so.
    if (size < header_bytes) continue;
    std::vector<std::byte> admitted(part.begin(), part.end());
    const std::uint64_t n_bytes = size;
    std::memcpy(admitted.data() + 24, &n_bytes, sizeof n_bytes);
    check(with_checksums(admitted), "cut to " + std::to_string(size) + ", as the header says", true);
  }
  for_cuts(original().subspan(0), 100, [&](Bytes damaged, const std::string& what) {
    if (!damaged.empty()) check(damaged, what, true);
  });
  EXPECT_EQ(n_loaded_, 0);
}

TEST_F(SessionMutations, random_bytes_are_noticed) {
  for_random_bytes(original(), original_.size(), 2000, refused());
  EXPECT_EQ(n_loaded_, 0);
}

TEST_F(SessionMutations, every_byte_of_the_header) {
  const std::size_t n = sections_of(original()).front().begin;
  for_every_byte(original(), n, refused());
  for_every_byte(original(), n - hash_bytes, checked());
  for_every_word(original(), n - hash_bytes, checked());
  EXPECT_EQ(n_loaded_, 0);
}

// Of all sections but the two that are plain numbers (logits, keys and values).
TEST_F(SessionMutations, every_field_with_right_checksums) {
  struct Fields {
    std::size_t section, step;  // bytes from one field to the next; 1 where there are texts between them
    std::vector<std::uint64_t> values;
  };
  constexpr std::uint64_t large = std::uint64_t{1} << 53, largest = std::uint64_t{1} << 63,
                          all = ~std::uint64_t{0};
  const std::vector<std::uint64_t> many = {0,     1,           255,     (std::uint64_t{1} << 32) - 1,
                                           large, largest - 1, largest, all};
  constexpr std::size_t most_bytes = 200;
  const std::vector<Section> sections = sections_of(original());
  for (const auto& [section, step, values] :
       {Fields{0, 1, many}, Fields{1, 8, many}, Fields{2, 8, many}, Fields{5, 1, {largest}}}) {
    AlignedCopy copy(original());
    std::byte* const bytes = copy.bytes().data();
    // What comes later is what was said, and may be anything.
    const std::size_t end = std::min(sections[section].end, sections[section].begin + most_bytes);
    for (std::size_t at = sections[section].begin; at + 8 <= end; at += step) {
      const auto kept = load<std::uint64_t>(bytes + at);
      std::vector<std::uint64_t> changed = values;
      changed.insert(changed.end(), {kept - 1, kept + 1});
      for (const std::uint64_t value : changed) {
        std::memcpy(bytes + at, &value, sizeof value);
        check(with_checksums(copy.bytes()),
              "section " + std::to_string(section) + ", offset " + std::to_string(at) + " set to " +
                  std::to_string(value),
              false);
        if (HasFatalFailure()) return;
      }
      std::memcpy(bytes + at, &kept, sizeof kept);
    }
  }
  EXPECT_GT(n_loaded_, 20);
  EXPECT_GT(n_refused_, 1000);
}

// Of a conversation that has just begun, in which no answer can have ended: said is looked up from the token
// before.
TEST_F(SessionMutations, an_answer_before_the_first_token) {
  auto chat = Chat::open(*session_, {});
  ASSERT_TRUE(chat);
  ASSERT_TRUE(chat->start(""));
  ASSERT_TRUE(chat->save(folder_.file("begun")));
  const std::string begun = read_bytes(folder_.file("begun"));
  const Section section = sections_of(std::as_bytes(std::span(begun))).back();
  int n_answers = 0;
  for (std::size_t at = section.begin; at < section.end; ++at) {
    for (const char value : {'\1', '\2'}) {
      std::string changed = begun;
      changed[at] = value;
      file_.set(with_checksums(std::as_bytes(std::span(changed))));
      if (const Result<void> loaded = chat->load(file_.path()); loaded)
        expect_choice(chat->say("Hello!", 1, nullptr, nullptr));
      else
        n_answers += loaded.error().message.find("as no token was read") != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_EQ(n_answers, 2);
}

TEST_F(SessionMutations, any_numbers_as_keys_values_and_logits) {
  const std::vector<Section> sections = sections_of(original());
  for (const int fill : {0x00, 0x7f, 0x80, 0xff}) {  // zeros, NaN...
    for (const std::size_t i : {3u, 4u}) {
      AlignedCopy copy(original());
      std::memset(copy.bytes().data() + sections[i].begin, fill, sections[i].end - sections[i].begin);
      check(with_checksums(copy.bytes()), "section " + std::to_string(i) + " filled", false);
    }
  }
  EXPECT_EQ(n_loaded_, 8);
}

// The file of a session, with another stream.
void replace_stream(const std::string& from, const std::string& to, const SavedFieldWriter& stream) {
  const auto file = SavedFile::open(from);
  ASSERT_TRUE(file) << file.error().message;
  std::vector<SectionSource> sections;
  for (const SectionId id :
       {SectionId::settings, SectionId::stream, SectionId::sampler, SectionId::logits, SectionId::cache}) {
    auto section = file->section(id);
    ASSERT_TRUE(section);
    sections.push_back(
        section_of(id, id == SectionId::stream ? stream.bytes() : *section->rest("all", section->n_left())));
  }
  ASSERT_TRUE(write_saved(to, file->model_hash(), sections));
}

// Text that is held back comes with the token that was read last.
TEST_F(SessionMutations, a_text_before_the_first_token) {
  session_->reset();
  const std::string saved = folder_.file("saved"), damaged = folder_.file("damaged");
  ASSERT_TRUE(session_->save(saved));
  const auto file = SavedFile::open(saved);
  ASSERT_TRUE(file);
  auto section = file->section(SectionId::stream);
  const auto fields = *section->rest("all", section->n_left());
  SavedFieldWriter stream;
  for (std::size_t at = 0; at < fields.size(); at += 8) stream.word(load<std::uint64_t>(fields.data() + at));
  stream.text("");   // no half character
  stream.text("a");  // the beginning of a stop text
  stream.integer(0);
  replace_stream(saved, damaged, stream);
  const Result<void> loaded = session_->load(damaged);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().status, RUNNEL_BAD_FILE);
  EXPECT_NE(loaded.error().message.find("as no token was read"), std::string::npos) << loaded.error().message;
}

// A window that begins at `oldest`, when all positions that were learned are taken and only the prefix is
// held.
SavedFieldWriter late_stream(const Model& model, std::int64_t n_prefix, std::int64_t oldest,
                             std::int64_t oldest_of_layers) {
  SavedFieldWriter stream;
  const auto n_read = static_cast<std::int64_t>(model.shape().n_ctx_train);
  for (const std::int64_t value : {n_read, n_prefix, n_read, oldest}) stream.integer(value);
  stream.integers(std::vector<std::int64_t>(model.shape().n_layer, oldest_of_layers));
  stream.integer(-1);  // no token ended an answer
  constexpr int n_stats = 6;
  for (int i = 0; i < n_stats; ++i) stream.integer(0);
  stream.integers({});  // turns
  stream.tokens(std::vector<Token>(static_cast<std::size_t>(n_prefix + n_read - oldest), 1));
  return stream;
}

TEST(LearnedPositions, start_where_the_prefix_ends) {
  const std::string name = "golden/gpt2-dense.gguf";
  RUNNEL_NEEDS_SHARED(name);
  const auto model = Model::open(shared(name), {});
  ASSERT_TRUE(model);
  constexpr std::int64_t n_prefix = 2;
  const auto n_positions = static_cast<std::int64_t>((*model)->shape().n_ctx_train);
  Settings settings;
  settings.threads = 1;
  settings.sinks = n_prefix;
  settings.window = static_cast<std::int32_t>(n_positions - n_prefix);
  const auto session = Session::open(*model, settings);
  ASSERT_TRUE(session);
  const Folder folder;
  const std::string saved = folder.file("saved"), damaged = folder.file("damaged");
  ASSERT_TRUE((*session)->feed(std::vector<Token>(n_prefix, 1), nullptr, nullptr));
  ASSERT_TRUE((*session)->save(saved));

  const auto expect_refused = [&](std::int64_t oldest, std::int64_t oldest_of_layers,
                                  const std::string& why) {
    replace_stream(saved, damaged, late_stream(**model, n_prefix, oldest, oldest_of_layers));
    const Result<void> loaded = (*session)->load(damaged);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().status, RUNNEL_BAD_FILE);
    EXPECT_NE(loaded.error().message.find(why), std::string::npos) << loaded.error().message;
  };
  const std::string found = std::to_string(n_positions);
  expect_refused(n_positions, n_positions, "oldest position in the cache: expected 2, found " + found);
  expect_refused(n_prefix, n_positions, "oldest position of each layer: expected 2, found " + found);

  // What is saved when everything is full goes on.
  ASSERT_TRUE(
      (*session)->feed(std::vector<Token>(static_cast<std::size_t>(n_positions) + 5, 3), nullptr, nullptr));
  ASSERT_TRUE((*session)->save(saved));
  EXPECT_TRUE((*session)->load(saved));
  EXPECT_TRUE(
      (*session)->feed(std::vector<Token>(static_cast<std::size_t>(n_positions), 3), nullptr, nullptr));
}

}  // namespace
}  // namespace runnel::test
