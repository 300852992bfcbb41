// Processor time of launches in an MoE layer.
#include "analysis/work/frameworks/framework_mixture.hpp"

namespace plumbline {
namespace {

// Transformer Engine's Python for a grouped layer, and more for each of its experts, whose quantized rows and
// weights are objects: microseconds (results/recorded/epyc-2-cores, experts_host.txt; means of versions 2.12
// and 2.15, in FP8 also of both recipes). Backward with autograd's node and the hook of every weight's
// gradient, less the 19 of a backward call alone.
constexpr GroupedHost kModule{34, 14, 45};
constexpr GroupedHost kModuleFp8{41, 17, 49};
constexpr GroupedHost kExpert{2.1, 1.1, 7.3};
constexpr GroupedHost kExpertFp8{12.3, 2.6, 18.8};
constexpr double kMicro = 1e-6;
constexpr double kOneKernel = 1;  // for all experts
// Per bias of an expert and backward: autograd's node and the hook of Megatron's DistributedDataParallel
// (distributed_data_parallel.py, _make_backward_post_hook), which adds its gradient to the rank's buffer.
// Products add those of weights themselves.
constexpr double kBiasHook = 2;
constexpr double kMatrices = 2;  // of an expert, as many as biases

}  // namespace

GroupedHost MixtureCalls::grouped_host() const {
  if (!calls_.by_expert()) return {};
  const bool casts = s_.numerics.framework_fp8 && !s_.software->fp8.always;
  const GroupedHost& module = casts ? kModuleFp8 : kModule;
  const GroupedHost& expert = casts ? kExpertFp8 : kExpert;
  const auto experts = static_cast<double>(s_.expert.local);
  return {kMicro * (module.first + experts * expert.first),
          kMicro * (module.behind + experts * expert.behind),
          kMicro * (module.backward + experts * expert.backward)};
}

/// The last call is a grouped layer's, behind a read or with one of its own.
void MixtureCalls::launched_grouped(bool reads_counts) {
  if (!reads()) return;
  calls_.launched((calls_.by_expert() ? 0 : kOneKernel) + static_cast<double>(casts()), reads_counts);
  const GroupedHost host = grouped_host();
  calls_.wrapped(host.first, host.behind);
}

bool MixtureCalls::hooked() const {
  return s_.software->communication.buckets() && !s_.adapters.frozen();
}

void MixtureCalls::launches(bool backward) {
  const Software& sw = *s_.software;
  const double products = backward ? 4 : 2;
  calls_.launches(sw.mixtures.router_operators, s_.graphs.router);
  calls_.layer_launches(s_.moe.shared > 0 ? 6 : 0);
  const double biases = s_.predicted.feed_forward_bias ? (backward ? 2 : 1) * kBiasOperators : 0;
  const auto experts = static_cast<double>(s_.expert.local);
  calls_.expert_launches(sw.mixtures.dispatch_operators + biases * experts +
                         kMatrices * static_cast<double>(casts()));
  if (s_.graphs.experts) return;
  const GroupedHost host = grouped_host();
  const double hooks = backward && hooked() && s_.predicted.feed_forward_bias ? kBiasHook * experts : 0;
  // The backward of frozen weights, which have no gradients, does as much as a forward.
  const bool gradients = backward && !s_.adapters.frozen();
  calls_.expert_launches(kMatrices * hooks);
  calls_.python(kMatrices * (gradients ? host.backward : host.first + host.behind), 0);
  calls_.launches_products(products * experts);
}

}  // namespace plumbline
