// Every configuration key in a run on backend cpu: it changes a measured figure or a file, is refused, or is
// named as without effect.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/bench/commands/program_folder.hpp"
#include "tests/bench/key_values.hpp"

namespace plumbline::key_effects_test {
namespace {

constexpr const char* kSizes =
    "num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 4, num_key_value_heads: 2,\n"
    "        intermediate_size: 96, vocab_size: 128, max_position_embeddings: 2048, rms_norm_eps: 1.0e-6";
constexpr const char* kRun =
    "seq_length: 16\nglobal_batch_size: 4\nprecision: fp32\nsteps: 2\nwarmup_steps: 0\n";

/// Measured figures except times; empty: refused, or failed.
struct Outcome {
  std::string figures;
  std::string notes;
};

class KeyEffects : public ProgramFolder {
 protected:
  KeyEffects() {
    write("dense.yaml",
          fmt::format("model: {{model_type: qwen2, tie_word_embeddings: true, {}}}\n{}dp: 2\npp: 2\n", kSizes,
                      kRun));
    write("mixture.yaml",
          fmt::format("model: {{model_type: mixtral, num_local_experts: 4, num_experts_per_tok: 2,\n"
                      "        tie_word_embeddings: false, {}}}\n{}dp: 2\nep: 2\n",
                      kSizes, kRun));
  }

  Outcome outcome(const std::string& options) const {
    const Said said = plumbline("run --json " + options);
    if (said.exit_code != 0) return {"", said.err};
    const nlohmann::json measured = nlohmann::json::parse(said.out)["measurement"];
    nlohmann::json kept;
    for (const char* key : {"memory", "traffic", "losses", "mtp_losses", "expert_load"})
      if (measured.contains(key)) kept[key] = measured[key];
    return {kept.dump(), said.err};
  }
};

/// They change times, how many steps are timed, or predictions.
const std::set<std::string, std::less<>> kOfTime = {"timeout_s",
                                                    "slow_ranks",
                                                    "hardware",
                                                    "overlap_grad_reduce",
                                                    "overlap_param_gather",
                                                    "align_param_gather",
                                                    "overlap_p2p_comm",
                                                    "steps",
                                                    "warmup_steps",
                                                    "moe_routing",
                                                    "overlap_moe_expert_parallel_comm"};
const std::map<std::string, std::string, std::less<>> kFiles = {{"save_gradients", "gradients.safetensors"},
                                                                {"save_weights", "weights"},
                                                                {"save_routing", "routing.csv"}};
/// Values for this small model, where those of the table are for large ones.
const std::map<std::string, std::string, std::less<>> kSmaller = {
    {"seq_length", "8"},        {"prefix_length", "4"},      {"global_batch_size", "8"},
    {"precision", "bf16"},      {"clip_grad", "0.000001"},   {"make_vocab_size_divisible_by", "512"},
    {"memory_budget", "10KiB"}, {"ddp_bucket_size", "1000"}, {"layer_distribution", "1,3"}};

bool of_mixtures(const std::string& key) {
  return key.starts_with("moe_") || key.starts_with("expert_") || key == "save_routing";
}

TEST_F(KeyEffects, EveryKeyOfARunChangesSomethingOrIsRefusedOrNamed) {
  for (const char* file : {"dense.yaml", "mixture.yaml"}) {
    const bool mixture = std::string_view(file) == "mixture.yaml";
    const Outcome before = outcome(file);
    ASSERT_NE(before.figures, "") << before.notes;
    for (const auto& [key, values] : other_values()) {
      if (values.empty() || kOfTime.contains(key) || of_mixtures(key) != mixture) continue;
      // Sizes contradict each other.
      if (key == "world_size" || key.ends_with("parallel_size")) continue;
      const auto smaller = kSmaller.find(key);
      const auto path = kFiles.find(key);
      std::string value = smaller != kSmaller.end() ? smaller->second : values.front();
      if (path != kFiles.end()) value = path->second;
      const Outcome after = outcome(fmt::format("{} --set {}={}", file, key, value));
      const std::size_t note = after.notes.find(fmt::format("note: {}: found ", key));
      const bool named =
          note != std::string::npos &&
          after.notes.substr(note, after.notes.find('\n', note) - note).find(", without effect") !=
              std::string::npos;
      const bool written = path != kFiles.end() && std::filesystem::exists(folder_ / path->second);
      const bool changed = after.figures != before.figures || written;
      EXPECT_TRUE(changed || named) << file << ' ' << key << ' ' << value
                                    << " changes nothing and is not named";
      EXPECT_FALSE(changed && named && !after.figures.empty())
          << file << ' ' << key << ' ' << value << " is named but changes something";
    }
  }
}

}  // namespace
}  // namespace plumbline::key_effects_test
