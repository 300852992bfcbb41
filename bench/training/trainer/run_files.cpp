#include "bench/training/trainer/run_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/training/trainer/loss_mask.hpp"
#include "bench/training/weights/adapter_config.hpp"
#include "bench/training/weights/checkpoint_check.hpp"
#include "bench/training/weights/weight_files.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/config/common_vocabulary.hpp"
#include "core/files/chat_data.hpp"
#include "core/files/token_data.hpp"

namespace plumbline::training {
namespace {

constexpr std::size_t kLongestPath = 400;

/// Unused tensors of a checkpoint, as one line; empty when all are used.
std::string remark_on(const char* key, const std::string& path, const ModelConfig& model) {
  constexpr std::size_t kMostNamed = 4;
  const std::vector<std::string> unused = unused_tensors(model, path);
  if (unused.empty()) return "";
  std::string names;
  for (std::size_t i = 0; i < std::min(unused.size(), kMostNamed); ++i) {
    names += (i == 0 ? "" : ", ") + printable(unused[i], 80);
  }
  if (unused.size() > kMostNamed) names += fmt::format(" and {} more", unused.size() - kMostNamed);
  return fmt::format(
      "{}: {} holds {} tensors that a {} model of this configuration has no place for, they are "
      "not used: {}",
      key, printable(path, kLongestPath), unused.size(), model.architecture, names);
}

/// The emulated backend moves no values: nothing is read, nothing can be saved.
std::vector<std::string> check_valueless(const RunConfig& config) {
  if (!config.files.save_gradients.empty() || !config.files.save_weights.empty()) {
    throw InputError(
        "save_gradients, save_weights: found with backend emulated, which computes no values, expected cpu "
        "or cuda; leave them out or use cpu");
  }
  std::vector<std::string> remarks;
  const std::pair<const char*, const std::string*> inputs[] = {
      {"weights", &config.files.weights},
      {"lora_weights", &config.files.lora_weights},
      {"data", &config.files.data},
      {"loss_mask", &config.files.loss_mask},
      {"teacher_weights", &config.distillation.teacher_weights}};
  for (const auto& [key, path] : inputs) {
    const bool lengths = path == &config.files.data && config.batch.packed_sequence;
    if (!path->empty() && !lengths) {
      remarks.push_back(fmt::format("{}: not read, the emulated backend computes no values", key));
    }
  }
  return remarks;
}

}  // namespace

std::vector<std::string> check_files(const RunConfig& config) {
  if (config.machine.backend == Backend::emulated) return check_valueless(config);
  check_outputs(config);
  std::vector<std::string> remarks;
  const auto check = [&](const char* key, const std::string& path, const ModelConfig& model) {
    if (path.empty()) return;
    std::string remark = remark_on(key, path, model);
    if (!remark.empty()) remarks.push_back(std::move(remark));
  };
  check("weights", config.files.weights, config.model);
  if (!config.files.lora_weights.empty()) {
    for (std::string& remark : check_adapter_config(config)) remarks.push_back(std::move(remark));
    adapter_weights(config);
  }
  if (config.distillation.teacher) {
    check("teacher_weights", config.distillation.teacher_weights, *config.distillation.teacher);
  }
  if (config.fine_tunes()) {
    const ChatData chats(config.files.data, common_vocab(config), config.batch.seq_length);
    if (!chats.unread_keys().empty()) {
      remarks.push_back(fmt::format("data: {}: training does not read these keys of its lines: {}",
                                    printable(config.files.data, kLongestPath),
                                    fmt::join(chats.unread_keys(), ", ")));
    }
    return remarks;
  }
  const TokenSource data(config.files.data, config.model.vocab, config.batch.seq_length, config.measure.seed);
  const LossMask mask(config.files.loss_mask, data.tokens(), config.batch.seq_length);
  return remarks;
}

}  // namespace plumbline::training
