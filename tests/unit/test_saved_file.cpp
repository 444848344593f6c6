// The container of session files: hash, fields, sections; and how a file takes its place.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/io/atomic_file.h"
#include "lib/saved/saved_file.h"
#include "lib/saved/xxh64.h"
#include "tests/support/folder.h"

namespace runnel::test {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::uint64_t xxh64(std::string_view text, std::uint64_t seed = 0) {
  Xxh64 hash(seed);
  hash.update(text);
  return hash.digest();
}

// Of the reference implementation.
TEST(Xxh64, known_values) {
  EXPECT_EQ(xxh64(""), 0xEF46DB3751D8E999u);
  EXPECT_EQ(xxh64("a"), 0xD24EC4F1A98C6E5Bu);
  EXPECT_EQ(xxh64("abc"), 0x44BC2CF5AD770999u);
  EXPECT_EQ(xxh64("xxhash"), 0x32DD38952C4BC720u);
  EXPECT_EQ(xxh64("xxhash", 20141025), 0xB559B98D844E0635u);
  EXPECT_EQ(xxh64("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1u);
  EXPECT_EQ(xxh64("The quick brown fox jumps over the lazy dog"), 0x0B242D361FDA71BCu);
}

TEST(Xxh64, does_not_depend_on_how_bytes_come) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (std::size_t n = 0; n <= text.size(); ++n) {
    const std::uint64_t whole = xxh64(text.substr(0, n));
    for (const std::size_t piece : {1u, 5u, 32u, 33u}) {
      Xxh64 hash;
      for (std::size_t at = 0; at < n; at += piece)
        hash.update(std::string_view(text).substr(at, std::min(piece, n - at)));
      ASSERT_EQ(hash.digest(), whole) << n << " bytes in pieces of " << piece;
    }
  }
}

class SavedFileTest : public testing::Test {
 protected:
  Folder folder_;
  const fs::path path_ = folder_.path() / "session";
};

TEST_F(SavedFileTest, gives_back_what_was_written) {
  SavedFieldWriter out;
  out.integer(-5);
  out.word(~std::uint64_t{0});
  out.text("caf\xc3\xa9");
  out.integers(std::array<std::int64_t, 2>{7, 8});
  out.tokens(std::array<Token, 3>{1, 2, 3});
  const auto in_two_pieces = [](const TakeBytes& take) -> Result<void> {
    RUNNEL_TRY(take(bytes_of("one")));
    return take(bytes_of("two"));
  };
  const std::vector<SectionSource> sections = {section_of(SectionId::stream, out.bytes()),
                                               {SectionId::cache, 6, in_two_pieces},
                                               section_of(SectionId::logits, {})};
  ASSERT_TRUE(write_saved(path_, 42, sections));
  const auto file = SavedFile::open(path_);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->model_hash(), 42u);
  EXPECT_FALSE(file->has(SectionId::chat));

  auto in = file->section(SectionId::stream);
  ASSERT_TRUE(in);
  EXPECT_EQ(*in->integer("a", -9, 9), -5);
  EXPECT_EQ(*in->word("b"), ~std::uint64_t{0});
  EXPECT_EQ(*in->text("c", 100), "caf\xc3\xa9");
  EXPECT_EQ(*in->integers("d", 0, 9, 0, 9), (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(*in->tokens("e", 3, 3, 4), (std::vector<Token>{1, 2, 3}));
  EXPECT_TRUE(in->end());

  auto cache = file->section(SectionId::cache);
  ASSERT_TRUE(cache);
  EXPECT_EQ(cache->n_left(), 6u);
  const auto rest = cache->rest("all", 6);
  ASSERT_TRUE(rest);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(rest->data()), rest->size()), "onetwo");
  EXPECT_EQ(file->section(SectionId::logits)->n_left(), 0u);
}

TEST_F(SavedFileTest, what_cannot_be_given_whole_leaves_the_older_file) {
  const std::vector<SectionSource> good = {section_of(SectionId::logits, bytes_of("old"))};
  ASSERT_TRUE(write_saved(path_, 42, good));
  const auto fails = [](const TakeBytes& take) -> Result<void> {
    RUNNEL_TRY(take(bytes_of("half")));
    return error(RUNNEL_INTERNAL, "no more of it");
  };
  const std::vector<SectionSource> broken = {{SectionId::logits, 8, fails}};
  EXPECT_EQ(write_saved(path_, 42, broken).error().message, "no more of it");
  const auto gives_half = [](const TakeBytes& take) { return take(bytes_of("half")); };
  const std::vector<SectionSource> half = {{SectionId::logits, 8, gives_half}};
  EXPECT_EQ(write_saved(path_, 42, half).error().message,
            path_.string() + ": section logits: 8 bytes were announced, 4 written");
  const auto file = SavedFile::open(path_);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->section(SectionId::logits)->n_left(), 3u);
}

