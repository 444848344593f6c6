#include "lib/quantize/layer_factors.h"

#include <algorithm>
#include <initializer_list>

#include "lib/quantize/balance.h"

namespace runnel {
namespace {

bool reads_one_of(const PlannedTensor& tensor, std::initializer_list<Site> sites) {
  return tensor.reads && std::find(sites.begin(), sites.end(), *tensor.reads) != sites.end();
}

// Whether the site's makers and readers are all there to be changed. What is taken over without loss is not.
bool can_balance(std::span<const PlannedTensor> tensors, std::initializer_list<Site> sites) {
  bool is_made = false;
  for (const PlannedTensor& tensor : tensors) {
    const bool makes = tensor.gives && std::find(sites.begin(), sites.end(), *tensor.gives) != sites.end();
    if (!makes && !reads_one_of(tensor, sites)) continue;
    if (tensor.treatment == Treatment::copy || tensor.treatment == Treatment::pack_q8_0) return false;
    is_made = is_made || makes;
  }
  return is_made;
}

Result<void> add_matrix(ColumnSizes& sizes, const PlannedTensor& tensor, std::size_t matrix,
                        std::span<const float> known, WeightRows& rows) {
  const std::size_t n_matrix_rows = tensor.shape.n_rows, block = WeightRows::block_rows(tensor.shape.n_cols);
  for (std::size_t begin = 0; begin < n_matrix_rows; begin += block) {
    const std::size_t n = std::min(block, n_matrix_rows - begin);
    RUNNEL_ASSIGN(const float* values, rows.read(*tensor.source, matrix * n_matrix_rows + begin, n));
    sizes.add(rows.team(), values, n, known);
  }
  return {};
}

// The packed matrices that read some sites (which are the same numbers), or of a stack the one of an expert.
struct Readers {
  std::span<const PlannedTensor> tensors;
  std::initializer_list<Site> sites;
  std::size_t n_cols;
  std::optional<std::size_t> expert;

  bool has(const PlannedTensor& tensor) const { return tensor.is_packed() && reads_one_of(tensor, sites); }

  Result<std::vector<float>> factors(const SecondMoments* moments, std::span<const float> known,
                                     WeightRows& rows) const {
    ColumnSizes sizes(n_cols);
    for (const PlannedTensor& tensor : tensors) {
      if (!has(tensor)) continue;
      const std::size_t begin = expert.value_or(0), end = expert ? *expert + 1 : tensor.n_matrices();
      for (std::size_t i = begin; i < end; ++i) RUNNEL_TRY(add_matrix(sizes, tensor, i, known, rows));
    }
    return balance_factors(sizes.rms(), moments ? moments->rms() : std::vector<double>());
  }

  Result<std::vector<float>> factors(const SecondMoments* moments, WeightRows& rows) const {
    RUNNEL_ASSIGN(std::vector<float> first, factors(moments, {}, rows));
    const bool has_large = std::any_of(first.begin(), first.end(), [](float f) { return f < 1.0f; });
    if (!has_large) return first;
    // Large columns dominated the rows' own sizes; known for what they are, they do not.
    return factors(moments, first, rows);
  }
};

}  // namespace

Result<LayerFactors> LayerFactors::find(const PackPlan& plan, std::span<const PlannedTensor> tensors,
                                        std::size_t layer, const Moments* moments, WeightRows& rows) {
  LayerFactors result;
  const auto seen = [&](Site site, std::size_t expert) {
    return moments ? moments->find(layer, site, expert) : nullptr;
  };
  if (can_balance(tensors, {Site::ffn_hidden})) {
    const auto down = std::find_if(tensors.begin(), tensors.end(), [](const PlannedTensor& tensor) {
      return tensor.is_packed() && reads_one_of(tensor, {Site::ffn_hidden});
    });
    for (std::size_t e = 0; down != tensors.end() && e < down->n_matrices(); ++e) {
      const Readers readers{tensors, {Site::ffn_hidden}, down->shape.n_cols, e};
      RUNNEL_ASSIGN(auto expert, readers.factors(seen(Site::ffn_hidden, e), rows));
      result.ffn_hidden_.push_back(std::move(expert));
    }
  }
  const auto norm_width = [&](Site site) {
    for (const PlannedTensor& tensor : tensors)
      if (tensor.is_packed() && reads_one_of(tensor, {site})) return tensor.shape.n_cols;
    return std::size_t{0};
  };
  const auto norm_site = [&](std::vector<float>& to, std::initializer_list<Site> sites) -> Result<void> {
    const Site site = *sites.begin();
    const std::size_t n_cols = norm_width(site);
    if (n_cols == 0 || !can_balance(tensors, sites)) return {};
    const Readers readers{tensors, sites, n_cols, std::nullopt};
    RUNNEL_ASSIGN(to, readers.factors(seen(site, 0), rows));
    return {};
  };
  if (plan.one_norm) {
    RUNNEL_TRY(norm_site(result.attn_in_, {Site::attn_in, Site::ffn_in}));
    result.ffn_in_ = result.attn_in_;
  } else {
    RUNNEL_TRY(norm_site(result.attn_in_, {Site::attn_in}));
    RUNNEL_TRY(norm_site(result.ffn_in_, {Site::ffn_in}));
  }
  return result;
}

std::span<const float> LayerFactors::at(Site site, std::size_t expert) const {
  switch (site) {
    case Site::attn_in:
      return attn_in_;
    case Site::ffn_in:
      return ffn_in_;
    case Site::ffn_hidden:
      return expert < ffn_hidden_.size() ? ffn_hidden_[expert] : std::span<const float>();
    default:
      return {};
  }
}

}  // namespace runnel
