// Huge pages: what memory holds stays, and where this system makes such pages, Linux tells that it has.
#include <gtest/gtest.h>

#include <cstddef>

#include "lib/aligned.h"
#include "lib/system/huge_pages.h"
#include "tests/support/huge_pages.h"

using runnel::HugePages;
using runnel::test::huge_kib;

namespace {

constexpr long huge_page_kib = 2048;
constexpr std::size_t huge_page = std::size_t{huge_page_kib} * 1024;

std::byte value_at(std::size_t i) { return static_cast<std::byte>(i * 2654435761u >> 11); }

TEST(HugePages, keep_what_is_there) {
  const std::size_t n = 4 * huge_page + 12345;
  const runnel::AlignedBytes memory = runnel::aligned_bytes(n);
  for (std::size_t i = 0; i < n; ++i) memory[i] = value_at(i);
  const long usual = huge_kib();
  HugePages pages(memory.get(), n);
  pages.make(1);
  const long after_one = huge_kib() - usual;
  pages.make(0);
  EXPECT_EQ(huge_kib() - usual, after_one);
  pages.make(6);  // more than there are
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(memory[i], value_at(i)) << i;
  if (after_one == 0) GTEST_SKIP() << "this system makes huge pages unasked or not at all";
  EXPECT_EQ(after_one, huge_page_kib);
  EXPECT_GE(huge_kib() - usual, 3 * huge_page_kib);
}

TEST(HugePages, are_made_where_nothing_is_written_yet) {
  const std::size_t n = 20 * huge_page;  // so much that malloc() takes it from the system, and not again
  const runnel::AlignedBytes memory = runnel::aligned_bytes(n);
  const long usual = huge_kib();
  HugePages pages(memory.get(), n);
  pages.make(1);
  const long after_one = huge_kib() - usual;
  if (after_one == 0) GTEST_SKIP() << "this system makes huge pages unasked or not at all";
  EXPECT_EQ(after_one, huge_page_kib);
  pages.make(3);
  EXPECT_EQ(huge_kib() - usual, 4 * huge_page_kib);
}

TEST(HugePages, need_room_for_one) {
  std::byte few[100] = {};
  HugePages(few, sizeof few).make(1);
  HugePages(few, 0).make(1);
  HugePages().make(1);
  EXPECT_EQ(few[0], std::byte{});
}

}  // namespace
