// A part of an action that uses a layer's unit of parameters.
#pragma once

#include <cstddef>
#include <cstdint>

#include "analysis/work/action_parts.hpp"
#include "analysis/work/operator_list_calls.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline::passes {

/// The values of experts that are spread over ranks are gathered where the others of their layer are.
template <class Write>
std::size_t layer_part(WorkBuilder& builder, const StageShape& like, WorkBuilder::Kind kind,
                       std::int64_t unit, Write&& write) {
  kind.layer = true;
  const std::size_t part = builder.part(like, kind, unit, write);
  if (builder.gathers(kind) && like.exchanges_rows() && like.expert.copies > 1) {
    builder.work.parts[part].expert_gather =
        CallList::collective_call(CallKind::all_gather, "parameter all-gather", Group::expert_data,
                                  like.expert.copies, padded_expert_unit(like), like.numerics.type);
  }
  return part;
}

template <class Write>
std::size_t layer_part(WorkBuilder& builder, const StageShape& like, WorkBuilder::Kind kind, Write&& write) {
  return layer_part(builder, like, kind, padded_layer_unit(like), write);
}

}  // namespace plumbline::passes
