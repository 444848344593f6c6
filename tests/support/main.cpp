// main() of the GoogleTest programs; `PROGRAM --file test_rope.cpp` runs the tests of one of its files. Exit
// status 77 tells Meson that a program skipped all of its tests, as it does where reference data is absent:
// such a program has not passed. Nor has one that had none to run, as where a filter fits no name.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

// A filter for the tests that stand in a file of that name.
std::string tests_of(const std::string& name) {
  std::string filter;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (std::string_view(test.file()).ends_with("/" + name))
        filter += std::string(suite.name()) + "." + test.name() + ":";
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const bool has_filter = GTEST_FLAG_GET(filter) != "*";  // as where a death test starts the program anew
  if (argc == 3 && argv[1] == std::string_view("--file") && !has_filter)
    GTEST_FLAG_SET(filter, tests_of(argv[2]));
  if (const int failed = RUN_ALL_TESTS()) return failed;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  if (all.test_to_run_count() == 0) {
    std::fprintf(stderr, "there are no tests to run\n");
    return 1;
  }
  return all.skipped_test_count() == all.test_to_run_count() ? 77 : 0;
}
