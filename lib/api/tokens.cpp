// The C surface: text to tokens and back.
#include "lib/api/call.h"
#include "lib/token/tokenizer.h"

using namespace runnel;

Result<const Tokenizer*> runnel::tokenizer_of(const Model& model) {
  if (const Tokenizer* tokenizer = model.tokenizer()) return tokenizer;
  return error(RUNNEL_UNSUPPORTED, "%s: the file holds no tokenizer: its model reads token ids, not text",
               model.file().name().c_str());
}

runnel_status runnel_tokenize(const runnel_model* model, const char* text, size_t n_bytes, unsigned flags,
                              int32_t* tokens, size_t capacity, size_t* n_tokens) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(model);
    RUNNEL_REQUIRE_ALL(text, n_bytes);
    RUNNEL_REQUIRE_ALL(tokens, capacity);
    RUNNEL_REQUIRE(n_tokens);
    RUNNEL_ASSIGN(const Tokenizer* tokenizer, tokenizer_of(*model->model));
    std::vector<Token> ids;
    RUNNEL_TRY(tokenizer->encode(view(text, n_bytes), flags, ids));
    return copy_out(ids.data(), ids.size(), tokens, capacity, n_tokens);
  });
}

runnel_status runnel_detokenize(const runnel_model* model, const int32_t* tokens, size_t n_tokens,
                                int special, char* text, size_t capacity, size_t* n_bytes) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(model);
    RUNNEL_REQUIRE_ALL(tokens, n_tokens);
    RUNNEL_REQUIRE_ALL(text, capacity);
    RUNNEL_REQUIRE(n_bytes);
    RUNNEL_ASSIGN(const Tokenizer* tokenizer, tokenizer_of(*model->model));
    RUNNEL_TRY(model->model->check_tokens({tokens, n_tokens}));
    const std::string decoded = tokenizer->decode_all(tokens, n_tokens, special != 0);
    return copy_out(decoded.data(), decoded.size(), text, capacity, n_bytes);
  });
}
