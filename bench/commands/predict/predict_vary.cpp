#include "bench/commands/predict/predict_vary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <utility>

#include "bench/measure/machine/named_hardware.hpp"
#include "bench/plan/packed_data.hpp"
#include "bench/plan/vary/launch_patch.hpp"
#include "bench/plan/vary/varied_runs.hpp"
#include "bench/show/text/record_tables.hpp"
#include "bench/show/text/still_working.hpp"
#include "bench/show/views/vary/run_difference.hpp"
#include "bench/show/views/vary/varied_report.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/base/output_json.hpp"
#include "core/base/standard_streams.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline {
namespace {

RunConfig finished(RunConfig config) {
  name_hardware(config.machine.hardware);
  add_packed_work(config);
  return config;
}

LoadVaried loader(const std::string& source, const Overrides& overrides) {
  return [source, overrides](const Overrides& more) {
    Overrides all = overrides;
    all.insert(all.end(), more.begin(), more.end());
    return finished(load_run_config(source, all));
  };
}

struct NamedRun {
  std::string name;
  VariedRun run;
};

/// A row of the table by its number, the base, settings over it, or another configuration.
NamedRun named_run(const std::string& text, const ConfigOptions& config, const VariedRuns& all) {
  std::size_t row = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), row);
  const bool number = error == std::errc() && end == text.data() + text.size();
  if (number || text == "base") {
    if (row >= all.runs.size())
      throw InputError(fmt::format("--diff: found {}, expected a row from 0 (the base) to {}; change it",
                                   text, all.runs.size() - 1));
    return {row == 0 ? "base" : fmt::format("#{}, {}", row, title_of(all.runs[row].settings)), all.runs[row]};
  }
  if (text.find('=') != std::string::npos) {
    const Overrides settings = varied_settings(text, "--diff");
    return {title_of(settings), predicted_run(loader(config.source, config.overrides()), settings)};
  }
  return {printable(text), predicted_run(loader(text, {}), {})};
}

struct TwoRuns {
  NamedRun first;
  NamedRun second;
};

std::optional<TwoRuns> explained(const ConfigOptions& config, const VaryOptions& options,
                                 const VariedRuns& all) {
  if (options.diff.empty()) return std::nullopt;
  TwoRuns two{named_run(options.diff[0], config, all), named_run(options.diff[1], config, all)};
  for (const NamedRun* each : {&two.first, &two.second}) {
    if (!each->run.predicted())
      throw InputError(fmt::format("--diff: {}: {}", each->name, each->run.refusal));
  }
  return two;
}

/// Settings that --patch writes: those of --diff's second configuration, or of the fastest row that fits, a
/// tight one only where no other does.
Overrides patched_settings(const VariedRuns& all, const std::optional<TwoRuns>& two) {
  if (!two) return all.runs[all.fastest(true)].settings;
  const NamedRun& second = two->second;
  if (second.run.settings.empty() && second.name != "base")
    throw InputError(
        fmt::format("--patch: found {} as B of --diff, expected a row or settings; change B", second.name));
  return second.run.settings;
}

/// Without --vary and --diff, options beside the file are what it should say.
LaunchPatch patch_for(const ConfigOptions& config, const VaryOptions& options, const VariedRuns& all,
                      const std::optional<TwoRuns>& two) {
  Overrides given = config.overrides();
  Overrides wanted;
  if (options.vary.empty() && options.diff.empty()) {
    for (const Override& each : given)
      if (!each.ignores && !each.argument && !each.runs) wanted.push_back(each);
    std::erase_if(given, [](const Override& each) { return !each.ignores && !each.argument && !each.runs; });
  } else {
    wanted = patched_settings(all, two);
  }
  const LoadText load = [&](const std::string& text, const Overrides& beside) {
    return load_run_config(config.source, beside, nullptr, &text);
  };
  return patch_launch(config.source, given, wanted, load);
}

void print_json(const VariedRuns& all, const std::optional<TwoRuns>& two,
                const std::optional<LaunchPatch>& patch) {
  OrderedJson json = varied_json(all);
  if (two) json["diff"] = difference_json(two->first.run, two->first.name, two->second.run, two->second.name);
  if (patch) json["patch"] = {{"diff", patch->diff}, {"notes", patch->notes}};
  fmt::print("{}\n", output_json(json, 2));
}

}  // namespace

const char* VaryOptions::given() const {
  if (!vary.empty()) return "--vary";
  if (!diff.empty()) return "--diff";
  return patch ? "--patch" : nullptr;
}

void add_vary_options(CLI::App& command, VaryOptions& options) {
  command
      .add_option(
          "--vary", options.vary,
          "Values of a key to try, such as tp=2,4,8; may be repeated: every combination, as one table "
          "with differences to CONFIG")
      ->type_name("KEY=VALUES")
      ->allow_extra_args(false);
  command
      .add_option("--diff", options.diff,
                  "Explain the difference of two configurations by part of the step and operator: rows of "
                  "--vary (0: CONFIG), settings such as tp=4,pp=2, or other configurations")
      ->type_name("A B")
      ->expected(2);
  command.add_flag("--patch", options.patch,
                   "Print the changed lines of CONFIG, a file, as a diff: for B of --diff, else the fastest "
                   "row that fits, else options given beside it");
}

int predict_varied(const ConfigOptions& config, const VaryOptions& options, bool json, bool quiet) {
  std::vector<VariedKey> keys;
  keys.reserve(options.vary.size());
  for (const std::string& text : options.vary) keys.push_back(varied_key(text));
  const LoadVaried load = loader(config.source, config.overrides());
  for (const VariedKey& key : keys)  // an unknown key is no refusal of each row
    command_line(config.source, {{key.key, key.values.front(), "--vary"}});
  VariedRuns all;
  {
    StillWorking working("predicting", quiet ? nullptr : stderr);
    const auto next = [&](std::size_t done, std::size_t count) {
      working.now(fmt::format("predicting configuration {} of {}", done + 1, count));
    };
    if (keys.empty()) {
      all.runs.push_back(predicted_run(load, {}));
    } else {
      all = vary_runs(load, keys, next);
    }
  }
  const std::optional<TwoRuns> two = explained(config, options, all);
  std::optional<LaunchPatch> patch;
  if (options.patch) patch = patch_for(config, options, all, two);
  if (json) {
    print_json(all, two, patch);
  } else {
    const TableStyle style = style_of_standard_output();
    std::string text;
    if (!keys.empty()) text = varied_text(all, static_cast<std::size_t>(std::max(0, style.width)));
    if (two) {
      text += (text.empty() ? "" : "\n") +
              difference_text(two->first.run, two->first.name, two->second.run, two->second.name);
    }
    if (patch) text += (text.empty() ? "" : "\n") + patch->diff;
    fmt::print("{}", text);
    if (patch && patch->diff.empty()) say("note: no line of the file changes\n");
    if (patch) {
      for (const std::string& line : patch->notes) say(fmt::format("note: {}\n", line));
    }
  }
  if (all.reference() == nullptr) {
    if (keys.empty()) throw InputError(all.runs.front().refusal);
    return static_cast<int>(ExitCode::bad_input);
  }
  const bool fits = std::any_of(all.runs.begin(), all.runs.end(), [](const VariedRun& run) {
    return run.predicted() && run.prediction->fit.fits;
  });
  return static_cast<int>(fits ? ExitCode::done : ExitCode::does_not_fit);
}

}  // namespace plumbline
