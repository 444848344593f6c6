// For which kinds of matrices a model's products prepare their activations.
#include <gtest/gtest.h>

#include "lib/io/gguf_writer.h"
#include "quant/tensor_type.h"
#include "tests/stream/models.h"

namespace runnel::test {
namespace {

using quant::TensorType;

// Random weights in Q8_0, but the embedding in F16; without an output matrix it is that, too.
std::shared_ptr<const Model> with_embedding_in_f16(bool has_output, const Folder& folder) {
  const auto source =
      require(make_synthetic({tiny("llama", 2), &quant::type_info(TensorType::q8_0), 1, {}}, {}));
  const GgufFile& file = source->file();
  const quant::TypeInfo& f16 = quant::type_info(TensorType::f16);
  const auto is_embedding = [](const GgufTensor& t) { return t.name == "token_embd.weight"; };
  const auto is_left_out = [&](const GgufTensor& t) { return t.name == "output.weight" && !has_output; };
  const std::string path = folder.file(has_output ? "untied" : "tied");
  auto writer = require(GgufWriter::create(path, {}));
  for (const auto& [key, value] : file.metadata()) require(writer.add(key, value));
  for (const GgufTensor& t : file.tensors())
    if (!is_left_out(t))
      require(writer.add_tensor(t.name, is_embedding(t) ? f16 : *t.type, std::span(t.dims).first(t.rank)));
  for (const GgufTensor& t : file.tensors()) {
    if (is_left_out(t)) continue;
    const std::vector<std::byte> embedding(t.n_elements() * sizeof(std::uint16_t));  // zeros
    require(writer.write(is_embedding(t) ? std::span(embedding) : std::span(t.data, t.n_bytes)));
  }
  require(writer.finish());
  return open_file(path);
}

TEST(WeightKinds, are_of_the_matrices_that_are_multiplied) {
  const Folder folder;
  const auto untied = with_embedding_in_f16(true, folder), tied = with_embedding_in_f16(false, folder);
  EXPECT_TRUE(untied->weight_kinds().q8_0);
  EXPECT_FALSE(untied->weight_kinds().halves);
  EXPECT_TRUE(tied->weight_kinds().q8_0);
  EXPECT_TRUE(tied->weight_kinds().halves);
}

}  // namespace
}  // namespace runnel::test
