// The section `fit:` of a matrix file: sizes of the same cells; a quick machine takes a larger one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/config_text/config_file.hpp"

namespace plumbline {

struct MatrixFit {
  Seconds target;  // that measuring all cells should take at most
  /// Values of the key precision; the first one that the processor multiplies in hardware is taken. Empty:
  /// the file's own.
  std::vector<std::string> precisions;
  /// Keys that each size sets, under those of the cells; the quickest first. Not empty.
  std::vector<Settings> sizes;

  /// Settings for load_matrix() of a size in a precision ("": the file's own).
  Settings settings(std::size_t size, const std::string& precision) const;
};

/// Reads the section of a matrix file; nothing if the source has none. Throws InputError: file, line, key,
/// found, expected.
std::optional<MatrixFit> load_fit(const std::string& source);

}  // namespace plumbline
