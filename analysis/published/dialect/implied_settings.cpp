#include "analysis/published/dialect/implied_settings.hpp"

#include <string>
#include <string_view>

#include "core/config/model_config.hpp"

namespace plumbline {
namespace {

std::string text_of(const Cells& cells, std::string_view column) {
  const auto at = cells.find(column);
  return at == cells.end() ? "" : at->second;
}

bool is_gpt(const Cells& cells) {
  const std::string type = text_of(cells, "model_type");
  if (!type.empty()) return type == "gpt2";
  const ModelConfig* preset = find_preset(text_of(cells, "model"));
  return preset != nullptr && preset->architecture == "gpt2";
}

bool routes_for_real(const Cells& cells) {
  return text_of(cells, "moe_routing") == "real" ||
         text_of(cells, "other_flags").find("moe_routing real") != std::string::npos;
}

}  // namespace

Cells with_implied_settings(Cells cells) {
  const std::string software = text_of(cells, "software");
  if (software.starts_with("torchtitan")) {
    // torchtitan has no model of GPT-2's architecture (pytorch/torchtitan@1a618d1d torchtitan/models). Its
    // relative that trains such models with PyTorch's FSDP is llm-foundry.
    if (software == "torchtitan" && is_gpt(cells)) cells["software"] = "llm-foundry";
    // pytorch/torchtitan@ba246978 torchtitan/config_manager.py: context_parallel_rotate_method is allgather.
    cells.try_emplace("cp_comm_type", "all_gather");
  }
  // Megatron-Bridge's performance recipes balance experts by force. NVIDIA's MLPerf code of DeepSeek-V3,
  // which routes for real, aligns gathers only if ALIGN_PARAM_GATHER is set (training_results_v6.0@eabf23a0
  // conf/deepseekv3_671b.yaml); others keep Megatron-Bridge's default.
  if (software == "megatron-bridge" && text_of(cells, "model") == "deepseek-v3" && routes_for_real(cells))
    cells.try_emplace("align_param_gather", "false or true");
  return cells;
}

}  // namespace plumbline
