#include "lib/system/huge_pages.h"

#include "lib/range.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace runnel {
namespace {

constexpr std::size_t huge_page = std::size_t{2} * 1024 * 1024;  // where pages are of 4 KB

#if defined(__linux__)
// MADV_COLLAPSE (madvise(2), since Linux 6.1), which headers of Debian 12 do not have.
constexpr int collapse = 25;

// Pages are made of those that are there: where nothing is written yet, one byte is.
bool make_huge(std::byte* page) noexcept {
  volatile std::byte& first = *page;
  first = first;
  return ::madvise(page, huge_page, collapse) == 0;
}
#else
bool make_huge(std::byte*) noexcept { return false; }
#endif

}  // namespace

HugePages::HugePages(std::byte* begin, std::size_t n_bytes) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t before = filled_up(address, huge_page) - address;
  if (before >= n_bytes) return;
  next_ = begin + before;
  n_left_ = (n_bytes - before) / huge_page;
}

void HugePages::make(std::int64_t n) noexcept {
  for (; n > 0 && n_left_ > 0; --n) {
    n_left_ = make_huge(next_) ? n_left_ - 1 : 0;
    next_ += huge_page;
  }
}

}  // namespace runnel
