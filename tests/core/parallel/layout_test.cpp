// Rank order and groups: tensor fastest, then data, pipeline slowest.
#include "core/parallel/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace plumbline::layout_test {
namespace {

struct Case {
  Layout layout;
  Group group;
  int rank;
  std::vector<int> members;
};

TEST(Layout, GroupsFollowMegatronsOrder) {
  const Layout l{.tensor = 2, .pipeline = 3, .data = 2};
  const Layout shared{.tensor = 2, .pipeline = 2, .data = 4, .context = 2};
  const Layout near{.tensor = 2, .pipeline = 2, .data = 6, .zero_param = 3};
  const Layout cut{.tensor = 2, .pipeline = 2, .data = 6, .optimizer_instance = 3};
  const Layout alone{.tensor = 2, .pipeline = 1, .data = 4, .optimizer_instance = 1};
  const std::vector<Case> cases = {
      {l, Group::tensor, 0, {0, 1}},
      {l, Group::tensor, 7, {6, 7}},
      {l, Group::data, 0, {0, 2}},
      {l, Group::data, 5, {5, 7}},
      {l, Group::pipeline, 3, {3, 7, 11}},
      {l, Group::model, 2, {2, 3, 6, 7, 10, 11}},
      {l, Group::embedding, 1, {1, 9}},
      {l, Group::embedding, 9, {1, 9}},
      {l, Group::embedding, 5, {}},
      {{2, 1, 2}, Group::embedding, 3, {3}},
      {{1, 1, 1}, Group::world, 0, {0}},
      {l, Group::mirror, 0, {0, 8}},
      {l, Group::mirror, 9, {1, 9}},
      {l, Group::mirror, 5, {5}},
      {l, Group::shared_kv, 5, {5}},
      {{4, 2, 1, 2}, Group::shared_kv, 3, {2, 3}},
      {{4, 2, 1, 4}, Group::shared_kv, 6, {4, 5, 6, 7}},
      {shared, Group::context, 0, {0, 2}},
      {shared, Group::context, 7, {5, 7}},
      {shared, Group::data, 7, {1, 3, 5, 7}},
      {shared, Group::model, 2, {2, 3, 10, 11}},
      {l, Group::context, 5, {5}},
      {l, Group::context_heads, 5, {}},
      {{1, 1, 8, 1, false, 4, 2}, Group::context_heads, 7, {6, 7}},
      {{2, 1, 8, 1, false, 8, 4}, Group::context_heads, 3, {1, 3, 5, 7}},
      {l, Group::expert, 5, {}},
      {l, Group::expert_data, 5, {}},
      {{2, 1, 4, 1, false, 1, 1, 2}, Group::expert, 5, {5, 7}},
      {{2, 1, 4, 1, false, 1, 1, 2}, Group::expert_data, 5, {1, 5}},
      {{1, 2, 4, 1, false, 2, 1, 4}, Group::expert, 6, {4, 5, 6, 7}},
      {{1, 2, 4, 1, false, 2, 1, 4}, Group::expert_data, 6, {6}},
      // Experts cut on their own: slices, then parts, then copies.
      {{2, 1, 4, 1, false, 1, 1, 4, 1}, Group::expert, 5, {4, 5, 6, 7}},
      {{2, 1, 4, 1, false, 1, 1, 4, 1}, Group::expert_data, 5, {1, 5}},
      {{2, 2, 2, 1, false, 1, 1, 1, 4}, Group::expert, 6, {4, 5, 6, 7}},
      {{2, 1, 3, 1, false, 1, 1, 2, 3}, Group::expert, 4, {0, 1, 2, 3, 4, 5}},
      {{4, 1, 1, 1, false, 1, 1, 1, 1}, Group::expert_data, 2, {0, 1, 2, 3}},
      // Those of an optimizer instance.
      {{.tensor = 2, .data = 8, .expert = 2, .optimizer_instance = 4}, Group::expert_data, 5, {1, 5}},
      {{.tensor = 2, .data = 8, .expert = 2, .optimizer_instance = 4}, Group::expert_data, 14, {10, 14}},
      {{.tensor = 2, .data = 8, .expert = 2, .optimizer_instance = 4}, Group::between_instances, 14, {6, 14}},
      {{.tensor = 2, .data = 4, .expert = 2, .expert_tensor = 1, .optimizer_instance = 2},
       Group::expert_data,
       7,
       {5, 7}},
      {l, Group::zero_param, 5, {}},
      {l, Group::optimizer_instance, 5, {}},
      {l, Group::between_instances, 5, {}},
      {cut, Group::optimizer_instance, 3, {1, 3, 5}},
      {cut, Group::optimizer_instance, 20, {18, 20, 22}},
      {cut, Group::between_instances, 3, {3, 9}},
      {cut, Group::between_instances, 20, {14, 20}},
      {alone, Group::optimizer_instance, 3, {3}},
      {alone, Group::between_instances, 3, {1, 3, 5, 7}},
      {near, Group::zero_param, 3, {1, 3, 5}},
      {near, Group::zero_param, 20, {18, 20, 22}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(c.layout.members(c.group, c.rank), c.members) << name_of(c.group) << " of rank " << c.rank;
  }
}

TEST(Layout, CoordinatesAndRanksAreInverse) {
  const Layout l{.tensor = 3, .pipeline = 2, .data = 4};
  for (int rank = 0; rank < l.world(); ++rank) EXPECT_EQ(l.rank_of(l.coordinates(rank)), rank);
  EXPECT_EQ(l.rank_of({.tensor = 2, .data = 1, .pipeline = 1}), 2 + 3 * 1 + 12 * 1);
}

/// Groups are ranges of coordinates: their members are those of their ranges, and equal ranges have equal
/// members.
TEST(Layout, ExtentsAreTheMembers) {
  for (const Layout& layout :
       {Layout{2, 3, 4, 1, false}, Layout{4, 2, 1, 2, true}, Layout{1, 4, 2, 1, true},
        Layout{2, 2, 4, 1, false, 2}, Layout{1, 1, 8, 1, false, 4, 2}, Layout{2, 2, 4, 1, false, 1, 1, 2},
        Layout{1, 1, 4, 1, false, 1, 1, 4}, Layout{2, 2, 4, 1, false, 1, 1, 4, 1},
        Layout{2, 1, 3, 1, false, 1, 1, 2, 3}, Layout{2, 2, 4, 1, false, 2, 1, 1, 0, 2},
        Layout{2, 2, 4, 1, false, 2, 1, 1, 0, 1, 2}, Layout{1, 2, 4, 1, false, 1, 1, 1, 0, 1, 1}}) {
    for (int rank = 0; rank < layout.world(); ++rank) {
      for (int a = 0; a < kGroups; ++a) {
        const auto one = static_cast<Group>(a);
        const std::vector<int> members = layout.members(one, rank);
        EXPECT_EQ(layout.extent(one, rank).size(), static_cast<std::int64_t>(members.size()));
        if (!members.empty()) {
          EXPECT_TRUE(std::is_sorted(members.begin(), members.end()));
          EXPECT_NE(std::find(members.begin(), members.end(), rank), members.end()) << name_of(one);
        }
        for (int b = 0; b < kGroups; ++b) {
          const auto other = static_cast<Group>(b);
          if (members.empty()) continue;
          EXPECT_EQ(layout.extent(one, rank) == layout.extent(other, rank),
                    members == layout.members(other, rank))
              << name_of(one) << " and " << name_of(other) << " of rank " << rank;
        }
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::layout_test
