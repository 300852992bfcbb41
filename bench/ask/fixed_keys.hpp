// Keys that a search would vary, and that its question gives.
#pragma once

#include <functional>
#include <string>

#include "analysis/search/candidate.hpp"
#include "core/config/run_config.hpp"
#include "core/config_text/overrides.hpp"

namespace plumbline {

struct FixedKeys {
  std::function<bool(const SearchKeys&)> wanted;  // true for candidates with the given values; empty: all
  std::string given;                              // "zero_stage 1, micro_batch_size 2"
};

/// The fixed keys of `config`, in which `keys` are set. Throws InputError for a value that no search tries.
FixedKeys fixed_keys(const Overrides& keys, const RunConfig& config);

}  // namespace plumbline
