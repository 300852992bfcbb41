// V-Half and V-Min (Qi et al. 2024, arXiv:2405.15362 §3 and appendix): schedules grown from a building
// block. Two chunks per rank in a V, stages r and 2P-1-r on rank r. Slots are one pass long; micro-batch m
// starts its four passes on rank r at slots start + 6m, so two slots of six stay free for the two W's.
//   V-Half starts (F0, F1, I1, I0): (2r, 3P-r-2, 3P+e+2r-1, 6P+e-r-2), e = 3 for even P, else 0; peak P/2+1
//   V-Min starts: (r, 2P-1-r, 2P+e+r, 4P+e-1-r), e = 2 if 3 divides P, else 0; peak about P/3+1
// Then the block is repeated and W's fill free slots. The passes of the warm-up and of the cool-down move to
// earlier free slots, one by one in order of time, as long as no rank's peak rises. Bubbles: about 1/2 and
// 2/3 of 1F1B.
#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include "schedules/generators.hpp"
#include "schedules/layouts.hpp"

namespace plumbline {
namespace {

enum Kind : std::size_t { kForward0, kForward1, kInput1, kInput0, kWeight };
constexpr std::size_t kPasses = 4;  // without W

using Starts = std::array<int, kPasses>;

/// Slots of every pass of every rank.
class Slots {
 public:
  Slots(int ranks, int microbatches, const std::vector<Starts>& starts)
      : ranks_(ranks), microbatches_(microbatches), rows_(static_cast<std::size_t>(ranks)) {
    for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
      for (std::size_t kind = 0; kind < kPasses; ++kind) {
        for (int m = 0; m < microbatches; ++m) rows_[rank].of[kind].push_back(starts[rank][kind] + 6 * m);
      }
    }
  }

  /// Fills free slots with W's, then moves passes of warm-up and cool-down, then closes the gaps.
  void reorder_with_weights() {
    for (Row& row : rows_) fill_weights(row);
    reorder(true);
    squeeze(kPasses + 1);
    for (Row& row : rows_) row.of[kWeight].clear();
  }

  /// Moves passes of the cool-down while W's take any free slot.
  void reorder_cooldown() {
    reorder(false);
    for (Row& row : rows_) fill_weights(row);
    squeeze(kPasses + 1);
    for (Row& row : rows_) row.of[kWeight].clear();
  }

  /// One rank's passes in order, W's of chunk 1 before those of chunk 0 in free slots.
  void write(Schedule& schedule, int rank) const {
    const Row& row = rows_[static_cast<std::size_t>(rank)];
    const std::array<int, 2> stages = {rank, 2 * ranks_ - 1 - rank};
    static constexpr std::array<std::size_t, kPasses> kChunk = {0, 1, 1, 0};
    ActionList list(schedule, rank, 6 * static_cast<std::size_t>(microbatches_));
    const std::vector<int> occupied = occupancy(row);
    std::array<int, 2> pending{};
    std::array<int, 2> done{};
    std::array<int, kPasses> next{};
    const auto weight = [&](std::size_t chunk) {
      list.add(ActionType::backward_weight, stages[chunk], done[chunk]++);
      --pending[chunk];
    };
    for (const int kind : occupied) {
      if (kind >= 0) {
        const auto k = static_cast<std::size_t>(kind);
        const std::size_t chunk = kChunk[k];
        list.add(k < kInput1 ? ActionType::forward : ActionType::backward_input, stages[chunk], next[k]++);
        if (k >= kInput1) ++pending[chunk];
      } else if (pending[1] + pending[0] > 0) {
        weight(pending[1] > 0 ? 1 : 0);
      }
    }
    while (pending[1] > 0) weight(1);
    while (pending[0] > 0) weight(0);
  }

 private:
  struct Row {
    std::array<std::vector<int>, kPasses + 1> of;  // slots by kind, ascending
  };
  struct Pass {
    int slot;
    int rank;
    std::size_t kind;
    int microbatch;
  };

  static int last_slot(const Row& row) {
    int last = 0;
    for (std::size_t kind = 0; kind < kPasses; ++kind) last = std::max(last, row.of[kind].back());
    return last;
  }

