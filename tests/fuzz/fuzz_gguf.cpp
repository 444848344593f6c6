// libFuzzer target for the GGUF reader, built with clang only and on request:
//   CC=clang CXX=clang++ meson setup build-fuzz && ninja -C build-fuzz tests/fuzz/fuzz_gguf
//   build-fuzz/tests/fuzz/fuzz_gguf -max_len=65536 corpus/
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/check_gguf.h"
#include "tests/fuzz/mutate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  runnel::test::AlignedCopy copy(std::as_bytes(std::span(data, size)));
  const std::string problem = runnel::test::check_gguf(copy.bytes());
  if (!problem.empty()) {
    std::fprintf(stderr, "%s\n", problem.c_str());
    std::abort();
  }
  return 0;
}
