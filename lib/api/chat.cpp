// The C surface: conversations.
#include "lib/api/call.h"
#include "lib/chat/form.h"

using namespace runnel;

runnel_status runnel_chat_open(runnel_session* session, const runnel_config* config, runnel_chat** out) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE_OUT(out);
    RUNNEL_REQUIRE(session);
    RUNNEL_TRY(refuse_in_chat(*session->use, "runnel_chat_close"));
    RUNNEL_ASSIGN(Chat chat, Chat::open(*session->session, settings_of(config)));
    auto handle = std::make_unique<runnel_chat>(runnel_chat{.chat = std::move(chat), .use = session->use});
    RUNNEL_TRY(handle->chat.start(""));
    session->use->is_in_chat = true;
    *out = handle.release();
    return {};
  });
}

void runnel_chat_close(runnel_chat* chat) {
  if (!chat) return;
  chat->use->is_in_chat = false;
  delete chat;
}

const char* runnel_chat_form_name(size_t i) { return chat_form_name(i); }
const char* runnel_chat_form(const runnel_chat* chat) { return chat ? chat->chat.form_name() : ""; }

runnel_status runnel_chat_system(runnel_chat* chat, const char* text, size_t n_bytes) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(chat);
    RUNNEL_REQUIRE_ALL(text, n_bytes);
    RUNNEL_TRY(refuse_in_callback(*chat->use));
    return chat->chat.start(view(text, n_bytes));
  });
}

const char* runnel_chat_system_prompt(const runnel_chat* chat) {
  return chat ? chat->chat.system_prompt().c_str() : "";
}

runnel_status runnel_chat_pin(runnel_chat* chat, const char* text, size_t n_bytes) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(chat);
    RUNNEL_REQUIRE_ALL(text, n_bytes);
    RUNNEL_TRY(refuse_in_callback(*chat->use));
    const InCall in_call(*chat->use);
    return chat->chat.pin(view(text, n_bytes));
  });
}

runnel_status runnel_chat_undo(runnel_chat* chat) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(chat);
    RUNNEL_TRY(refuse_in_callback(*chat->use));
    const InCall in_call(*chat->use);
    return chat->chat.undo();
  });
}

runnel_status runnel_chat_add(runnel_chat* chat, const char* text, size_t n_bytes, const char* answer,
                              size_t n_answer_bytes) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(chat);
    RUNNEL_REQUIRE_ALL(text, n_bytes);
    RUNNEL_REQUIRE_ALL(answer, n_answer_bytes);
    RUNNEL_TRY(refuse_in_callback(*chat->use));
    const InCall in_call(*chat->use);
    return chat->chat.add(view(text, n_bytes), view(answer, n_answer_bytes));
  });
}

runnel_status runnel_chat_say(runnel_chat* chat, const char* text, size_t n_bytes, int64_t n_tokens,
                              runnel_text_fn on_text, void* user, runnel_finish* finish) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(chat);
    RUNNEL_REQUIRE_ALL(text, n_bytes);
    return generate_in_call(*chat->use, finish,
                            [&] { return chat->chat.say(view(text, n_bytes), n_tokens, on_text, user); });
  });
}

runnel_status runnel_chat_again(runnel_chat* chat, int64_t n_tokens, runnel_text_fn on_text, void* user,
                                runnel_finish* finish) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(chat);
    return generate_in_call(*chat->use, finish, [&] { return chat->chat.again(n_tokens, on_text, user); });
  });
}

runnel_status runnel_chat_continue(runnel_chat* chat, int64_t n_tokens, runnel_text_fn on_text, void* user,
                                   runnel_finish* finish) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(chat);
    return generate_in_call(*chat->use, finish, [&] { return chat->chat.go_on(n_tokens, on_text, user); });
  });
}

const char* runnel_chat_message(const runnel_chat* chat, size_t i, runnel_speaker* speaker, size_t* n_bytes) {
  if (!chat) return nullptr;
  const auto messages = chat->chat.transcript().messages();
  if (i >= messages.size()) return nullptr;
  const Message& message = messages[messages.size() - 1 - i];
  if (speaker) *speaker = message.speaker;
  if (n_bytes) *n_bytes = message.text.size();
  return message.text.c_str();
}

runnel_status runnel_chat_save(const runnel_chat* chat, const char* path) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(chat);
    RUNNEL_REQUIRE(path);
    return chat->chat.save(path);
  });
}

runnel_status runnel_chat_load(runnel_chat* chat, const char* path) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(chat);
    RUNNEL_REQUIRE(path);
    RUNNEL_TRY(refuse_in_callback(*chat->use));
    return chat->chat.load(path);
  });
}
