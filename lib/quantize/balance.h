// Balancing: a channel that a norm gain (or an up-projection row) makes large and its readers make small, or
// the other way round, is brought back to the size of the others, without changing what the model computes:
//   gain[c] /= f[c], W[:, c] *= f[c] for every matrix W that reads the norm
// Where weights and gains were trained into such a state, int8 columns of the small side would round to zero.
// The idea is that of SmoothQuant (Xiao et al. 2023); here only outlying channels are touched.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "lib/system/parallel.h"

namespace runnel {

// How large the columns of a site's readers are. Each row counts by its shape alone, divided by its own rms:
// rows have scales of their own, and one that is a thousand times larger must not hide the others.
class ColumnSizes {
 public:
  explicit ColumnSizes(std::size_t n_cols) : sums_(n_cols) {}

  // rows: [n, n_cols]. factors: [n_cols] or empty: a row's own rms is that after its columns were multiplied
  // by these, for columns so large that they would be all a row is measured by. The result does not depend on
  // the team's size.
  void add(Team& team, const float* rows, std::size_t n, std::span<const float> factors = {});

  // Root mean square over all rows that are not zero, [n_cols].
  std::vector<double> rms() const;

 private:
  std::vector<double> sums_;
  std::vector<double> row_weights_;  // scratch: 1 / mean square, 0 for a row of zeros
  std::size_t n_rows_ = 0;
};

// f [n], 1 for all channels that lie within a factor of 4 of the median, in [2^-20, 2^20]. columns: [n], of
// the readers; inputs: [n], rms of the channel in the unchanged model, or empty. A channel where either is 0
// (or not finite) is left alone. Empty when all are 1.
std::vector<float> balance_factors(std::span<const double> columns, std::span<const double> inputs);

}  // namespace runnel
