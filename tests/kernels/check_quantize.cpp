// Activations to int8 and to int16: every code, scale, offset and carried entry is compared with the
// definition in quant/activations.h, quant/i16.h and kernels.h, written down here with sorted lists.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/kcheck.h"

namespace runnel::simd {
namespace {

using quant::CarriedEntry;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// What differs.
template <class Code>
struct Rule;
template <>
struct Rule<std::int8_t> {
  static constexpr float most = 127.0f, carry_ratio = 2.5f;
  static float scale(float max) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(max / most) & ~3u);
  }
  static constexpr auto kernel = &Kernels::quantize_i8;
};
template <>
struct Rule<std::int16_t> {
  static constexpr float most = 8191.0f, carry_ratio = 8.0f;
  static float scale(float max) { return max / most; }
  static constexpr auto kernel = &Kernels::quantize_i16;
};

template <class Code>
constexpr bool is_int8 = sizeof(Code) == 1;

template <class Code>
struct Expected {
  std::vector<Code> codes;
  std::vector<float> scales;
  std::vector<CarriedEntry> carried;
};

// The entries above so many times the lower median of the block maxima; of too many the largest, of equals
// the first.
std::vector<CarriedEntry> expected_carried(const float* x, std::size_t n, float ratio) {
  std::vector<float> maxima;
  for (std::size_t i = 0; i < n; i += quant::i8_block) {
    float max = 0.0f;
    for (std::size_t j = i; j < std::min(n, i + quant::i8_block); ++j) max = std::max(max, std::fabs(x[j]));
    maxima.push_back(max);
  }
  std::sort(maxima.begin(), maxima.end());
  const float threshold = ratio * maxima[(maxima.size() - 1) / 2];
  std::vector<CarriedEntry> all;
  for (std::size_t i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > threshold) all.push_back({static_cast<std::uint32_t>(i), x[i]});
  }
  std::stable_sort(all.begin(), all.end(), [](const CarriedEntry& a, const CarriedEntry& b) {
    return std::fabs(a.value) > std::fabs(b.value);
  });
  all.resize(std::min(all.size(), std::max(std::size_t{4}, n / 256)));
  std::sort(all.begin(), all.end(),
            [](const CarriedEntry& a, const CarriedEntry& b) { return a.index < b.index; });
  return all;
}

template <class Code>
Expected<Code> expected_row(const float* x, std::size_t n) {
  const std::size_t n_blocks = (n + 31) / 32;
  Expected<Code> e{std::vector<Code>(n_blocks * 32), std::vector<float>(n_blocks), {}};
  if (n == 0) return e;
  if (!std::all_of(x, x + n, [](float v) { return std::fabs(v) < 0x1p+100f; })) {
    std::fill(e.scales.begin(), e.scales.end(), nan);
    return e;
  }
  e.carried = expected_carried(x, n, Rule<Code>::carry_ratio);
  std::vector<float> rest(x, x + n);
  rest.resize(n_blocks * 32);
  for (const CarriedEntry& c : e.carried) rest[c.index] = 0.0f;
  for (std::size_t b = 0; b < n_blocks; ++b) {
    float max = 0.0f;
    for (std::size_t i = b * 32; i < b * 32 + 32; ++i) max = std::max(max, std::fabs(rest[i]));
    if (max < 0x1p-100f) continue;
    e.scales[b] = Rule<Code>::scale(max);
    const float inverse = Rule<Code>::most / max;
    for (std::size_t i = b * 32; i < b * 32 + 32; ++i)
      e.codes[i] = static_cast<Code>(std::nearbyint(rest[i] * inverse));
  }
  return e;
}

// Where the sums of block b start, and its split where there is one. got: one token.
void compare_sums(const Expected<std::int8_t>& e, const quant::ActivationsI8& got, std::size_t b,
                  const char* what, Report& report) {
  const std::size_t place = got.place(b);
  int sum = 0, negative = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    const int code = e.codes[b * 32 + i];
    sum += code;
    negative += code < 0 ? -code : 0;
    if (got.split == nullptr) continue;
    const std::int8_t* const split = got.split + place * 64;
    report.expect(split[i] == std::abs(code) && split[32 + i] == (code < 0 ? -1 : 0),
                  "%s, n %zu: code %zu, %d, is split in %d and %d", what, got.n_cols, b * 32 + i, code,
                  split[i], split[32 + i]);
  }
  report.expect(got.offsets[place] == 0x4b400000 + (got.split == nullptr ? -128 * sum : negative),
                "%s, n %zu: offset of block %zu", what, got.n_cols, b);
  const auto base = [&](std::size_t block) { return -12582912.0f * e.scales[block]; };
  report.expect(equal(got.bases[place], base(b)), "%s, n %zu: base of block %zu", what, got.n_cols, b);
  if (b % 4 != 0) return;
  float sum_of_bases = base(b);
  for (std::size_t i = b + 1; i < std::min(b + 4, e.scales.size()); ++i) sum_of_bases += base(i);
  report.expect(equal(got.group_bases[place], sum_of_bases), "%s, n %zu: base of the group from block %zu",
                what, got.n_cols, b);
}
void compare_sums(const Expected<std::int16_t>&, const quant::ActivationsI16&, std::size_t, const char*,
                  Report&) {}

