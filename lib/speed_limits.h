// What the machine can do at best, measured; and what one token asks of it at the least. Speed is to be held
// against the quotient.
#pragma once
#include <cstdint>

#include "lib/model.h"
#include "lib/result.h"
#include "lib/settings.h"

namespace runnel {

// Both take up to two seconds, with a large model to read several, and give the best of many passes, on
// the threads and with the kernels of `settings`.

// Bytes a second at which the model's weights can be read, in the best of several orders.
Result<double> measure_read(const Model& model, const Settings& settings);

// Multiply-adds a second, in registers alone.
Result<double> measure_peak(Arithmetic arithmetic, const Settings& settings);

// Bytes of weights that a token needs: all but the embedding's other rows and the experts it is not sent to.
std::uint64_t decode_bytes(const Model& model);

// That of most weights with a prompt of many tokens.
Result<Arithmetic> prompt_arithmetic(const Model& model, const Settings& settings);

// Multiply-adds of the weight matrices with one token of a prompt, for whose logits nobody asks.
std::uint64_t prompt_multiply_adds(const Model& model);

}  // namespace runnel
