// One stage of the schedule: some layers of the model, with its input or output end if it has one.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "bench/training/ends/input_end.hpp"
#include "bench/training/ends/output_end.hpp"
#include "bench/training/ends/vocabulary_ends.hpp"
#include "bench/training/layer/layer.hpp"
#include "bench/training/stage/in_flight.hpp"
#include "bench/training/stage/offloaded_layers.hpp"
#include "bench/training/stage/prediction_modules.hpp"

namespace plumbline::training {

/// Forward and backward of micro-batches. A last stage may be without layers. bench/training/README.md lists
/// what is allocated when.
class ModelStage {
 public:
  /// `joint`: another object packs and unpacks this stage's messages and owns their buffers. With a teacher
  /// in the configuration, another object computes the loss. `vocabulary`: of a rank that has a shard of both
  /// ends of the model, else null. `host`: of a rank that offloads activations, else null.
  ModelStage(RankResources& rank, const StageEntry& entry, bool joint = false,
             VocabularyEnds* vocabulary = nullptr, HostSide* host = nullptr);
  ModelStage(const ModelStage&) = delete;
  ModelStage& operator=(const ModelStage&) = delete;

  /// The neighbours in the route that are on this rank, or null: passing results to them needs no message.
  void link(ModelStage* previous, ModelStage* next);
  void start_step() {
    losses_.clear();
    for (NumberSum& losses : module_losses_) losses = {};
  }

  void forward(std::uint32_t microbatch);
  void backward(std::uint32_t microbatch);
  void backward_input(std::uint32_t microbatch);
  void backward_weight(std::uint32_t microbatch);

  const Matrix& send_forward_buffer() const { return send_forward_; }
  const Matrix& send_backward_buffer() const { return send_backward_; }
  /// Allocates the receive buffer of the previous stage's output (the next stage's gradient).
  Matrix receive_forward(std::uint32_t microbatch);
  /// The buffer of a first stage's looked-up tokens, all rows of them, with a split vocabulary.
  Matrix receive_embedded(std::uint32_t microbatch);
  Matrix receive_backward(std::uint32_t microbatch);

  /// With joint messages: the result of the last F (of a stage that is not last), and of the last B or I (of
  /// one that is not first).
  Tensor take_output() { return std::move(joint_output_); }
  Tensor take_input_gradient() { return std::move(joint_gradient_); }

  const OutputEnd& output_end() const { return *output_; }
  /// OPT, first of all.
  void finish_gradients() const {
    if (output_) output_->finish_gradients();
  }
  /// Logits on a last stage; empty before F.
  Matrix logits(std::uint32_t microbatch);
  void add_loss(NumberSum sum) { losses_.push_back(std::move(sum)); }
  /// Sum of the token losses of this step's forwards, once the operators have been waited for.
  double loss_sum() const { return total(losses_); }
  /// The same for every MTP module; empty except on a last stage that has some.
  const std::vector<NumberSum>& module_loss_sums() const { return module_losses_; }

 private:
  /// Layers [first, end) that are recomputed together.
  struct Group {
    std::size_t first, end;
  };

  /// Units in the order in which an action uses their values; experts that are spread over ranks apart.
  struct Uses {
    std::vector<int> units;
    std::vector<int> experts;
    void add(const Layer& layer);
  };

  void make_uses();
  void begin_action(const Uses& uses, std::uint32_t microbatch);
  MicrobatchState& held(std::uint32_t microbatch, const char* action);
  Matrix stage_output(std::uint32_t microbatch, MicrobatchState& state);
  /// Lets overlapped collectives progress, if there are any.
  void progress() const;
  void recompute(const Group& group, const MicrobatchDropout& dropout, MicrobatchState& state);
  void layer_backward_step(std::size_t i, const MicrobatchDropout& dropout, MicrobatchState& state,
                           std::uint32_t microbatch);
  void layer_input_step(std::size_t i, const MicrobatchDropout& dropout, MicrobatchState& state,
                        std::uint32_t microbatch, Tensor& input_gradient);
  /// Destination of the gradient of the stage's input; `own` on a first stage.
  Matrix input_gradient_place(std::uint32_t microbatch, const Matrix& own);
  /// Destination, on a last stage, of the gradient of its last layer's output, or of its input when it has no
  /// layer.
  Matrix output_gradient_place(std::uint32_t microbatch, MicrobatchState& state, Category category);
  bool recomputes_all() const;
  /// The output layer's weight gradient is W's, all others are I's (bench/training/overlap.md).
  bool defers_output_gradient() const;

  RankResources& rank_;
  const StagePart part_;
  const bool joint_;
  VocabularyEnds* vocabulary_;
  std::vector<Layer> layers_;
  std::vector<Group> groups_;
  std::optional<InputEnd> input_;
  std::optional<EmbeddingNorm> embedding_norm_;
  std::optional<OutputEnd> output_;
  std::optional<PredictionModules> modules_;
  std::optional<OffloadedLayers> offloaded_;
  Uses forward_uses_;
  Uses backward_uses_;
  Tensor send_forward_, send_backward_;
  Tensor joint_output_, joint_gradient_;
  ModelStage* previous_ = nullptr;
  ModelStage* next_ = nullptr;
  InFlight in_flight_;
  std::vector<NumberSum> losses_;  // of every forward
  std::vector<NumberSum> module_losses_;
};

}  // namespace plumbline::training
