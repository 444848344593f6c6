// Where reference data lies beside the project; tests that need it skip where it is absent.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

namespace runnel::test {

inline std::string source_root() {
  const char* root = std::getenv("RUNNEL_SOURCE_ROOT");
  return root ? root : ".";
}

inline std::string shared(const std::string& path) { return source_root() + "/../shared/" + path; }

inline bool has_shared(const std::string& path) { return std::filesystem::exists(shared(path)); }

inline std::string demo_model() { return source_root() + "/cli/demo/runnel-demo-f16.gguf"; }

// Ends a test with a message where reference data is absent.
#define RUNNEL_NEEDS_SHARED(path) \
  if (!runnel::test::has_shared(path)) GTEST_SKIP() << "reference data ../shared/" << (path) << " is not here"

}  // namespace runnel::test
