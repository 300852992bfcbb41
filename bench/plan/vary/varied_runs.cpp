#include "bench/plan/vary/varied_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "analysis/predict/prediction_rows.hpp"
#include "bench/plan/chosen_hardware.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostRuns = 1000;
constexpr const char* kVary = "--vary";

/// The canonical name; a name that is no key stays, since a launch script may have such a variable.
std::string canonical(const std::string& name) {
  const ConfigKey* key = find_config_key(name);
  return key == nullptr ? name : key->name;
}

/// Parts between separators outside brackets.
std::vector<std::string> parted(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c == separator && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// In the order of `predict`. Throws InputError.
void predict_into(VariedRun& run) {
  const RunConfig& config = run.config;
  if (config.generation.on() || config.reinforces()) {
    throw InputError(fmt::format("task: found {}, expected train; steps of other tasks are not varied",
                                 task_name(config.generation.task)));
  }
  if (const auto reason = why_invalid(config)) throw InputError(*reason);
  if (const auto reason = why_unpredictable(config)) throw InputError(*reason);
  std::string ignored;
  const HardwareProfile hardware = hardware_of(config, ignored);
  if (const auto reason = why_unpredictable(config, hardware)) throw InputError(*reason);
  run.prediction = predict(config, step_for(config), hardware);
  run.prediction->costs = {};  // large, and no table shows it
  run.verdict = verdict_of(config, hardware, run.prediction->fit);
}

std::size_t count_of(const std::vector<VariedKey>& keys) {
  std::size_t count = 1;
  for (const VariedKey& key : keys) {
    count *= key.values.size();
    if (count > kMostRuns)
      throw InputError(
          fmt::format("{}: found more than {} configurations, expected at most {}; leave values "
                      "out, or use plumbline matrix",
                      kVary, kMostRuns, kMostRuns));
  }
  return count;
}

}  // namespace

VariedKey varied_key(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw InputError(fmt::format("{}: found {}, expected KEY=VALUE,VALUE such as tp=2,4,8; add the values",
                                 kVary, printable(text)));
  VariedKey key{canonical(text.substr(0, equals)), {}};
  const std::string values = text.substr(equals + 1);
  key.values = parted(values, values.find(';') == std::string::npos ? ',' : ';');
  const auto bad = [&](const std::string& value) {
    return value.empty() || std::count(key.values.begin(), key.values.end(), value) > 1;
  };
  if (const auto found = std::find_if(key.values.begin(), key.values.end(), bad); found != key.values.end())
    throw InputError(fmt::format("{}: {}: found {}, expected values that differ; remove it", kVary,
                                 printable(key.key),
                                 found->empty() ? "an empty value" : printable(*found) + " twice"));
  return key;
}

Overrides varied_settings(const std::string& text, const std::string& origin) {
  Overrides settings;
  for (const std::string& part : parted(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals != std::string::npos && equals > 0) {
      settings.push_back({canonical(part.substr(0, equals)), part.substr(equals + 1), origin});
    } else if (!settings.empty()) {
      settings.back().value += "," + part;
    } else {
      throw InputError(fmt::format("{}: found {}, expected KEY=VALUE; change it", origin, printable(text)));
    }
  }
  return settings;
}

const VariedRun* VariedRuns::reference() const {
  const auto first =
      std::find_if(runs.begin(), runs.end(), [](const VariedRun& run) { return run.predicted(); });
  return first == runs.end() ? nullptr : &*first;
}

std::size_t VariedRuns::fastest(bool sure) const {
  const auto fits = [&](const VariedRun& run) {
    return run.predicted() && run.prediction->fit.fits && !(sure && run.verdict.word == Verdict::tight);
  };
  if (sure && std::none_of(runs.begin(), runs.end(), fits)) return fastest();
  std::size_t best = runs.size();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!fits(runs[i])) continue;
    if (best == runs.size() || runs[i].prediction->time.step < runs[best].prediction->time.step) best = i;
  }
  return best == runs.size() ? 0 : best;
}

VariedRun predicted_run(const LoadVaried& load, const Overrides& settings) {
  VariedRun run;
  run.settings = settings;
  try {
    run.config = load(settings);
    predict_into(run);
  } catch (const InputError& error) {
    run.refusal = one_line(error.what());
  }
  return run;
}

VariedRuns vary_runs(const LoadVaried& load, const std::vector<VariedKey>& keys,
                     const std::function<void(std::size_t, std::size_t)>& next) {
  VariedRuns all;
  for (const VariedKey& key : keys) {
    if (std::find(all.keys.begin(), all.keys.end(), key.key) != all.keys.end())
      throw InputError(fmt::format("{}: {}: found twice, expected once; give all values in one option", kVary,
                                   printable(key.key)));
    all.keys.push_back(key.key);
  }
  const std::size_t count = count_of(keys);
  next(0, count + 1);
  all.runs.push_back(predicted_run(load, {}));
  for (std::size_t number = 0; number < count; ++number) {
    Overrides settings(keys.size());
    std::vector<std::string> values(keys.size());
    std::size_t rest = number;
    for (std::size_t i = keys.size(); i-- > 0; rest /= keys[i].values.size()) {
      values[i] = keys[i].values[rest % keys[i].values.size()];
      settings[i] = {keys[i].key, values[i], kVary};
    }
    next(number + 1, count + 1);
    all.runs.push_back(predicted_run(load, settings));
    all.runs.back().values = std::move(values);
  }
  return all;
}

}  // namespace plumbline
