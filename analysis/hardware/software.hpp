// A generation of training software: its fused kernels, kept activations and overlapped communication.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// Kernels that its layers run as.
struct SoftwareKernels {
  bool flash_attention = false;
  bool cudnn_attention = false;        // where it is the faster: Transformer Engine's choice on Hopper
  bool dropout = true;                 // hidden and attention dropout are on, regardless of the job
  bool attention_dropout = true;       // false: that dropout is the hidden one alone
  bool fused_dropout = true;           // bias, dropout and residual in one kernel
  bool compiled = false;               // torch.compile: chains of pointwise operators are one kernel
  bool fused_weight_gradient = false;  // its product accumulates into the fp32 gradient itself
  bool fused_bias_gradient = false;    // it sums the rows of its operand on the way: the bias's gradient
  bool fused_residual_norm = false;  // attention's sum is normed by the kernel that makes it, without dropout
  bool llama_module = false;  // Llama as torchtitan writes it (analysis/work/frameworks/framework_llama.hpp)
  double flash_forward_share =
      0;  // of the peak, that older attention kernels reach at most; 0: no such bound
  double flash_backward_share = 0;
  double norm_passes = 2;  // passes over an activation of one norm's forward
  double loss_passes = 0;  // fp32 passes over the logits: forward
  double loss_backward_passes = 0;
};

/// Least elements of a gradient bucket that Megatron-Core's users did not set (distributed_data_parallel.py).
inline constexpr double kDefaultBucketElements = 40e6;

/// Messages and collectives, and what they run beside.
struct SoftwareCommunication {
  bool only_shards = false;             // FSDP is its only parallelism
  bool overlapped_messages = false;     // pipeline messages overlap with compute
  bool overlapped_interleaved = false;  // the same, of schedules with several chunks per rank
  bool scattered_messages = false;    // a stage's message is split over tensor ranks (arXiv:2104.04473 §4.1)
  bool overlapped_reduction = false;  // gradient reduction overlaps with the backward
  bool overlapped_gather = false;  // ZeRO 1: parameters are gathered alongside the next step's first forward
  bool sharded = false;            // FSDP: parameters gathered layer by layer
  bool gathers_in_place = false;   // sharded units are used and reduced where they lie, without copies
  bool async_tensor = false;       // tensor-parallel communication split into pieces and hidden
  double all_reduced_bytes = 0;    // of a gradient element that ZeRO 1 all-reduces, and does not scatter
  double bucket_elements = 0;      // least number of gradients reduced at once; 0: those of a layer
  double message_s = 0;            // of a pipeline message: both sides synchronise with the host
  double collective_slowdown = 1;  // of compute while collectives of other passes wait on the device
  double interlaced_slowdown = 1;  // of compute between passes that all pipeline ranks do in step
  double vocabulary_pass_s = 0;    // hand-over between streams of a vocabulary pass

  /// True for Megatron-Core and what is built on it, which alone reduce gradients in buckets.
  bool buckets() const { return bucket_elements > 0; }
  /// True where the software sets their size itself.
  bool sized_buckets() const { return bucket_elements > kDefaultBucketElements; }
};

/// Linear layers in FP8, and the recipes that a job may ask for (Fp8Recipe).
struct SoftwareFp8 {
  bool always = false;       // those of the transformer, regardless of the job
  bool fused_casts = false;  // operands are quantized by the kernel that makes them, and transposed apart
  bool gather = false;       // their parameters are gathered in FP8
  bool delayed_scaling = false;
  bool tensorwise_scaling = false;
  bool blockwise_scaling = false;
  bool mxfp8_scaling = false;
  bool nvfp4_scaling = false;
  bool param_gather = false;  // its recipes but blockwise hold and gather weights in FP8
};

/// Selective recomputation. By name: a layer runs again from its input, except for the results that are kept.
struct SoftwareRecomputation {
  bool selective_operators = false;  // it keeps every second product's result, not the rest
  bool saves_by_name = false;
  bool attention = false;
  bool projection = false;
  bool fc1 = false;
};

