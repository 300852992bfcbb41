// Which rank plays which part: tensor, pipeline and data coordinates in Megatron's order, and the rank
// groups.
#pragma once

#include <string_view>
#include <vector>

namespace plumbline {

/// The groups a collective may run in. `model` is tensor × pipeline (one replica); `embedding` holds the
/// first and last pipeline rank, where tied embeddings live twice; `mirror` holds pipeline ranks r and P-1-r,
/// which keep the two copies of a stage in bidirectional schedules; `shared_kv` holds the tensor ranks that
/// keep the same key/value head.
enum class Group { world, tensor, data, pipeline, model, embedding, mirror, shared_kv };
constexpr int kGroups = 8;
std::string_view name_of(Group group);

/// Coordinates of one rank.
struct Coordinates {
  int tensor = 0;
  int data = 0;
  int pipeline = 0;
};

/// Tensor ranks are neighbours, then data, then pipeline (Megatron-LM's default order "tp-cp-ep-dp-pp").
struct Layout {
  int tensor = 1;
  int pipeline = 1;
  int data = 1;
  int kv_sharing = 1;  // neighbouring tensor ranks that hold the same key/value head

  int world() const { return tensor * pipeline * data; }
  Coordinates coordinates(int rank) const;
  int rank_of(Coordinates at) const;
  /// The world ranks of `group` that contain `rank`, ascending. `embedding` is empty for a rank in the middle
  /// of the pipeline, and holds one rank when there is one pipeline rank.
  std::vector<int> members(Group group, int rank) const;
};

}  // namespace plumbline
