// A session as a file, and back (saved/saved_file.h is the container).
#include <algorithm>
#include <array>
#include <functional>

#include "lib/saved/model_hash.h"
#include "lib/saved/saved_file.h"
#include "lib/session/session.h"
#include "lib/text/printable.h"
#include "lib/text/utf8.h"

namespace runnel {
namespace {

// No stream comes near this many tokens, and sums and differences of positions stay far from overflow.
constexpr std::int64_t max_position = std::int64_t{1} << 53;
constexpr std::int64_t max_stat = std::int64_t{1} << 62;
constexpr std::int64_t max_list = std::int64_t{1} << 32;  // the section's size bounds it far below
constexpr std::uint64_t max_name_bytes = 4096;
constexpr std::uint64_t max_character_bytes = 4;
constexpr std::uint64_t max_held_bytes = 4096;  // above the longest stop text or form's end of an answer

// Tokens of the window, all of them after the prefix.
std::int64_t n_window(const KvCache::Held& held) {
  return std::max<std::int64_t>(0, held.position - held.oldest);
}

// Tokens after the prefix that a file holds: of an empty window the one before it, after which a chat goes
// on.
std::int64_t n_kept(const KvCache::Held& held, std::int64_t n_read) {
  return std::max(n_window(held), std::clamp<std::int64_t>(n_read - held.n_prefix, 0, 1));
}

std::string file_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return (slash == std::string::npos ? path : path.substr(slash + 1)).substr(0, max_name_bytes);
}

template <class Stats>
auto stat_fields(Stats& stats) {
  return std::array{&stats.fed_tokens,   &stats.fed_us,        &stats.generated_tokens,
                    &stats.generated_us, &stats.reread_tokens, &stats.unseen_tokens};
}

}  // namespace

// ---- saving ----

Result<void> Session::save(const std::string& path, const SavedFieldWriter* chat) const {
  if (is_giving_logits_)
    return error(RUNNEL_BAD_ARGUMENT, "%s: a session cannot be saved while it gives logits, token by token",
                 path.c_str());
  const SavedFieldWriter settings = saved_settings(), stream = saved_stream(), sampler = saved_sampler();
  std::span<const std::byte> logits;
  if (last_logits_) logits = std::as_bytes(std::span(last_logits_, model_->shape().n_vocab));
  std::vector<SectionSource> sections = {
      section_of(SectionId::settings, settings.bytes()), section_of(SectionId::stream, stream.bytes()),
      section_of(SectionId::sampler, sampler.bytes()), section_of(SectionId::logits, logits),
      SectionSource{SectionId::cache, cache_.held_bytes(cache_.held()),
                    [this](const TakeBytes& take) { return cache_.give_held(take); }}};
  if (chat) sections.push_back(section_of(SectionId::chat, chat->bytes()));
  return write_saved(path, model_hash(model_->file()), sections, model_->source_path());
}

SavedFieldWriter Session::saved_settings() const {
  SavedFieldWriter out;
  out.text(file_name(model_->file().name()));
  out.integer(model_->is_packed());
  out.integer(settings_.sinks);
  out.integer(n_total() - settings_.sinks);
  out.integer(static_cast<std::int64_t>(cache_.type()));
  return out;
}

SavedFieldWriter Session::saved_stream() const {
  SavedFieldWriter out;
  const KvCache::Held held = cache_.held();
  out.integer(n_read_);
  out.integer(held.n_prefix);
  out.integer(held.position);
  out.integer(held.oldest);
  out.integers(held.layers);
  out.integer(end_token_);
  for (const std::int64_t* value : stat_fields(stats_)) out.integer(*value);
  out.integers(turns_.all());
  std::vector<Token> tokens;
  for (std::int64_t at = 0; at < std::min(n_prefix(), n_read_); ++at) tokens.push_back(token(at));
  for (std::int64_t at = n_read_ - n_kept(held, n_read_); at < n_read_; ++at) tokens.push_back(token(at));
  out.tokens(tokens);
  // Where nothing is held back the file is as it was before there was any of this.
  if (!utf8_.pending().empty() || !stop_text_.held().text.empty()) {
    out.text(utf8_.pending());
    out.text(stop_text_.held().text);
    out.integer(static_cast<std::int64_t>(stop_text_.held().n_given));
  }
  return out;
}

SavedFieldWriter Session::saved_sampler() const {
  SavedFieldWriter out;
  const SamplerState state = sampler_.state();
  out.word(state.random);
  out.tokens(state.recent);
  return out;
}