// got: one token.
template <class Code>
void compare_row(const Expected<Code>& e, const quant::Activations<Code>& got, const char* what,
                 Report& report) {
  const std::size_t n = got.n_cols;
  const std::size_t n_blocks = quant::i8_blocks(n);
  for (std::size_t i = 0; i < quant::i8_padded(n); ++i) {
    const Code code = static_cast<Code>(got.codes[got.place(i / 32) * 32 + i % 32] - got.zero());
    report.expect(code == e.codes[i], "%s, n %zu: code %zu is %d, not %d", what, n, i, code, e.codes[i]);
  }
  for (std::size_t b = 0; b < n_blocks; ++b) {
    const std::size_t place = got.place(b);
    report.expect(equal(got.scales[place], e.scales[b]), "%s, n %zu: scale of block %zu", what, n, b);
    compare_sums(e, got, b, what, report);
  }
  report.expect(*got.n_carried == e.carried.size(), "%s, n %zu: %u carried, not %zu", what, n, *got.n_carried,
                e.carried.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(*got.n_carried, e.carried.size()); ++i) {
    report.expect(got.carried[i].index == e.carried[i].index && got.carried[i].value == e.carried[i].value,
                  "%s, n %zu: carried entry %zu", what, n, i);
  }
}

// How a product reads a row.
enum class Read { codes, split, raised };

// rows: n_tok of n numbers each.
template <class Code>
void check_rows(const Kernels& kernels, const std::vector<float>& rows, std::size_t n, std::size_t n_tok,
                Read read, const char* what, Report& report) {
  const std::size_t stride = n + n % 3;
  Guarded<float> x(n_tok == 0 ? 0 : (n_tok - 1) * stride + n);
  const std::size_t room = quant::i8_room(n_tok);
  Guarded<Code> codes(room * quant::i8_padded(n));
  Guarded<float> scales(room * quant::i8_blocks(n));
  const std::size_t n_sums = is_int8<Code> ? room * quant::i8_blocks(n) : 0;
  Guarded<std::int32_t> offsets(n_sums);
  Guarded<float> bases(n_sums), group_bases(n_sums);
  Guarded<std::int8_t> split(read == Read::split ? room * quant::i8_blocks(n) * 64 : 0);
  Guarded<CarriedEntry> carried(n_tok * quant::i8_max_carried(n));
  Guarded<std::uint32_t> n_carried(n_tok);
  Guarded<float> maxima(n_tok * quant::i8_blocks(n));
  for (std::size_t t = 0; t < n_tok; ++t) std::copy_n(rows.data() + t * n, n, x.data() + t * stride);
  const quant::Activations<Code> out{n,
                                     quant::i8_width(n_tok),
                                     codes.data(),
                                     scales.data(),
                                     is_int8<Code> ? offsets.data() : nullptr,
                                     is_int8<Code> ? bases.data() : nullptr,
                                     is_int8<Code> ? group_bases.data() : nullptr,
                                     carried.data(),
                                     n_carried.data(),
                                     maxima.data(),
                                     read == Read::split ? split.data() : nullptr,
                                     read == Read::raised};
  (kernels.*Rule<Code>::kernel)(out, x.data(), stride, n_tok);
  report.expect(codes.intact() && scales.intact() && offsets.intact() && bases.intact() &&
                    group_bases.intact() && split.intact() && carried.intact() && n_carried.intact() &&
                    maxima.intact(),
                "%s, n %zu: wrote before an array", what, n);
  for (std::size_t t = 0; t < n_tok; ++t)
    compare_row(expected_row<Code>(rows.data() + t * n, n), out.tokens(t), what, report);
}

template <class Code>
void check_rows(const Kernels& kernels, const std::vector<float>& rows, std::size_t n, std::size_t n_tok,
                const char* what, Report& report) {
  check_rows<Code>(kernels, rows, n, n_tok, Read::codes, what, report);
  if (!is_int8<Code>) return;
  check_rows<Code>(kernels, rows, n, n_tok, Read::split, what, report);
  check_rows<Code>(kernels, rows, n, n_tok, Read::raised, what, report);
}

using Make = float (*)(Random& random, std::size_t i, std::size_t n);

struct Kind {
  const char* name;
  Make make;
};

template <class Rule>
float at_threshold(Random& random, std::size_t i, std::size_t) {
  if (i / 32 % 3 != 1) return i % 32 == 0 ? 1.0f : random.uniform();
  return random.bits() % 8 != 0 ? Rule::carry_ratio : std::nextafter(Rule::carry_ratio, 10.0f);
}
template <class Rule>
float ties(Random& random, std::size_t i, std::size_t) {
  const auto most = static_cast<std::uint32_t>(Rule::most);
  return i % 32 == 7 ? -Rule::most : static_cast<float>(random.bits() % (2 * most - 1)) - Rule::most + 0.5f;
}

