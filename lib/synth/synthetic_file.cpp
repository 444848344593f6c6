#include "lib/synth/synthetic_file.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "lib/io/gguf_writer.h"
#include "lib/model_in_memory.h"
#include "lib/synth/random_weights.h"
#include "lib/synth/tensors.h"
#include "lib/system/machine.h"
#include "lib/system/parallel.h"
#include "lib/text/printable.h"
#include "lib/work.h"

namespace runnel {
namespace {

using quant::TensorType;
using quant::TypeInfo;

constexpr std::size_t piece_elements = std::size_t{16} * 1024;    // that a thread makes at a time
constexpr std::size_t chunk_elements = std::size_t{1024} * 1024;  // that are made together, then written

constexpr struct {
  const char* name;
  TensorType type;
} weight_types[] = {{"f32", TensorType::f32},
                    {"f16", TensorType::f16},
                    {"bf16", TensorType::bf16},
                    {"q8_0", TensorType::q8_0}};

const TypeInfo& type_of(const Synthesis& synthesis, const SynthTensor& tensor) {
  if (!tensor.is_matrix()) return quant::type_info(TensorType::f32);
  return tensor.dims[0] % synthesis.type->block_size == 0 ? *synthesis.type
                                                          : quant::type_info(TensorType::f16);
}

Result<void> add_shape(GgufWriter& writer, const SynthShape& s) {
  const std::string prefix = std::string(s.architecture) + ".";
  const std::pair<const char*, std::uint32_t> counts[] = {
      {"context_length", s.n_ctx_train},
      {"embedding_length", s.n_embd},
      {"block_count", s.n_layer},
      {"feed_forward_length", s.n_ff},
      {"attention.head_count", s.n_head},
      {"attention.head_count_kv", s.n_head_kv},
      {"attention.key_length", s.head_dim},
      {"attention.value_length", s.head_dim},
      {"rope.dimension_count", s.head_dim},
      {"vocab_size", s.n_vocab},
      {"attention.sliding_window", s.sliding_window},
  };
  for (const auto& [name, value] : counts) {
    if (value != 0) RUNNEL_TRY(writer.add(prefix + name, value));
  }
  const std::pair<const char*, float> reals[] = {
      {"attention.layer_norm_rms_epsilon", s.norm_eps},
      {"rope.freq_base", s.rope_base},
      {"attn_logit_softcapping", s.attn_soft_cap},
      {"final_logit_softcapping", s.logit_soft_cap},
  };
  for (const auto& [name, value] : reals) {
    if (value != 0.0f) RUNNEL_TRY(writer.add(prefix + name, value));
  }
  return {};
}

// A SentencePiece vocabulary of three specials, all bytes and the blank, filled up with tokens that no text
// contains.
Result<void> add_tokenizer(GgufWriter& writer, std::size_t n_vocab) {
  enum : std::int32_t {
    normal = 1,
    unknown = 2,
    control = 3,
    unused = 5,
    byte = 6
  };  // token_type of gguf.md
  std::vector<std::string> texts = {"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types = {unknown, control, control};
  for (unsigned value = 0; value < 256; ++value) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", value);
    texts.emplace_back(text);
    types.push_back(byte);
  }
  texts.emplace_back("\u2581");  // stands for a blank
  types.push_back(normal);
  while (texts.size() < n_vocab) {
    texts.push_back("<unused" + std::to_string(texts.size()) + ">");
    types.push_back(unused);
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const std::vector<float> scores(texts.size(), 0.0f);
  RUNNEL_TRY(writer.add("tokenizer.ggml.model", "llama"));
  RUNNEL_TRY(writer.add("tokenizer.ggml.tokens", views));
  RUNNEL_TRY(writer.add("tokenizer.ggml.scores", scores));
  RUNNEL_TRY(writer.add("tokenizer.ggml.token_type", types));
  RUNNEL_TRY(writer.add("tokenizer.ggml.unknown_token_id", std::uint32_t{0}));
  RUNNEL_TRY(writer.add("tokenizer.ggml.bos_token_id", std::uint32_t{1}));
  return writer.add("tokenizer.ggml.eos_token_id", std::uint32_t{2});
}

double n_random_elements(const std::vector<SynthTensor>& tensors) {
  double n = 0;
  for (const SynthTensor& tensor : tensors)
    n += tensor.values.empty() ? static_cast<double>(tensor.n_elements()) : 0;
  return n;
}

// Makes tensors chunk by chunk, all threads together, and hands them to the writer.
class Filler {
 public:
  Filler(GgufWriter& writer, const Synthesis& synthesis, std::size_t n_threads, Work& work)
      : writer_(writer),
        synthesis_(synthesis),
        team_(n_threads),
        floats_(n_threads * piece_elements),
        work_(work) {}

  Result<void> fill(const SynthTensor& tensor) {
    if (!tensor.values.empty()) return writer_.write(std::as_bytes(std::span(tensor.values)));
    const TypeInfo& type = type_of(synthesis_, tensor);
    const RandomTensor random(synthesis_.seed, tensor.name, tensor.mean, tensor.spread);
    const std::uint64_t n_elements = tensor.n_elements();
    for (std::uint64_t first = 0; first < n_elements; first += chunk_elements) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(chunk_elements, n_elements - first));
      bytes_.resize(quant::row_bytes(type, n));
      make_chunk(random, type, first, n);
      RUNNEL_TRY(writer_.write(bytes_));
      RUNNEL_TRY(work_.advance(static_cast<double>(n)));
    }
    return {};
  }

