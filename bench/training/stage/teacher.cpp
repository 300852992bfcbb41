#include "bench/training/stage/teacher.hpp"

#include <utility>

namespace plumbline::training {

TeacherStage::TeacherStage(RankResources& teacher, const StageEntry& entry, bool joint)
    : rank_(teacher),
      part_(entry.part),
      joint_(joint),
      keeps_hidden_(teacher.context.config.distillation.cache == DistillationCache::hidden),
      send_(part_.last() || joint
                ? Tensor()
                : teacher.context.make_stream(Category::communication, "send-teacher buffer")),
      layers_(teacher, entry, send_),
      inputs_(static_cast<std::size_t>(teacher.placement.microbatches)),
      outputs_(inputs_.size()) {
  if (part_.first()) {
    input_.emplace(teacher, entry);
    embedding_norm_.emplace(teacher, entry);
    uses_ = input_->units();
  }
  uses_.insert(uses_.end(), layers_.units().begin(), layers_.units().end());
  if (!part_.last()) return;
  output_.emplace(teacher, entry);
  output_use_ = output_->units();
  if (!keeps_hidden_) uses_.push_back(output_->units().front());
}

Matrix TeacherStage::receive(std::uint32_t microbatch) {
  Tensor& input = inputs_[microbatch];
  input = rank_.context.make_stream(rank_.context.kept, "layer input");
  return input;
}

void TeacherStage::forward(std::uint32_t microbatch, const Matrix& tokens) {
  rank_.values.begin_action(uses_);
  rank_.expert_values.begin_action(layers_.expert_units());
  if (input_) input_->forward(tokens, receive(microbatch));
  Tensor stream = std::move(inputs_[microbatch]);
  if (input_) embedding_norm_->forward(stream);
  stream = layers_.run(microbatch, std::move(stream));
  if (part_.last()) {
    outputs_[microbatch] = output_of(std::move(stream));
  } else if (joint_) {
    outputs_[microbatch] = std::move(stream);
  }
}

Tensor TeacherStage::output_of(Tensor input) {
  const TrainingContext& context = rank_.context;
  NormedOutput saved;
  saved.input = std::move(input);
  output_->normalise(saved);
  if (keeps_hidden_) return std::move(saved.norm);
  const bool fp32 = context.config.distillation.cache_dtype == DistillationCacheDType::fp32;
  return output_->project(saved.norm, context.kept, fp32 ? DType::fp32 : context.config.numerics.precision);
}

Tensor TeacherStage::take_logits(std::uint32_t microbatch) {
  Tensor output = take_output(microbatch);
  if (!keeps_hidden_) return output;
  rank_.values.begin_action(output_use_);
  return output_->project(output, rank_.context.kept, rank_.context.config.numerics.precision);
}

}  // namespace plumbline::training
