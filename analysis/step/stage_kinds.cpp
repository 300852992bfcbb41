#include "analysis/step/stage_kinds.hpp"

#include <algorithm>
#include <utility>

namespace plumbline {
namespace {

/// Index of the kind whose first member is like `member`; a new kind with this first member if there is none.
template <class Member, class Alike>
std::size_t kind_of(const Member& member, std::vector<Member>& firsts, const Alike& alike) {
  // Neighbours are mostly alike.
  for (std::size_t kind = firsts.size(); kind-- > 0;) {
    if (alike(firsts[kind], member)) return kind;
  }
  firsts.push_back(member);
  return firsts.size() - 1;
}

}  // namespace

bool differ_in_place_only(const StageShape& a, const StageShape& b) {
  if (a.layers != b.layers || a.place.first != b.place.first || a.place.last != b.place.last) return false;
  StageShape there = a;
  there.place.stage = b.place.stage;
  there.place.route = b.place.route;
  return there == b;
}

StageKinds::StageKinds(std::vector<StageShape> all, const Schedule& schedule)
    : shapes(std::move(all)), stages_held(static_cast<std::size_t>(schedule.ranks)) {
  of_stage.reserve(shapes.size());
  of_rank.reserve(stages_held.size());
  for (std::size_t stage = 0; stage < shapes.size(); ++stage) {
    of_stage.push_back(kind_of(stage, first_stage, [&](std::size_t first, std::size_t mine) {
      return differ_in_place_only(shapes[first], shapes[mine]);
    }));
    stages_held[static_cast<std::size_t>(schedule.rank_of_stage[stage])].push_back(stage);
  }
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    of_rank.push_back(kind_of(rank, first_rank, [&](int first, int mine) {
      const auto& one = stages_held[static_cast<std::size_t>(first)];
      const auto& other = stages_held[static_cast<std::size_t>(mine)];
      return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                        [&](std::size_t a, std::size_t b) { return of_stage[a] == of_stage[b]; });
    }));
  }
}

std::vector<StageShape> StageKinds::on_rank(int rank) const {
  const std::vector<std::size_t>& stages = stages_held[static_cast<std::size_t>(rank)];
  std::vector<StageShape> held;
  held.reserve(stages.size());
  for (const std::size_t stage : stages) held.push_back(shapes[stage]);
  return held;
}

}  // namespace plumbline
