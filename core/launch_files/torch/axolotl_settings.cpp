#include "core/launch_files/torch/axolotl_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/one_line.hpp"
#include "core/launch_files/arguments/argument_table.hpp"
#include "core/launch_files/arguments/key_names.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/torch/hugging_face_settings.hpp"

namespace plumbline {
namespace {

/// Keys of a file on their way to TrainingArguments.
class AxolotlKeys {
 public:
  explicit AxolotlKeys(std::vector<LaunchArgument> keys) : keys_(std::move(keys)) {}

  /// Adapters: `adapter` names the method, lora_target_linear stands for all layers. Adapters on quantized
  /// weights are those of lora.
  void take_adapters() {
    std::string adapter = value("adapter");
    if (adapter.empty() || adapter == "None") adapter = "full";
    if (adapter == "qlora" && !on("load_in_4bit")) replace("load_in_4bit", "load_in_4bit", "true");
    replace("adapter", "finetuning_type", adapter == "qlora" ? "lora" : adapter);
    if (on("lora_target_linear")) replace("lora_target_linear", "lora_target", "all");
    drop("lora_target_linear");
  }

  /// Attention by the switches of older files.
  void take_attention() {
    constexpr std::pair<const char*, const char*> kSwitches[] = {{"flash_attention", "flash_attention_2"},
                                                                 {"xformers_attention", "xformers"},
                                                                 {"sdp_attention", "sdpa"},
                                                                 {"flex_attention", "flex_attention"},
                                                                 {"eager_attention", "eager"}};
    for (const auto& [name, kernel] : kSwitches) {
      if (on(name)) replace(name, "attn_implementation", kernel);
      drop(name);
    }
  }

  /// Precision: bf16 is auto, which a GPU of today has. Models are loaded in the type of computation
  /// (axolotl/utils/config/__init__.py, torch_dtype).
  void take_types() {
    if (on("bf16")) replace("bf16", "bf16", "true");
    if (on("bfloat16") && !on("bf16")) replace("bfloat16", "bf16", "true");
    if (on("float16") && !on("fp16")) replace("float16", "fp16", "true");
    const bool wide = on("bf16");
    if (wide || on("fp16")) replace("torch_dtype", "torch_dtype", wide ? "bfloat16" : "float16");
  }

  /// batch_size is that of all micro-batches (axolotl/utils/config, gradient_accumulation_steps).
  void take_batch() {
    const auto size = [](const std::string& text) {
      return text.find_first_not_of("0123456789") == std::string::npos && text.size() < 10 && !text.empty()
                 ? std::stoll(text)
                 : 0;
    };
    const std::int64_t whole = size(value("batch_size"));
    const std::int64_t each = size(value("micro_batch_size"));
    if (whole <= 0 || each <= 0 || size(value("gradient_accumulation_steps")) > 0) return;
    const std::string place = find("batch_size")->place;
    drop("gradient_accumulation_steps");
    keys_.push_back(
        {"gradient_accumulation_steps", {fmt::format("{}", std::max<std::int64_t>(1, whole / each))}, place});
  }

  void take_sharding() {
    if (find("gradient_checkpointing") == nullptr)
      replace("gradient_checkpointing", "gradient_checkpointing", "false");
    const bool sharded = std::any_of(keys_.begin(), keys_.end(), [](const LaunchArgument& each) {
      return each.name.starts_with("fsdp") && each.values != std::vector<std::string>{"None"};
    });
    if (sharded) replace("distributed_type", "distributed_type", "FSDP");
  }

  LaunchFile read(const OtherFile& other, const BesideFile& beside) {
    const ArgumentTable& table = argument_table("axolotl_keys.txt");
    std::vector<LaunchArgument> own;
    std::vector<LaunchArgument> keys;
    for (LaunchArgument& each : keys_) {
      if (const ArgumentName* const name = table.other_name(each.name)) names_.rename(each, name->flag);
      (table.find(each.name) == nullptr ? keys : own).push_back(std::move(each));
    }
    LaunchFile told;
    told.framework = "Axolotl";
    told.beside = beside;
    const LaunchArguments sorted(own, table, told);
    tell_plugins(sorted);
    LaunchFile file = trainer_launch(std::move(keys), other, names_.as_read(beside), told.framework);
    append_remarks(file, told);
    names_.restore(file, beside);
    return file;
  }

 private:
  /// Plugins by the module of axolotl.integrations that they are in.
  static void tell_plugins(const LaunchArguments& sorted) {
    const LaunchArgument* const plugins = sorted.find("plugins");
    if (plugins == nullptr) return;
    for (const std::string& name : plugins->values) {
      if (name == "None" || name == "[]" || name.find("swanlab") != std::string::npos) continue;
      if (name.find("cut_cross_entropy") != std::string::npos || name.find(".liger.") != std::string::npos) {
        sorted.approximated("plugins",
                            "fused kernels are predicted as the software's own, with logits in fp32");
      } else {
        sorted.not_modelled("plugins", fmt::format("{}: kernels or a method of its own", printable(name)));
        return;
      }
    }
  }

  LaunchArgument* find(std::string_view name) {
    const auto found = std::find_if(keys_.rbegin(), keys_.rend(),
                                    [&](const LaunchArgument& each) { return each.name == name; });
    return found == keys_.rend() ? nullptr : &*found;
  }
  std::string value(std::string_view name) {
    const LaunchArgument* const found = find(name);
    return found == nullptr || found->values.size() != 1 ? "" : found->values.front();
  }
  bool on(std::string_view name) {
    const std::string text = value(name);
    return text == "true" || text == "True" || text == "auto";
  }
  void drop(std::string_view name) {
    std::erase_if(keys_, [&](const LaunchArgument& each) { return each.name == name; });
  }
  /// At the key's own place; without one, that of the file's first key.
  void replace(const std::string& from, const std::string& to, const std::string& text) {
    const LaunchArgument* const found = find(from);
    const std::string place = found != nullptr ? found->place : keys_.empty() ? "" : keys_.front().place;
    if (found != nullptr) names_.add(from, to);
    drop(from);
    drop(to);
    keys_.push_back({to, {text}, place});
  }

  std::vector<LaunchArgument> keys_;
  KeyNames names_;
};

}  // namespace

LaunchFile axolotl_launch(std::vector<LaunchArgument> arguments, const OtherFile& other,
                          const BesideFile& beside) {
  AxolotlKeys keys(std::move(arguments));
  keys.take_adapters();
  keys.take_attention();
  keys.take_types();
  keys.take_batch();
  keys.take_sharding();
  return keys.read(other, beside);
}

}  // namespace plumbline
