// Newton-Schulz steps towards the orthogonal factor of a matrix.
#pragma once

#include <cstdint>

#include "bench/training/parameters/context.hpp"
#include "core/config/optimizer_config.hpp"

namespace plumbline::training {

/// Memory of the steps on matrices of up to `side`² inner products and `elements` elements.
class NewtonSchulzScratch {
 public:
  NewtonSchulzScratch(const TrainingContext& context, std::int64_t side, std::int64_t elements);
  Matrix gram(std::int64_t side) const { return {gram_.matrix().data, side, side, gram_.matrix().dtype}; }
  Matrix square(std::int64_t side) const {
    return {square_.matrix().data, side, side, square_.matrix().dtype};
  }
  Matrix product(std::int64_t rows, std::int64_t cols) const {
    return {product_.matrix().data, rows, cols, product_.matrix().dtype};
  }

 private:
  Tensor gram_, square_, product_;
};

/// x becomes nearly U·Vᵀ of its singular value decomposition: X = x ÷ |x|, then X = aX + (bA + cA²)X with A =
/// XXᵀ, `steps` times; where there are more rows than columns the same on Xᵀ (Jordan et al. 2024,
/// kellerjordan.github.io/posts/muon). x: (rows, cols) without gaps, of the storage type.
void orthogonalize(Operators& operators, const MuonConfig& config, const Matrix& x,
                   const NewtonSchulzScratch& scratch);

/// Factor of an orthogonal update of a matrix of so many rows (outputs) and columns (inputs).
double muon_scale(const MuonConfig& config, std::int64_t rows, std::int64_t cols);

}  // namespace plumbline::training
