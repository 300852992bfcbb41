// The configuration that a request names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json_keys.hpp"
#include "core/config/run_config.hpp"
#include "core/config_text/overrides.hpp"

namespace plumbline {

struct AskedConfig {
  std::string source;                   // "config": a file, a preset, a folder, or empty
  Overrides keys;                       // "keys"
  std::vector<std::int64_t> lengths{};  // "sequence_lengths": tokens of documents; empty: none are given
};

/// "config" and "keys" of a request. Throws InputError for a value that no key can have: a list, or null.
AskedConfig asked_config(const OrderedJsonKeys& request);
/// Also reads "sequence_lengths", for requests that predict given layouts.
AskedConfig asked_config_with_lengths(const OrderedJsonKeys& request);
/// One object of keys and values, named `place` in errors.
Overrides overrides_of(const OrderedJson& keys, const std::string& place);
/// The same configuration with some keys changed. A changed world_size replaces data_parallel_size and the
/// other way round.
AskedConfig with_changes(AskedConfig base, const Overrides& changes);

/// Throws InputError for a configuration that cannot be read, or has an unknown key: an error of the
/// question, where a value that no run has makes an illegal configuration.
void check_readable(const AskedConfig& asked);
/// Reads the configuration; a short name of an accelerator becomes its full one. `notes` gets a line for each
/// value that was assumed. Throws InputError.
RunConfig config_of(const AskedConfig& asked, std::vector<std::string>& notes);

}  // namespace plumbline
