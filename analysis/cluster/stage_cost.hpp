// Seconds of one pipeline stage per micro-batch, from the costs of its parts. Allocates nothing.
#pragma once

#include "analysis/cluster/layer_cost.hpp"
#include "analysis/simulate/costs.hpp"

namespace plumbline::cluster {

/// Everything that the stages of a job have in common.
struct JobCosts {
  PartCost layer;
  PartCost embedding;
  PartCost output;             // of one rank, when the vocabulary is split over the pipeline
  double sharded_forward = 0;  // FSDP communication of a layer that its compute does not hide
  double sharded_backward = 0;
  double message = 0;     // from one stage to the next
  double broadcast = 0;   // vocabulary parallelism: the last stage's output to all
  double all_reduce = 0;  // of a micro-batch's activation over the pipeline
  double statistics = 0;  // maximum, sum and target logit over the pipeline
  double slowdown = 1;    // of compute while collectives wait on the device
  double vocabulary_pass = 0;
  double host_per_pass = 0;
  double pipeline = 1;
  double chunks = 1;
  VocabPasses vocabulary = VocabPasses::none;
};

JobCosts job_costs(const Machine& machine, const Software& software, const Job& job);

/// A stage of `layers` transformer layers; the first holds the embedding and the last the output layer unless
/// the vocabulary is split.
StageCosts stage_cost(const JobCosts& costs, double layers, bool first, bool last);

/// Launching and computing overlap, but neither is even: where kernels are short the device waits for the
/// host, where they are long the host's queue fills. The sixth-power mean of the two instead of the larger: a
/// tenth more where both are equal, nothing where one decides.
double seconds_of(const PassTime& pass);

}  // namespace plumbline::cluster
