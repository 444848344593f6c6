#include "simd/cpu_features.h"

#include <atomic>
#include <cstring>

#include "simd/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace runnel::simd {
namespace {

#if defined(__x86_64__)

// Intel SDM volume 2A, CPUID; bits of the registers that leaves 1 and 7 give.
constexpr std::uint32_t leaf1_ecx_fma = 1u << 12, leaf1_ecx_osxsave = 1u << 27, leaf1_ecx_f16c = 1u << 29;
constexpr std::uint32_t leaf7_ebx_avx2 = 1u << 5;
constexpr std::uint32_t leaf7_ebx_avx512 =
    1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;  // F DQ CD BW VL
constexpr std::uint32_t leaf7_ecx_avx512vbmi = 1u << 1, leaf7_ecx_avx512vnni = 1u << 11;
constexpr std::uint32_t leaf7_edx_amx = 1u << 22 | 1u << 24 | 1u << 25;                   // BF16 TILE INT8
constexpr std::uint32_t leaf7_1_eax_avxvnni = 1u << 4, leaf7_1_eax_avx512bf16 = 1u << 5;  // of subleaf 1

// Registers that the OS saves (SDM volume 1, 13.3): a CPU feature without them must not be used.
constexpr std::uint32_t xcr0_ymm = 0x06, xcr0_zmm = 0xe6, xcr0_tiles = 0x60000;

// Whose the processor is, of those that have a row of kernels of their own. The vendor's name is what leaf 0
// gives. AMD's family 19h (AMD64 Architecture Programmer's Manual volume 3, E.3: what leaf 1 gives) is Zen 3
// and, with AVX-512, Zen 4.
std::uint32_t find_maker(std::uint32_t leaf1_eax) noexcept {
  std::uint32_t eax = 0;
  char name[13] = {};
  std::uint32_t ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return no_cpu_feature;
  std::memcpy(name, &ebx, 4);
  std::memcpy(name + 4, &edx, 4);
  std::memcpy(name + 8, &ecx, 4);
  if (std::strcmp(name, "GenuineIntel") == 0) return cpu_intel;
  const std::uint32_t family = (leaf1_eax >> 8 & 0xfu) + (leaf1_eax >> 20 & 0xffu);
  return std::strcmp(name, "AuthenticAMD") == 0 && family == 0x19 ? cpu_zen4 : no_cpu_feature;
}

std::uint32_t read_xcr0() noexcept {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// What the rows of kernels that are built need (simd/dispatch.cpp).
constexpr std::uint32_t needed_features = no_cpu_feature
#define RUNNEL_ISA_ROW(name, needs) | (needs)
#include "simd/isa_table.inc"
#undef RUNNEL_ISA_ROW
    ;

// Linux lets a process use the tile registers once it has asked for them (Documentation/arch/x86/xstate.rst).
// From then on it needs larger stacks for signals: nobody asks whose rows of kernels have no use for them.
bool os_grants_tiles() noexcept {
  if constexpr ((needed_features & cpu_amx) == 0) return false;
#if defined(__linux__)
  constexpr long arch_req_xcomp_perm = 0x1023, xfeature_xtiledata = 18;
  return syscall(SYS_arch_prctl, arch_req_xcomp_perm, xfeature_xtiledata) == 0;
#else
  return false;
#endif
}

std::uint32_t find_features() noexcept {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & leaf1_ecx_osxsave) == 0) return no_cpu_feature;
  const std::uint32_t xcr0 = read_xcr0();
  if ((xcr0 & xcr0_ymm) != xcr0_ymm) return no_cpu_feature;
  std::uint32_t features = find_maker(eax);
  if ((ecx & leaf1_ecx_fma) != 0) features |= cpu_fma;
  if ((ecx & leaf1_ecx_f16c) != 0) features |= cpu_f16c;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return features;
  if ((ebx & leaf7_ebx_avx2) != 0) features |= cpu_avx2;
  const bool os_saves_zmm = (xcr0 & xcr0_zmm) == xcr0_zmm;
  if (os_saves_zmm && (ebx & leaf7_ebx_avx512) == leaf7_ebx_avx512) features |= cpu_avx512;
  if (os_saves_zmm && (ecx & leaf7_ecx_avx512vnni) != 0) features |= cpu_avx512vnni;
  const bool os_saves_tiles = (xcr0 & xcr0_tiles) == xcr0_tiles;
  if (os_saves_tiles && (edx & leaf7_edx_amx) == leaf7_edx_amx && os_grants_tiles()) features |= cpu_amx;
  const bool has_vbmi = os_saves_zmm && (ecx & leaf7_ecx_avx512vbmi) != 0;
  const bool has_subleaf_1 = eax >= 1;
  if (has_subleaf_1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) {
    if ((eax & leaf7_1_eax_avxvnni) != 0) features |= cpu_avxvnni;
    if (has_vbmi && (eax & leaf7_1_eax_avx512bf16) != 0) features |= cpu_avx512bf16;
  }
  return features;
}

#elif defined(__aarch64__) && defined(__linux__)

// Bits of the auxiliary vector (Linux: Documentation/arch/arm64/elf_hwcaps.rst). NEON belongs to every 64-bit
// ARM.
std::uint32_t find_features() noexcept {
  constexpr unsigned long hwcap_asimddp = 1ul << 20, hwcap2_i8mm = 1ul << 13;
  std::uint32_t features = no_cpu_feature;
  if ((getauxval(AT_HWCAP) & hwcap_asimddp) != 0) features |= cpu_dotprod;
  if ((getauxval(AT_HWCAP2) & hwcap2_i8mm) != 0) features |= cpu_i8mm;
  return features;
}

#else

// Other CPUs and systems run the rows that need nothing.
std::uint32_t find_features() noexcept { return no_cpu_feature; }

#endif

}  // namespace

// By the first call, or by several at once, of which one counts. No static variable's initialisation: in the
// child of a fork() amid that it would wait for ever for the thread that began it.
std::uint32_t cpu_features() noexcept {
  constexpr std::uint32_t unknown = 0xffffffff;
  static std::atomic<std::uint32_t> known{unknown};
  std::uint32_t features = known.load(std::memory_order_relaxed);
  if (features != unknown) return features;
  const std::uint32_t found = find_features();
  return known.compare_exchange_strong(features, found, std::memory_order_relaxed) ? found : features;
}

}  // namespace runnel::simd
