#include "bench/training/blocks/forward_layers.hpp"

#include <utility>

#include "bench/training/blocks/decoder_layer.hpp"
#include "bench/training/blocks/layer_use.hpp"
#include "bench/training/tape/pass.hpp"

namespace plumbline::training {

ForwardLayers::ForwardLayers(RankResources& rank, const StageEntry& entry, const Matrix& output)
    : rank_(rank), tape_(rank.context, true), input_(tape_.slot("layer input")), output_(input_) {
  layers_.reserve(static_cast<std::size_t>(entry.part.layers));  // entries of the tape refer to them
  for (std::int64_t i = 0; i < entry.part.layers; ++i) {
    const Layer& layer = layers_.emplace_back(rank.memory, entry, entry.part.first_layer + i);
    SlotMemory memory{"layer input", rank.context.kept, rank.context.config.numerics.precision};
    if (i + 1 == entry.part.layers && output.data != nullptr)
      memory.place = [output](std::uint32_t) { return output; };
    tape_.add({.forward = begin_use(layer), .between = true});
    tape_.begin_layer(begin_use(layer));
    output_ = decoder_layer(tape_, layer, {output_, tape_.slot(std::move(memory))}).output;
    end_layer(tape_, layer);
  }
  program_ = make_forward(tape_, output_);
  frame_.memory.resize(tape_.memories());
  frame_.mixtures.resize(static_cast<std::size_t>(tape_.mixtures()));
}

Tensor ForwardLayers::run(std::uint32_t microbatch, Tensor stream) {
  Pass pass(rank_, tape_, frame_, microbatch);
  pass.put(input_, std::move(stream));
  program_.run(pass);
  return pass.take(output_);
}

}  // namespace plumbline::training
