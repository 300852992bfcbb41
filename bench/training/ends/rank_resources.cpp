#include "bench/training/ends/rank_resources.hpp"

#include <utility>

namespace plumbline::training {

RankResources::RankResources(TrainingContext made_of, StageMap map, RankParameters own,
                             std::optional<Matrix> scratch)
    : context(made_of),
      placement(std::move(map)),
      parameters(std::move(own)),
      memory(context, parameters),
      fp8(context, parameters, memory),
      attention_scratch(scratch ? Tensor() : make_attention_scratch(context)),
      shared(make_shared_buffers(context)),
      values(context, memory, context.config.parallel.copies()),
      expert_values(context, memory, context.config.parallel.expert_copies()),
      gradients(context, parameters, memory) {
  shared.attention_scratch = scratch ? *scratch : attention_scratch.matrix();
}

}  // namespace plumbline::training