TEST_F(SavedFileTest, fields_out_of_range_are_refused_by_name_and_place) {
  const auto refusal = [](auto&& read) {
    SavedFieldWriter out;
    out.integer(3);
    out.tokens(std::array<Token, 2>{5, 70});
    SavedFieldReader in("a.session", "stream", 100, out.bytes());
    const Error error = read(in);
    EXPECT_EQ(error.status, RUNNEL_BAD_FILE);
    return error.message;
  };
  EXPECT_EQ(refusal([](auto& in) { return in.integer("number", 4, 9).error(); }),
            "a.session: section stream, offset 100, number: expected from 4 to 9, found 3");
  EXPECT_EQ(refusal([](auto& in) {
              EXPECT_TRUE(in.integer("number", 0, 9));
              return in.tokens("ids", 0, 9, 70).error();
            }),
            "a.session: section stream, offset 120, ids: expected a token from 0 to 69, found 70");
  EXPECT_EQ(refusal([](auto& in) { return in.integers("list", 0, 9, 0, 9).error(); }),
            "a.session: section stream, offset 100, list: expected as many as the section holds, 2 at most, "
            "found 3");
  EXPECT_EQ(refusal([](auto& in) { return in.rest("all", 23).error(); }),
            "a.session: section stream, offset 100, all: expected 23 bytes, found 24");
  EXPECT_EQ(refusal([](auto& in) {
              EXPECT_TRUE(in.integer("number", 0, 9));
              return in.end().error();
            }),
            "a.session: section stream, offset 108: expected the section's end, found 16 bytes more");
}

TEST_F(SavedFileTest, a_list_longer_than_its_section_takes_no_memory) {
  SavedFieldWriter out;
  out.integer(std::int64_t{1} << 60);
  SavedFieldReader in("a", "stream", 0, out.bytes());
  EXPECT_FALSE(in.tokens("ids", 0, INT64_MAX, 10));  // std::bad_alloc or std::length_error otherwise
}

// ---- how a file takes its place ----

TEST_F(SavedFileTest, what_a_killed_writer_left_goes_with_the_next) {
  std::ofstream(folder_.path() / "session.partial-0") << "left behind";
  std::ofstream(path_) << "old";
  {
    auto file = AtomicFile::create(path_, {});
    ASSERT_TRUE(file);
    EXPECT_EQ(read_bytes(path_), "old");
    ASSERT_TRUE(file->write(bytes_of("new")));
    ASSERT_TRUE(file->commit());
  }
  EXPECT_EQ(read_bytes(path_), "new");
  EXPECT_EQ(folder_.n_files(), 1u);
}

// A file may have the name of one that a killed writer left, and be read.
TEST_F(SavedFileTest, what_is_read_does_not_go) {
  const std::string input = folder_.file("session.partial-0");
  std::ofstream(input) << "precious";
  auto file = AtomicFile::create(path_, {input});
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->write(bytes_of("new")));
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(read_bytes(path_), "new");
  EXPECT_EQ(read_bytes(input), "precious");
}

TEST_F(SavedFileTest, what_another_writer_is_writing_stays) {
  auto first = AtomicFile::create(path_, {});
  auto second = AtomicFile::create(path_, {});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(folder_.n_files(), 2u);
  ASSERT_TRUE(first->write(bytes_of("first")) && second->write(bytes_of("second")));
  ASSERT_TRUE(second->commit());
  EXPECT_EQ(read_bytes(path_), "second");
  ASSERT_TRUE(first->commit());
  EXPECT_EQ(read_bytes(path_), "first");
  EXPECT_EQ(folder_.n_files(), 1u);
}

