// libFuzzer target: any folder of a LoRA adapter as PEFT saves it gives the adapters' parameters or throws
// InputError. The input is adapter_config.json, a line "---", and adapter_model.safetensors.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/training/parameters/rank_parameters.hpp"
#include "bench/training/trainer/run_files.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/base/error.hpp"
#include "core/config_text/load_config.hpp"
#include "tests/fuzz/scratch_files.hpp"

namespace {

using namespace plumbline;

RunConfig tuned_run() {
  RunConfig config = load_run_config(
      "", {{"model",
            R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,)"
            R"( "num_key_value_heads": 1, "intermediate_size": 8, "vocab_size": 16, "rms_norm_eps": 1e-6,)"
            R"( "max_position_embeddings": 8, "tie_word_embeddings": true})"},
           {"seq_length", "8"},
           {"precision", "fp32"},
           {"frozen", "lora"},
           {"lora_rank", "2"},
           {"lora_targets", "all"}});
  config.files.lora_weights = fuzz::scratch().at("adapter");
  return config;
}

/// Every element of the adapters, as a rank that has the whole model reads it.
void read_all(const RunConfig& config) {
  training::StagePart part;
  part.layers = config.model.layers;
  part.has_embedding = part.has_output = true;
  part.shares_embedding = config.model.embedding.tied;
  const training::SliceReader reader = training::initial_weights(config);
  for (const training::Parameter& parameter : training::stage_parameters(config, part).list) {
    if (parameter.role.find(".lora_") == std::string::npos) continue;
    std::vector<float> values(static_cast<std::size_t>(parameter.elements()));
    for (const training::Slice& slice : parameter.slices)
      reader(parameter, slice, values.data() + slice.local_row * parameter.cols + slice.local_col,
             parameter.cols);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const RunConfig kConfig = tuned_run();
  const std::vector<std::string> parts = fuzz::parts_of(data, size);
  fuzz::scratch().write("adapter/adapter_config.json", parts.front());
  fuzz::scratch().write("adapter/adapter_model.safetensors", parts.size() > 1 ? parts[1] : "");
  try {
    training::check_files(kConfig);
    read_all(kConfig);
  } catch (const InputError&) {
  }
  return 0;
}
