// What `inspect` gathers while a model reads a text: the largest activations, where attention goes, what int8
// costs.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "library.h"

namespace cli {

// The largest entry of a token's row at some site and layer.
struct Peak {
  float value = 0;
  std::uint32_t dimension = 0;
};

// One site of all layers: the rows' largest entries, and how large an entry ordinarily is.
class PeakMap {
 public:
  void see(std::size_t layer, std::size_t position, const float* values, std::size_t n);

  std::size_t n_layers() const { return layers_.size(); }
  std::size_t n_positions() const;
  const Peak& at(std::size_t layer, std::size_t position) const { return layers_[layer].peaks[position]; }
  // Middle over the tokens of the middle magnitude of a row.
  double median(std::size_t layer) const;

 private:
  struct Layer {
    std::vector<Peak> peaks;     // [position]
    std::vector<float> medians;  // [position]
  };
  std::vector<Layer> layers_;
};

// An entry that stands out in one or several layers.
struct Outlier {
  std::uint32_t dimension = 0;
  std::size_t position = 0;
  std::vector<std::size_t> layers;
  float least = 0, most = 0;               // of its values, by magnitude
  double least_ratio = 0, most_ratio = 0;  // to the median of the layer
};

// Entries of at least `ratio` times the median, those of the same dimension and token together; most striking
// first.
std::vector<Outlier> find_outliers(const PeakMap& map, double ratio);

class Inspection {
 public:
  Inspection(std::size_t n_layer, std::size_t n_head);

  // Watches the session from here on. The inspection must outlive its watching.
  void watch(runnel_session* session);
  // Throws what went wrong while it watched: memory ran out, or the model's results are no numbers.
  void expect_numbers(const std::string& path) const;

  const PeakMap& stream() const { return stream_; }
  const PeakMap& ffn_hidden() const { return ffn_hidden_; }
  std::size_t n_sinks() const { return n_sinks_; }  // of the session that is watched
  // Mean share of the attention of a head that goes to the sinks, over the tokens behind them.
  double sink_mass(std::size_t layer, std::size_t head) const;
  // Relative error (root mean square) of the activations of a layer in int8.
  double int8_error(std::size_t layer, bool carry) const;

 private:
  void see_row(runnel_site site, std::size_t layer, std::size_t position, const float* values, std::size_t n);
  void see_mass(std::size_t layer, std::size_t head, std::size_t position, float mass);

  struct Mean {
    double sum = 0;
    std::size_t n = 0;
    double value() const { return n == 0 ? 0 : sum / static_cast<double>(n); }
  };
  std::size_t n_head_, n_sinks_ = 0;
  std::string damage_;  // where results were no numbers
  std::exception_ptr problem_;
  PeakMap stream_, ffn_hidden_;
  std::vector<Mean> mass_;                        // [n_layer, n_head]
  std::vector<std::array<Mean, 2>> int8_errors_;  // [n_layer], without and with carried entries
};

}  // namespace cli
