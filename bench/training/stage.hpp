// One rank's transformer stage: parameters, gradients, optimizer state, and the actions of a schedule on
// them.
#pragma once

#include <map>
#include <vector>

#include "bench/training/gradient_reducer.hpp"
#include "bench/training/layer.hpp"
#include "bench/training/parameters.hpp"
#include "core/executor.hpp"

namespace plumbline::training {

/// The flat memories of a rank, all of total_elements(parameters) elements.
struct StageMemory {
  Tensor values;
  Tensor gradients;
  Tensor master;            // empty when the values are fp32
  Tensor moment1, moment2;  // empty for SGD
};

/// Gradients and loss follow from `start_step` and then the schedule's actions. The gradient is of the mean
/// loss over all tokens of the global batch.
class TransformerStage final : public StageProgram {
 public:
  /// Allocates everything held for the whole run. Contents of the parameters are undefined until loaded.
  TransformerStage(const RunConfig& config, Operators& operators, Communicator& communicator, Arena& arena);

  /// Token ids of this replica's micro-batches, (microbatches, T) each: inputs (used on the first stage) and
  /// targets (used on the last). Starts from zero gradients and loss.
  void start_step(const std::int32_t* inputs, const std::int32_t* targets);

  void run(const Action& action) override;
  Matrix send_buffer(const Action& action) override;
  Matrix receive_buffer(const Action& action) override;

  /// Sum of the token losses of this step's forwards on this rank divided by the tokens of the global batch;
  /// 0 unless this is the last stage. Add over data ranks for the mean loss.
  double loss() const { return loss_sum_ / static_cast<double>(global_tokens_); }
  /// Norm of the last step's gradient before clipping, over the whole model.
  double gradient_norm() const { return gradient_norm_; }

  /// Time in tensor-parallel all-reduces since start_step.
  Seconds tensor_communication() const { return tensor_communication_; }
  /// The optimizer action ends by clearing the gradients for the next step; not so when they are to be read.
  void keep_gradients(bool keep) { keep_gradients_ = keep; }

  const StagePart& part() const { return part_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const StageMemory& memory() const { return memory_; }
  Matrix view(const Tensor& flat, const Parameter& parameter) const;
  const TrainingContext& context() const { return context_; }

 private:
  struct MicrobatchState {
    std::vector<LayerActivations> layers;
    Tensor final_input, final_norm, final_stats;  // last stage
    Tensor logits;                                // last stage: the gradient of the logits after the loss
  };

  LayerWeights layer_weights(const Tensor& flat, std::int64_t local_layer) const;
  const Parameter& find(std::string_view role, std::int64_t layer) const;
  Matrix weight(std::string_view role) const { return view(memory_.values, find(role, -1)); }
  Matrix gradient(std::string_view role) const { return view(memory_.gradients, find(role, -1)); }
  std::string_view output_role() const;

  void forward(std::uint32_t microbatch);
  void backward(std::uint32_t microbatch);
  void embed(std::uint32_t microbatch, const Matrix& output);
  void head_forward(std::uint32_t microbatch, MicrobatchState& state);
  /// Frees the logits; returns the gradient of the final norm's output.
  Tensor output_layer_backward(MicrobatchState& state);
  void final_norm_backward(MicrobatchState& state, const Matrix& dnorm, const Matrix& gradient_out);
  void reduce_tied_embedding();
  void reduce_shared_kv_heads();
  double global_gradient_norm();
  void optimizer_step();

  const RunConfig config_;
  Seconds tensor_communication_;
  TrainingContext context_;
  const StagePart part_;
  const std::vector<Parameter> parameters_;
  StageMemory memory_;
  SharedBuffers shared_;
  std::vector<LayerWeights> weights_;
  std::vector<LayerWeights> gradients_;
  Tensor inputs_, targets_;
  Tensor send_forward_, receive_backward_, send_backward_;
  GradientReducer reducer_;
  std::map<std::uint32_t, MicrobatchState> in_flight_;
  std::int64_t microbatches_done_ = 0;
  std::int64_t optimizer_steps_ = 0;
  std::int64_t global_tokens_;
  double loss_sum_ = 0;
  double gradient_norm_ = 0;
  bool keep_gradients_ = false;
  bool gradients_clear_ = false;
};

}  // namespace plumbline::training
