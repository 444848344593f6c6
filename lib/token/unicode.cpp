#include "lib/token/unicode.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace runnel {
namespace {

struct CodeRange {
  std::uint32_t first, last;
};

// Code points first, first + step ... last, whose image lies `delta` further.
struct DeltaRun {
  std::uint32_t first, last, step;
  std::int32_t delta;
};

// Code points first ... last, all with one image.
struct ImageRun {
  std::uint32_t first, last, image;
};

#include "lib/token/unicode_tables.inc"

// The row that holds code; null when none does. Rows are sorted and apart.
template <class Row, std::size_t n>
const Row* find_row(const Row (&rows)[n], char32_t code) noexcept {
  const Row* row = std::upper_bound(std::begin(rows), std::end(rows), code,
                                    [](char32_t c, const Row& r) { return c < r.first; });
  if (row == std::begin(rows) || code > (row - 1)->last) return nullptr;
  return row - 1;
}

constexpr CodeRange spaces[] = {{0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                {0x205F, 0x205F}, {0x3000, 0x3000}};

// The blocks of BERT's tokenizer (google-research/bert, _is_chinese_char), with the start of extension E as
// the common implementations have it (U+2B920).
constexpr CodeRange ideographs[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                    {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                    {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};

}  // namespace

bool is_space(char32_t code) noexcept { return find_row(spaces, code) != nullptr; }
bool is_punctuation(char32_t code) noexcept { return find_row(punctuation, code) != nullptr; }
bool is_mark(char32_t code) noexcept { return find_row(marks, code) != nullptr; }
bool is_control(char32_t code) noexcept { return find_row(controls, code) != nullptr; }
bool is_ideograph(char32_t code) noexcept { return find_row(ideographs, code) != nullptr; }

char32_t to_lower(char32_t code) noexcept {
  const DeltaRun* run = find_row(lowercase, code);
  if (run == nullptr || (code - run->first) % run->step != 0) return code;
  return static_cast<char32_t>(static_cast<std::int32_t>(code) + run->delta);
}

char32_t decomposed_first(char32_t code) noexcept {
  constexpr char32_t hangul = 0xAC00, n_hangul = 11172, leading_jamo = 0x1100, syllables_per_jamo = 588;
  if (code >= hangul && code - hangul < n_hangul) return leading_jamo + (code - hangul) / syllables_per_jamo;
  const ImageRun* run = find_row(decomposition_starts, code);
  return run == nullptr ? code : run->image;
}

}  // namespace runnel
