// One configuration key: its name, how a text becomes its value and how the value is printed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/config/run_config.hpp"

namespace plumbline {

/// A value as written, and its place.
struct ConfigText {
  std::string text;
  std::string origin;  // "run.yaml:12", "--set", "--tp"
  std::string folder;  // base of relative paths; empty: the current folder
};

/// A configuration under construction: the sizes that follow from each other are not settled yet.
struct ConfigDraft {
  RunConfig config;
  std::optional<std::int64_t> world_size;
  std::optional<std::int64_t> data_parallel_size;
};

struct ConfigKey {
  std::string name;      // canonical
  std::string alias;     // "tp"; empty: none
  std::string expected;  // "a whole number from 1 to 64", for help and errors
  /// Throws InputError: origin, key, found, expected.
  std::function<void(ConfigDraft&, const ConfigText&)> parse;
  std::function<std::string(const RunConfig&)> print;
  bool only_with_teacher = false;  // means nothing if there is none

  /// The name as a command-line flag, without dashes in front: "tensor-model-parallel-size".
  std::string flag() const {
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    return dashed;
  }
};

}  // namespace plumbline
