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
      values(context, memory, pieces_of(context.config, false)),
      expert_values(context, memory, pieces_of(context.config, true)),
      gradients(context, parameters, memory) {
  shared.attention_scratch = scratch ? *scratch : attention_scratch.matrix();
}

void RankResources::note_expert_load(std::uint32_t microbatch, std::int64_t layer, const Routing& routing) {
  if (routing.chose.empty()) return;
  const Layout& layout = context.communicator.layout();
  ExpertLoad load;
  load.copy = layout.sender(layout.coordinates(context.communicator.rank()));
  load.layer = static_cast<std::int32_t>(layer);
  load.microbatch = static_cast<std::int32_t>(microbatch);
  load.tokens.assign(routing.chose.begin(), routing.chose.end());
  load.rows.assign(routing.counts.begin(), routing.counts.end());
  expert_load.push_back(std::move(load));
}

}  // namespace plumbline::training
