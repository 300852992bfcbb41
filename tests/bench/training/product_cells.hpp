// The product of everything a training step can be split and saved by, as configurations of a small model.
#pragma once

#include <string>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline::training {

struct ProductCell {
  std::string name;      // "v-half tp2 pp2 dp2 sp1 recompute full/2 zero3 dropout"
  std::string schedule;  // for the table; with the kind of split vocabulary
  std::size_t switches;  // which of the models, by the switches of families
  RunConfig config;      // cpu, fp32: gradients are compared with those of one rank
  std::string illegal;   // why the sizes do not allow it; empty when they do
};

/// {sequence parallelism} × {recomputation} × {ZeRO 0–3} × {all schedules of F, B, I and W, and those with a
/// split vocabulary} × {every split of `ranks` into tensor, pipeline and data sizes of at most 4};
/// every other cell with dropout, every third with linear layers in FP8, in four models with other switches; what runs alongside
/// what, offloading, secondary shards, instances of the optimizer and the type of partial sums vary with the choices, where they may, and
/// are in the name. With `covering`, a selection
/// in which every layout meets every schedule, and every two other settings each other.
std::vector<ProductCell> product_cells(int ranks, bool covering);
/// The same selection over layouts whose data ranks share sequences, two, four or eight of them each, by every
/// cp_comm_type; two of them also in FP8.
std::vector<ProductCell> context_cells(int ranks);
/// A selection over layouts of mixtures whose ranks have all experts, or two, four or eight of them the experts between them, with
/// and without ranks that share sequences, every token at its experts or a capacity of these, padded or not, exchanges of rows awaited or hidden: every layout meets
/// every schedule, and every two other settings each other. Then the same over the orders of a teacher's forwards, where the
/// student, the teacher or both have experts.
std::vector<ProductCell> expert_cells(int ranks);

}  // namespace plumbline::training
