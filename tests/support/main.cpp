// main() of the GoogleTest programs. Exit status 77 tells Meson that a program skipped all of its tests, as
// it does where reference data is absent: such a program has not passed.
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const int failed = RUN_ALL_TESTS()) return failed;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  return all.skipped_test_count() > 0 && all.skipped_test_count() == all.test_to_run_count() ? 77 : 0;
}
