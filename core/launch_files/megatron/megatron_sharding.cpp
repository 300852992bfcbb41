#include "core/launch_files/megatron/megatron_sharding.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

namespace plumbline {

namespace {

constexpr const char* kStrategy = "--data-parallel-sharding-strategy";
constexpr const char* kDoubleBuffer = "--fsdp-double-buffer";

/// Megatron-FSDP's no_shard, optim and optim_grads: data parallelism, the distributed optimizer and ZeRO 2
/// (NVIDIA/Megatron-LM@d98e8a64 megatron/core/distributed/fsdp/src/megatron_fsdp/
/// param_and_grad_buffer.py, is_model_weight_buffer_distributed, is_main_weight_buffer_distributed and
/// is_grad_buffer_distributed).
void set_partly_sharded(LaunchArguments& from, int zero, const MegatronDialect& dialect, bool gathers) {
  from.set("zero_stage", fmt::format("{}", zero), kStrategy);
  from.set("software", zero == 2 ? "megatron-bridge-fsdp" : dialect.software, kStrategy);
  if (from.on(kDoubleBuffer)) from.not_modelled(kDoubleBuffer, "expected optim_grads_params with it");
  if (zero > 0) from.set("overlap_param_gather", gathers ? "true" : "false", "--overlap-param-gather");
}

}  // namespace

void check_megatron_fsdp(LaunchArguments& from, bool bf16, bool fp16) {
  const bool on = from.on("--use-custom-fsdp") || from.on("--use-megatron-fsdp");
  struct Default {
    const char* flag;
    std::string_view values;  // predicted; empty: off
    const char* reason;
    const char* note = nullptr;  // where the prediction is near enough: what it leaves out
  };
  const std::string_view of_model = fp16   ? " auto fp16 torch.float16 "
                                    : bf16 ? " auto bf16 torch.bfloat16 "
                                           : " auto fp32 torch.float32 ";
  const Default defaults[] = {
      {"--megatron-fsdp-main-grads-dtype", of_model, "gradients in another type than the parameters"},
      {"--megatron-fsdp-grad-comm-dtype", of_model, "gradients reduced in another type than the parameters"},
      {"--megatron-fsdp-main-params-dtype", " fp32 torch.float32 ",
       "main parameters in another type than fp32"},
      {"--megatron-fsdp-max-pool-double-buffer", "", "persistent double buffers of Megatron-FSDP"},
      {"--use-nccl-ub", "", "its buffers are those of fsdp_double_buffer, which is set",
       "predicted as without; registered buffers take collectives fewer multiprocessors"},
  };
  if (!on && from.has(kDoubleBuffer)) from.without_effect(kDoubleBuffer, "Megatron-FSDP is off");
  for (const Default& each : defaults) {
    if (!from.has(each.flag)) continue;
    const bool predicted = each.values.empty() ? !from.on(each.flag)
                                               : each.values.find(" " + from.text(each.flag, "") + " ") !=
                                                     std::string_view::npos;
    if (on && !predicted && each.note != nullptr) {
      from.without_effect(each.flag, each.reason);
      from.file().notes.push_back(fmt::format("{}: {}", from.origin(each.flag), each.note));
    } else if (on && !predicted) {
      from.not_modelled(each.flag, each.reason);
    } else {
      from.without_effect(each.flag, on ? "it is at the value that is predicted" : "Megatron-FSDP is off");
    }
  }
}

void set_megatron_sharding(LaunchArguments& from, const MegatronDialect& dialect) {
  std::string software = dialect.software;
  const char* const gather = "--overlap-param-gather";
  const bool pretrains = dialect.recipe && !dialect.finetunes;
  const bool gathers = from.has(gather) ? from.on(gather) : pretrains;
  if (dialect.recipe) from.set_default("overlap_grad_reduce", pretrains ? "true" : "false");
  for (const char* flag : {"--use-megatron-fsdp", "--use-custom-fsdp", "--use-torch-fsdp2"}) {
    if (!from.on(flag)) continue;
    software = "megatron-bridge-fsdp";
    const char* const strategy = kStrategy;
    constexpr std::string_view kStrategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
    const std::string name = flag == std::string_view("--use-torch-fsdp2")
                                 ? "optim_grads_params"
                                 : from.text(strategy, "optim_grads_params");
    const auto* const found = std::find(std::begin(kStrategies), std::end(kStrategies), name);
    if (found == std::end(kStrategies))
      from.refuse(strategy, fmt::format("one of {}", fmt::join(kStrategies, ", ")));
    if (name != "optim_grads_params")
      return set_partly_sharded(from, name == "optim_grads" ? 2 : name == "optim" ? 1 : 0, dialect, gathers);
    from.set("zero_stage", "3", from.has(strategy) ? strategy : flag);
    from.set("software", software, flag);
    if (from.on(kDoubleBuffer) || from.on("--use-nccl-ub"))
      from.set("fsdp_double_buffer", "true", from.on(kDoubleBuffer) ? kDoubleBuffer : "--use-nccl-ub");
    // FSDP2 gathers ahead by itself.
    const bool own = flag != std::string_view("--use-torch-fsdp2");
    if (own || gathers) from.set("overlap_param_gather", gathers ? "true" : "false", gather);
    return;
  }
  from.derive("software", software, fmt::format("a launch file of {}", dialect.framework));
  const char* const sharded = "--use-distributed-optimizer";
  // Its matrices have one owner each (arguments.py).
  const bool owned = from.text("--optimizer", "") == "dist_muon";
  if (!owned && !(from.has(sharded) ? from.on(sharded) : dialect.recipe)) {
    if (from.on(gather) && !dialect.partial)
      from.refuse_with(gather, "no sharded optimizer", "--use-distributed-optimizer or --use-megatron-fsdp");
    return;
  }
  from.set("zero_stage", "1", owned ? "--optimizer" : sharded);
  from.set("overlap_param_gather", gathers ? "true" : "false", gather);
}

}  // namespace plumbline
