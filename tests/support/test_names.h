// Names of tests with parameters, in which there is no '-'.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace runnel::test {

inline std::string test_name(std::string text) {
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

inline std::string name_of_parameter(const testing::TestParamInfo<const char*>& test) {
  return test_name(test.param);
}

}  // namespace runnel::test
