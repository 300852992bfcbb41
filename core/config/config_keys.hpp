// The one table of configuration keys: their names, how a text becomes a value and how it is printed. The
// YAML loader, `--set`, command-line flags and reports all read it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline {

/// A value as somebody wrote it, and where.
struct ConfigText {
  std::string text;
  std::string origin;  // "run.yaml:12", "--set", …
  std::string folder;  // what a relative path is relative to; empty: the current folder
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

  /// The name as a command-line flag, without dashes in front: "tensor-model-parallel-size".
  std::string flag() const;
};

/// All keys in the order of the documentation.
const std::vector<ConfigKey>& config_keys();
/// By name, alias or dashed name; nullptr when unknown.
const ConfigKey* find_config_key(std::string_view name);
/// The same, or InputError with the nearest known key.
const ConfigKey& get_config_key(std::string_view name, const std::string& origin);

/// Settles world size and data-parallel size. Returns why they contradict each other, or empty.
std::optional<std::string> settle_sizes(ConfigDraft& draft);

}  // namespace plumbline
