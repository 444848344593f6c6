// What Zen 4 does with AVX-512 VNNI in another way: its own prefetchers bring lines sooner than instructions
// that do so far ahead, into the L1 cache, which has few buffers for lines in flight, but for the first lines
// of a page, which they leave to others (tests/bench/experiments.md). The same bits as avx512vnni, and of
// Q8_0 rows as avx2.
#include "simd/float/matvec.h"
#include "simd/int8/dot_vnni.h"
#include "simd/int8/matmul.h"
#include "simd/int8/matvec_q8_0_fours.h"

namespace runnel::simd {
namespace {

struct Dot : DotVnni<2, 6> {
  static constexpr size_t decode_page_lines = 8;
  static constexpr Cache streams_few_to = Cache::l2;
  static constexpr CacheUse cache_use = {.stretch_blocks = 192, .pass_bytes = 576 * 1024};  // of 1 MB
};

}  // namespace

extern const Kernels kernels_zen4;
const Kernels kernels_zen4{.matmul_few_f32 = matmul_few<AsF32, 0>,
                           .matmul_few_f16 = matmul_few_wide<AsF16>,
                           .matmul_few_bf16 = matmul_few_wide<AsBf16>,
                           .matvec_q8_0 = matvec_q8_0_fours,
                           .reads_split_i8 = reads_split_i8<Dot>,
                           .least_raised_i8 = never_raised,
                           .matmul_i8 = matmul_i8<Dot>};

}  // namespace runnel::simd
