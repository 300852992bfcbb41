#include "core/launch_files/arguments/export_checks.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {

void refuse_export(const std::string& framework, const std::string& key, const std::string& found,
                   const std::string& expected) {
  throw InputError(fmt::format("{}: found {}, which {} do not say; expected {}", key, printable(found),
                               framework, expected));
}

const char* megatron_switch(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.pp.defer_embedding_wgrad_compute) return "defer_embedding_wgrad_compute";
  if (parallel.dp.fsdp_double_buffer) return "fsdp_double_buffer";
  if (parallel.dp.gather_with_update) return "overlap_param_gather_with_optimizer_step";
  if (parallel.ep.shared_expert_overlap) return "moe_shared_expert_overlap";
  if (parallel.ep.delay_wgrad_compute) return "delay_wgrad_compute";
  if (config.mixture.rank_capacity_factor != 0) return "moe_expert_rank_capacity_factor";
  return config.offload.modules.any() ? "offload_modules" : nullptr;
}

void check_exportable(const std::string& framework, const RunConfig& config, bool muon) {
  const ParallelConfig& parallel = config.parallel;
  if (config.distillation.teacher)
    refuse_export(framework, "teacher", config.distillation.teacher->name, "none");
  if (config.finetune.lora())
    refuse_export(framework, "frozen", config.finetune.canonical() ? "canonical_lora" : "lora", "none");
  if (parallel.splits_vocabulary()) refuse_export(framework, "vocab_parallel", "a split over stages", "none");
  if (config.batch.images_per_sequence != 0)
    refuse_export(framework, "images_per_sequence", "a vision tower", "0");
  if (config.batch.prefix_length != 0) refuse_export(framework, "prefix_length", "a prefix", "0");
  if (config.optimizer.kind != Optimizer::adam && !(muon && config.optimizer.muons()))
    refuse_export(framework, "optimizer", optimizer_name(config.optimizer.kind), "adam");
}

}  // namespace plumbline
