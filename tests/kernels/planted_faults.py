#!/usr/bin/env python3
"""Shows that the kernel checks catch faults: plants one at a time in a copy of the sources, builds the kernels it is
in and their checks, and expects the check named with it to fail. Takes some seconds for each.

    tests/kernels/planted_faults.py [PART OF A NAME...]
    tests/kernels/planted_faults.py --check    builds nothing: looks whether what each fault replaces is still there

ARM rows run in an emulator (g++-aarch64-linux-gnu, qemu-user); those of x86 need a CPU that has them and are passed
over where it has not. Exit status 1: a fault was not caught, or cannot be planted.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
AVX512 = "-mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mavx2 -mfma -mf16c"
AVX512VNNI = AVX512 + " -mavx512vnni"
X86 = {
    "avx2": "-mavx2 -mfma -mf16c",
    "avxvnni": "-mavx2 -mfma -mf16c -mavxvnni",
    "avx512": AVX512,
    "amx": AVX512VNNI + " -mavx512vbmi -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16",
    "avx512vnni": AVX512VNNI,
    "avx512intel": AVX512VNNI,
    "zen4": AVX512VNNI,
}
ARM = {"neon": "", "dotprod": "-march=armv8.2-a+dotprod", "i8mm": "-march=armv8.2-a+dotprod+i8mm"}

# rows, file, what stands there, what is planted, the check that has to fail
FAULTS = [
    ("avx2 avxvnni avx512vnni", "simd/int8/tile_product.h", "fmadd(dots, tile.x_scale(t, b), part[t][p][v])",
     "dots * tile.x_scale(t, b) + part[t][p][v]", "matmul_i8"),  # rounded twice
    ("avx2 avx512vnni dotprod", "simd/int8/tile_product.h", "tile.x_group_base(t, begin)", "tile.x_group_base(0, begin)",
     "matmul_i8"),  # of another token
    ("avxvnni avx512intel neon", "simd/int8/tile_product.h", "tile.x_base(t, b)", "tile.x_base(0, b)", "matmul_i8"),
    ("avx2 avx512vnni neon", "simd/int8/tile_product.h", "begin / WideGroups::blocks)", "begin / WideGroups::blocks / 2)",
     "matmul_i8"),  # scales of another group
    ("avx2 avx512vnni dotprod", "simd/int8/tile_product.h", "if (end_whole < end) add(end_whole, tile.last_steps());", "", "matmul_i8"),
    ("avx2 avx512vnni i8mm", "simd/int8/tile_product.h", "i < n_carried; ++i", "i + 1 < n_carried; ++i", "matmul_i8"),
    ("avx512vnni neon", "simd/int8/tile_product.h", "index % quant::i8_step_cols)", "0)", "matmul_i8"),  # another column
    ("avx2 avx512vnni", "simd/tiles.h", "std::copy_n(copy[t], n_rows,", "std::copy_n(copy[t], whole,", "matmul_i8"),
    ("avx512vnni", "simd/int8/matmul.h", "whole ? part.shape.panel_codes() : 0", "part.shape.panel_codes()", "matmul_i8"),
    ("avxvnni avx512vnni", "simd/int8/dot_vnni.h", "block.offset(t)", "0", "matmul_i8"),
    ("avxvnni avx512vnni", "simd/int8/dot_vnni.h", "0x80808080u", "0x7f7f7f7fu", "matmul_i8"),
    ("avx512intel", "simd/int8/dot_raised.h", "I32(quant::i8_base_bits) - I32(sum)", "I32(quant::i8_base_bits) + I32(sum)", "matmul_i8"),
    ("avx512intel", "simd/int8/dot_raised.h", "block.start(p, v)", "block.start(0, v)", "matmul_i8"),  # of another panel
    ("avx512intel", "simd/int8/tile_product.h", "starts + (b - stretch.begin) * panel_rows", "starts", "matmul_i8"),
    ("avx512intel", "simd/int8/tile_product.h", "find_block(tile, end_whole, tile.last_steps());", ";", "matmul_i8"),
    ("avx512intel", "simd/int8/dot_raised.h", "end_group(t, b / n_blocks - 1)", "end_group(t, b / n_blocks)",
     "matmul_i8"),  # by the scale of the group that begins
    ("avx512intel", "simd/int8/dot_raised.h", "fill_token<n_panels>(part[t], tile.x_group_base(t, b));", ";", "matmul_i8"),
    ("avx512intel", "simd/int8/dot_raised.h", "end_group(t, end / n_blocks - 1)", "end_group(t, begin / n_blocks)",
     "matmul_i8"),
    ("avx512intel", "simd/int8/dot_raised.h", "return end;", "return begin + n_blocks;",
     "matmul_i8"),  # the rest begins too early
    ("avx512intel", "simd/isa/avx512intel.cpp", "if (x.raised)", "if (n_tok >= least_raised())", "least_raised_i8"),
    ("avx2 avx512 neon", "simd/int8/quantize.h", "quant::i8_block, out.zero(), quant::i8_block", "quant::i8_block, 0, quant::i8_block",
     "quantize_i8"),
    ("avx512", "simd/int8/vocabulary.h", "low ^ I32(flip)", "low", "quantize_i8"),
    ("avx2", "simd/int8/vocabulary.h", "_mm256_set1_epi8(flip)", "_mm256_setzero_si256()", "quantize_i8"),
    ("neon", "simd/int8/vocabulary.h", "veor_s8(bytes, vdup_n_s8(flip))", "bytes", "quantize_i8"),
    ("avx2 avx512", "simd/int8/split.h", "_mm256_min_epu8(x, opposite)", "x", "quantize_i8"),
    ("avx2 avx512", "simd/int8/split.h", "_mm256_max_epi8(opposite, zeros)", "opposite", "quantize_i8"),
    ("neon", "simd/int8/split.h", "(code ^ sign) - sign", "code ^ sign", "quantize_i8"),
    ("avx2", "simd/int8/dot_avx2.h", "_mm256_maddubs_epi16(magnitudes, w)",
     "_mm256_maddubs_epi16(magnitudes, _mm256_max_epi8(w, _mm256_set1_epi8(-127)))", "matmul_i8"),  # a weight of -128, or 127 turned into it
    ("avx2", "simd/int8/dot_avx2.h", "block.signs_from(t, step)", "block.signs_from(0, step)", "matmul_i8"),
    ("avx512 zen4 avx2 neon dotprod", "simd/int8/matvec_q8_0.h", "begin != 0)", "false)", "matvec_q8_0"),  # of a long row only the end
    ("avx2 dotprod", "simd/int8/matvec_q8_0.h", "x + begin * quant::BlockQ8_0::size", "x", "matvec_q8_0"),
    ("avx512 avx2 neon dotprod", "simd/int8/matvec_q8_0.h", "if (b < n_blocks) add_block(b, 0);", "", "matvec_q8_0"),
    ("avx512", "simd/int8/inputs_of_i16.h", "_mm512_load_si512(numbers_)", "_mm512_slli_epi16(_mm512_load_si512(numbers_), 1)",
     "matvec_q8_0"),
    ("zen4", "simd/int8/matvec_q8_0_fours.h", "(low, weights(16), numbers(16))", "(low, weights(16), numbers(0))", "matvec_q8_0"),
    ("avx2", "simd/int8/matvec_q8_0_fours.h", "(weights(16), numbers(16)))", "(weights(0), numbers(16)))", "matvec_q8_0"),
    ("avx2", "simd/int8/matvec_q8_0_fours.h", "_mm256_unpackhi_epi64(ab, cd)", "_mm256_unpacklo_epi64(ab, cd)", "matvec_q8_0"),
    ("zen4", "simd/int8/matvec_q8_0_fours.h", "blocks[std::min(4 * f + r, n_rows - 1)]", "blocks[std::min(r, n_rows - 1)]",
     "matvec_q8_0"),  # of eight rows the first four twice
    ("zen4 avx2", "simd/matvec_rows.h", "rows(done + r, far, n)", "rows(r, far, n)", "matvec_q8_0"),
    ("avx2 neon", "simd/float/matvec.h", "sums[0][t][r] + sums[1][t][r]", "sums[0][t][r]", "matmul_few_f32"),
    ("avx2 zen4 neon", "simd/float/matvec.h", "fmadd(weights, inputs[t],", "fmadd(weights, inputs[0],", "matmul_few_f16"),
    ("avx2 zen4 neon", "simd/float/matvec.h", "add(c, sums_of_row - 1,", "if (n > 1) add(c, sums_of_row - 1,",
     "matmul_few_bf16"),  # one last input of several tokens
    ("neon", "simd/int8/inputs_of_i16.h", "vmlal_high_s16(odd, wide, x)", "vmlal_high_s16(even, wide, x)", "matvec_q8_0"),
    ("dotprod", "simd/int8/inputs_of_bytes.h", "load_i32(blocks[r]->qs + j)", "load_i32(blocks[r]->qs)", "matvec_q8_0"),
    ("dotprod", "simd/int8/inputs_of_bytes.h", "vshlq_n_s32(dots[r], 8)", "dots[r]", "matvec_q8_0"),
    ("neon", "simd/int8/dot_neon.h", "vmlal_high_s8(high, w1, x1)", "high", "matmul_i8"),
    ("neon", "simd/int8/dot_neon.h", "vpaddq_s32(sums[t][v][0], sums[t][v][1])",
     "vpaddq_s32(sums[t][v][1], sums[t][v][0])", "matmul_i8"),
    ("amx", "simd/int8/dot_amx.h", "_tile_dpbssd(1, 6, 7);", "_tile_dpbssd(1, 4, 7);", "matmul_i8"),  # another block's inputs
    ("amx", "simd/int8/dot_amx.h", "    zero_tile<i>();\n", "", "matmul_i8"),  # an older sum goes on
    ("amx", "simd/int8/dot_amx.h", "add<1>(dots[1], tile, b - 3);\n      multiply", "add<1>(dots[1], tile, b - 2);\n      multiply",
     "matmul_i8"),  # another block's scales
    ("amx", "simd/int8/dot_amx.h", "      store_dots<0>(dots);\n", "", "matmul_i8"),  # those of four blocks before
    ("amx", "simd/int8/dot_amx.h", "    store_dots<3>(dots);\n    outputs", "    outputs", "matmul_i8"),  # only at the end
    ("amx", "simd/int8/dot_amx.h", "i == 0 ? tile.x_group_base(t, b)", "i == 0 ? F32(0.0f)", "matmul_i8"),
    ("amx", "simd/int8/dot_amx.h", "fmadd(of_group_[t], w_scale, load(all_[t]))", "of_group_[t] * w_scale + load(all_[t])",
     "matmul_i8"),
    ("amx", "simd/int8/widen_bf16.h", "b / Groups::blocks * panel_rows", "0", "matmul_bf16"),  # scales of another group
    ("amx", "simd/int8/widen_bf16.h", "at < std::size(to); ++at)", "at < 2 * n_steps; ++at)", "matmul_bf16"),
    ("amx", "simd/int8/widen_bf16.h", "std::min(r, last)", "r", "matmul_bf16_q8_0"),  # past the last row
    ("amx", "simd/int8/matmul_bf16.h", "portion.stretch.begin != 0", "false", "matmul_bf16"),  # only the last stretch
    ("amx", "simd/int8/matmul_bf16.h", "y_stride_, n, portion", "y_stride_, quant::i8_chunk, portion", "matmul_bf16"),  # past the last token
    ("amx", "simd/int8/matmul_bf16.h", "    moving_.move(quant::i8_chunk);\n", "", "matmul_bf16"),  # all but the last chunk
    ("amx", "simd/int8/matmul_bf16.h", "n_chunks_ * n_blocks, moving_", "2 * n_chunks_ * n_blocks, moving_", "matmul_bf16_q8_0"),
    ("amx", "simd/int8/matmul_bf16.h", "x.first + n_tok, x.width", "n_tok, x.width", "matmul_bf16"),  # too few chunks
    ("amx", "simd/int8/matmul_bf16.h", "add_products_bf16<bf16_panels * t + 1>()", "add_products_bf16<bf16_panels * t>()",
     "matmul_bf16"),
    ("amx", "simd/int8/round_bf16.h", "std::fill_n(to.block(b), quant::i8_block, not_a_number);", ";", "matmul_bf16"),
    ("amx", "simd/int8/round_bf16.h", "block_size(out.n_cols, n_full)", "quant::i8_block", "round_bf16"),
    ("amx", "simd/int8/attention_amx.h", "high_bytes(some)", "some >> 8", "scores_i8"),
    ("amx", "simd/int8/attention_amx.h", "_tile_loadd(7, q.from(n_whole * tile_rows),", "_tile_loadd(7, q.from(0),", "scores_i8"),
    ("amx", "simd/int8/attention_amx.h", "(sums, n_whole > 0, p,", "(sums, false, p,", "mix_i8"),  # only what is left
    ("amx", "simd/int8/attention_amx.h", "_tile_loadd(6, p.from(step),", "_tile_loadd(6, p.from(first),", "mix_i8"),
    ("avx2 avx512vnni amx", "simd/int8/tile_product.h", "if (tile.is_first()) {", "if (true) {", "matmul_i8"),  # stretches
    ("avx2 avx512vnni amx", "simd/int8/tile_product.h", "if (!tile.is_last()) return;", "", "matmul_i8"),
    ("avx512vnni", "simd/tiles.h", "if (!is_whole && !is_first) {", "if (false) {", "matmul_i8"),
    ("avx2 avx512vnni zen4 dotprod", "simd/int8/matmul.h", "(y + i * panel_rows, y_stride, tile, n_tok,", "(y, y_stride, tile, n_tok,",
     "matmul_i8"),  # a few tokens
    ("avx2 avx512vnni", "simd/int8/matmul.h", ".y_panel_stride = n_each * panel_rows", ".y_panel_stride = panel_rows",
     "matmul_i8"),
    ("dotprod", "simd/int8/dot_dotprod.h", "vdotq_laneq_s32(sums[t][v], w, x[t]", "vdotq_laneq_s32(sums[0][v], w, x[t]",
     "matmul_i8"),
    ("dotprod i8mm", "simd/int8/dot_dotprod.h", "integral_constant<int, 3>", "integral_constant<int, 2>", "matmul_i8"),
    ("i8mm", "simd/isa/i8mm.cpp", "s < n_steps ?", "true ?", "matmul_i8"),  # reads what is not there
    ("i8mm", "simd/isa/i8mm.cpp", "if (!is_first)", "if (false)", "matmul_i8"),  # what earlier stretches added up
    ("i8mm", "simd/isa/i8mm.cpp", "if (is_last) add_carried", "add_carried", "matmul_i8"),  # once for each stretch
    ("i8mm", "simd/isa/i8mm.cpp", "begin * x.width", "begin * quant::i8_chunk", "matmul_i8"),
    ("i8mm", "simd/isa/i8mm.cpp", "+ begin / Groups::blocks * panel_rows", "", "matmul_i8"),  # the first stretch's scales
    ("i8mm", "simd/isa/i8mm.cpp", "[1] = vzip2q_f32(four, four)", "[1] = vzip1q_f32(four, four)", "matmul_i8"),
    ("dotprod i8mm", "simd/int8/sums_arm.h", "{quant::i8_base_bits, quant::i8_base_bits", "{0, quant::i8_base_bits",
     "matmul_i8"),  # of one row in four
    ("neon", "simd/int8/sums_arm.h", "{quant::i8_base_bits, 0,", "{0, 0,", "matmul_i8"),
    ("i8mm", "simd/isa/i8mm.cpp", "x.group_bases += skipped;", "", "matmul_i8"),
    ("i8mm", "simd/isa/i8mm.cpp", "x.bases += skipped;", "", "matmul_i8"),
    ("avx2 avx512 neon", "simd/int8/quantize.h", "sum += out.bases", "sum -= out.bases", "quantize_i8"),
    ("avx2 avx512 neon", "simd/int8/quantize.h", "quant::i8_scale(quotient)", "quotient", "quantize_i8"),
    ("avx2 avx512 neon", "simd/int8/quantize.h", "quant::i8_beyond", "infinity", "quantize_i8"),
    ("avx2 avx512 neon", "simd/int8/quantize.h", "n_full && !has_carried", "n_full", "quantize_i8"),
    ("avx2 avx512 neon", "simd/int8/quantize.h", "below = (n - 1) / 2", "below = n / 2", "quantize_i8"),  # the upper median
    ("avx2 avx512 neon", "simd/int8/quantize.h", "return largest_up_to(m, n, std::bit_cast<float>(middle));",
     "return std::bit_cast<float>(middle);", "quantize_i8"),  # what lies between it and the next
    ("avx2 avx512 neon", "simd/int8/quantize.h", "max < quant::i8_least_max", "max <= 0.0f", "quantize_i8"),
    ("avx2 avx512 neon", "simd/int8/quantize.h", "if (!find_maxima(out.maxima, x, out.n_cols)) return poison(out);",
     "find_maxima(out.maxima, x, out.n_cols);", "quantize_i8"),
    ("avx2 avx512 neon", "simd/int8/quantize.h", "magnitude(entries_[i]) <= magnitude", "magnitude(entries_[i]) < magnitude",
     "quantize_i8"),  # of equals another one is dropped
    ("avx2 avx512 neon", "simd/int8/quantize.h", "-128 * sum", "128 * sum", "quantize_i8"),
    ("avx512", "simd/int8/squares.h", "lanes == square_side ? 0 : square_side", "0", "pack_q8_0"),  # the same eight rows twice
    ("avx2 neon", "simd/int8/pack.h", "pack_square(codes + r * quant::i8_step_cols", "pack_square(codes", "pack_q8_0"),
    ("neon", "simd/int8/pack.h", "step += square_side", "step += block_steps", "pack_q8_0"),
    ("avx2 avx512 neon", "simd/int8/pack.h", "scales[r] = w[r * n_blocks].d", "scales[r] = w[r].d", "pack_q8_0"),
    ("avx2 avx512 neon", "simd/int8/pack.h", "r < n_rows ? w[r * n_blocks + b] : BlockQ8_0{}", "w[b]", "pack_q8_0"),
    ("avx2 avx512 neon", "simd/attention_tiles.h", "few < n / together", "few + 1 < n / together", "scores_f16"),
    ("neon", "simd/attention_tiles.h", "for (size_t i = n / together * together; i < n; ++i) one(i);", "", "mix_i8"),
    ("neon", "simd/int8/cached.h", "load(k_scales + j)", "load(k_scales)", "scores_i8"),
    ("avx512 neon", "simd/attention_tiles.h", "} else if (d < dim) {", "} else if (false) {", "mix_f32"),
    ("avx2 avxvnni avx512 avx512vnni dotprod", "simd/int8/attention_dots.h", "load(k_scales + j)", "load(k_scales)",
     "scores_i8"),
    ("avx2 avxvnni avx512 avx512vnni dotprod", "simd/int8/attention_dots.h", "if (d < dim)", "if (false)", "mix_i8"),
    ("avx2 avx512vnni dotprod", "simd/int8/attention_dots.h", "v + j * dim, n, dim", "v, n, dim", "mix_i8"),  # beyond 256
    ("avx2 dotprod", "simd/int8/attention_dots.h", "rows + first, n_steps", "rows, n_steps", "scores_i8"),
    ("avxvnni avx512vnni", "simd/int8/factors_of_bytes.h", "-added_to_bytes * sum", "0", "mix_i8"),
    ("avxvnni avx512vnni", "simd/int8/factors_of_bytes.h", "add(step + part, part)", "add(step, part)", "scores_i8"),
    ("avxvnni avx512vnni", "simd/int8/factors_of_bytes.h", "step < n_steps; ++step) add(step, 0)", "false;) add(step, 0)", "scores_i8"),
    ("avx512vnni", "simd/int8/attention_dots.h", "d += wide)", "d += block_keys)", "mix_i8"),
    ("avxvnni avx512vnni dotprod", "simd/int8/make_factors.h", "(factors + 128) >> 8", "factors >> 8", "mix_i8"),
    ("avxvnni avx512vnni dotprod", "simd/int8/make_factors.h", "round(load_n(x + j, n - j))", "round(load_n(x + j, n - j, 1.0f))", "scores_i8"),
    ("dotprod", "simd/int8/factors_of_bytes.h", "vreinterpretq_s8_s32(a), b, 0)", "vreinterpretq_s8_s32(a), b, 1)", "mix_i8"),
    ("i8mm", "simd/int8/factors_of_eights.h", "2 * (j - j % side) + j % side", "2 * j", "scores_i8"),
    ("i8mm", "simd/int8/factors_of_eights.h", "line(step + 1)", "line(step)", "mix_i8"),
    ("i8mm", "simd/int8/factors_of_eights.h", "if (step < n_steps) add", "if (false) add", "scores_i8"),
    ("i8mm", "simd/int8/factors_of_eights.h", "vshlq_n_s32(high_low.val[0], 8)", "high_low.val[0]", "mix_i8"),
    ("avx2 avx512", "simd/int8/make_factors.h", "round(load_n(x + j, n - j))", "round(load_n(x + j, n - j, 1.0f))", "mix_i8"),
    ("avx2 avx512 dotprod", "simd/int8/make_factors.h", "largest = xsimd::max(largest, bits(load_n(x + j, n - j)))", "(void)0", "mix_i8"),
    ("avxvnni", "simd/int8/vocabulary.h", "_mm256_set1_epi32(0x0c080400)", "_mm256_set1_epi32(0x0c040800)", "mix_i8"),
    ("avx2", "simd/int8/factors_of_i16.h", "0xd8", "0xe4", "mix_i8"),  # the order of the dots
    ("avx512", "simd/int8/factors_of_i16.h", "_mm512_permutex2var_epi32(a, odd, b)", "_mm512_permutex2var_epi32(a, even, b)",
     "mix_i8"),
    ("dotprod", "simd/int8/scaling.h", "max < quant::i8_least_max", "false", "scores_i8"),  # zeros elsewhere too, by chance
    ("avx2 avx512 neon", "simd/float/exp.h", "F32(-87.5f)", "F32(-88.5f)", "softmax_step"),  # the exponent wraps
    ("avx2 avx512 neon", "simd/float/softmax.h", "max[0] = xsimd::max(max[0], max[v]);", "(void)v;", "softmax_step"),
    ("avx2 avx512 neon", "simd/float/softmax.h", "total += e[v];", "total += e[0];", "softmax_step"),
    ("avx2 avx512 neon", "simd/float/elementwise.h", "load(up + at)", "load(up + i)", "silu_mul"),
    ("avx2 avx512 neon", "simd/float/abreast.h", "i + step <= n; i += step", "i < n; i += step", "gelu"),
    ("avx2 avx512 neon", "simd/float/matmul.h", "x + c, x_stride, n_tok, block", "x, x_stride, n_tok, block", "matmul_panels"),
    ("avx2 avx512 neon", "simd/float/matmul.h", "n_cols, rows + t * x_row)", "n_cols, rows)", "matmul_panels"),
    ("avx2 avx512 neon", "simd/float/matmul.h", "adds || c != 0", "adds", "matmul_panels"),  # of the last columns alone
    ("avx512", "simd/float/matmul.h", "adds && t < n_tok", "t < 0", "matmul_panels"),
    ("avx2 avx512 neon", "simd/float/matmul.h", "    y += n_tok * y_stride;\n", "", "matmul_panels"),  # tokens past the first tile
    ("avx2 neon", "simd/float/pack.h", "n_rows - std::min(n_rows, r)", "n_rows", "pack_panel_f32"),
    ("avx2 avx512 neon", "simd/float/pack.h", "c < n; ++c)", "c < lanes; ++c)", "pack_panel_f16"),
    ("avx2 avx512 neon", "simd/vec.h", "? lanes + i : i + square", "? lanes + i : i", "pack_panel_bf16"),
    ("avx512", "simd/float/matmul.h", "std::copy_n(tile + t * panel_rows, n_rows,", "std::copy_n(tile + t * panel_rows, panel_rows,",
     "matmul_panels"),
    ("avx2 avx512vnni", "simd/int16/matmul.h", "fmadd(to_float(I32((I16)dots[t][v])), scale, sums[t][v])",
     "to_float(I32((I16)dots[t][v])) * scale + sums[t][v]", "matmul_i16"),  # rounded twice
    ("avx2 avx512vnni", "simd/int16/matmul.h", "n_rows, !adds,", "n_rows, true,", "matmul_i16"),
    ("avx2 avx512", "simd/int16/matmul.h", "v % panel_vecs, begin / group_blocks)", "v % panel_vecs, 0)", "matmul_i16"),
    ("avxvnni avx512vnni", "simd/int16/matmul.h", "tile.w.shape.n_cols) continue;", "tile.x.n_cols) continue;", "matmul_i16"),
    ("avx2 avx512vnni", "simd/int16/matmul.h", "(two << 16) >> 16 : two >> 16", "two >> 16 : (two << 16) >> 16", "matmul_i16"),
    ("avx2 avx512vnni", "simd/int16/matmul.h", "const size_t place = x.place(first_block + b) + t;", "const size_t place = x.place(b) + t;",
     "matmul_i16"),  # other columns
    ("avx512vnni", "simd/int16/matmul.h", "whole ? panels.shape.panel_codes() : 0", "panels.shape.panel_codes()", "matmul_i16"),
    ("avx2 avx512", "simd/int16/matmul.h", "add_pairs(dots[t][v], w[v], x)", "add_pairs(PairSums{}, w[v], x)", "matmul_i16"),
    ("avx2 avx512", "simd/int16/pack.h", "(i % 4 < 2 ? 0 : lanes / 2) + i / 4 * 2 + i % 2", "i", "pack_i16_f16"),
    ("avx2 avx512", "simd/int16/pack.h", "I32(0x7fff7fff)", "I32(-1)", "pack_i16_bf16"),  # of the negative ones
    ("avx2 avx512", "simd/int16/pack.h", "xsimd::max(two & I32(0xffff), two >> 16)", "two & I32(0xffff)", "pack_i16_f16"),
    ("avx2 avx512", "simd/int16/pack.h", "merged_maxima<2 * square>", "merged_maxima<square>", "pack_i16_f16"),
    ("avx2 avx512", "simd/int16/pack.h", "if (n_full == n_cols()) return max;", "return max;", "pack_i16_f16"),
    ("avx2 avx512", "simd/int16/pack.h", "inverses[r] == 0.0f", "false", "pack_i16_f16"),  # numbers that are not finite
    ("avx2 avx512", "simd/int16/pack.h", "row >= n_rows() || col >= n_cols()", "row >= n_rows()", "pack_i16_f16"),
    ("avx2 avx512", "simd/int16/pack.h", "least = smaller(least, sums[i]);", "least = sums[i];", "pack_i16_f16"),
    ("avx2 avx512", "simd/int16/pack.h", "sums = add_magnitudes(sums, rounded);", "sums = rounded;", "pack_i16_bf16"),
    ("avx2 avx512", "simd/int16/pack.h", "error_is_small(numbers) && no_weights_are_lost(numbers)", "error_is_small(numbers)", "pack_i16_f16"),
    ("avx2 avx512", "simd/int16/pack.h", "2 * step_of_pair(in_pair / 2) + in_pair % 2", "in_pair", "pack_i16_bf16"),
    ("avx2", "simd/i16.h", "_mm256_abs_epi16(b)", "b", "pack_i16_f16"),
    ("avx512", "simd/i16.h", "_mm512_abs_epi16(b)", "b", "pack_i16_f16"),
    ("avx2 avx512", "simd/int16/pack.h", "is_precise && is_group_precise", "is_group_precise", "pack_i16_f16"),
    ("avx2 avx512", "simd/int16/quantize.h", "quant::i16_carry_ratio", "quant::i8_carry_ratio", "quantize_i16"),
    ("avx2 avx512", "simd/int16/quantize.h", "quant::i16_block * sizeof *out.codes", "quant::i16_block", "quantize_i16"),
    ("avx512", "simd/int8/quantize_vector.h", "if (++n_ < side_) return;", "if (false) return;", "quantize_vector"),
    ("avx2", "simd/int8/quantize_vector.h", "SpreadCodes out(y, side, y_stride);",
     "SpreadCodes out(y, side, y_stride);\n  if (n > 0) y[-1] = 0;", "quantize_vector"),  # before the first
]


def compiler(row):
    arm = row in ARM
    flags = ["-Dxsimd=xsimd_" + row, "-ffp-contract=off", "-fno-math-errno", "-w"]
    return ["aarch64-linux-gnu-g++" if arm else "g++", "-std=c++20", *flags, *(ARM if arm else X86)[row].split()]


def has(row):
    if row in ARM:
        return all(shutil.which(program) for program in ("aarch64-linux-gnu-g++", "qemu-aarch64"))
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    return {"avx2": "avx2", "avxvnni": "avx_vnni", "avx512": "avx512bw", "avx512vnni": "avx512_vnni",
            "avx512intel": "avx512_vnni", "zen4": "avx512_vnni", "amx": "amx_int8"}[row] in flags


class Checks:
    """The checks of one row, built once; the row itself is built anew for each fault."""

    def __init__(self, row, folder):
        self.row, self.folder = row, folder
        (folder / "simd").mkdir(parents=True)
        needs = "cpu_amx" if row == "amx" else "no_cpu_feature"  # Linux gives tiles to those who ask for them
        (folder / "simd/isa_table.inc").write_text(f"RUNNEL_ISA_ROW({row}, {needs})\nRUNNEL_ISA_ROW(scalar, no_cpu_feature)\n")
        sources = [*(ROOT / "tests/kernels").glob("check_*.cpp"), ROOT / "tests/kernels/kcheck.cpp",
                   ROOT / "simd/cpu_features.cpp", ROOT / "simd/dispatch.cpp", ROOT / "simd/isa/scalar.cpp"]
        self.objects = [self.compile(source, ROOT, "-O1", base=True) for source in sources]
        if failed := self.failed(ROOT):  # or a crash for another reason would pass for a fault that is caught
            sys.exit(f"{row}: {', '.join(sorted(set(failed)))} fails without any fault")

    def compile(self, source, root, optimise, base=False):
        command = compiler(self.row)
        if base:  # the checks and the reference, for any CPU
            command = [part for part in command if not part.startswith(("-m", "-Dxsimd"))]
            if source.name == "scalar.cpp":
                command.append("-Dxsimd=xsimd_scalar")
        out = self.folder / (source.stem + ".o")
        subprocess.run([*command, optimise, f"-I{root}", f"-I{self.folder}", "-c", str(source), "-o", str(out)], check=True)
        return str(out)

    def failed(self, root):
        """The names of the checks that fail with the row as it is under root; a crash counts as all."""
        row = self.compile(root / f"simd/isa/{self.row}.cpp", root, "-O2")
        program = str(self.folder / "kcheck")
        subprocess.run([compiler(self.row)[0], "-static", *self.objects, row, "-o", program], check=True)
        run = ["qemu-aarch64", "-cpu", "max", program] if self.row in ARM else [program]
        done = subprocess.run([*run, self.row], capture_output=True, text=True)
        names = [line.split()[0] for line in done.stdout.splitlines() if line.endswith("FAIL")]
        return names if done.returncode in (0, 1) else [fault[4] for fault in FAULTS]


def complaint(root, file, old):
    """Why a fault cannot be planted; empty where it can."""
    path = root / file
    n_found = path.read_text().count(old) if path.exists() else 0
    return "" if n_found == 1 else f"{file}: {old!r} is there {n_found} times, not once: this list is out of date"


def plant(root, file, old, new):
    if text := complaint(root, file, old):
        sys.exit(text)
    path = root / file
    path.write_text(path.read_text().replace(old, new))


def check_list():
    complaints = [text for _, file, old, _, _ in FAULTS if (text := complaint(ROOT, file, old))]
    print("\n".join(complaints) or f"{len(FAULTS)} faults can be planted")
    return 1 if complaints else 0


def main():
    wanted = sys.argv[1:]
    if wanted == ["--check"]:
        return check_list()
    missed, caught = 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        checks = {}
        for number, (rows, file, old, new, check) in enumerate(FAULTS):
            for row in rows.split():
                label = f"{row}: {file}: {old} -> {new}"
                if wanted and not any(part in label for part in wanted):
                    continue
                if not has(row):
                    print("passed over  " + label)
                    continue
                if row not in checks:
                    checks[row] = Checks(row, folder / row)
                root = folder / f"fault{number}{row}"
                for part in ("simd", "quant"):
                    shutil.copytree(ROOT / part, root / part)
                plant(root, file, old, new)
                failed = checks[row].failed(root)
                shutil.rmtree(root)
                good = check in failed
                caught, missed = caught + good, missed + (not good)
                print(("caught       " if good else "NOT CAUGHT   ") + label, flush=True)
    print(f"{caught} caught, {missed} not")
    return 1 if missed or not caught else 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
