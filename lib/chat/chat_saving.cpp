// A conversation as a section of its session's file.
#include <algorithm>

#include "lib/chat/chat.h"
#include "lib/saved/saved_file.h"
#include "lib/text/printable.h"

namespace runnel {
namespace {

constexpr std::uint64_t max_prompt_bytes = std::uint64_t{1} << 32;  // the section's size bounds it far below
constexpr std::int64_t max_exchanges = std::int64_t{1} << 32;       // likewise
constexpr std::int64_t max_message_bytes = std::int64_t{1} << 20;
constexpr std::uint64_t max_form_bytes = 4096;

}  // namespace

Result<void> Chat::save(const std::string& path) const {
  if (is_reading_)
    return error(RUNNEL_BAD_ARGUMENT, "%s: a conversation cannot be saved while it is being read",
                 path.c_str());
  SavedFieldWriter out;
  out.text(template_.name());
  out.text(system_);
  out.integer(n_opening_read());
  out.integer(opens_user_);
  out.integer(static_cast<std::int64_t>(answer_));
  out.integer(static_cast<std::int64_t>(exchanges_.size()));
  for (const Exchange& e : exchanges_) {
    out.integer(e.start);
    out.integer(e.begin);
    out.integer(e.answer);
    out.integer(static_cast<std::int64_t>(e.before));
  }
  out.integer(static_cast<std::int64_t>(transcript_.messages().size()));
  for (const Message& message : transcript_.messages()) {
    out.integer(message.speaker);
    out.text(message.text);
  }
  return session_->save(path, &out);
}

Result<void> Chat::load(const std::string& path) {
  RUNNEL_ASSIGN(const SavedFile file, SavedFile::open(path));
  RUNNEL_ASSIGN(Session::Saved session, session_->read_saved(file));
  if (!file.has(SectionId::chat))
    return error(RUNNEL_BAD_ARGUMENT, "%s: the file holds a session without a conversation", path.c_str());
  Chat restored(*session_, template_);
  RUNNEL_ASSIGN(SavedFieldReader in, file.section(SectionId::chat));
  RUNNEL_TRY(restored.read_state(in, session.n_read));
  RUNNEL_TRY(restored.read_messages(in));
  RUNNEL_TRY(in.end());
  session_->restore(std::move(session));
  *this = std::move(restored);
  return {};
}

Result<void> Chat::read_state(SavedFieldReader& in, std::int64_t n_read) {
  RUNNEL_ASSIGN(const std::string form, in.text("chat form", max_form_bytes));
  if (form != template_.name())
    return error(
        RUNNEL_BAD_ARGUMENT,
        "%s: the conversation was saved in the chat form %s, this one has %s: open it with template %s",
        in.file().c_str(), printable(form).c_str(), template_.name(), printable(form).c_str());
  RUNNEL_ASSIGN(system_, in.text("system prompt", max_prompt_bytes));
  RUNNEL_ASSIGN(n_opening_, in.integer("end of the system prompt", 0, n_read));
  RUNNEL_ASSIGN(opens_user_, in.integer("whether a message is open", 0, 1));
  RUNNEL_ASSIGN(const std::int64_t answer, in.integer("how the answer ended", 0, 2));
  answer_ = static_cast<Answer>(answer);
  if (answer_ != Answer::none && n_read == 0)
    return in.bad("how the answer ended", "0, as no token was read", std::to_string(answer));
  RUNNEL_ASSIGN(const std::int64_t n_exchanges, in.integer("number of exchanges", 0, max_exchanges));
  for (std::int64_t i = 0; i < n_exchanges; ++i) {
    Exchange e{};
    const std::int64_t earliest = exchanges_.empty() ? 0 : exchanges_.back().begin + 1;
    RUNNEL_ASSIGN(e.start, in.integer("end of an exchange", -n_read, n_read));
    RUNNEL_ASSIGN(e.begin, in.integer("start of an exchange", std::max(earliest, e.start), n_read));
    RUNNEL_ASSIGN(e.answer, in.integer("start of an answer", -1, n_read));
    if (e.answer >= 0 && e.answer < e.begin)
      return in.bad("start of an answer", "-1, or from " + std::to_string(e.begin), std::to_string(e.answer));
    RUNNEL_ASSIGN(const std::int64_t before, in.integer("how the answer before ended", 0, 2));
    e.before = static_cast<Answer>(before);
    if (e.before != Answer::none && e.start < 1)
      return in.bad("how the answer before ended", "0, as nothing stands before it", std::to_string(before));
    exchanges_.push_back(e);
  }
  return {};
}

Result<void> Chat::read_messages(SavedFieldReader& in) {
  RUNNEL_ASSIGN(const std::int64_t n_messages,
                in.integer("number of messages", 0, static_cast<std::int64_t>(Transcript::max_messages)));
  for (std::int64_t i = 0; i < n_messages; ++i) {
    RUNNEL_ASSIGN(const std::int64_t speaker, in.integer("speaker", RUNNEL_USER, RUNNEL_MODEL));
    RUNNEL_ASSIGN(std::string text, in.text("message", max_message_bytes));
    transcript_.add(static_cast<runnel_speaker>(speaker), std::move(text));
  }
  return {};
}

}  // namespace runnel
