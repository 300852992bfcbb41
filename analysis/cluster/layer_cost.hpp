// Seconds of one transformer layer, of the embedding and of the output layer, per micro-batch and rank.
#pragma once

#include "analysis/cluster/job.hpp"
#include "analysis/hardware/machine.hpp"
#include "analysis/hardware/software.hpp"

namespace plumbline::cluster {

/// Times of a part of the model. `host` is what its launches cost the processor; the device waits when that
/// is more. `tensor` is the exposed tensor-parallel communication within.
struct PassTime {
  double device = 0;
  double host = 0;
  double tensor = 0;
  PassTime& operator+=(const PassTime& o) {
    device += o.device;
    host += o.host;
    tensor += o.tensor;
    return *this;
  }
};

struct PartCost {
  PassTime forward;
  PassTime recompute;  // what of the forward runs again before the backward
  PassTime backward_input;
  PassTime backward_weight;
};

/// Whether the software or the job drops parts of the residual stream, or attention probabilities.
inline bool drops_stream(const Software& software, const Job& job) {
  return software.dropout || job.hidden_dropout;
}
inline bool drops_attention(const Software& software, const Job& job) {
  return software.dropout || job.attention_dropout;
}

/// One transformer layer. Operator list and bytes: Korthikanti et al. (arXiv:2205.05198 §4) and the public
/// Megatron-LM sources of the generation, call by call (see the .cpp).
PartCost layer_cost(const Machine& machine, const Software& software, const Job& job);
PartCost embedding_cost(const Machine& machine, const Software& software, const Job& job);
/// The output layer and its loss on `shards` × tensor ranks (vocabulary parallelism; 1: on one stage).
PartCost output_cost(const Machine& machine, const Software& software, const Job& job, double shards);

}  // namespace plumbline::cluster
