// Size of a matrix with a section `fit:` that this machine measures, and the file that keeps the choice.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "core/config_text/matrix_fit.hpp"

namespace plumbline {

/// In the folder of the results: cells keep their sizes, and so their records, after a new calibration.
inline constexpr const char* kFitFile = "fit.json";

struct FitChoice {
  std::size_t size = 0;   // index into MatrixFit::sizes
  std::string precision;  // empty: the file's own
  Seconds predicted;      // for all cells
};

/// The largest size before the first that takes longer than the target, else the quickest. `duration_of`: of
/// all cells with these settings.
FitChoice choose_size(const MatrixFit& fit, const std::string& precision,
                      const std::function<Seconds(const Settings&)>& duration_of);

/// The first of `precisions` that the processor multiplies in hardware, else the last; empty when there are
/// none.
std::string choose_precision(const std::vector<std::string>& precisions, bool multiplies_bf16);

/// Choice of an earlier run in this folder; nothing when there was none, or the matrix file lacks such a
/// size. Throws InputError when the file is damaged.
std::optional<FitChoice> kept_choice(const std::string& folder, const MatrixFit& fit);

/// Keeps the choice, or returns an earlier one of another runner. Makes the folder. Throws OutputError when
/// it cannot be written.
FitChoice keep_choice(const std::string& folder, const MatrixFit& fit, const FitChoice& choice);

/// "size 3 of 8 (hidden_size 256, global_batch_size 16)".
std::string describe(const MatrixFit& fit, const FitChoice& choice);

}  // namespace plumbline
