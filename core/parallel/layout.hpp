// Which rank plays which part: tensor, context, data and pipeline coordinates in Megatron's order, and the rank
// groups.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace plumbline {

/// The groups a collective may run in. `model` is tensor × pipeline (one replica); `embedding` holds the
/// first and last pipeline rank, where tied embeddings live twice; `mirror` holds pipeline ranks r and P-1-r,
/// which keep the two copies of a stage in bidirectional schedules; `shared_kv` holds the tensor ranks that
/// keep the same key/value head; `context` those that share a sequence, `context_heads` those of them that exchange heads
/// where the rest is a ring (a2a+p2p), and nobody otherwise; `expert` those that have the experts of a layer between them,
/// `expert_data` those that have the same ones, both nobody where every rank has all experts. The last five exist with vocabulary parallelism only, one for every kind of
/// collective that overlaps with computation, so that each kind keeps its own order
/// (bench/training/vocabulary.md); vocab_hidden and embedding_gradient have the members of pipeline, the
/// others those of model.
enum class Group {
  world,
  tensor,
  data,
  pipeline,
  model,
  embedding,
  mirror,
  shared_kv,
  context,
  context_heads,
  expert,
  expert_data,
  vocab_hidden,
  vocab_statistics,
  vocab_gradient,
  embedding_output,
  embedding_gradient,
};
constexpr int kGroups = 17;
std::string_view name_of(Group group);

/// Coordinates of one rank.
struct Coordinates {
  int tensor = 0;
  int data = 0;
  int pipeline = 0;
};

/// The ranks of a group as ranges of their coordinates: two groups have the same members if these are equal.
struct GroupExtent {
  /// `count` numbers from `first` on, `stride` apart (1 where there is one).
  struct Range {
    int first = 0;
    int count = 0;
    int stride = 1;
    friend bool operator==(const Range&, const Range&) = default;
  };
  Range tensor;
  Range data;
  Range pipeline;
  /// Members of the group; 0: the rank is in none.
  std::int64_t size() const { return std::int64_t{1} * tensor.count * data.count * pipeline.count; }
  friend bool operator==(const GroupExtent&, const GroupExtent&) = default;
};

/// Tensor ranks are neighbours, then those that share a sequence, then data, then pipeline (Megatron-LM's default order
/// "tp-cp-ep-dp-pp"). Ranks that share a sequence hold the same parameters, as data ranks do, and count as data: the data
/// coordinate is that of the replica × context + that within the sequence.
struct Layout {
  int tensor = 1;
  int pipeline = 1;
  int data = 1;                 // replicas of the model × context
  int kv_sharing = 1;           // neighbouring tensor ranks that hold the same key/value head
  bool vocab_parallel = false;  // embedding and output layer are split over all ranks of `model`
  int context = 1;              // neighbouring data ranks that share a sequence
  int context_heads = 1;  // neighbours of those that exchange heads, the rest being a ring; 1: no such groups
  int expert = 1;         // neighbouring data ranks that have a layer's experts between them; 1: all have all

  int world() const { return tensor * pipeline * data; }
  Coordinates coordinates(int rank) const;
  int rank_of(Coordinates at) const;
  /// The world ranks of `group` that contain `rank`, ascending. `embedding` is empty for a rank in the middle
  /// of the pipeline, and holds one rank when there is one pipeline rank. The groups of vocabulary
  /// parallelism are empty without it.
  std::vector<int> members(Group group, int rank) const;
  GroupExtent extent(Group group, int rank) const;
};

}  // namespace plumbline