constexpr Kind kinds[] = {
    {"uniform", [](Random& r, std::size_t, std::size_t) { return r.uniform(); }},
    {"some massive", [](Random& r, std::size_t, std::size_t) { return r.number(true); }},
    {"one massive",
     [](Random& r, std::size_t i, std::size_t n) { return i == n / 2 ? -1e30f : r.uniform(); }},
    // More candidates than are carried, in ascending and descending order, and equal ones.
    {"ascending",
     [](Random&, std::size_t i, std::size_t n) { return i < n / 2 ? 1.0f : 3.0f + static_cast<float>(i); }},
    {"descending", [](Random&, std::size_t i,
                      std::size_t n) { return i < n / 2 ? 1.0f : -3.0f - static_cast<float>(n - i); }},
    {"equal",
     [](Random& r, std::size_t i, std::size_t) {
       return i % 37 == 5 ? (r.bits() % 2 == 0 ? 9.0f : -9.0f) : 0.5f * r.uniform();
     }},
    {"few levels",
     [](Random& r, std::size_t, std::size_t) {
       return static_cast<float>(r.bits() % 64 == 0 ? 4 + r.bits() % 3 : r.bits() % 2);
     }},
    // In most blocks 1 is the largest: the threshold is not carried, the next number is.
    {"at the threshold", at_threshold<Rule<std::int8_t>>},
    {"at the threshold of int16", at_threshold<Rule<std::int16_t>>},
    {"zeros", [](Random&, std::size_t, std::size_t) { return 0.0f; }},
    {"minus zeros", [](Random&, std::size_t, std::size_t) { return -0.0f; }},
    {"mostly zeros",
     [](Random& r, std::size_t, std::size_t) { return r.bits() % 100 == 0 ? r.uniform() : 0.0f; }},
    // The largest code in a block makes its factor 1 and x.5 a tie.
    {"ties", ties<Rule<std::int8_t>>},
    {"ties of int16", ties<Rule<std::int16_t>>},
    {"extremes", [](Random& r, std::size_t, std::size_t) { return r.bits() % 2 == 0 ? 1.0f : -1.0f; }},
    {"subnormal", [](Random& r, std::size_t, std::size_t) { return 1e-40f * r.uniform(); }},
    {"around 2^-100",
     [](Random& r, std::size_t i, std::size_t) {
       return 0x1p-100f * (i / 32 % 2 == 0 ? 0.999f : 1.0f + std::fabs(r.uniform()));
     }},
    {"largest", [](Random& r, std::size_t, std::size_t) { return r.uniform() * 0x1p+100f; }},
    {"wide", [](Random& r, std::size_t,
                std::size_t) { return std::ldexp(r.uniform(), static_cast<int>(r.bits() % 200) - 100); }},
};

template <class Code>
void check_kind(const Kernels& kernels, const Kind& kind, std::size_t n, std::size_t n_tok, Random& random,
                Report& report) {
  std::vector<float> rows(n * n_tok);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = kind.make(random, i % n, n);
  check_rows<Code>(kernels, rows, n, n_tok, kind.name, report);
}

// A NaN, an infinity or a number that is too large spoils its row, wherever it is, and no other.
template <class Code>
void check_not_finite(const Kernels& kernels, std::size_t n, Random& random, Report& report) {
  constexpr std::size_t n_tok = 3;
  std::vector<float> rows(n * n_tok);
  for (const float bad : {nan, -nan, inf, -inf, 0x1p+100f, -0x1p+100f}) {
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
      for (float& v : rows) v = random.uniform();
      rows[n + at] = bad;
      check_rows<Code>(kernels, rows, n, n_tok, "not finite", report);
    }
  }
}

template <class Code>
void check_quantize(const Kernels& kernels, Report& report) {
  Random random;
  check_rows<Code>(kernels, {}, 0, 2, "empty", report);
  check_rows<Code>(kernels, {}, 40, 0, "no token", report);
  for (const Kind& kind : kinds) {
    for (std::size_t n = 1; n <= 300; ++n) check_kind<Code>(kernels, kind, n, 1, random, report);
    for (const std::size_t n : Sizes{64, 704, 1500, 2048, 4099})
      check_kind<Code>(kernels, kind, n, 3, random, report);
    check_kind<Code>(kernels, kind, 100, 2 * quant::i8_chunk + 5, random, report);
  }
  for (const std::size_t n : Sizes{1, 31, 32, 33, 100, 1100})
    check_not_finite<Code>(kernels, n, random, report);
}

}  // namespace

void check_quantize_i8(const Kernels& kernels, Report& report) {
  check_quantize<std::int8_t>(kernels, report);
}
void check_quantize_i16(const Kernels& kernels, Report& report) {
  check_quantize<std::int16_t>(kernels, report);
}

}  // namespace runnel::simd
