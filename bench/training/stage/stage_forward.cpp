// The forward of a stage, as its tape records it.
#include <set>

#include "bench/training/blocks/decoder_layer.hpp"
#include "bench/training/blocks/layer_use.hpp"
#include "bench/training/operators/input.hpp"
#include "bench/training/operators/norm.hpp"
#include "bench/training/operators/output.hpp"
#include "bench/training/operators/residual.hpp"
#include "bench/training/stage/stage.hpp"
#include "bench/training/tape/pass.hpp"

namespace plumbline::training {

void ModelStage::record() {
  const DType type = rank_.context.config.numerics.precision;
  recorded_.input = tape_.slot({"layer input", Category::activations, type});
  if (!part_.first()) {
    tape_.place_gradient(recorded_.input,
                         tape_.slot({"gradient of the stage's input", Category::workspace, type, false,
                                     [this](std::uint32_t m) { return input_gradient_place(m); }}));
  }
  const Slot output = record_layers(record_input());
  if (output_) {
    record_output(output);
  } else {
    recorded_.output_gradient = tape_.slot({"gradient of the stage's output", Category::communication, type});
    tape_.give_gradient(output, recorded_.output_gradient);
  }
  recorded_.programs = make_programs(tape_, defers_output_gradient());
}

Slot ModelStage::record_input() {
  Slot x = recorded_.input;
  if (!input_) return x;
  if (rank_.context.frozen) tape_.stop_gradient(x);
  const TokensOf tokens = [](const Pass& pass) { return pass.rank.input_tokens(pass.microbatch); };
  if (vocabulary_ == nullptr) {
    embed(tape_, *input_, tokens, x);
  } else {
    x = finish_embedding(tape_, *input_, x);
  }
  embedding_backward(tape_, *input_, tokens, x);
  if (embedding_norm_->on()) {
    x = norm(tape_,
             {.values = embedding_norm_->values(),
              .gradients = embedding_norm_->gradients(),
              .holder = "layer input",
              .statistics = "embedding norm statistics",
              .gradient = "gradient of embedded tokens",
              .apart = Category::workspace},
             x);
  }
  return drop(tape_, dropout_site::kEmbedding, x);
}

Slot ModelStage::record_layers(Slot x) {
  const auto together = tape_.recomputes_all()
                            ? static_cast<std::size_t>(rank_.context.config.recompute.num_layers)
                            : layers_.size();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    if (i % together == 0) tape_.begin_group();
    tape_.add({.forward = begin_use(layer), .backward = end_backward(layer), .between = true});
    tape_.begin_layer(begin_use(layer));
    const bool reads_tokens = part_.first() && i == 0;
    const RecordedLayer made = decoder_layer(
        tape_, layer, {x, output_of(i), reads_tokens ? Category::workspace : Category::activations});
    LayerEnd end;
    if (offloaded_) {
      end.forward = [this, i](Pass& pass) { offloaded_->forward_done(i, pass.frame()); };
      end.backward = [this, i](Pass& pass) { offloaded_->backward_begins(i, pass.frame()); };
    }
    end_layer(tape_, layer, end);
    if ((i + 1) % together == 0 || i + 1 == layers_.size()) tape_.end_group();
    recorded_.mixtures.push_back(made.mixture);
    x = made.output;
  }
  return x;
}

Slot ModelStage::output_of(std::size_t layer) {
  SlotMemory memory{"layer input", Category::activations, rank_.context.config.numerics.precision};
  if (layer + 1 == layers_.size() && !part_.last()) {
    memory.holder = "layer output";
    memory.place = [this](std::uint32_t microbatch) { return output_place(microbatch); };
  }
  return tape_.slot(std::move(memory));
}

void ModelStage::record_output(Slot x) {
  const Slot hidden = norm(tape_,
                           {.values = output_->norm(),
                            .gradients = output_->norm_gradients(),
                            .holder = "final norm",
                            .statistics = "final norm statistics",
                            .scale = output_->multiplier(),
                            .keeps_output = vocabulary_ == nullptr,
                            .gradient = "gradient of the last layer"},
                           x);
  if (vocabulary_ != nullptr) return shared_output_layer(tape_, *output_, hidden);
  std::vector<Slot> norms = {hidden};
  if (modules_) {
    const std::vector<Slot> ahead = modules_->record(tape_, hidden);
    norms.insert(norms.end(), ahead.begin(), ahead.end());
  }
  const std::vector<Slot> logits = output_layer(tape_, *output_, norms);
  recorded_.logits = logits.front();
  if (rank_.context.config.distillation.teacher) {
    tape_.give_gradient(recorded_.logits, tape_.view(recorded_.logits));
  } else {
    record_loss(tape_, recorded_.logits, [this](Pass& pass, Tensor& values) {
      const Matrix targets = rank_.target_tokens(pass.microbatch);
      const double scale = rank_.scaled_per_token();
      add_loss(rank_.policy_tokens
                   ? output_->policy_loss(targets, rank_.policy_tokens_of(pass.microbatch), scale, values)
                   : output_->loss(targets, scale, values));
    });
  }
  for (std::size_t k = 0; k + 1 < logits.size(); ++k) {
    record_loss(tape_, logits[k + 1], [this, k](Pass& pass, Tensor& values) {
      module_losses_[k].add(output_->loss(rank_.module_tokens(rank_.module_targets, k, pass.microbatch),
                                          rank_.per_module_token(k), values));
    });
  }
}

std::vector<KeptByLayer> ModelStage::kept_by_layers() const {
  std::vector<KeptByLayer> all;
  for (std::size_t i = 0; i < offloaded_->layers(); ++i) {
    const Tape::Layer& layer = tape_.layers()[i];
    std::set<int> kept;
    int output = -1;
    for (std::size_t j = layer.begin; j < layer.end; ++j) {
      const Step& step = tape_.entries()[j].entry.forward;
      for (const std::vector<Slot>& slots : {step.reads, step.makes})
        for (const Slot slot : slots)
          if (recorded_.programs.kept[static_cast<std::size_t>(slot.memory)]) kept.insert(slot.memory);
      if (!step.makes.empty() && !tape_.entries()[j].entry.between) output = step.makes.front().memory;
    }
    kept.erase(output);
    all.push_back({{kept.begin(), kept.end()}, recorded_.mixtures[i]});
  }
  return all;
}

}  // namespace plumbline::training
