// The keys of a matrix file that make its cells.
#pragma once

#include <yaml-cpp/yaml.h>

#include <set>
#include <string>
#include <vector>

#include "core/config_text/config_file.hpp"

namespace plumbline {

/// True if the cell has every value of the pattern.
bool same_values(const Settings& cell, const Settings& pattern);

/// Cartesian product, exclude and include, as the matrix of a GitHub Actions workflow
/// (https://docs.github.com/actions, "matrix strategies"). Functions throw InputError with the place.
class MatrixFile {
 public:
  explicit MatrixFile(const std::string& source) : file_(source) {}

  const std::string& name() const { return file_.name(); }
  /// Settings of all cells.
  Settings base() const;
  /// The values under `baseline:`; none without it.
  Settings baseline() const;
  /// Settings of each cell, in the order of the product.
  std::vector<Settings> cells() const;

 private:
  /// One list of the matrix: the settings of each item.
  using Axis = std::vector<Settings>;

  Axis axis(const YAML::Node& name, const YAML::Node& list) const;
  std::vector<Settings> product(std::set<std::string>& varied) const;
  void exclude(std::vector<Settings>& cells, const std::set<std::string>& varied) const;
  std::vector<Settings> entries(const std::string& name) const;

  ConfigFile file_;
};

}  // namespace plumbline