// ---- loading ----

Result<Session::Saved> Session::read_saved(const SavedFile& file) const {
  Saved saved;
  RUNNEL_TRY(check_saved_settings(file));
  RUNNEL_TRY(read_saved_stream(file, saved));
  RUNNEL_TRY(read_saved_sampler(file, saved));
  RUNNEL_ASSIGN(SavedFieldReader logits, file.section(SectionId::logits));
  RUNNEL_ASSIGN(saved.logits,
                logits.rest("logits", logits.n_left() == 0 ? 0 : model_->shape().n_vocab * sizeof(float)));
  RUNNEL_ASSIGN(SavedFieldReader cache, file.section(SectionId::cache));
  RUNNEL_ASSIGN(saved.cache_bytes, cache.rest("keys and values of the tokens that section stream names",
                                              cache_.held_bytes(saved.cache)));
  return saved;
}

Result<void> Session::check_saved_settings(const SavedFile& file) const {
  RUNNEL_ASSIGN(SavedFieldReader in, file.section(SectionId::settings));
  RUNNEL_ASSIGN(const std::string model, in.text("name of the model", max_name_bytes));
  RUNNEL_ASSIGN(const std::int64_t is_packed, in.integer("int8", 0, 1));
  RUNNEL_ASSIGN(const std::int64_t sinks, in.integer("sinks", 0, max_position));
  RUNNEL_ASSIGN(const std::int64_t window, in.integer("window", 0, max_position));
  RUNNEL_ASSIGN(const std::int64_t type, in.integer("type of the cache", 0, 2));
  RUNNEL_TRY(in.end());
  const auto differs = [&](const char* name, const std::string& there, const std::string& here) {
    return error(RUNNEL_BAD_ARGUMENT,
                 "%s: the session was saved with %s %s, this one has %s %s: open it with %s %s",
                 file.path().c_str(), name, there.c_str(), name, here.c_str(), name, there.c_str());
  };
  const std::string name = file_name(model_->file().name());
  const bool same_model = file.model_hash() == model_hash(model_->file());
  // Packing a model changes what is hashed, but not its name.
  if ((is_packed != 0) != model_->is_packed() && (same_model || model == name))
    return differs("int8", is_packed ? "true" : "false", is_packed ? "false" : "true");
  if (!same_model)
    return error(RUNNEL_BAD_ARGUMENT, "%s: the session belongs to another model, %s; this one is %s%s",
                 file.path().c_str(), printable(model).c_str(), printable(name).c_str(),
                 model == name ? " too, but its content is another" : "");
  if (sinks != settings_.sinks)
    return differs("sinks", std::to_string(sinks), std::to_string(settings_.sinks));
  if (window != n_total() - settings_.sinks)
    return differs("window", std::to_string(window), std::to_string(n_total() - settings_.sinks));
  if (type != static_cast<std::int64_t>(cache_.type()))
    return differs("cache", cache_type_name(static_cast<CacheType>(type)), cache_type_name(cache_.type()));
  return {};
}

