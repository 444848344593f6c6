#include "lib/text/number_text.h"

#include <clocale>
#include <cstdlib>
#include <new>

namespace runnel {

// By strtof_l(), for the charconv of libc++ reads no floats before its version 20.
std::optional<float> float_of_text(std::string_view text) {
  if (text.empty() || text.front() == '+' || text.find_first_not_of("0123456789.eE+-") != text.npos)
    return std::nullopt;
  const std::string terminated(text);
  const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  if (c_locale == nullptr) throw std::bad_alloc();
  char* stop = nullptr;
  const float value = strtof_l(terminated.c_str(), &stop, c_locale);
  freelocale(c_locale);
  if (stop != terminated.c_str() + text.size()) return std::nullopt;
  return value;
}

}  // namespace runnel
