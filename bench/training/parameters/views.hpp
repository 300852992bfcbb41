// Views of single parameters in the rows that hold them.
#pragma once

#include "bench/training/parameters/parameter_memory.hpp"

namespace plumbline::training {

/// A matrix in its unit's values or gradients.
inline Matrix view_of(const Parameter& parameter, const Matrix& unit_row) {
  return {unit_row.at(0, parameter.offset), parameter.rows, parameter.cols, unit_row.dtype};
}

/// A vector in the rank's vectors; empty if there are none, as of a teacher's or frozen gradients.
inline Matrix vector_of(const StageEntry& stage, const Parameter& parameter, const ParameterSet& set) {
  if (!set || set.of_adapters()) return {};
  const Matrix& all = set.vectors;
  return {all.at(0, stage.vector_offset + parameter.offset), parameter.rows, parameter.cols, all.dtype};
}

/// All numbers of a stage that no gradient trains, as one row.
inline Matrix stage_untrained(const ParameterMemory& memory, const StageEntry& stage) {
  const Matrix& all = memory.untrained;
  return {all.at(0, stage.untrained_offset), 1, stage.parameters.untrained, all.dtype};
}

/// All vectors of a stage, as one row.
inline Matrix stage_vectors(const ParameterSet& set, const StageEntry& stage) {
  const Matrix& all = set.vectors;
  return {all.at(0, stage.vector_offset), 1, stage.parameters.vectors, all.dtype};
}

}  // namespace plumbline::training
