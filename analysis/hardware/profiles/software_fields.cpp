#include "analysis/hardware/profiles/software_fields.hpp"

#include "analysis/hardware/profiles/profile_field.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline {
namespace {

constexpr ProfileField<SoftwareKernels> kKernels[] = {
    {"flash_attention", &SoftwareKernels::flash_attention},
    {"cudnn_attention", &SoftwareKernels::cudnn_attention},
    {"dropout", &SoftwareKernels::dropout},
    {"attention_dropout", &SoftwareKernels::attention_dropout},
    {"fused_dropout", &SoftwareKernels::fused_dropout},
    {"compiled", &SoftwareKernels::compiled},
    {"fused_weight_gradient", &SoftwareKernels::fused_weight_gradient},
    {"fused_bias_gradient", &SoftwareKernels::fused_bias_gradient},
    {"fused_residual_norm", &SoftwareKernels::fused_residual_norm},
    {"llama_module", &SoftwareKernels::llama_module},
    {"flash_forward_share", &SoftwareKernels::flash_forward_share},
    {"flash_backward_share", &SoftwareKernels::flash_backward_share},
    {"norm_passes", &SoftwareKernels::norm_passes},
    {"loss_passes", &SoftwareKernels::loss_passes},
    {"loss_backward_passes", &SoftwareKernels::loss_backward_passes},
};
constexpr ProfileField<SoftwareCommunication> kCommunication[] = {
    {"only_shards", &SoftwareCommunication::only_shards},
    {"overlapped_messages", &SoftwareCommunication::overlapped_messages},
    {"overlapped_interleaved", &SoftwareCommunication::overlapped_interleaved},
    {"scattered_messages", &SoftwareCommunication::scattered_messages},
    {"overlapped_reduction", &SoftwareCommunication::overlapped_reduction},
    {"overlapped_gather", &SoftwareCommunication::overlapped_gather},
    {"sharded", &SoftwareCommunication::sharded},
    {"gathers_in_place", &SoftwareCommunication::gathers_in_place},
    {"async_tensor", &SoftwareCommunication::async_tensor},
    {"all_reduced_bytes", &SoftwareCommunication::all_reduced_bytes},
    {"bucket_elements", &SoftwareCommunication::bucket_elements},
    {"message_s", &SoftwareCommunication::message_s},
    {"collective_slowdown", &SoftwareCommunication::collective_slowdown},
    {"interlaced_slowdown", &SoftwareCommunication::interlaced_slowdown},
    {"vocabulary_pass_s", &SoftwareCommunication::vocabulary_pass_s},
};
constexpr ProfileField<SoftwareFp8> kFp8[] = {
    {"eight_bit", &SoftwareFp8::always},
    {"fused_casts", &SoftwareFp8::fused_casts},
    {"fp8_gather", &SoftwareFp8::gather},
    {"delayed_scaling", &SoftwareFp8::delayed_scaling},
    {"tensorwise_scaling", &SoftwareFp8::tensorwise_scaling},
    {"blockwise_scaling", &SoftwareFp8::blockwise_scaling},
    {"mxfp8_scaling", &SoftwareFp8::mxfp8_scaling},
    {"nvfp4_scaling", &SoftwareFp8::nvfp4_scaling},
    {"fp8_param_gather", &SoftwareFp8::param_gather},
};
constexpr ProfileField<SoftwareRecomputation> kRecomputation[] = {
    {"selective_operators", &SoftwareRecomputation::selective_operators},
    {"saves_by_name", &SoftwareRecomputation::saves_by_name},
    {"recomputes_attention", &SoftwareRecomputation::attention},
    {"recomputes_projection", &SoftwareRecomputation::projection},
    {"recomputes_fc1", &SoftwareRecomputation::fc1},
};
constexpr ProfileField<SoftwareMemory> kMemory[] = {
    {"clears_gradients", &SoftwareMemory::clears_gradients},
    {"scaled_gradients", &SoftwareMemory::scaled_gradients},
    {"gradient_bytes", &SoftwareMemory::gradient_bytes},
    {"bf16_gradient_bytes", &SoftwareMemory::bf16_gradient_bytes},
    {"bf16_copy_bytes", &SoftwareMemory::bf16_copy_bytes},
    {"weight_gradient_bytes", &SoftwareMemory::weight_gradient_bytes},
    {"optimizer_bytes", &SoftwareMemory::optimizer_bytes},
    {"state_bytes", &SoftwareMemory::state_bytes},
    {"optimizer_state_bytes", &SoftwareMemory::optimizer_state_bytes},
    {"frozen_bytes", &SoftwareMemory::frozen_bytes},
    {"step_bytes", &SoftwareMemory::step_bytes},
    {"reduce_buffer_bytes", &SoftwareMemory::reduce_buffer_bytes},
    {"allocator_share", &SoftwareMemory::allocator_share},
    {"workspace_bytes", &SoftwareMemory::workspace_bytes},
    {"logit_bytes", &SoftwareMemory::logit_bytes},
    {"kept_logit_bytes", &SoftwareMemory::kept_logit_bytes},
    {"logit_gradient_bytes", &SoftwareMemory::logit_gradient_bytes},
    {"held_logit_bytes", &SoftwareMemory::held_logit_bytes},
    {"blockwise_quantization", &SoftwareMemory::blockwise_quantization},
    {"sharded_scales", &SoftwareMemory::sharded_scales},
    {"host_gradient_bytes", &SoftwareMemory::host_gradient_bytes},
    {"metric_logit_bytes", &SoftwareMemory::metric_logit_bytes},
};
constexpr ProfileField<SoftwareHost> kHost[] = {
    {"host_operator_s", &SoftwareHost::operator_s},
    {"graph_operator_s", &SoftwareHost::graph_operator_s},
    {"layer_forward_operators", &SoftwareHost::layer_forward_operators},
    {"layer_backward_operators", &SoftwareHost::layer_backward_operators},
    {"micro_batch_s", &SoftwareHost::micro_batch_s},
    {"step_s", &SoftwareHost::step_s},
};
constexpr ProfileField<SoftwareStepEnd> kStepEnd[] = {
    {"update_operators", &SoftwareStepEnd::update_operators},
    {"slice_parameters", &SoftwareStepEnd::slice_parameters},
    {"step_reductions", &SoftwareStepEnd::reductions},
    {"gathered_numbers", &SoftwareStepEnd::gathered_numbers},
};
constexpr ProfileField<SoftwareMixtures> kMixtures[] = {
    {"router_operators", &SoftwareMixtures::router_operators},
    {"dispatch_operators", &SoftwareMixtures::dispatch_operators},
    {"expert_product_s", &SoftwareMixtures::expert_product_s},
    {"alltoall_dispatch", &SoftwareMixtures::alltoall_dispatch},
    {"weighted_results", &SoftwareMixtures::weighted_results},
    {"flex_dispatch", &SoftwareMixtures::flex_dispatch},
    {"hybrid_dispatch", &SoftwareMixtures::hybrid_dispatch},
    {"plain_permutation", &SoftwareMixtures::plain_permutation},
    {"fp32_router", &SoftwareMixtures::fp32_router},
    {"fp32_latent_router", &SoftwareMixtures::fp32_latent_router},
};

void set_schedules(Software& software, const JsonKeys& constant) {
  software.schedules = constant.strings("value", known_schedules().size());
  for (const std::string& name : software.schedules) {
    if (find_schedule_traits(name) == nullptr) constant.refuse("value", "names of pipeline schedules");
  }
}

}  // namespace

bool set_software(Software& software, std::string_view name, const JsonKeys& constant) {
  if (name == "schedules") {
    set_schedules(software, constant);
    return true;
  }
  if (name == "own_step") {
    software.own_step = constant.boolean("value");
    return true;
  }
  return set_field(kKernels, software.kernels, name, constant) ||
         set_field(kCommunication, software.communication, name, constant) ||
         set_field(kFp8, software.fp8, name, constant) ||
         set_field(kRecomputation, software.recomputation, name, constant) ||
         set_field(kMemory, software.memory, name, constant) ||
         set_field(kHost, software.host, name, constant) ||
         set_field(kStepEnd, software.step_end, name, constant) ||
         set_field(kMixtures, software.mixtures, name, constant);
}

}  // namespace plumbline
