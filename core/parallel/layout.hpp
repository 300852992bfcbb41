// Coordinates of ranks (tensor, context, data and pipeline, in Megatron's order) and the rank groups.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace plumbline {

/// The groups a collective may run in:
///   model               tensor × pipeline (one replica)
///   embedding           first and last pipeline rank, where tied embeddings live twice
///   mirror              pipeline ranks r and P-1-r, which keep the two copies of a stage in bidirectional
///                       schedules
///   shared_kv           tensor ranks that keep the same key/value head
///   context             ranks that share a sequence
///   context_heads       those of them that exchange heads where the rest is a ring (a2a+p2p); else nobody
///   expert              ranks that send each other the tokens of a layer's experts
///   expert_data         ranks that have the same part of the same experts
///   zero_param          neighbours of `data` with a secondary parameter partition (hpZ) between them
///   optimizer_instance  neighbours that optimizer states are sharded over
///   between_instances   ranks of `data` that have the same piece of the optimizer states
/// `expert` and `expert_data` are empty if experts are sharded like everything else; the last three are empty
/// without their feature. Five more groups exist only with vocabulary parallelism, one for every kind of
/// collective that overlaps with computation, so that each kind keeps its own order
/// (bench/training/vocabulary.md). Of these vocab_hidden and embedding_gradient have the members of pipeline,
/// the others those of model.
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
  zero_param,
  optimizer_instance,
  between_instances,
  vocab_hidden,
  vocab_statistics,
  vocab_gradient,
  embedding_output,
  embedding_gradient,
};
constexpr int kGroups = 20;
std::string_view name_of(Group group);

/// Coordinates of one rank.
struct Coordinates {
  int tensor = 0;
  int data = 0;
  int pipeline = 0;
};

/// Part of a layer's experts on a rank, if these have their own sharding.
struct ExpertPlace {
  int slice = 0;  // of each of its experts
  int part = 0;   // of the experts
  int copy = 0;   // of both
};

/// The ranks of a group as ranges: two groups have the same members if these are equal.
struct GroupExtent {
  /// `count` numbers from `first` on, `stride` apart (1 if there is one).
  struct Range {
    int first = 0;
    int count = 0;
    int stride = 1;
    friend bool operator==(const Range&, const Range&) = default;
  };
  Range stage;     // places within a pipeline stage: tensor + tensor size × data
  Range pipeline;  // coordinates
  /// Members of the group; 0: the rank is in none.
  std::int64_t size() const { return std::int64_t{1} * stage.count * pipeline.count; }
  friend bool operator==(const GroupExtent&, const GroupExtent&) = default;
};

/// Rank order: tensor ranks are neighbours, then context ranks, then data, then pipeline (Megatron-LM's
/// default order "tp-cp-ep-dp-pp"). Context ranks hold the same parameters, as data ranks do, and count as
/// data: the data coordinate is that of the replica × context + that within the sequence.
struct Layout {
  int tensor = 1;
  int pipeline = 1;
  int data = 1;                 // replicas of the model × context
  int kv_sharing = 1;           // neighbouring tensor ranks that hold the same key/value head
  bool vocab_parallel = false;  // embedding and output layer are split over all ranks of `model`
  int context = 1;              // neighbouring data ranks that share a sequence
  int context_heads = 1;  // neighbours of those that exchange heads, the rest being a ring; 1: no such groups
  int expert = 1;         // parts that a layer's experts are in; 1: all ranks have all
  int expert_tensor = 0;  // ranks that each of them is split over; 0: as tensor
  int zero_param = 1;  // neighbouring data ranks that have a second copy of the parameters; 1: no such groups
  int optimizer_instance =
      0;  // neighbouring data ranks that states are cut over; 0: all are, and no such groups

  int world() const { return tensor * pipeline * data; }
  Coordinates coordinates(int rank) const;
  int rank_of(Coordinates at) const;
  /// Experts are sharded over the ranks of a stage regardless of tensor and data ranks: slices are
  /// neighbours, then parts, then copies (Megatron-LM's "etp-ep-edp-pp"). Otherwise tensor ranks have slices,
  /// and parts are neighbouring data ranks.
  bool folds_experts() const { return expert_tensor != 0 && expert_tensor != tensor; }
  bool spreads_experts() const { return expert > 1 || folds_experts(); }
  int expert_slices() const { return folds_experts() ? expert_tensor : tensor; }
  ExpertPlace expert_place(Coordinates at) const;
  /// The rank that has these, pipeline coordinate 0.
  Coordinates holder_of(ExpertPlace place) const;
  /// Members of the expert group.
  int expert_ranks() const { return folds_experts() ? expert_tensor * expert : expert; }
  /// Ranks of a stage that send tokens of their own to experts, the neighbours among them that form an expert
  /// group, and a rank's index in it.
  int senders() const { return folds_experts() ? tensor * data : data; }
  int sender(Coordinates at) const { return folds_experts() ? at.tensor + tensor * at.data : at.data; }
  /// The world ranks of `group` that contain `rank`, ascending. `embedding` is empty for a rank in the middle
  /// of the pipeline, and holds one rank when there is one pipeline rank. The groups of vocabulary
  /// parallelism are empty without it.
  std::vector<int> members(Group group, int rank) const;
  GroupExtent extent(Group group, int rank) const;
  friend bool operator==(const Layout&, const Layout&) = default;
};

}  // namespace plumbline
