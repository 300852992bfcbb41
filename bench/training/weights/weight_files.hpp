// Writes gathered gradients and weights as safetensors files under Hugging Face names.
#pragma once

#include <string>
#include <vector>

#include "bench/convert/planned_files.hpp"
#include "bench/training/stage/rank_stages.hpp"

namespace plumbline::training {

/// Throws OutputError when the configuration's outputs could not be written, before any work is done.
void check_outputs(const RunConfig& config);

/// One file of fp32 tensors, written by world rank 0; nothing is left behind when it fails. Collective.
void save_gradients(RankStages& stages, const std::string& file);
/// Files beside saved weights.
struct SavedModel {
  std::string config;  // config.json
  std::vector<convert::PlannedText> companions;
};
/// config.json is that of the model's source with the keys that differ. For a model without a file, or with a
/// file changed since, it has plumbline's own fields. The tokenizer and generation_config.json are copied
/// from beside it.
SavedModel saved_model(const RunConfig& config);
/// A folder with model.safetensors (fp32 master weights) and saved_model, as transformers' from_pretrained
/// opens it. With LoRA PEFT's adapter_model.safetensors and adapter_config.json, and in the folder merged the
/// model with the adapters added. Collective.
void save_weights(RankStages& stages, const std::string& folder);

}  // namespace plumbline::training