/// Gradients, optimizer and memory.
struct SoftwareMemory {
  bool clears_gradients = false;   // of the whole rank, sharded or not, in a pass of its own
  bool scaled_gradients = false;   // divided by the data ranks before they are summed, in a pass of their own
  double gradient_bytes = 2;       // of a gradient element, held and reduced
  double bf16_gradient_bytes = 0;  // the same where training is in bf16; 0: as gradient_bytes
  double bf16_copy_bytes = 0;      // of a 16-bit gradient held beside those
  double weight_gradient_bytes = 0;  // moved per parameter and micro-batch to accumulate the gradient
  double optimizer_bytes = 0;        // moved per parameter and step
  double state_bytes = 0;            // held per parameter, unsharded: parameter, gradient, master, moments
  double optimizer_state_bytes = 0;  // the part of it that ZeRO-1 shards
  double frozen_bytes = 0;           // held per frozen parameter; 0: in the type of the training
  double step_bytes = 0;            // held per parameter of the shard during its update, instead of gradients
  double reduce_buffer_bytes = 0;   // of gradients on their way to their shard, during backward passes
  double allocator_share = 0;       // reserved besides the tensors, as a share of their peak
  double workspace_bytes = 0;       // of its products, in the same allocator, from the first step on
  double logit_bytes = 0;           // held per logit while the loss is computed
  double kept_logit_bytes = 0;      // of it, until the backward
  double logit_gradient_bytes = 0;  // held besides in the backward
  double held_logit_bytes = 0;      // at all times, from one step to the next
  /// bitsandbytes' linear layers and Adam (or torchao's) may take the place of its own; their scales are
  /// sharded with the weights.
  bool blockwise_quantization = false;
  bool sharded_scales = false;
  /// Gradient of a parameter whose optimizer states are in host memory, there; 0: states stay on the device.
  double host_gradient_bytes = 0;
  double metric_logit_bytes = 0;  // held while metrics are computed, after the backward

  /// Bytes of a gradient element, held and reduced, where training is in bf16 or in another type.
  double gradient_bytes_in(bool bf16) const {
    return bf16 && bf16_gradient_bytes > 0 ? bf16_gradient_bytes : gradient_bytes;
  }
};

/// Processor time.
struct SoftwareHost {
  double operator_s = 0;               // to launch one operator
  double graph_operator_s = 0;         // the same for a layer captured as a CUDA graph; 0: it captures none
  double layer_forward_operators = 0;  // launched by one layer's forward
  double layer_backward_operators = 0;
  double micro_batch_s = 0;  // of a stage per micro-batch outside the operators
  double step_s = 0;         // per step: data, logging, synchronisations
};

/// End of a step.
struct SoftwareStepEnd {
  // An optimizer that updates parameter after parameter, and reads from the device before each; 0: it does
  // not.
  double update_operators = 0;  // launched for one, the read included
  double slice_parameters = 0;  // of a layer, that a rank's slice of it has parts of, at most
  double reductions = 0;        // collectives of single numbers over all ranks
  double gathered_numbers = 0;  // that every rank gathers into a tensor for each rank
};

/// Mixtures of experts: operators that a layer's router, and its dispatch with the experts, launch in one
/// direction; 0: the software's MoE layers are not described.
struct SoftwareMixtures {
  double router_operators = 0;
  double dispatch_operators = 0;
  double expert_product_s = 0;      // processor time to launch one product of an expert
  bool alltoall_dispatch = false;   // without a setting of the job: tokens are sent, else all gathered
  bool weighted_results = false;    // results are multiplied with the token's weights, else activations
  bool flex_dispatch = false;       // by kernels such as DeepEP's, which also sort them
  bool hybrid_dispatch = false;     // those kernels are HybridEP's
  bool plain_permutation = false;   // of rows to experts: by PyTorch's operators, not a fused kernel
  bool fp32_router = false;         // products of the router's backward have fp32 operands
  bool fp32_latent_router = false;  // the same in models with latent attention
};

/// Described in analysis/hardware/software.json, with the source of every number.
struct Software {
  bool own_step = false;  // plumbline's, whose calls and tensors are listed exactly (StepTraits)
  SoftwareKernels kernels;
  SoftwareCommunication communication;
  SoftwareFp8 fp8;
  SoftwareRecomputation recomputation;
  SoftwareMemory memory;
  SoftwareHost host;
  SoftwareStepEnd step_end;
  SoftwareMixtures mixtures;

  /// Pipeline schedules that it can run, those with vocabulary passes included; empty: not described.
  std::vector<std::string> schedules{};

  bool describes_mixtures() const { return mixtures.router_operators > 0; }
  /// True if it is known to have the schedule of this name.
  bool runs(std::string_view schedule) const {
    return schedules.empty() || std::find(schedules.begin(), schedules.end(), schedule) != schedules.end();
  }
};

}  // namespace plumbline
