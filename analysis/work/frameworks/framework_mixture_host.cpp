// Processor time of launches in an MoE layer.
#include "analysis/work/frameworks/framework_mixture.hpp"

namespace plumbline {
namespace {

// Transformer Engine's Python for a grouped layer, and more for each of its experts, whose quantized rows and
// weights are objects: microseconds (results/recorded/epyc-2-cores, experts_host.txt; means of versions 2.12
// and 2.15, in FP8 also of both recipes) in operators of 8. Backward with autograd's node and the hook of
// every weight's gradient, less the 19 of a backward call alone.
constexpr GroupedHost kModule{34. / 8, 14. / 8, 45. / 8};
constexpr GroupedHost kModuleFp8{41. / 8, 17. / 8, 49. / 8};
constexpr GroupedHost kExpert{2.1 / 8, 1.1 / 8, 7.3 / 8};
constexpr GroupedHost kExpertFp8{12.3 / 8, 2.6 / 8, 18.8 / 8};
constexpr GroupedHost kOneKernel{1, 0, 0};  // for all experts
// Per bias of an expert and backward: autograd's node and the hook of Megatron's DistributedDataParallel
// (distributed_data_parallel.py, _make_backward_post_hook), which adds its gradient to the rank's buffer.
// Products add those of weights themselves.
constexpr double kBiasHook = 2;
constexpr double kMatrices = 2;  // of an expert, as many as biases

}  // namespace

GroupedHost MixtureCalls::grouped_host() const {
  if (!calls_.by_expert()) return kOneKernel;
  const bool casts = s_.numerics.framework_fp8 && !s_.software->fp8;
  const GroupedHost& module = casts ? kModuleFp8 : kModule;
  const GroupedHost& expert = casts ? kExpertFp8 : kExpert;
  const auto experts = static_cast<double>(s_.expert.local);
  return {module.first + experts * expert.first, module.behind + experts * expert.behind,
          module.backward + experts * expert.backward};
}

bool MixtureCalls::hooked() const {
  return s_.software->bucket_elements > 0 && !s_.adapters.frozen();
}

void MixtureCalls::launches(bool backward) {
  const Software& sw = *s_.software;
  const double products = backward ? 4 : 2;
  calls_.launches(sw.router_operators, s_.graphs.router);
  calls_.layer_launches(s_.moe.shared > 0 ? 6 : 0);
  const double biases = s_.predicted.feed_forward_bias ? (backward ? 2 : 1) * kBiasOperators : 0;
  const auto experts = static_cast<double>(s_.expert.local);
  calls_.expert_launches(sw.dispatch_operators + biases * experts + kMatrices * static_cast<double>(casts()));
  if (s_.graphs.experts) return;
  const GroupedHost host = grouped_host();
  const double hooks = backward && hooked() && s_.predicted.feed_forward_bias ? kBiasHook * experts : 0;
  // The backward of frozen weights, which have no gradients, does as much as a forward.
  const bool gradients = backward && !s_.adapters.frozen();
  const double modules = !calls_.by_expert() ? 0 : gradients ? host.backward : host.first + host.behind;
  calls_.expert_launches(kMatrices * (hooks + modules));
  calls_.launches_products(products * experts);
}

}  // namespace plumbline
