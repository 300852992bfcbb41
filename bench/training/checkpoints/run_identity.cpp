#include "bench/training/checkpoints/run_identity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/config/common_vocabulary.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/files/chat_data.hpp"
#include "core/files/token_data.hpp"

namespace plumbline::training {
namespace {

constexpr std::array<std::string_view, 13> kAlike = {
    "seq_length", "prefix_length", "global_batch_size", "precision",
    "fp8_format", "fp8_recipe",    "fp8_margin",        "fp8_amax_history_len",
    "optimizer",  "seed",          "hidden_dropout",    "attention_dropout",
    "frozen"};
/// Keys of MTP modules; checkpoints of other models do not have them.
constexpr std::array<std::string_view, 2> kOfModules = {"mtp_num_layers", "mtp_loss_scaling_factor"};
constexpr std::array<std::string_view, 8> kSplit = {
    "world_size",         "tensor_model_parallel_size", "pipeline_model_parallel_size",
    "data_parallel_size", "context_parallel_size",      "zero_stage",
    "vocab_parallel",     "pipeline_schedule"};
/// Keys of optimizer instances; checkpoints of runs without do not have them.
constexpr std::array<std::string_view, 1> kOfInstances = {"num_distributed_optimizer_instances"};
/// Keys of fine-tuning; checkpoints of other runs do not have them.
constexpr std::array<std::string_view, 2> kOfChats = {"task", "packed_sequence"};
/// Keys of adapters, whose frozen weights are not in a checkpoint.
constexpr std::array<std::string_view, 4> kOfAdapters = {"lora_rank", "lora_alpha", "lora_targets",
                                                         "weights"};
/// Key of a momentum; checkpoints of other runs do not have it.
constexpr std::array<std::string_view, 1> kOfMomentum = {"sgd_momentum"};
constexpr const char* kModelPrefix = "model.";

template <std::size_t N>
NamedTexts chosen(const RunConfig& config, const std::array<std::string_view, N>& keys) {
  const NamedTexts all = describe(config);
  NamedTexts texts;
  texts.reserve(N);
  for (const std::string_view key : keys) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.first == key; });
    if (found != all.end()) texts.push_back(*found);
  }
  return texts;
}

void append_model(NamedTexts& texts, const std::string& prefix, const ModelConfig& model) {
  const auto keys = parse_json_object<OrderedJson>(to_config_json(model), "model");
  for (const auto& [key, value] : keys.items()) {
    if (key != "_name_or_path")
      texts.emplace_back(prefix + key, value.dump());  // the same model by another name
  }
}

/// Elements of adapters as PEFT names them: an A for each linear layer of the checkpoint.
std::int64_t adapter_elements(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const std::int64_t h = model.hidden;
  const std::int64_t queries = model.heads * model.head_dim;
  const std::int64_t keys = model.kv_heads * model.head_dim;
  const std::int64_t inner = model.dense_ffn();
  std::int64_t features = 3 * h + queries + 2 * keys;
  if (config.finetune.lora_targets != LoraTargets::qkv) features += queries + h;
  const std::int64_t outer = is_gated(model.activation) ? 2 : 1;
  if (config.finetune.lora_targets == LoraTargets::all) features += outer * (h + inner) + inner + h;
  return config.finetune.lora_rank * model.layers * features;
}

}  // namespace

NamedTexts identity_of(const RunConfig& config) {
  NamedTexts texts;
  append_model(texts, kModelPrefix, config.model);
  for (auto& each : chosen(config, kAlike)) texts.push_back(std::move(each));
  if (config.optimizer.kind == Optimizer::sgd && config.optimizer.sgd_momentum > 0) {
    for (auto& each : chosen(config, kOfMomentum)) texts.push_back(std::move(each));
  }
  if (config.finetune.lora()) {
    for (auto& each : chosen(config, kOfAdapters)) texts.push_back(std::move(each));
  }
  if (config.model.prediction_modules > 0) {
    for (auto& each : chosen(config, kOfModules)) texts.push_back(std::move(each));
  }
  if (config.distillation.teacher) append_model(texts, "teacher.", *config.distillation.teacher);
  if (config.fine_tunes()) {
    for (auto& each : chosen(config, kOfChats)) texts.push_back(std::move(each));
    const ChatData chats(config.files.data, common_vocab(config), config.batch.seq_length);
    texts.emplace_back("conversations of data", fmt::format("{}", chats.size()));
    return texts;
  }
  const TokenSource data(config.files.data, common_vocab(config), config.batch.seq_length,
                         config.measure.seed);
  texts.emplace_back("tokens of data", fmt::format("{}", data.tokens()));
  return texts;
}

NamedTexts split_of(const RunConfig& config) {
  NamedTexts texts = chosen(config, kSplit);
  if (config.parallel.dp.optimizer_instances > 1) {
    for (auto& each : chosen(config, kOfInstances)) texts.push_back(std::move(each));
  }
  return texts;
}

void require_same_run(const FoundCheckpoint& checkpoint, const RunConfig& config) {
  const NamedTexts wanted = identity_of(config);
  const NamedTexts& found = checkpoint.facts.identity;
  const auto text_of = [](const NamedTexts& texts, const std::string& key) -> std::string {
    const auto at =
        std::find_if(texts.begin(), texts.end(), [&](const auto& each) { return each.first == key; });
    return at == texts.end() ? "nothing" : at->second;
  };
  const auto refuse = [&](const std::string& key) {
    throw InputError(fmt::format(
        "--resume: {}: found {} {}, expected {} as in the configuration; use the configuration that wrote "
        "it, or name another --checkpoint-dir",
        checkpoint.folder, printable(key), printable(text_of(found, key)), printable(text_of(wanted, key))));
  };
  for (const auto& [key, value] : wanted) {
    if (text_of(found, key) != value) refuse(key);
  }
  for (const auto& [key, value] : found) {
    if (text_of(wanted, key) != value) refuse(key);
  }
}

Bytes checkpoint_bytes(const RunConfig& config) {
  // Muon keeps one number less of matrices.
  const std::int64_t states = 1 + config.optimizer.moments(ParameterClass::other);
  const std::int64_t elements = config.finetune.lora()
                                    ? adapter_elements(config)
                                    : config.model.parameters() + config.model.module_parameters();
  return {elements * states * size_of(DType::fp32)};
}

}  // namespace plumbline::training
