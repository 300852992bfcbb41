#include "bench/training/stage/teacher.hpp"

#include <utility>

#include "bench/training/stage/layer_use.hpp"

namespace plumbline::training {

TeacherStage::TeacherStage(RankResources& teacher, const StageEntry& entry, bool joint)
    : rank_(teacher),
      part_(entry.part),
      joint_(joint),
      keeps_hidden_(teacher.context.config.distillation.cache == DistillationCache::hidden),
      inputs_(static_cast<std::size_t>(teacher.placement.microbatches)),
      outputs_(inputs_.size()) {
  for (std::int64_t i = 0; i < part_.layers; ++i) {
    layers_.emplace_back(teacher.memory, entry, part_.first_layer + i);
  }
  if (part_.first()) {
    input_.emplace(teacher, entry);
    embedding_norm_.emplace(teacher, entry);
    uses_ = input_->units();
  }
  for (const Layer& layer : layers_) {
    uses_.push_back(layer.unit);
    if (layer.expert_unit >= 0) expert_uses_.push_back(layer.expert_unit);
  }
  if (part_.last()) {
    output_.emplace(teacher, entry);
    output_use_ = output_->units();
    if (!keeps_hidden_) uses_.push_back(output_->units().front());
  } else if (!joint_) {
    send_ = teacher.context.make_stream(Category::communication, "send-teacher buffer");
  }
}

Matrix TeacherStage::receive(std::uint32_t microbatch) {
  Tensor& input = inputs_[microbatch];
  input = rank_.context.make_stream(rank_.context.kept, "layer input");
  return input;
}

void TeacherStage::forward(std::uint32_t microbatch, const Matrix& tokens) {
  const TrainingContext& context = rank_.context;
  const MicrobatchDropout dropout = rank_.dropout(microbatch);  // a teacher has none
  rank_.values.begin_action(uses_);
  rank_.expert_values.begin_action(expert_uses_);
  if (input_) input_->forward(tokens, receive(microbatch));
  Tensor stream = std::move(inputs_[microbatch]);
  if (input_) {
    EmbeddedTokens unused;
    embedding_norm_->forward(stream, unused);
  }
  for (const Layer& layer : layers_) {
    Tensor output;
    forward_only(rank_, dropout, layer, std::move(stream), [&](const LayerActivations& saved) {
      rank_.note_expert_load(microbatch, layer.index, saved.mixture.routing);
      const bool sends = &layer == &layers_.back() && send_;
      if (!sends) output = context.make_stream(context.kept, "layer input");
      return sends ? send_.matrix() : output.matrix();
    });
    stream = std::move(output);
  }
  if (part_.last()) {
    outputs_[microbatch] = output_of(std::move(stream));
  } else if (joint_) {
    outputs_[microbatch] = std::move(stream);
  }
}

Tensor TeacherStage::output_of(Tensor input) {
  const TrainingContext& context = rank_.context;
  OutputActivations saved;
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