  /// Kind of the pass in each slot up to the last one, -1 where it is free. W's are left out.
  static std::vector<int> occupancy(const Row& row) {
    std::vector<int> kinds(static_cast<std::size_t>(last_slot(row)) + 1, -1);
    for (std::size_t kind = 0; kind < kPasses; ++kind) {
      for (const int slot : row.of[kind]) kinds[static_cast<std::size_t>(slot)] = static_cast<int>(kind);
    }
    return kinds;
  }

  static void fill_weights(Row& row) {
    const std::vector<int> kinds = occupancy(row);
    int pending = 0;
    auto& weights = row.of[kWeight];
    for (std::size_t slot = 0; slot < kinds.size(); ++slot) {
      if (kinds[slot] >= static_cast<int>(kInput1)) ++pending;
      if (kinds[slot] < 0 && pending > 0) {
        weights.push_back(static_cast<int>(slot));
        --pending;
      }
    }
    for (int slot = static_cast<int>(kinds.size()); pending > 0; --pending) weights.push_back(slot++);
  }

  /// All passes in order of (slot, rank, kind).
  std::vector<Pass> in_order(std::size_t kinds) const {
    std::vector<Pass> passes;
    for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
      for (std::size_t kind = 0; kind < kinds; ++kind) {
        const auto& slots = rows_[rank].of[kind];
        for (std::size_t m = 0; m < slots.size(); ++m) {
          passes.push_back({slots[m], static_cast<int>(rank), kind, static_cast<int>(m)});
        }
      }
    }
    std::sort(passes.begin(), passes.end(), [](const Pass& a, const Pass& b) {
      return std::tie(a.slot, a.rank, a.kind) < std::tie(b.slot, b.rank, b.kind);
    });
    return passes;
  }

  int slot_of(int rank, std::size_t kind, int m) const {
    return rows_[static_cast<std::size_t>(rank)].of[kind][static_cast<std::size_t>(m)];
  }

  /// Latest slot of the pass's dependencies, -1 for none; for W's including their backward.
  int after(const Pass& pass, const std::vector<int>& inputs) const {
    int latest = -1;
    const auto consider = [&](int rank, std::size_t kind, int m) {
      latest = std::max(latest, slot_of(rank, kind, m));
    };
    if ((pass.kind == kForward0 || pass.kind == kInput1) && pass.rank > 0) {
      consider(pass.rank - 1, pass.kind, pass.microbatch);
    }
    if ((pass.kind == kForward1 || pass.kind == kInput0) && pass.rank + 1 < ranks_) {
      consider(pass.rank + 1, pass.kind, pass.microbatch);
    }
    if (pass.kind == kWeight) {
      latest = std::max(latest, inputs[static_cast<std::size_t>(pass.microbatch)]);
    } else if (pass.kind > 0) {
      consider(pass.rank, pass.kind - 1, pass.microbatch);
    }
    if (pass.microbatch > 0) consider(pass.rank, pass.kind, pass.microbatch - 1);
    return latest;
  }

  /// Activations one rank holds at most. Without W slots of their own, W's are done in free slots.
  static int peak(const Row& row) {
    const std::vector<int> kinds = occupancy(row);
    const auto& weights = row.of[kWeight];
    std::size_t next_weight = 0;
    int held = 0;
    int most = 0;
    int pending = 0;
    for (std::size_t slot = 0; slot < kinds.size(); ++slot) {
      if (kinds[slot] >= 0) {
        if (kinds[slot] < static_cast<int>(kInput1)) {
          ++held;
        } else {
          ++pending;
        }
      } else if (weights.empty()) {
        if (pending > 0) {
          --held;
          --pending;
        }
      } else if (next_weight < weights.size() && weights[next_weight] == static_cast<int>(slot)) {
        ++next_weight;
        --held;
      }
      most = std::max(most, held);
    }
    return most;
  }

