// The one table of configuration keys: their names, how a text becomes a value and how it is printed. The
// YAML loader, `--set`, command-line flags and reports all read it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config_text/config_key.hpp"

namespace plumbline {

/// All keys in the order of the documentation.
const std::vector<ConfigKey>& config_keys();
/// By name, alias or dashed name; nullptr when unknown.
const ConfigKey* find_config_key(std::string_view name);
/// The same, or InputError with the nearest known key.
const ConfigKey& get_config_key(std::string_view name, const std::string& origin);

/// Settles world size and data-parallel size. Returns why they contradict each other, or empty.
std::optional<std::string> settle_sizes(ConfigDraft& draft);

}  // namespace plumbline