Result<void> Session::read_saved_stream(const SavedFile& file, Saved& saved) const {
  RUNNEL_ASSIGN(SavedFieldReader in, file.section(SectionId::stream));
  KvCache::Held& held = saved.cache;
  const auto n_layer = static_cast<std::int64_t>(model_->shape().n_layer);
  RUNNEL_ASSIGN(saved.n_read, in.integer("position", 0, max_position));
  RUNNEL_ASSIGN(held.n_prefix, in.integer("prefix", 0, n_total() - 1));
  // Learned positions are read again from the start of the context; all others go on with the stream.
  const std::int64_t last = model_->can_stream() ? saved.n_read : std::min(saved.n_read, n_total());
  RUNNEL_ASSIGN(held.position,
                in.integer("position in the cache", model_->can_stream() ? saved.n_read : 0, last));
  const std::int64_t end = std::max(held.n_prefix, held.position);
  // Nothing leaves a window of learned positions but all of it at once: it begins where the prefix ends. A
  // later beginning would make room for tokens beyond the last position the model has.
  const std::int64_t last_oldest = model_->can_stream() ? end : held.n_prefix;
  RUNNEL_ASSIGN(held.oldest, in.integer("oldest position in the cache", held.n_prefix, last_oldest));
  RUNNEL_ASSIGN(held.layers,
                in.integers("oldest position of each layer", n_layer, n_layer, held.oldest, last_oldest));
  for (std::size_t i = 0; i < held.layers.size(); ++i) {
    if (cache_.sees_whole_window(i, n_total() - held.n_prefix) && held.layers[i] != held.oldest)
      return in.bad("oldest position of a layer", std::to_string(held.oldest),
                    std::to_string(held.layers[i]));
  }
  const auto n_vocab = static_cast<std::int64_t>(model_->shape().n_vocab);
  RUNNEL_ASSIGN(const std::int64_t end_token, in.integer("token that ended the answer", -1, n_vocab - 1));
  saved.end_token = static_cast<Token>(end_token);
  for (std::int64_t* value : stat_fields(saved.stats)) {
    RUNNEL_ASSIGN(*value, in.integer("statistics", 0, max_stat));
  }
  RUNNEL_ASSIGN(saved.turns, in.integers("starts of exchanges", 0, max_list, 0, max_position));
  if (std::adjacent_find(saved.turns.begin(), saved.turns.end(), std::greater_equal<>()) != saved.turns.end())
    return in.bad("starts of exchanges", "each after the one before", "others");
  const std::int64_t n_pinned = std::min(held.n_prefix, saved.n_read);
  // Files of before hold none of an empty window.
  RUNNEL_ASSIGN(saved.tokens, in.tokens("tokens", n_pinned + n_window(held),
                                        n_pinned + n_kept(held, saved.n_read), model_->shape().n_vocab));
  if (in.n_left() > 0) RUNNEL_TRY(read_saved_text(in, saved));
  return in.end();
}

// Of the text that is generated: a character that has begun, and what may be the beginning of a stop text.
Result<void> Session::read_saved_text(SavedFieldReader& in, Saved& saved) const {
  RUNNEL_ASSIGN(const std::string begun, in.text("half a character", max_character_bytes - 1));
  // It is given out with the token that was read last.
  if (saved.n_read == 0) return in.bad("half a character", "no text, as no token was read", "some");
  std::string whole;
  saved.utf8.push(begun, whole);
  if (!whole.empty()) return in.bad("half a character", "its first bytes", printable(begun));
  RUNNEL_ASSIGN(std::string text, in.text("end of the text", max_held_bytes));
  if (!is_utf8(text)) return in.bad("end of the text", "UTF-8", printable(text, 60));
  RUNNEL_ASSIGN(const std::int64_t n_given,
                in.integer("bytes of it that were given", 0, static_cast<std::int64_t>(text.size())));
  const auto given = static_cast<std::size_t>(n_given);
  if (given < text.size() && !begins_character(text[given]))
    return in.bad("bytes of it that were given", "whole characters", std::to_string(n_given));
  saved.held = {std::move(text), given};
  return {};
}

Result<void> Session::read_saved_sampler(const SavedFile& file, Saved& saved) const {
  RUNNEL_ASSIGN(SavedFieldReader in, file.section(SectionId::sampler));
  RUNNEL_ASSIGN(saved.sampler.random, in.word("random state"));
  RUNNEL_ASSIGN(saved.sampler.recent, in.tokens("recent tokens", 0, max_list, model_->shape().n_vocab));
  return in.end();
}

void Session::restore(Saved&& saved) {
  cache_.restore(saved.cache, saved.cache_bytes);  // the one step that can fail, and then does nothing
  history_.set_prefix(n_prefix());
  n_read_ = saved.n_read;
  const std::int64_t n_pinned = std::min(n_prefix(), n_read_);
  const auto n_tokens = static_cast<std::int64_t>(saved.tokens.size());
  for (std::int64_t i = 0; i < n_tokens; ++i)
    history_.put(i < n_pinned ? i : n_read_ - n_tokens + i, saved.tokens[static_cast<std::size_t>(i)]);
  turns_ = TurnMarks(std::move(saved.turns));
  utf8_ = std::move(saved.utf8);
  stop_text_.restore(std::move(saved.held));
  sampler_.restore(saved.sampler);
  end_token_ = saved.end_token;
  stats_ = saved.stats;
  last_logits_ = saved.logits.empty() ? nullptr : forward_.restore_logits(saved.logits);
}

Result<void> Session::load(const std::string& path) {
  RUNNEL_ASSIGN(const SavedFile file, SavedFile::open(path));
  RUNNEL_ASSIGN(Saved saved, read_saved(file));
  restore(std::move(saved));
  is_chat_ = false;  // whatever chat there was before
  set_answer_end({});
  return {};
}

}  // namespace runnel
