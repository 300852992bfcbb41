// Configurations that differ from a base in some keys, each predicted.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/predict/predict.hpp"
#include "analysis/published/verdict.hpp"
#include "core/config/run_config.hpp"
#include "core/config_text/overrides.hpp"

namespace plumbline {

/// A key, or a variable of a launch script, with the values to try.
struct VariedKey {
  std::string key;
  std::vector<std::string> values;
};

/// "tp=2,4,8". Brackets keep their commas; with a semicolon, semicolons part the values. Throws InputError.
VariedKey varied_key(const std::string& text);
/// "tp=4,pp=2" as overrides; a comma in front of no key belongs to the value. Throws InputError.
Overrides varied_settings(const std::string& text, const std::string& origin);

/// One configuration, predicted or refused.
struct VariedRun {
  std::vector<std::string> values;       // of the varied keys, in their order; none for the base
  Overrides settings;                    // the same as overrides
  std::string refusal;                   // one line; empty: it is predicted
  RunConfig config;                      // of one that is predicted, as all below
  std::optional<Prediction> prediction;  // without the costs of actions
  MemoryVerdict verdict;

  bool predicted() const { return prediction.has_value(); }
};

struct VariedRuns {
  std::vector<std::string> keys;
  std::vector<VariedRun> runs;  // the base, then the Cartesian product, in which the last key changes fastest

  /// Run that others are compared with: the base, or the first run that is predicted; nullptr: none is.
  const VariedRun* reference() const;
  /// Place of the shortest step that fits; 0: none does, or the base is it. `sure`: tight ones only where no
  /// other fits.
  std::size_t fastest(bool sure = false) const;
};

/// The configuration with more settings over it. Throws InputError.
using LoadVaried = std::function<RunConfig(const Overrides& more)>;

/// Predicts one configuration; an InputError becomes its refusal.
VariedRun predicted_run(const LoadVaried& load, const Overrides& settings);
/// `next` is told before each prediction: its number, and that of all. Throws InputError for a key given
/// twice and for more than 1,000 configurations.
VariedRuns vary_runs(const LoadVaried& load, const std::vector<VariedKey>& keys,
                     const std::function<void(std::size_t, std::size_t)>& next);

}  // namespace plumbline
