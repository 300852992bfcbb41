// All combinations of splits and memory savings of a training step, as configurations of a small model.
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

/// The product of sequence parallelism, recomputation, ZeRO 0–3, all schedules of F, B, I and W, and those
/// with a split vocabulary, and every split of `ranks` into tensor, pipeline and data sizes of at most 4.
/// Every other cell has dropout, every third linear layers in FP8, in four models with other switches.
/// Overlap, offloading, secondary shards, optimizer instances and the type of partial sums vary with the
/// choices, if they may, and are in the name. With `covering`, a selection in which every layout meets every
/// schedule, and every two other settings each other.
std::vector<ProductCell> product_cells(int ranks, bool covering);
/// The same selection over layouts with context parallelism, over two, four or eight data ranks, by every
/// cp_comm_type; two of them also in FP8.
std::vector<ProductCell> context_cells(int ranks);
/// A selection over MoE layouts: all experts on every rank, or spread over two, four or eight ranks, with and
/// without context parallelism. Tokens go to all their experts, or experts have a capacity, padded or not;
/// row exchanges are awaited or hidden. Every layout meets every schedule, and every two other settings each
/// other. Then the same over the orders of a teacher's forwards, where the student, the teacher or both have
/// experts.
std::vector<ProductCell> expert_cells(int ranks);

}  // namespace plumbline::training
