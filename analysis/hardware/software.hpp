// A generation of training software: which kernels it fuses, what it keeps, which communication it overlaps.
#pragma once

namespace plumbline::cluster {

/// Described in analysis/hardware/clusters.json ("software"), with the source of every number.
struct Software {
  bool flash_attention = false;
  bool dropout = true;        // hidden and attention dropout are on, whatever the job says
  bool fused_dropout = true;  // bias, dropout and residual in one kernel
  bool compiled = false;      // torch.compile: chains of pointwise operators are one kernel
  bool fused_weight_gradient =
      false;                         // the weight-gradient product accumulates into the fp32 gradient itself
  bool overlapped_messages = false;  // pipeline messages overlap with compute
  bool overlapped_interleaved = false;  // the same, of schedules with several chunks per rank
  bool scattered_messages = false;    // a stage's message is split over tensor ranks (arXiv:2104.04473 §4.1)
  bool overlapped_reduction = false;  // gradient reduction overlaps with the backward
  bool sharded = false;               // FSDP: parameters gathered layer by layer
  bool async_tensor = false;          // tensor-parallel communication split into pieces and hidden
  bool selective_operators =
      false;                  // selective recomputation keeps every second product's result, not the rest
  bool fp8 = false;           // linear layers of the transformer in FP8
  double gradient_bytes = 2;  // of a gradient element, held and reduced
  double weight_gradient_bytes = 0;    // moved per parameter and micro-batch to accumulate the gradient
  double optimizer_bytes = 0;          // moved per parameter and step
  double state_bytes = 0;              // held per parameter, unsharded: parameter, gradient, master, moments
  double optimizer_state_bytes = 0;    // the part of it that ZeRO-1 shards
  double host_operator_s = 0;          // processor time to launch one operator
  double layer_forward_operators = 0;  // launched by one layer's forward
  double layer_backward_operators = 0;
  double norm_passes = 2;  // passes over an activation of one norm's forward
  double loss_passes = 0;  // fp32 passes over the logits: forward
  double loss_backward_passes = 0;
  double message_s = 0;            // of a pipeline message: both sides synchronise with the host
  double collective_slowdown = 1;  // of compute while collectives of other passes wait on the device
  double interlaced_slowdown = 1;  // of compute between passes that all pipeline ranks do in step
  double vocabulary_pass_s = 0;    // hand-over between streams of a vocabulary pass
  double micro_batch_s = 0;        // host time of a stage per micro-batch outside the operators
  double step_s = 0;               // per step: data, logging, synchronisations
};

}  // namespace plumbline::cluster
