// main() of the GoogleTest programs. Exit status 77 tells Meson that a program skipped all of its tests, as
// it does where reference data is absent: such a program has not passed. Nor has one that had none to run, as
// where a filter fits no name.
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const int failed = RUN_ALL_TESTS()) return failed;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  if (all.test_to_run_count() == 0) {
    std::fprintf(stderr, "there are no tests to run\n");
    return 1;
  }
  return all.skipped_test_count() == all.test_to_run_count() ? 77 : 0;
}
