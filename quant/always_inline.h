// What functions in the headers of kernels need: one that is shared between files compiled for different
// instruction sets could run where its instructions do not exist.
#pragma once

#define RUNNEL_ALWAYS_INLINE [[gnu::always_inline]] constexpr
