#include "lib/speed_limits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>

#include "lib/system/machine.h"
#include "lib/system/parallel.h"
#include "simd/kernels.h"

namespace runnel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double peak_seconds = 0.3;
constexpr double read_seconds = 0.2;         // for each pattern
constexpr double least_pass_seconds = 0.02;  // against which starting the threads is nothing
constexpr int least_passes = 3;

// Some processors read faster in one stream, others in several, with or without prefetching.
struct ReadPattern {
  std::size_t n_streams, ahead;
};
constexpr ReadPattern read_patterns[] = {{1, 0}, {1, 4096}, {1, 8192}, {4, 0}, {4, 512}, {4, 1536}};

// Seconds that work(thread), n times over on each thread, takes.
template <class Work>
double time_pass(Team& team, std::size_t n, const Work& work) {
  const Clock::time_point start = Clock::now();
  team.run([&](Thread& thread) {
    for (std::size_t i = 0; i < n; ++i) work(thread);
  });
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds of one work(thread) on all threads at best, tried for so long.
template <class Work>
double best_seconds(Team& team, double measure_seconds, const Work& work) {
  std::size_t n = 1;
  while (time_pass(team, n, work) < least_pass_seconds && n < (std::size_t{1} << 30)) n *= 2;
  double best = time_pass(team, n, work), total = best;
  for (int pass = 1; pass < least_passes || total < measure_seconds; ++pass) {
    const double seconds = time_pass(team, n, work);
    best = std::min(best, seconds);
    total += seconds;
  }
  return best / static_cast<double>(n);
}

// All tensors, as the file has them one after another.
std::span<const std::uint64_t> weight_words(const Model& model) {
  const std::vector<GgufTensor>& tensors = model.file().tensors();
  const std::byte *begin = nullptr, *end = nullptr;
  for (const GgufTensor& tensor : tensors) {
    begin = begin ? std::min(begin, tensor.data) : tensor.data;
    end = end ? std::max(end, tensor.data + tensor.n_bytes) : tensor.data + tensor.n_bytes;
  }
  return {reinterpret_cast<const std::uint64_t*>(begin),  // tensors are aligned to 8 bytes at least
          static_cast<std::size_t>(end - begin) / sizeof(std::uint64_t)};
}

std::uint64_t n_weights(const Linear& linear) { return std::uint64_t{linear.n_rows} * linear.n_cols; }

// count(w, n): the matrices that a token of a prompt is multiplied with, n of each kind. Of the last layer it
// needs keys and values alone (forward.h).
template <class Count>
void for_each_product(const Model& model, const Count& count) {
  const auto of_ffn = [&](const FfnWeights& ffn, std::uint64_t n) {
    for (const Linear* linear : {&ffn.gate, &ffn.up, &ffn.down}) count(*linear, n);
  };
  for (const Layer& layer : model.weights().layers) {
    for (const Linear* linear : {&layer.k, &layer.v}) count(*linear, 1);
    if (&layer == &model.weights().layers.back()) return;
    for (const Linear* linear : {&layer.q, &layer.o, &layer.router}) count(*linear, 1);
    if (layer.experts.empty())
      of_ffn(layer, 1);
    else
      of_ffn(layer.experts[0], model.shape().n_expert_used);
  }
}

}  // namespace

Result<double> measure_read(const Model& model, const Settings& settings) {
  RUNNEL_ASSIGN(const simd::Kernels kernels, kernels_of(settings));
  const std::span<const std::uint64_t> words = weight_words(model);
  if (words.empty())
    return error(RUNNEL_UNSUPPORTED, "%s: there are no weights to read", model.file().name().c_str());
  constexpr std::size_t page_words = 512, n_pieces = 8;  // pieces of each thread
  Team team(thread_count(settings));
  std::atomic<std::uint64_t> sum{0};  // so that the reads are not for nothing
  double seconds = std::numeric_limits<double>::infinity();
  for (const ReadPattern& pattern : read_patterns) {
    const auto read = [&](const Piece& piece) {
      const std::uint64_t* const begin = words.data() + piece.items.begin;
      sum.fetch_xor(kernels.read_words(begin, piece.items.size(), pattern.n_streams, pattern.ahead),
                    std::memory_order_relaxed);
    };
    const auto work = [&](Thread& thread) { thread.share({words.size(), page_words, n_pieces}, read); };
    seconds = std::min(seconds, best_seconds(team, read_seconds, work));
  }
  return static_cast<double>(words.size_bytes()) / seconds;
}

Result<double> measure_peak(Arithmetic arithmetic, const Settings& settings) {
  RUNNEL_ASSIGN(const simd::Kernels kernels, kernels_of(settings));
  const auto peak = arithmetic == Arithmetic::f32   ? kernels.peak_f32
                    : arithmetic == Arithmetic::i16 ? kernels.peak_i16
                                                    : kernels.peak_i8;
  constexpr std::size_t n_rounds = 100'000;
  Team team(thread_count(settings));
  std::atomic<std::uint64_t> n_threads{0};  // that there really are
  team.run([&](Thread&) { n_threads.fetch_add(1, std::memory_order_relaxed); });
  std::atomic<std::uint64_t> sum{0};
  const double seconds = best_seconds(
      team, peak_seconds, [&](Thread&) { sum.fetch_add(peak(n_rounds), std::memory_order_relaxed); });
  return static_cast<double>(peak(n_rounds) * n_threads) / seconds;
}

std::uint64_t decode_bytes(const Model& model) {
  const GgufFile& file = model.file();
  const Shape& shape = model.shape();
  const bool tied = file.find_tensor("output.weight") == nullptr;
  std::uint64_t n_bytes = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name.starts_with("position_embd.")) continue;
    if (tensor.name.starts_with("token_embd.") && !tied) continue;
    const bool is_expert = shape.n_expert > 0 && tensor.name.find("_exps.") != std::string_view::npos;
    n_bytes += is_expert ? tensor.n_bytes / shape.n_expert * shape.n_expert_used : tensor.n_bytes;
  }
  return n_bytes;
}

std::uint64_t prompt_multiply_adds(const Model& model) {
  std::uint64_t total = 0;
  for_each_product(model, [&](const Linear& w, std::uint64_t n) { total += n * n_weights(w); });
  return total;
}

Result<Arithmetic> prompt_arithmetic(const Model& model, const Settings& settings) {
  RUNNEL_ASSIGN(const simd::Kernels kernels, kernels_of(settings));
  std::array<std::uint64_t, 3> weights{};  // by Arithmetic
  for_each_product(model, [&](const Linear& w, std::uint64_t n) {
    if (w) weights[static_cast<std::size_t>(arithmetic_of(kernels, w))] += n * n_weights(w);
  });
  return static_cast<Arithmetic>(std::max_element(weights.begin(), weights.end()) - weights.begin());
}

}  // namespace runnel
