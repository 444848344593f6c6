// The C surface: models, and what is known of them.
#include "lib/api/call.h"
#include "lib/forward.h"
#include "lib/kv_cache.h"
#include "lib/quantize/pack_in_memory.h"
#include "lib/speed_limits.h"
#include "lib/system/machine.h"
#include "lib/token/tokenizer.h"

using namespace runnel;

runnel_status runnel_model_open(const char* path, const runnel_config* config, runnel_model** out) {
  return runnel_model_open_watched(path, config, nullptr, nullptr, out);
}

runnel_status runnel_model_open_watched(const char* path, const runnel_config* config,
                                        runnel_progress_fn on_progress, void* user, runnel_model** out) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE_OUT(out);
    RUNNEL_REQUIRE(path);
    const Settings settings = settings_of(config);
    RUNNEL_ASSIGN(auto file, Model::open(path, settings));
    RUNNEL_ASSIGN(auto model, packed_if_asked(std::move(file), settings, watcher(on_progress, user)));
    *out = new runnel_model{std::move(model)};
    return {};
  });
}

runnel_status runnel_model_open_memory(const void* data, size_t n_bytes, const runnel_config* config,
                                       runnel_model** out) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE_OUT(out);
    RUNNEL_REQUIRE(data);
    if (reinterpret_cast<uintptr_t>(data) % 32 != 0)
      return error(RUNNEL_BAD_ARGUMENT, "data is not aligned to 32 bytes");
    const Settings settings = settings_of(config);
    RUNNEL_ASSIGN(auto file, Model::from_memory({static_cast<const std::byte*>(data), n_bytes}, settings));
    RUNNEL_ASSIGN(auto model, packed_if_asked(std::move(file), settings, {}));
    *out = new runnel_model{std::move(model)};
    return {};
  });
}

void runnel_model_close(runnel_model* model) { delete model; }

int64_t runnel_model_fact(const runnel_model* model, runnel_fact fact) {
  if (!model) return 0;
  const Model& m = *model->model;
  const Shape& s = m.shape();
  const Tokenizer* tokenizer = m.tokenizer();
  const auto number = [](size_t n) { return static_cast<int64_t>(n); };
  switch (fact) {
    case RUNNEL_N_VOCAB:
      return number(m.n_vocab());
    case RUNNEL_N_EMBD:
      return number(s.n_embd);
    case RUNNEL_N_LAYER:
      return number(s.n_layer);
    case RUNNEL_N_HEAD:
      return number(s.n_head);
    case RUNNEL_N_HEAD_KV:
      return number(s.n_head_kv);
    case RUNNEL_HEAD_DIM:
      return number(s.head_dim);
    case RUNNEL_N_FF:
      return number(s.n_ff);
    case RUNNEL_N_CTX_TRAIN:
      return number(s.n_ctx_train);
    case RUNNEL_N_EXPERT:
      return number(s.n_expert);
    case RUNNEL_N_EXPERT_USED:
      return number(s.n_expert_used);
    case RUNNEL_NATIVE_WINDOW:
      return number(s.native_window);
    case RUNNEL_N_PARAMETERS:
      return static_cast<int64_t>(m.n_parameters());
    case RUNNEL_WEIGHT_BYTES: {
      uint64_t n = 0;
      for (const GgufTensor& t : m.file().tensors()) n += t.n_bytes;
      return static_cast<int64_t>(n);
    }
    case RUNNEL_HAS_WEIGHTS:
      return m.has_weights();
    case RUNNEL_HAS_TOKENIZER:
      return tokenizer != nullptr;
    case RUNNEL_CAN_STREAM:
      return m.can_stream();
    case RUNNEL_TOKEN_BOS:
      return tokenizer ? tokenizer->bos() : -1;
    case RUNNEL_TOKEN_EOS:
      return tokenizer ? tokenizer->eos() : -1;
    case RUNNEL_TOKEN_EOT:
      return tokenizer ? tokenizer->eot() : -1;
    case RUNNEL_ADDS_BOS:
      return tokenizer && tokenizer->adds_bos();
    case RUNNEL_DECODE_BYTES:
      return m.has_weights() ? static_cast<int64_t>(decode_bytes(m)) : 0;
    case RUNNEL_PROMPT_MULTIPLY_ADDS:
      return m.has_weights() ? static_cast<int64_t>(prompt_multiply_adds(m)) : 0;
  }
  return 0;
}

const char* runnel_model_architecture(const runnel_model* model) {
  return model ? model->model->architecture().c_str() : "";
}

const char* runnel_model_tokenizer(const runnel_model* model) {
  return model ? model->model->tokenizer_kind().c_str() : "";
}

const char* runnel_model_meta_key(const runnel_model* model, size_t i) {
  return model && i < model->model->n_meta() ? model->model->meta_key(i).c_str() : nullptr;
}

const char* runnel_model_meta_value(const runnel_model* model, size_t i) {
  return model && i < model->model->n_meta() ? model->model->meta_text(i).c_str() : nullptr;
}

const char* runnel_model_tensor_name(const runnel_model* model, size_t i) {
  return model && i < model->model->file().tensors().size() ? model->model->tensor_name(i).c_str() : nullptr;
}

const char* runnel_model_tensor_type(const runnel_model* model, size_t i) {
  return model && i < model->model->file().tensors().size() ? model->model->file().tensors()[i].type->name
                                                            : nullptr;
}

int64_t runnel_model_tensor_bytes(const runnel_model* model, size_t i) {
  if (!model || i >= model->model->file().tensors().size()) return 0;
  return static_cast<int64_t>(model->model->file().tensors()[i].n_bytes);
}

int64_t runnel_model_tensor_dim(const runnel_model* model, size_t i, size_t dim) {
  if (!model || i >= model->model->file().tensors().size()) return 0;
  const GgufTensor& tensor = model->model->file().tensors()[i];
  return dim < tensor.dims.size() ? static_cast<int64_t>(tensor.dims[dim]) : 1;
}

runnel_status runnel_model_session_bytes(const runnel_model* model, const runnel_config* config,
                                         int64_t* cache_bytes, int64_t* scratch_bytes) {
  return guard([&]() -> Result<void> {
    RUNNEL_REQUIRE(model);
    RUNNEL_REQUIRE(cache_bytes);
    RUNNEL_REQUIRE(scratch_bytes);
    const Model& m = *model->model;
    RUNNEL_TRY(m.check_weights());
    const Settings settings = settings_of(config);
    RUNNEL_ASSIGN(const CacheSize size, cache_size(m, settings));
    RUNNEL_ASSIGN(const simd::Kernels kernels, kernels_of(settings));
    *cache_bytes = KvCache::n_bytes(m, size, settings.cache);
    *scratch_bytes = Forward::n_bytes(m, kernels, size, thread_count(settings));
    return {};
  });
}
