#include "lib/linear/blas.h"

#if defined(RUNNEL_BLAS)

#include <cblas.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "simd/cpu_features.h"
#include "simd/kernels.h"

namespace runnel {
namespace {

constexpr std::size_t block_floats = std::size_t{128} * 1024;  // half a megabyte, to stay in the L2 cache
constexpr std::size_t max_block_rows = 256;

bool is_avx512_core(const char* core) {
  for (const char* name : {"SkylakeX", "Cooperlake", "SapphireRapids", "Zen4", "Zen5"})
    if (std::strcmp(core, name) == 0) return true;
  return false;
}

std::string find_advice() {
  if (!blas_is_usable())
    return "this OpenBLAS cannot be called by many threads, or starts its own, so runnel's float kernels are "
           "used instead; install its OpenMP build (libopenblas-openmp-dev on Debian)";
  if ((simd::cpu_features() & simd::cpu_avx512) != 0 && !is_avx512_core(blas_core()))
    return std::string("OpenBLAS does not know this processor and took its ") + blas_core() +
           " kernels, about half as fast as it could be; start the program with OPENBLAS_CORETYPE=SkylakeX, "
           "or build runnel without it";
  return "";
}

// OpenMP has a number of threads for each thread that asks, and OpenBLAS asks it with each product. Its
// function also changes what all threads share, though not when it says the same again.
void work_alone() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  openblas_set_num_threads(1);
}

}  // namespace

// The team's threads call it, each alone, and it must not start more. Its serial build gives two threads that
// call it at once the same buffer; the one with pthreads has started its own by now.
bool blas_is_usable() {
  constexpr int openmp = 2;
  return openblas_get_parallel() == openmp;
}

const char* blas_core() { return openblas_get_corename(); }

const std::string& blas_advice() {
  static const std::string advice = find_advice();
  return advice;
}

// At least 8 blocks of a matrix where it has the rows, for the threads to share.
std::size_t blas_block_rows(std::size_t n_rows, std::size_t n_cols) {
  const auto rounded = [](std::size_t n) { return n / simd::panel_rows * simd::panel_rows; };
  return std::clamp(std::min(rounded(block_floats / n_cols), rounded(n_rows / 8)), simd::panel_rows,
                    max_block_rows);
}

// Of few very long rows, or of rows that fill it exactly.
std::size_t blas_block_floats(std::size_t max_cols) {
  return std::max(block_floats, simd::panel_rows * max_cols);
}

void blas_multiply(const float* w, std::size_t n_rows, std::size_t n_cols, ConstRows x, Rows y,
                   std::size_t n_tok) noexcept {
  thread_local bool is_alone = false;
  if (!is_alone) work_alone();
  is_alone = true;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(n_tok), static_cast<int>(n_rows),
              static_cast<int>(n_cols), 1.0f, x.data, static_cast<int>(x.stride), w, static_cast<int>(n_cols),
              0.0f, y.data, static_cast<int>(y.stride));
}

}  // namespace runnel

#else

namespace runnel {

bool blas_is_usable() { return false; }
const char* blas_core() { return ""; }
const std::string& blas_advice() {
  static const std::string advice;
  return advice;
}
std::size_t blas_block_rows(std::size_t, std::size_t) { return simd::panel_rows; }
std::size_t blas_block_floats(std::size_t) { return 0; }
void blas_multiply(const float*, std::size_t, std::size_t, ConstRows, Rows, std::size_t) noexcept {}

}  // namespace runnel

#endif