  void reorder(bool with_weights) {
    int allowed = 0;
    for (const Row& row : rows_) allowed = std::max(allowed, peak(row));
    std::vector<std::vector<bool>> taken(rows_.size());
    std::vector<std::vector<int>> inputs(rows_.size());  // slots of all backwards, ascending
    const std::vector<Pass> passes = in_order(with_weights ? kPasses + 1 : kPasses);
    for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
      taken[rank].resize(static_cast<std::size_t>(passes.back().slot) + 1);
    }
    enum class Phase : std::uint8_t { warm_up, steady, cool_down } phase = Phase::warm_up;
    for (const Pass& pass : passes) {
      const auto rank = static_cast<std::size_t>(pass.rank);
      if (pass.kind == kInput0 && pass.rank == 0 && phase == Phase::warm_up) phase = Phase::steady;
      bool movable = phase == Phase::cool_down || (phase == Phase::warm_up && with_weights);
      if (phase == Phase::steady && pass.kind == kForward0 && pass.microbatch == microbatches_ - 1) {
        phase = Phase::cool_down;
        movable = false;
      }
      int slot = pass.slot;
      if (movable) {
        if (pass.kind == kWeight) sort_inputs(rows_[rank], inputs[rank]);
        slot = earlier_slot(pass, after(pass, inputs[rank]) + 1, taken[rank], allowed);
      }
      taken[rank][static_cast<std::size_t>(slot)] = true;
    }
  }

  static void sort_inputs(const Row& row, std::vector<int>& inputs) {
    inputs.resize(row.of[kInput1].size() * 2);
    std::merge(row.of[kInput1].begin(), row.of[kInput1].end(), row.of[kInput0].begin(), row.of[kInput0].end(),
               inputs.begin());
  }

  /// The first free slot from `from` on at which the rank's peak stays within bounds.
  int earlier_slot(const Pass& pass, int from, const std::vector<bool>& taken, int allowed) {
    Row& row = rows_[static_cast<std::size_t>(pass.rank)];
    int& slot = row.of[pass.kind][static_cast<std::size_t>(pass.microbatch)];
    for (int candidate = from; candidate < pass.slot; ++candidate) {
      if (taken[static_cast<std::size_t>(candidate)]) continue;
      slot = candidate;
      if (peak(row) <= allowed) return candidate;
    }
    slot = pass.slot;
    return slot;
  }

  /// Moves every pass as early as the order on its rank and its dependencies allow.
  void squeeze(std::size_t kinds) {
    const std::vector<Pass> passes = in_order(kinds);
    std::vector<int> next(rows_.size(), 0);
    std::vector<std::vector<int>> inputs(rows_.size());
    for (const Pass& pass : passes) {
      const auto rank = static_cast<std::size_t>(pass.rank);
      Pass wait = pass;
      int earliest = next[rank];
      // W's only follow the order on their rank, which has the backwards before them.
      if (pass.kind != kWeight) earliest = std::max(earliest, after(wait, inputs[rank]) + 1);
      rows_[rank].of[pass.kind][static_cast<std::size_t>(pass.microbatch)] = earliest;
      next[rank] = earliest + 1;
    }
  }

  int ranks_;
  int microbatches_;
  std::vector<Row> rows_;
};

Schedule grow(const char* name, int ranks, int microbatches, const std::vector<Starts>& starts) {
  Schedule schedule = v_shaped(name, ranks, microbatches);
  Slots slots(ranks, microbatches, starts);
  slots.reorder_with_weights();
  slots.reorder_cooldown();
  for (int rank = 0; rank < ranks; ++rank) slots.write(schedule, rank);
  return schedule;
}

}  // namespace

Schedule v_half(int ranks, int microbatches) {
  return v_half_ahead(ranks, microbatches, 0);
}

Schedule v_half_ahead(int ranks, int microbatches, int blocks) {
  check_sizes("v-half", ranks, microbatches, 2);
  const int later = (ranks % 2 == 0 ? 3 : 0) + 6 * blocks;
  std::vector<Starts> starts;
  starts.reserve(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    starts.push_back({2 * r, 3 * ranks - r - 2, 3 * ranks + later + 2 * r - 1, 6 * ranks + later - r - 2});
  }
  return grow("v-half", ranks, microbatches, starts);
}

Schedule v_min(int ranks, int microbatches) {
  check_sizes("v-min", ranks, microbatches, 2);
  const int e = ranks % 3 == 0 ? 2 : 0;
  std::vector<Starts> starts;
  starts.reserve(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    starts.push_back({r, 2 * ranks - 1 - r, 2 * ranks + e + r, 4 * ranks + e - 1 - r});
  }
  return grow("v-min", ranks, microbatches, starts);
}

}  // namespace plumbline