 private:
  void make_chunk(const RandomTensor& random, const TypeInfo& type, std::uint64_t first, std::size_t n) {
    team_.run([&](Thread& thread) {
      float* floats = floats_.data() + thread.index() * piece_elements;
      const Range mine = thread.split(n, piece_elements);
      for (std::size_t begin = mine.begin; begin < mine.end; begin += piece_elements) {
        const std::size_t n_piece = std::min(piece_elements, mine.end - begin);
        random.fill(floats, first + begin, n_piece);
        type.encode(bytes_.data() + quant::row_bytes(type, begin), floats, n_piece);
      }
    });
  }

  GgufWriter& writer_;
  const Synthesis& synthesis_;
  Team team_;
  std::vector<float> floats_;     // piece_elements for each thread
  std::vector<std::byte> bytes_;  // the chunk at hand
  Work& work_;                    // in elements
};

// For people. Not the shape's name as it is: llama.cpp looks for tokens that Phi 3 has in every model whose
// name says phi-3, and refuses one without them.
std::string title(std::string_view shape) {
  std::string words = std::string(shape) + " with random weights";
  std::replace(words.begin(), words.end(), '-', ' ');
  return words;
}

Result<void> write(GgufWriter& writer, const Synthesis& synthesis, const Settings& settings) {
  const SynthShape& shape = synthesis.shape;
  RUNNEL_TRY(writer.add("general.architecture", shape.architecture));
  RUNNEL_TRY(writer.add("general.name", title(shape.name)));
  RUNNEL_TRY(writer.add("general.quantization_version", std::uint32_t{2}));
  RUNNEL_TRY(add_shape(writer, shape));
  RUNNEL_TRY(add_tokenizer(writer, shape.n_vocab));
  const std::vector<SynthTensor> tensors = synth_tensors(shape);
  for (const SynthTensor& tensor : tensors) {
    RUNNEL_TRY(writer.add_tensor(tensor.name, type_of(synthesis, tensor), tensor.dims));
  }
  Work work(synthesis.on_progress, n_random_elements(tensors));
  Filler filler(writer, synthesis, thread_count(settings), work);
  for (const SynthTensor& tensor : tensors) RUNNEL_TRY(filler.fill(tensor));
  return writer.finish();
}

}  // namespace

Result<Synthesis> find_synthesis(const std::string& shape, const std::string& type, std::uint64_t seed) {
  const SynthShape* found = find_synth_shape(shape);
  if (found == nullptr) {
    std::string names;
    for (std::size_t i = 0; i < n_synth_shapes(); ++i)
      names += std::string(i > 0 ? ", " : "") + synth_shape(i).name;
    return error(RUNNEL_BAD_ARGUMENT, "shape: \"%s\" is none of %s", printable(shape, 40).c_str(),
                 names.c_str());
  }
  for (const auto& [name, id] : weight_types) {
    if (type == name) return Synthesis{*found, &quant::type_info(id), seed, {}};
  }
  return error(RUNNEL_BAD_ARGUMENT, "type: \"%s\" is none of f32, f16, bf16, q8_0",
               printable(type, 40).c_str());
}

Result<void> write_synthetic(const Synthesis& synthesis, const std::string& path, const Settings& settings) {
  RUNNEL_ASSIGN(GgufWriter writer, GgufWriter::create(path, {}));
  return write(writer, synthesis, settings);
}

Result<std::shared_ptr<const Model>> make_synthetic(const Synthesis& synthesis, const Settings& settings) {
  return model_in_memory(synthesis.shape.name, "", settings,
                         [&](GgufWriter writer) { return write(writer, synthesis, settings); });
}

}  // namespace runnel
