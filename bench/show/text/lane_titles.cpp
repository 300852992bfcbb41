#include "bench/show/text/lane_titles.hpp"

#include <fmt/format.h>

namespace plumbline {
namespace {

std::string_view group_title(Group group) {
  switch (group) {
    case Group::world:
      return "world";
    case Group::tensor:
      return "TP";
    case Group::data:
      return "DP";
    case Group::pipeline:
      return "PP";
    case Group::model:
      return "model-parallel";
    case Group::embedding:
      return "tied embedding";
    case Group::mirror:
      return "bidirectional PP";
    case Group::shared_kv:
      return "shared K/V head";
    case Group::context:
      return "CP";
    case Group::context_heads:
      return "CP all-to-all";
    case Group::expert:
      return "EP";
    case Group::expert_data:
      return "expert DP";
    case Group::zero_param:
      return "hpZ";
    case Group::optimizer_instance:
      return "intra-instance DP";
    case Group::between_instances:
      return "inter-instance DP";
    case Group::vocab_hidden:
      return "vocab hidden state";
    case Group::vocab_statistics:
      return "vocab statistics";
    case Group::vocab_gradient:
      return "vocab gradient";
    case Group::embedding_output:
      return "embedding output";
    case Group::embedding_gradient:
      return "embedding gradient";
  }
  return name_of(group);
}

}  // namespace

std::string lane_title(LaneGroup lane) {
  return lane ? fmt::format("{} communication", group_title(*lane)) : "CPU offload copies";
}

}  // namespace plumbline
