// The few properties of characters that WordPiece needs.
#pragma once

namespace runnel {

bool is_space(char32_t code) noexcept;        // White_Space
bool is_punctuation(char32_t code) noexcept;  // P*
bool is_mark(char32_t code) noexcept;         // M*: accents and the like
bool is_control(char32_t code) noexcept;      // Cc, Cf, Cs, Co
bool is_ideograph(char32_t code) noexcept;    // the CJK blocks that BERT sets apart

char32_t to_lower(char32_t code) noexcept;  // one to one; the first character where a case has several
char32_t decomposed_first(char32_t code) noexcept;  // first character of the canonical decomposition (NFD)

}  // namespace runnel
