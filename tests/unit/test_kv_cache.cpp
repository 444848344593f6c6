// What the cache holds of the numbers that are put into it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "lib/kv_cache.h"
#include "quant/float16.h"
#include "tests/stream/models.h"

namespace runnel {
namespace {

using test::synthetic;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// Heads of more numbers than are stored at once.
SynthShape wide() {
  SynthShape shape = test::tiny("llama", 4);
  shape.head_dim = 80;
  return shape;
}

// The first key and value of a layer in f16, read back number by number.
struct Stored {
  std::vector<float> key, value;

  Stored(const simd::Kernels& kernels, const Model& model, const std::vector<float>& x, CacheType type,
         std::int64_t n_prefix) {
    KvCache cache(model, {n_prefix, 8, 4}, type);
    cache.store(kernels, 1, 2, 0, x.data(), x.data());
    cache.advance(1);
    const KeyRun run = n_prefix > 0 ? cache.prefix_run(1, 2, 0, 1) : cache.window_run(1, 2, 0, 1);
    EXPECT_TRUE(run.keys.type == CacheType::f16 && run.values.type == CacheType::f16);
    for (std::size_t i = 0; i < x.size(); ++i) {
      key.push_back(number(run.keys, i * simd::block_keys));
      value.push_back(number(run.values, i));
    }
  }

  static float number(const CachedNumbers& numbers, std::size_t i) {
    simd::F16 bits;
    std::memcpy(&bits, numbers.data + i * sizeof bits, sizeof bits);
    return quant::f16_to_f32(bits);
  }
};

void expect_same(const std::vector<float>& is, const std::vector<float>& expected) {
  ASSERT_EQ(is.size(), expected.size());
  for (std::size_t i = 0; i < is.size(); ++i)
    EXPECT_TRUE(is[i] == expected[i] || (std::isnan(is[i]) && std::isnan(expected[i])))
        << i << ": " << is[i] << ", not " << expected[i];
}

// Numbers beyond f16 become its largest; what is not finite stays so, and tells of damaged weights.
TEST(KvCache, f16_keeps_finite_numbers_finite) {
  const auto model = synthetic(wide());
  const std::size_t n = model->shape().head_dim;
  std::vector<float> x(n, 1.5f), expected = x;
  const auto put = [&](std::size_t i, float value, float as) { x[i] = value, expected[i] = as; };
  put(0, 65504, 65504);
  put(1, 65519.996f, 65504);
  put(2, 65520, 65504);
  put(3, -70000, -65504);
  put(n - 4, 3e38f, 65504);
  put(n - 3, nan, nan);
  put(n - 2, infinity, infinity);
  put(n - 1, -infinity, -infinity);
  for (const simd::IsaRow& row : simd::isa_rows()) {
    if (!row.runs_on(simd::cpu_features())) continue;
    SCOPED_TRACE(row.name);
    const simd::IsaRow* chosen = nullptr;
    const simd::Kernels kernels = simd::select(row.name, simd::cpu_features(), &chosen);
    const Stored window(kernels, *model, x, CacheType::f16, 0);
    const Stored prefix_of_int8(kernels, *model, x, CacheType::i8, 2);
    for (const Stored* stored : {&window, &prefix_of_int8}) {
      expect_same(stored->key, expected);
      expect_same(stored->value, expected);
    }
  }
}

}  // namespace
}  // namespace runnel
