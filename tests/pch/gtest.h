// Precompiled where a test program has many files: GoogleTest takes half of the time from compiling one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>
