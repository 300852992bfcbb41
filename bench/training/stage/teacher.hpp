// One stage of a distillation's teacher: forward only, nothing kept but its output.
#pragma once

#include <optional>
#include <vector>

#include "bench/training/blocks/forward_layers.hpp"
#include "bench/training/ends/embedding_norm.hpp"
#include "bench/training/ends/input_end.hpp"
#include "bench/training/ends/output_end.hpp"

namespace plumbline::training {

/// bench/training/distillation.md lists what is allocated when.
class TeacherStage {
 public:
  /// `joint`: activations travel in the student's messages, so there is no send buffer.
  TeacherStage(RankResources& teacher, const StageEntry& entry, bool joint);
  TeacherStage(const TeacherStage&) = delete;
  TeacherStage& operator=(const TeacherStage&) = delete;

  /// tokens (1, T): used by a first stage.
  void forward(std::uint32_t microbatch, const Matrix& tokens);
  /// Allocates the receive buffer of the previous stage's output.
  Matrix receive(std::uint32_t microbatch);
  const Matrix& send_buffer() const { return send_; }

  /// Output kept by the forward: on a last stage logits or the final norm's output, with joint messages the
  /// stage's output.
  bool has_output(std::uint32_t microbatch) const { return static_cast<bool>(outputs_[microbatch]); }
  Tensor take_output(std::uint32_t microbatch) { return std::move(outputs_[microbatch]); }
  /// Output of a last stage as logits, (T, v).
  Tensor take_logits(std::uint32_t microbatch);
  /// Only on a last stage.
  const OutputEnd& output_end() const { return *output_; }

 private:
  Tensor output_of(Tensor input);

  RankResources& rank_;
  const StagePart part_;
  const bool joint_;
  const bool keeps_hidden_;
  std::optional<InputEnd> input_;
  std::optional<EmbeddingNorm> embedding_norm_;
  std::optional<OutputEnd> output_;
  std::vector<int> uses_;  // of units' values, in order
  std::vector<int> output_use_;
  Tensor send_;
  ForwardLayers layers_;
  std::vector<Tensor> inputs_;   // by micro-batch, received
  std::vector<Tensor> outputs_;  // by micro-batch
};

}  // namespace plumbline::training
