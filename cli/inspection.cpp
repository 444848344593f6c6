#include "inspection.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "errors.h"

namespace cli {
namespace {

float middle(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

void PeakMap::see(std::size_t layer, std::size_t position, const float* values, std::size_t n) {
  if (layers_.size() <= layer) layers_.resize(layer + 1);
  Layer& to = layers_[layer];
  if (to.peaks.size() <= position) {
    to.peaks.resize(position + 1);
    to.medians.resize(position + 1);
  }
  std::vector<float> magnitudes(n);
  Peak peak;
  for (std::size_t i = 0; i < n; ++i) {
    magnitudes[i] = std::fabs(values[i]);
    if (magnitudes[i] > std::fabs(peak.value)) peak = {values[i], static_cast<std::uint32_t>(i)};
  }
  // A mixture shows a token once for each of its experts: the largest counts.
  if (std::fabs(peak.value) >= std::fabs(to.peaks[position].value)) to.peaks[position] = peak;
  to.medians[position] = middle(std::move(magnitudes));
}

std::size_t PeakMap::n_positions() const { return layers_.empty() ? 0 : layers_.front().peaks.size(); }

double PeakMap::median(std::size_t layer) const {
  return static_cast<double>(middle(layers_[layer].medians));
}

std::vector<Outlier> find_outliers(const PeakMap& map, double ratio) {
  std::map<std::pair<std::uint32_t, std::size_t>, Outlier> found;  // by dimension and position
  for (std::size_t layer = 0; layer < map.n_layers(); ++layer) {
    const double ordinary = map.median(layer);
    for (std::size_t position = 0; ordinary > 0 && position < map.n_positions(); ++position) {
      const Peak& peak = map.at(layer, position);
      const double times = std::fabs(static_cast<double>(peak.value)) / ordinary;
      if (times < ratio) continue;
      Outlier& outlier = found[{peak.dimension, position}];
      if (outlier.layers.empty())
        outlier = {peak.dimension, position, {}, peak.value, peak.value, times, times};
      outlier.layers.push_back(layer);
      if (std::fabs(peak.value) < std::fabs(outlier.least)) outlier.least = peak.value;
      if (std::fabs(peak.value) > std::fabs(outlier.most)) outlier.most = peak.value;
      outlier.least_ratio = std::min(outlier.least_ratio, times);
      outlier.most_ratio = std::max(outlier.most_ratio, times);
    }
  }
  std::vector<Outlier> outliers;
  outliers.reserve(found.size());
  for (auto& [key, outlier] : found) outliers.push_back(std::move(outlier));
  // Those that stay through most layers before those that come and go, then by size.
  const auto stays = [&](const Outlier& o) { return 2 * o.layers.size() > map.n_layers(); };
  std::sort(outliers.begin(), outliers.end(), [&](const Outlier& a, const Outlier& b) {
    return std::pair(stays(a), a.most_ratio) > std::pair(stays(b), b.most_ratio);
  });
  return outliers;
}

Inspection::Inspection(std::size_t n_layer, std::size_t n_head)
    : n_head_(n_head), mass_(n_layer * n_head), int8_errors_(n_layer) {}

void Inspection::watch(runnel_session* session) {
  n_sinks_ = static_cast<std::size_t>(runnel_session_stat(session, RUNNEL_STAT_PREFIX));
  const auto on_row = [](void* user, runnel_site site, std::int32_t layer, std::int64_t position,
                         const float* values, std::size_t n) {
    auto* const self = static_cast<Inspection*>(user);
    try {
      self->see_row(site, static_cast<std::size_t>(layer), static_cast<std::size_t>(position), values, n);
    } catch (...) {  // not through the library
      self->problem_ = std::current_exception();
    }
  };
  const auto on_mass = [](void* user, std::int32_t layer, std::int32_t head, std::int64_t position,
                          float mass) {
    static_cast<Inspection*>(user)->see_mass(static_cast<std::size_t>(layer), static_cast<std::size_t>(head),
                                             static_cast<std::size_t>(position), mass);
  };
  check(runnel_session_observe(session, on_row, on_mass, this));
}

void Inspection::expect_numbers(const std::string& path) const {
  if (problem_) std::rethrow_exception(problem_);
  if (!damage_.empty())
    throw Failure(path + ": " + damage_ +
                  ": the activations are not numbers: a weight in the file is damaged");
}

void Inspection::see_row(runnel_site site, std::size_t layer, std::size_t position, const float* values,
                         std::size_t n) {
  if (damage_.empty() && !std::all_of(values, values + n, [](float value) { return std::isfinite(value); }))
    damage_ = "token " + std::to_string(position) + ", layer " + std::to_string(layer);
  if (site == RUNNEL_SITE_STREAM) return stream_.see(layer, position, values, n);
  if (site == RUNNEL_SITE_FFN_HIDDEN) ffn_hidden_.see(layer, position, values, n);
  if (layer >= int8_errors_.size()) return;
  for (const bool carry : {false, true}) {
    Mean& mean = int8_errors_[layer][carry];
    mean.sum += runnel_int8_error(values, n, carry);
    ++mean.n;
  }
}

void Inspection::see_mass(std::size_t layer, std::size_t head, std::size_t position, float mass) {
  if (position < n_sinks_) return;  // sinks see nothing else
  Mean& mean = mass_[layer * n_head_ + head];
  mean.sum += static_cast<double>(mass);
  ++mean.n;
}

double Inspection::sink_mass(std::size_t layer, std::size_t head) const {
  return mass_[layer * n_head_ + head].value();
}

double Inspection::int8_error(std::size_t layer, bool carry) const {
  return std::sqrt(int8_errors_[layer][carry].value());
}

}  // namespace cli
