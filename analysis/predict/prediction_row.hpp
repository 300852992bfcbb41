// A row of the compatibility table that needs the traits of software or hardware.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/software.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct PredictionRow {
  std::string_view key;
  std::string_view values;  // of the key, that need something
  std::string_view needed;
  bool searches = false;    // refused by searches alone
  bool frameworks = false;  // asked of other software than plumbline alone
  /// "KEY: found X with Y, expected Z", or nothing. `hardware` is given unless `searches`.
  std::optional<std::string> (*refusal)(const RunConfig& config, const Software& software,
                                        const HardwareProfile* hardware) = nullptr;
};

}  // namespace plumbline
