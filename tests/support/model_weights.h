// A model file's weights as f32, to be changed and written to another file.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/io/gguf.h"
#include "lib/io/gguf_writer.h"
#include "lib/io/packed_file.h"
#include "quant/tensor_type.h"
#include "tests/support/require.h"

namespace runnel::test {

struct WeightTensor {
  std::array<std::uint64_t, 4> dims;
  std::uint32_t rank;
  std::vector<float> values;

  std::size_t n_cols() const { return dims[0]; }
  std::size_t n_rows() const { return values.size() / dims[0]; }  // of all matrices of a stack
  float* row(std::size_t r) { return values.data() + r * dims[0]; }
};

class ModelWeights {
 public:
  // A file of any type. Of a packed one the shapes are those of `original`.
  static ModelWeights read(const std::string& path, const ModelWeights* original = nullptr) {
    const auto file = require(GgufFile::open(path));
    ModelWeights result;
    for (const GgufTensor& t : file.tensors()) {
      const std::string name(t.name);
      if (has_packed(file, name))
        result.tensors[name] = unpack(file, name, original->tensors.at(name));
      else if (!has_packed(file, name.substr(0, name.rfind("_scales"))))
        result.tensors[name] = decode(t);
      result.order.push_back(name);
    }
    return result;
  }

  // With the metadata of the file `like`.
  void write(const std::string& path, const std::string& like) const {
    const auto file = require(GgufFile::open(like));
    auto writer = require(GgufWriter::create(path, {like}));
    for (const auto& [key, value] : file.metadata())
      if (key.substr(0, 7) != "runnel.") require(writer.add(key, value));
    const auto each = [&](const std::function<void(const std::string&, const WeightTensor&)>& use) {
      for (const std::string& name : order)
        if (const auto found = tensors.find(name); found != tensors.end()) use(name, found->second);
    };
    each([&](const std::string& name, const WeightTensor& t) {
      require(
          writer.add_tensor(name, quant::type_info(quant::TensorType::f32), std::span(t.dims).first(t.rank)));
    });
    each([&](const std::string&, const WeightTensor& t) {
      require(writer.write(std::as_bytes(std::span(t.values))));
    });
    require(writer.finish());
  }

  WeightTensor* find(const std::string& name) {
    const auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : &found->second;
  }

  std::map<std::string, WeightTensor> tensors;
  std::vector<std::string> order;  // of the file

 private:
  static WeightTensor decode(const GgufTensor& t) {
    WeightTensor result{t.dims, t.rank, {}};
    result.values.resize(t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3]);
    t.type->decode(result.values.data(), t.data, result.values.size());
    return result;
  }

  static WeightTensor unpack(const GgufFile& file, const std::string& name, const WeightTensor& original) {
    WeightTensor result = original;
    const std::size_t n_matrix = original.rank > 2 ? original.dims[2] : 0;
    const auto stack = require(find_packed(file, name, original.dims[1], original.dims[0], n_matrix));
    for (std::size_t r = 0; r < result.n_rows(); ++r)
      quant::decode_row_i8(result.row(r), stack.matrix(r / original.dims[1]), r % original.dims[1]);
    return result;
  }
};

}  // namespace runnel::test
