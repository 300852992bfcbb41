// `plumbline list`: the models, accelerators, software and schedules that a configuration can name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analysis/hardware/embedded.hpp"
#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/published/known_runs.hpp"
#include "analysis/serving/inference_engine.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/help/described.hpp"
#include "bench/commands/help/help_files.hpp"
#include "bench/commands/schedules/schedule_list.hpp"
#include "bench/show/text/progress.hpp"
#include "bench/show/text/text_table.hpp"
#include "bench/show/text/wrap.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/output_json.hpp"
#include "core/config/families/executed_model.hpp"
#include "core/config/model_config.hpp"

namespace plumbline {
namespace {

/// Rows of text under titles; every column but the first and the last is a number. `spare`: titles of columns
/// that a narrow terminal leaves out.
std::string listing(const std::vector<std::string>& titles, const std::vector<std::string>& spare,
                    const std::vector<std::vector<std::string>>& rows) {
  TextTable table;
  for (const std::string& title : titles) {
    const bool words = &title == &titles.front() || &title == &titles.back();
    table.column(title, words, std::find(spare.begin(), spare.end(), title) != spare.end());
  }
  for (const auto& row : rows) table.row(row);
  return table.text(terminal_width(stdout));
}

OrderedJson models_json() {
  OrderedJson models = OrderedJson::array();
  for (const std::string& name : preset_names()) {
    const ModelConfig& model = *find_preset(name);
    models.push_back({{"name", name},
                      {"parameters", model.parameters()},
                      {"active_parameters", model.active_parameters()},
                      {"layers", model.layers},
                      {"hidden_size", model.hidden},
                      {"attention_heads", model.heads},
                      {"key_value_heads", model.kv_heads},
                      {"experts", model.mixture ? model.mixture.experts : 0},
                      {"vocab_size", model.vocab},
                      {"executed", is_executed(model)},
                      {"architecture", model.architecture}});
  }
  return models;
}

std::string models_text() {
  std::vector<std::vector<std::string>> rows;
  const auto number = [](const OrderedJson& value) { return fmt::format("{}", value.get<std::int64_t>()); };
  const auto billions = [](const OrderedJson& value) {
    return fmt::format("{:.3g}", value.get<double>() / 1e9);
  };
  for (const OrderedJson& model : models_json()) {
    rows.push_back({model["name"], billions(model["parameters"]), billions(model["active_parameters"]),
                    number(model["layers"]), number(model["hidden_size"]), number(model["attention_heads"]),
                    number(model["key_value_heads"]), number(model["experts"]), number(model["vocab_size"]),
                    model["executed"] ? "yes" : "predicted", model["architecture"]});
  }
  return listing({"model", "parameters, B", "active", "layers", "hidden", "heads", "KV heads", "experts",
                  "vocabulary", "executed", "architecture"},
                 {"active", "vocabulary", "architecture"}, rows);
}

/// Source of the matrix units' peak: the entry's own, or that of the entry it is based on.
std::string source_of_peak(const std::string& name) {
  for (const EmbeddedFile& file : analysis_files()) {
    if (!file.name.ends_with(".json")) continue;
    const auto json = Json::parse(file.text, nullptr, false);
    if (!json.is_object() || !json.contains("machines") || !json["machines"].contains(name)) continue;
    const Json& machine = json["machines"][name];
    const Json constants = machine.value("constants", Json::object());
    if (constants.contains("peak_16bit")) return constants["peak_16bit"].value("source", "");
    return machine.contains("like") ? source_of_peak(machine["like"]) : "";
  }
  return "";
}

OrderedJson hardware_json() {
  OrderedJson accelerators = OrderedJson::array();
  for (const auto& [name, machine] : built_in_profiles().machines) {
    const Device& device = machine.device;
    accelerators.push_back({{"name", name},
                            {"memory_bytes", device.memory.bytes},
                            {"peak_16bit_flops", device.peak_16bit},
                            {"peak_fp8_flops", device.peak_8bit},
                            {"peak_fp4_flops", device.peak_4bit},
                            {"memory_bandwidth", device.bandwidth},
                            {"gpus_per_node", machine.network.gpus_per_node},
                            {"source", source_of_peak(name)}});
  }
  return accelerators;
}

std::string hardware_text() {
  std::vector<std::vector<std::string>> rows;
  const auto figure = [](const OrderedJson& value, double unit, int digits) {
    const double number = value.get<double>() / unit;
    return number > 0 ? fmt::format("{:.{}f}", number, digits) : std::string("-");
  };
  for (const OrderedJson& each : hardware_json()) {
    rows.push_back({each["name"], figure(each["memory_bytes"], kBytesPerGiB, 1),
                    figure(each["memory_bandwidth"], 1e12, 2), figure(each["peak_16bit_flops"], 1e12, 0),
                    figure(each["peak_fp8_flops"], 1e12, 0), figure(each["peak_fp4_flops"], 1e12, 0),
                    figure(each["gpus_per_node"], 1, 0), each["source"]});
  }
  return listing({"hardware", "memory, GiB", "TB/s", "bf16 TFLOP/s", "fp8", "fp4", "GPUs per node",
                  "source of the peak"},
                 {"source of the peak"}, rows);
}

std::vector<std::string> recipes_of(const Software& software) {
  std::vector<std::string> recipes;
  if (software.fp8.delayed_scaling) recipes.emplace_back("delayed");
  if (software.fp8.tensorwise_scaling) recipes.emplace_back("tensorwise");
  if (software.fp8.blockwise_scaling) recipes.emplace_back("blockwise");
  if (software.fp8.mxfp8_scaling) recipes.emplace_back("mxfp8");
  return recipes;
}

/// Meaning of a value of `software`; empty for a name that software.md lacks.
std::string meaning_of_software(const std::string& name) {
  static const std::vector<Described> kNotes = read_described(embedded_text(help_files(), "software.md"));
  const auto found =
      std::find_if(kNotes.begin(), kNotes.end(), [&](const Described& each) { return each.name == name; });
  return found == kNotes.end() ? "" : found->meaning;
}

OrderedJson software_json() {
  OrderedJson all = OrderedJson::array();
  const auto add = [&](const std::string& name, const Software& software,
                       const std::vector<std::string>& tasks) {
    const auto rows = [&](bool mixture) {
      const auto known = known_errors(name, mixture);
      return std::max(known.step ? known.step->rows : 0, known.peak ? known.peak->rows : 0);
    };
    all.push_back({{"name", name},
                   {"description", meaning_of_software(name)},
                   {"tasks", tasks},
                   {"fsdp", software.communication.sharded},
                   {"moe", software.describes_mixtures() || tasks.back() == "generate"},
                   {"fp8_recipes", recipes_of(software)},
                   {"nvfp4", software.fp8.nvfp4_scaling},
                   {"published_dense_runs", rows(false)},
                   {"published_moe_runs", rows(true)},
                   {"schedules", software.schedules}});
  };
  for (const auto& [name, software] : built_in_profiles().software) {
    std::vector<std::string> tasks = {"train", "sft"};
    if (name == "plumbline") tasks.emplace_back("generate");
    add(name, software, tasks);
  }
  for (const std::string& name : inference_engine_names()) add(name, {}, {"generate"});
  return all;
}

std::string software_text() {
  std::vector<std::vector<std::string>> rows;
  const auto yes = [](bool value) { return std::string(value ? "yes" : "-"); };
  const auto list = [](const OrderedJson& words) {
    std::string text;
    for (const OrderedJson& word : words) text += (text.empty() ? "" : ",") + word.get<std::string>();
    return text.empty() ? std::string("-") : text;
  };
  std::string meanings;
  for (const OrderedJson& each : software_json()) {
    meanings +=
        fmt::format("{:<28}  {}\n", each["name"].get<std::string>(), each["description"].get<std::string>());
    rows.push_back({each["name"], list(each["tasks"]), yes(each["fsdp"]), yes(each["moe"]),
                    list(each["fp8_recipes"]), yes(each["nvfp4"]),
                    fmt::format("{}", each["published_dense_runs"].get<int>()),
                    fmt::format("{}", each["published_moe_runs"].get<int>()), list(each["schedules"])});
  }
  return listing({"software", "tasks", "FSDP", "MoE", "FP8 recipes", "NVFP4", "dense runs", "MoE runs",
                  "schedules"},
                 {"schedules"}, rows) +
         "runs: published runs to compare with (plumbline validate)\n\n" + meanings;
}

struct Kind {
  std::string name;
  std::string (*text)();
  OrderedJson (*json)();
};

const std::vector<Kind>& listed_kinds() {
  static const std::vector<Kind> kKinds = {{"models", models_text, models_json},
                                           {"hardware", hardware_text, hardware_json},
                                           {"software", software_text, software_json},
                                           {"schedules", schedule_list, schedule_list_json}};
  return kKinds;
}

}  // namespace

void add_list_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("list", "List known models, hardware, software or schedules");
  const auto asked = std::make_shared<std::string>();
  const auto json = std::make_shared<bool>(false);
  std::vector<std::string> names;
  for (const Kind& kind : listed_kinds()) names.push_back(kind.name);
  command->add_option("kind", *asked, fmt::format("Kind of names: {}", fmt::join(names, ", ")))
      ->required()
      ->check(CLI::IsMember(names));
  command->add_flag("--json", *json, "Print a JSON array");
  command->callback([=, &action] {
    action = [=] {
      const auto kind = std::find_if(listed_kinds().begin(), listed_kinds().end(),
                                     [&](const Kind& each) { return each.name == *asked; });
      fmt::print("{}", *json ? output_json(kind->json(), 2) + "\n" : within_terminal(kind->text()));
      return 0;
    };
  });
}

}  // namespace plumbline
