// One stage of the schedule: some layers of the model, with its input or output end if it has one.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "bench/training/blocks/prediction_modules.hpp"
#include "bench/training/ends/embedding_norm.hpp"
#include "bench/training/ends/input_end.hpp"
#include "bench/training/ends/output_end.hpp"
#include "bench/training/ends/vocabulary_ends.hpp"
#include "bench/training/layer/layer.hpp"
#include "bench/training/stage/in_flight.hpp"
#include "bench/training/stage/offloaded_layers.hpp"
#include "bench/training/tape/program.hpp"

namespace plumbline::training {

/// Forward and backward of micro-batches. A last stage may be without layers. Its forward is recorded once;
/// bench/training/README.md lists what is allocated when.
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
  /// The forward on the tape, and what follows from it.
  struct Recorded {
    Slot input;                 // received, or looked up
    Slot output_gradient;       // received
    Slot logits;                // of a last stage
    std::vector<int> mixtures;  // of the layers: number of the mixture, or -1
    Programs programs;
  };

  void make_layers(const StageEntry& entry);
  void make_ends(const StageEntry& entry);

  void record();
  Slot record_input();
  Slot record_layers(Slot x);
  Slot output_of(std::size_t layer);
  void record_output(Slot x);
  /// Destination of the stage's output, and of the gradient of its input.
  Matrix output_place(std::uint32_t microbatch);
  Matrix input_gradient_place(std::uint32_t microbatch);
  std::vector<KeptByLayer> kept_by_layers() const;

  void run(const Program& program, std::uint32_t microbatch);
  void require(std::uint32_t microbatch, const char* action) const;
  Matrix receive(Slot slot, std::uint32_t microbatch, Tensor made);
  /// The output layer's weight gradient is W's, all others are I's (bench/training/overlap.md).
  bool defers_output_gradient() const;

  RankResources& rank_;
  const StagePart part_;
  const bool joint_;
  VocabularyEnds* vocabulary_;
  std::vector<Layer> layers_;
  std::optional<InputEnd> input_;
  std::optional<EmbeddingNorm> embedding_norm_;
  std::optional<OutputEnd> output_;
  std::optional<PredictionModules> modules_;
  std::optional<OffloadedLayers> offloaded_;
  Tensor send_forward_, send_backward_;
  Tensor joint_output_, joint_gradient_;
  ModelStage* previous_ = nullptr;
  ModelStage* next_ = nullptr;

  Tape tape_;
  Recorded recorded_;
  std::optional<InFlight> in_flight_;
  std::vector<NumberSum> losses_;  // of every forward
  std::vector<NumberSum> module_losses_;
};

}  // namespace plumbline::training
