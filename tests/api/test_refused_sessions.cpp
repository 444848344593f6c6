// Sessions that cannot be loaded or saved: an error that names file and reason, and nothing is changed.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/api/saving.h"

namespace {

using namespace runnel::test;

class Refusal : public Saving {
 protected:
  void SetUp() override {
    const auto other = open_session(model.get(), settings);
    feed(other.get(), some_tokens(90));
    require(runnel_session_save(other.get(), path.c_str()));
    feed(session.get(), some_tokens(20));
  }

  // And the session is as it was.
  void expect_refused(const std::string& file, runnel_status status, const std::string& why) {
    const std::string kept = folder.file("kept");
    require(runnel_session_save(session.get(), kept.c_str()));
    const std::string before = read_bytes(kept);
    EXPECT_EQ(runnel_session_load(session.get(), file.c_str()), status);
    const std::string message = runnel_last_error();
    EXPECT_NE(message.find(file), std::string::npos) << message;
    EXPECT_NE(message.find(why), std::string::npos) << message;
    require(runnel_session_save(session.get(), kept.c_str()));
    EXPECT_TRUE(read_bytes(kept) == before) << why;
  }

  const Settings settings = with(lively, {{"window", "60"}});
  const std::string path = folder.file("session");
  SessionHandle session = open_session(model.get(), settings);
};

TEST_F(Refusal, other_settings) {
  session = open_session(model.get(), with(settings, {{"window", "61"}}));
  expect_refused(path, RUNNEL_BAD_ARGUMENT,
                 "saved with window 60, this one has window 61: open it with window 60");
  session = open_session(model.get(), with(settings, {{"sinks", "8"}}));
  expect_refused(path, RUNNEL_BAD_ARGUMENT, "open it with sinks 4");
  session = open_session(model.get(), with(settings, {{"cache", "int8"}}));
  expect_refused(path, RUNNEL_BAD_ARGUMENT, "open it with cache f16");
}

TEST_F(Refusal, other_weights) {
  model = open_model(demo_model(), {{"int8", "true"}});
  session = open_session(model.get(), settings);
  expect_refused(path, RUNNEL_BAD_ARGUMENT, "open it with int8 false");
}

TEST_F(Refusal, another_model) {
  const std::string other = "models/stories260K-f32.gguf";
  RUNNEL_NEEDS_SHARED(other);
  model = open_model(shared(other));
  session = open_session(model.get(), settings);
  expect_refused(path, RUNNEL_BAD_ARGUMENT,
                 "belongs to another model, runnel-demo-f16.gguf; this one is stories260K-f32.gguf");
}

// The same weights under another name are the same model; one changed weight makes another.
TEST_F(Refusal, the_model_is_what_its_file_holds) {
  std::string bytes = read_bytes(demo_model());
  write_bytes(folder.file("renamed.gguf"), bytes);
  model = open_model(folder.file("renamed.gguf"));
  session = open_session(model.get(), settings);
  require(runnel_session_load(session.get(), path.c_str()));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_bytes(folder.file("changed.gguf"), bytes);
  model = open_model(folder.file("changed.gguf"));
  session = open_session(model.get(), settings);
  expect_refused(path, RUNNEL_BAD_ARGUMENT, "belongs to another model");
}

TEST_F(Refusal, files_that_are_no_sessions) {
  expect_refused(folder.file("absent"), RUNNEL_IO, "No such file");
  expect_refused(folder.path().string(), RUNNEL_IO, "directory");
  expect_refused(demo_model(), RUNNEL_BAD_FILE, "no session file");
  write_bytes(folder.file("empty"), "");
  expect_refused(folder.file("empty"), RUNNEL_BAD_FILE, "empty");
  const std::string bytes = read_bytes(path);
  write_bytes(path, bytes.substr(0, bytes.size() - 1));
  expect_refused(path, RUNNEL_BAD_FILE, "cut short");
  write_bytes(path, bytes + "x");
  expect_refused(path, RUNNEL_BAD_FILE, "size of the file at offset 24");
  std::string damaged = bytes;
  damaged[bytes.size() / 2] = static_cast<char>(~damaged[bytes.size() / 2]);
  write_bytes(path, damaged);
  expect_refused(path, RUNNEL_BAD_FILE, "checksum of section cache at offset");
  damaged = bytes;
  damaged[8] = 9;
  write_bytes(path, damaged);
  expect_refused(path, RUNNEL_UNSUPPORTED, "newer");
}

TEST_F(Refusal, a_chat_wants_a_conversation_in_its_own_form) {
  const Talk talk(model.get(), settings);
  EXPECT_EQ(runnel_chat_load(talk.chat.get(), path.c_str()), RUNNEL_BAD_ARGUMENT);
  EXPECT_NE(std::string(runnel_last_error()).find("without a conversation"), std::string::npos);
  talk.say(lines[0]);
  require(runnel_chat_save(talk.chat.get(), path.c_str()));

  session = open_session(model.get(), settings);
  runnel_chat* other = nullptr;
  require(runnel_chat_open(session.get(), config({{"template", "chatml"}}).get(), &other));
  EXPECT_EQ(runnel_chat_load(other, path.c_str()), RUNNEL_BAD_ARGUMENT);
  EXPECT_NE(std::string(runnel_last_error()).find("this one has chatml"), std::string::npos)
      << runnel_last_error();
  runnel_chat_close(other);
}

TEST_F(Refusal, null_arguments) {
  const Talk talk(model.get(), settings);
  EXPECT_EQ(runnel_session_save(nullptr, path.c_str()), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_save(session.get(), nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_load(nullptr, path.c_str()), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_session_load(session.get(), nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_chat_save(nullptr, path.c_str()), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_chat_save(talk.chat.get(), nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_chat_load(nullptr, path.c_str()), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_chat_load(talk.chat.get(), nullptr), RUNNEL_BAD_ARGUMENT);
  EXPECT_EQ(runnel_chat_message(nullptr, 0, nullptr, nullptr), nullptr);
}

TEST_F(Refusal, places_that_cannot_be_written) {
  EXPECT_EQ(runnel_session_save(session.get(), folder.file("none/session").c_str()), RUNNEL_IO);
  EXPECT_NE(std::string(runnel_last_error()).find("No such file"), std::string::npos);
  EXPECT_EQ(runnel_session_save(session.get(), "/dev/full"), RUNNEL_BAD_ARGUMENT);
  EXPECT_NE(std::string(runnel_last_error()).find("not a regular file"), std::string::npos);
}

TEST_F(Refusal, names_that_are_empty) {
  runnel_model* none = nullptr;
  const auto expect_to_say = [](runnel_status status, const char* message) {
    EXPECT_EQ(status, RUNNEL_BAD_ARGUMENT);
    EXPECT_STREQ(runnel_last_error(), message);
  };
  expect_to_say(runnel_session_save(session.get(), ""), "the file to be written has an empty name");
  expect_to_say(runnel_session_load(session.get(), ""), "the file to be read has an empty name");
  expect_to_say(runnel_model_open("", nullptr, &none), "the file to be read has an empty name");
}

TEST_F(Refusal, a_read_only_place_leaves_the_old_file) {
  const std::string old = read_bytes(path);
  const bool is_root = ::geteuid() == 0;  // who may write to any folder, but not below a file
  using std::filesystem::perms;
  std::filesystem::permissions(folder.path(), perms::owner_read | perms::owner_exec);
  const std::string place = is_root ? path + "/below" : path;
  EXPECT_EQ(runnel_session_save(session.get(), place.c_str()), RUNNEL_IO);
  EXPECT_NE(std::string(runnel_last_error()).find(place + ": cannot be created"), std::string::npos)
      << runnel_last_error();
  std::filesystem::permissions(folder.path(), perms::owner_all);
  EXPECT_TRUE(read_bytes(path) == old);
}

// A disk that is full after n bytes, as far as a process can make one.
class FullDisk {
 public:
  explicit FullDisk(rlim_t n_bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{n_bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

TEST_F(Refusal, a_full_disk_leaves_the_old_file) {
  const std::string old = read_bytes(path);
  const std::size_t n_files = folder.n_files();
  for (const rlim_t n_bytes : {0u, 100u, 30000u}) {
    const FullDisk full(n_bytes);
    EXPECT_EQ(runnel_session_save(session.get(), path.c_str()), RUNNEL_IO);
  }
  EXPECT_NE(std::string(runnel_last_error()).find("cannot be written (after"), std::string::npos);
  EXPECT_TRUE(read_bytes(path) == old);
  EXPECT_EQ(folder.n_files(), n_files);
  require(runnel_session_load(session.get(), path.c_str()));
}

}  // namespace
