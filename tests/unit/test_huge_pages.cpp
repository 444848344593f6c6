// Huge pages: what memory holds stays, and where this system makes such pages, Linux tells that it has.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "lib/aligned.h"
#include "lib/huge_pages.h"

using runnel::HugePages;

namespace {

constexpr std::size_t huge_page = std::size_t{2} * 1024 * 1024;

// Kilobytes of huge pages in the mapping that an address lies in.
std::size_t huge_kilobytes_around(const std::byte* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  bool is_here = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long long begin = 0, end = 0, kilobytes = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) is_here = begin <= wanted && wanted < end;
    if (is_here && std::sscanf(line.c_str(), "AnonHugePages: %llu kB", &kilobytes) == 1)
      return static_cast<std::size_t>(kilobytes);
  }
  return 0;
}

std::byte value_at(std::size_t i) { return static_cast<std::byte>(i * 2654435761u >> 11); }

TEST(HugePages, keep_what_is_there) {
  const std::size_t n = 4 * huge_page + 12345;
  const runnel::AlignedBytes memory = runnel::aligned_bytes(n);
  for (std::size_t i = 0; i < n; ++i) memory[i] = value_at(i);
  HugePages pages(memory.get(), n);
  pages.make_next();
  const std::size_t after_one = huge_kilobytes_around(memory.get() + n / 2);
  for (int i = 0; i < 6; ++i) pages.make_next();  // more than there are
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(memory[i], value_at(i)) << i;
  if (after_one == 0) GTEST_SKIP() << "this system makes no huge pages when asked";
  EXPECT_EQ(after_one, huge_page / 1024);
  EXPECT_GE(huge_kilobytes_around(memory.get() + n / 2), 3 * huge_page / 1024);
}

TEST(HugePages, need_room_for_one) {
  std::byte few[100] = {};
  HugePages(few, sizeof few).make_next();
  HugePages(few, 0).make_next();
  HugePages().make_next();
  EXPECT_EQ(few[0], std::byte{});
}

}  // namespace