TEST_F(SavedFileTest, names_as_long_as_names_can_be) {
  for (const std::size_t n : {244u, 245u, 255u}) {
    const std::string path = folder_.file(std::string(n, 'n'));
    ASSERT_TRUE(write_saved(path, 42, {})) << n;
    EXPECT_TRUE(fs::is_regular_file(path)) << n;
  }
  EXPECT_EQ(folder_.n_files(), 3u);
  EXPECT_FALSE(write_saved(folder_.file(std::string(256, 'n')), 42, {}));
}

TEST_F(SavedFileTest, nothing_remains_of_a_file_that_is_given_up) {
  {
    auto file = AtomicFile::create(path_, {});
    ASSERT_TRUE(file && file->write(bytes_of("half")));
  }
  EXPECT_EQ(folder_.n_files(), 0u);
}

TEST_F(SavedFileTest, a_writer_that_gives_up_takes_nothing_from_another) {
  std::atomic<bool> done{false};
  const auto give_up = [&] {
    while (!done) static_cast<void>(AtomicFile::create(path_, {}));
  };
  std::thread others[] = {std::thread(give_up), std::thread(give_up)};
  int n_taken = 0;
  for (int i = 0; i < 300; ++i) {
    auto file = AtomicFile::create(path_, {});
    n_taken += file && file->commit() ? 0 : 1;
  }
  done = true;
  for (std::thread& other : others) other.join();
  EXPECT_EQ(n_taken, 0);
  EXPECT_EQ(folder_.n_files(), 1u);
}

TEST_F(SavedFileTest, links_are_followed_to_where_there_is_no_file_yet) {
  fs::create_directory(folder_.path() / "data");
  fs::create_symlink("data/next", path_);
  fs::create_symlink(folder_.path() / "data" / "session", folder_.path() / "data" / "next");
  auto file = AtomicFile::create(path_, {});
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->write(bytes_of("new")) && file->commit());
  EXPECT_TRUE(fs::is_symlink(path_) && fs::is_symlink(folder_.path() / "data" / "next"));
  EXPECT_FALSE(fs::is_symlink(folder_.path() / "data" / "session"));
  EXPECT_EQ(read_bytes(path_), "new");
  EXPECT_EQ(folder_.n_files(), 2u);
}

TEST_F(SavedFileTest, links_in_a_circle_are_refused) {
  fs::create_symlink("other", path_);
  fs::create_symlink("session", folder_.path() / "other");
  const auto file = AtomicFile::create(path_, {});
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().status, RUNNEL_IO);
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_EQ(folder_.n_files(), 2u);
}

TEST_F(SavedFileTest, permissions_are_those_of_the_older_file_whatever_the_umask) {
  const auto mode_of = [&] { return static_cast<unsigned>(fs::status(path_).permissions()); };
  const mode_t umask_before = ::umask(0077);
  for (const unsigned mode : {0664u, 0400u, 0777u}) {
    fs::remove(path_);
    ASSERT_TRUE(write_saved(path_, 42, {}));
    EXPECT_EQ(mode_of(), 0600u);
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    EXPECT_TRUE(write_saved(path_, 42, {}));
    EXPECT_EQ(mode_of(), mode);
  }
  ::umask(umask_before);
}

TEST_F(SavedFileTest, no_link_or_folder_is_taken_for_a_partial_file) {
  std::ofstream(folder_.path() / "precious") << "precious";
  fs::create_symlink(folder_.path() / "precious", folder_.path() / "session.partial-0");
  fs::create_directory(folder_.path() / "session.partial-1");
  auto file = AtomicFile::create(path_, {});
  ASSERT_TRUE(file && file->write(bytes_of("new")) && file->commit());
  EXPECT_EQ(read_bytes(folder_.file("precious")), "precious");
  EXPECT_EQ(read_bytes(path_), "new");
  EXPECT_EQ(folder_.n_files(), 4u);
}

}  // namespace
}  // namespace runnel::test
