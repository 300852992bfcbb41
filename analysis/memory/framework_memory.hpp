// Memory that another training framework holds, per action and for the whole run. Activations: Korthikanti et
// al. (arXiv:2205.05198 §4.1, table 2) and the frameworks' public sources. States: ZeRO (arXiv:1910.02054)
// with the framework's bytes per parameter.
#pragma once

#include <span>

#include "analysis/memory/stage/memory_replay.hpp"
#include "analysis/step/stage_shape.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Bytes that one layer keeps for its backward per micro-batch, as the stage recomputes: with full
/// recomputation a group's input, shared by its layers.
std::int64_t framework_layer_bytes(const StageShape& shape);

/// With ZeRO 3, gathered parameters and gradients of two layers: in use while layers run backward, or with
/// fsdp_double_buffer at all times (FixedPoolAllocator in NVIDIA/Megatron-LM@d98e8a64
/// megatron/core/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py).
std::int64_t framework_unit_buffers(const StageShape& shape);

/// Bytes of these that are on the host until the backward where the layer is offloaded: all, or those of
/// tensors that the named parts keep (OffloadModules) from 1 Mi elements on (min_offloaded_tensor_size). A
/// result of attention in the type of the projection's operand is kept by both.
std::int64_t framework_offloaded_bytes(const StageShape& shape);

/// Bytes that a stage's vision tower keeps for its backward per micro-batch, and those in use while one layer
/// runs.
struct TowerBytes {
  std::int64_t kept = 0;
  std::int64_t passing = 0;
};
TowerBytes framework_tower_bytes(const StageShape& shape);

/// The profile of an action on a stage of other software. Transfers and the end of the step allocate
/// nothing: received data is part of the layers' kept activations. Throws InputError for an action that
/// frameworks do not have.
ActionProfile framework_action_profile(const StageShape& shape, ActionType type);

/// Bytes of a parameter's weight, gradient, master copy and moments on one of `replicas` ranks, for
/// `parameters` parameters (arXiv:1910.02054 figure 1).
double framework_state_bytes(const Software& software, double parameters, int replicas, int zero);

/// Memory that a rank with these stages holds on its device for the whole run.
MemoryBreakdown framework_held_bytes(std::span<const StageShape> stages);
/// Bytes in host memory: offloaded states, their gradients, parameters.
Bytes framework_host_bytes(std::span<const StageShape> stages);
/// Bytes of states that an action copies between device and host, the larger of both directions.
Bytes host_state_copies(const StageShape& shape, ActionType type);

}  // namespace plumbline
