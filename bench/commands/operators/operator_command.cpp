// `plumbline operator`: the time of one operator or collective, or of every line of a table of shapes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "analysis/hardware/hardware.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/operators/operator_kinds.hpp"
#include "bench/commands/operators/operator_rows.hpp"
#include "bench/measure/machine/named_hardware.hpp"
#include "bench/show/text/figures.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

struct OperatorOptions {
  std::string name;
  std::string hardware;
  std::string clock;
  std::string csv;
  bool json = false;
  std::map<std::string, std::string, std::less<>> words;
};

/// --kv-heads of kv_heads.
std::string option_of(std::string_view column) {
  std::string option = fmt::format("--{}", column);
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

silicon::Clock clock_of(const OperatorOptions& options) {
  if (options.clock == "burst") return silicon::Clock::burst;
  if (options.clock == "sustained") return silicon::Clock::sustained;
  return silicon::Clock::as_measured;
}

void check_columns(const OperatorKind& kind, const OperatorOptions& options) {
  for (const auto& [column, word] : options.words) {
    if (word.empty()) continue;
    const bool used =
        std::any_of(kind.columns.begin(), kind.columns.end(),
                    [&column = column](const OperatorColumn& each) { return each.name == column; });
    if (used) continue;
    std::vector<std::string> used_options;
    for (const OperatorColumn& each : kind.columns) used_options.push_back(option_of(each.name));
    throw InputError(fmt::format("{}: found {}, expected nothing: {} takes {}", option_of(column),
                                 printable(word), kind.name, fmt::join(used_options, ", ")));
  }
}

std::string shape_text(const OperatorKind& kind, const OperatorOptions& options) {
  std::vector<std::string> parts;
  for (const OperatorColumn& column : kind.columns) {
    const auto found = options.words.find(column.name);
    const bool given = found != options.words.end() && !found->second.empty();
    if (!given && (column.otherwise.empty() || column.otherwise == "heads" || column.otherwise == "0"))
      continue;
    parts.push_back(fmt::format("{} {}", column.name, given ? found->second : std::string(column.otherwise)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

double peak_of(const HardwareProfile& hardware, const OperatorWords& shape) {
  const std::string type = shape.word("type", "bf16");
  const Device& device = hardware.accelerator()->constants.device;
  if (type == "fp8" || type == "fp8_block") return device.peak_8bit;
  return type == "nvfp4" ? device.peak_4bit : device.peak_16bit;
}

std::string text_of(const OperatorKind& kind, const OperatorOptions& options, const HardwareProfile& hardware,
                    const OperatorWords& shape, const OperatorResult& result) {
  std::string text = fmt::format("{} on {}: {}\n", kind.name, hardware.name, shape_text(kind, options));
  text += fmt::format("time: {}, {}{}\n", readable_time(result.whole.seconds), name_of(result.whole.basis),
                      result.whole.sustained ? ", sustained clocks" : "");
  for (const auto& [name, time] : result.parts) {
    text += fmt::format("  {}: {}, {}\n", name, readable_time(time.seconds), name_of(time.basis));
  }
  if (result.flops > 0) {
    const double rate = result.flops / result.whole.seconds;
    text += fmt::format("rate: {:.0f} TFLOP/s, {:.0f} % of the peak of {:.0f}\n", rate / 1e12,
                        100 * rate / peak_of(hardware, shape), peak_of(hardware, shape) / 1e12);
  }
  return text;
}

std::string json_of(const OperatorKind& kind, const OperatorOptions& options, const HardwareProfile& hardware,
                    const OperatorWords& shape, const OperatorResult& result) {
  nlohmann::ordered_json json = {{"operator", kind.name}, {"hardware", hardware.name}};
  for (const OperatorColumn& column : kind.columns) {
    const auto found = options.words.find(column.name);
    if (found != options.words.end() && !found->second.empty())
      json["shape"][std::string(column.name)] = found->second;
  }
  json["seconds"] = result.whole.seconds;
  json["basis"] = name_of(result.whole.basis);
  json["clock"] = result.whole.sustained ? "sustained" : "burst";
  for (const auto& [name, time] : result.parts) {
    json["parts"][std::string(name)] = {{"seconds", time.seconds}, {"basis", name_of(time.basis)}};
  }
  if (result.flops > 0) {
    json["flops"] = result.flops;
    json["flops_per_s"] = result.flops / result.whole.seconds;
    json["peak_flops_per_s"] = peak_of(hardware, shape);
  }
  return json.dump(2) + "\n";
}

int run_operator(const OperatorOptions& options) {
  const OperatorKind& kind = operator_kind(options.name);
  check_columns(kind, options);
  if (!options.csv.empty()) {
    fmt::print("{}", predicted_rows(kind, {options.csv, options.hardware, clock_of(options), options.words}));
    return static_cast<int>(ExitCode::done);
  }
  if (options.hardware.empty()) {
    throw InputError("--hardware: found nothing, expected an accelerator such as h100-sxm-80gb");
  }
  const HardwareProfile hardware = accelerator_named(options.hardware);
  const OperatorWords shape(options.words, fmt::format("operator {}: ", kind.name));
  silicon::OperatorLookup lookup(hardware.accelerator()->name, hardware.accelerator()->constants);
  const OperatorResult result = kind.time(lookup, shape, clock_of(options));
  fmt::print("{}", options.json ? json_of(kind, options, hardware, shape, result)
                                : text_of(kind, options, hardware, shape, result));
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_operator_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("operator", "Predict the time of one operator or collective on an accelerator");
  const auto options = std::make_shared<OperatorOptions>();
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::string>> users;  // of a column
  for (const OperatorKind& kind : operator_kinds()) {
    names.emplace_back(kind.name);
    for (const OperatorColumn& column : kind.columns) users[std::string(column.name)].emplace_back(kind.name);
  }
  command->add_option("OPERATOR", options->name, fmt::format("Operator: {}", fmt::join(names, ", ")))
      ->required();
  command->add_option("--hardware", options->hardware, "Accelerator preset or description file")
      ->type_name("NAME|FILE");
  for (const auto& [column, kinds] : users) {
    command
        ->add_option(
            option_of(column), options->words[column],
            kinds.size() > 4 ? "Size or type of the operator" : fmt::format("Of {}", fmt::join(kinds, ", ")))
        ->type_name("VALUE");
  }
  command->add_option("--clock", options->clock, "Device clocks of GEMMs; default: sustained where measured")
      ->check(CLI::IsMember({"burst", "sustained"}));
  CLI::Option* csv =
      command
          ->add_option("--csv", options->csv,
                       "CSV table of shapes, one column per option; printed with predicted_s added")
          ->type_name("FILE");
  command->add_flag("--json", options->json, "Print the result as JSON")->excludes(csv);
  command->callback([=, &action] { action = [=] { return run_operator(*options); }; });
}

}  // namespace plumbline
