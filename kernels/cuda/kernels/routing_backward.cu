// The gradient of a router's logits. Floor: logits and their gradient once. A warp takes a token;
// contributions of its chosen experts to the gradients go through shared memory.
#include "kernels/cuda/kernels/kernels.hpp"
#include "kernels/cuda/kernels/router_scores.cuh"

namespace plumbline::cuda {
namespace {

struct RoutingGradient {
  const std::int32_t* chosen;
  const std::int32_t* counts;  // tokens of every expert, or none
  const float* load;           // in place of these, or none
  const std::int32_t* places;  // of choices, or none: in order
  const float* dweights;
  float balance, z;

  __device__ float of_choice(std::int64_t choice) const {
    const std::int64_t place = places == nullptr ? choice : places[choice];
    return place < 0 ? 0 : dweights[place];
  }
  __device__ float of_load(int expert) const {
    if (load != nullptr) return balance * load[expert];
    return counts == nullptr ? 0 : balance * static_cast<float>(counts[expert]);
  }
};

/// From the weights of a token's choices: added to the slopes of scores, or, with a softmax over the chosen
/// only, to the gradients of logits. The expert's place in `added`, shared memory, belongs to the lane.
__device__ void add_of_chosen(const RouterNumbers& router, const RoutingGradient& from, const float* logits,
                              std::int64_t token, int lane, float* added) {
  const std::int64_t first = token * router.top_k;
  const auto logit = [&](int j) { return logits[expert_of(from.chosen[first + j])]; };
  float highest = -INFINITY;
  for (int j = lane; j < router.top_k; j += 32) highest = logit(j) > highest ? logit(j) : highest;
  highest = over_lanes(highest, Maximum{});
  const auto score = [&](int j) { return router.sigmoid ? sigmoid(logit(j)) : expf(logit(j) - highest); };
  Two sums{0, 0};  // of scores, and of these times their gradients
  for (int j = lane; j < router.top_k; j += 32)
    sums = sums + Two{score(j), score(j) * from.of_choice(first + j)};
  sums = over_lanes(sums, Sum{});
  const float sum = sums.a + (router.sigmoid ? kLeastSum : 0);
  const float mean = sums.b / sum;
  for (int j = lane; j < router.top_k; j += 32) {
    float gradient = from.of_choice(first + j);
    if (router.normalized) gradient = (gradient - mean) / sum * (router.sigmoid ? 1 : score(j));
    added[expert_of(from.chosen[first + j])] = router.scale * gradient;
  }
}

template <class T>
__global__ void __launch_bounds__(256)
    routing_gradient_kernel(View<const float> logits, std::int64_t tokens, RouterNumbers router,
                            RoutingGradient from, unsigned bytes, View<T> dlogits) {
  const int lane = static_cast<int>(thread_x() % 32);
  auto* added = reinterpret_cast<float*>(dynamic_shared() + thread_x() / 32 * bytes);
  const bool to_logits = router.normalized && !router.sigmoid;
  for (std::int64_t first = first_token_of_block(); first < tokens; first += tokens_of_round()) {
    const TokenRound at = token_round(first, tokens);
    const float* row = logits.row(at.token);
    for (int i = lane; i < router.experts; i += 32) added[i] = 0;
    sync_block();
    add_of_chosen(router, from, row, at.token, lane, added);
    const float highest = largest_of(row, router.experts, lane);
    Two sums{0, 0};  // of a softmax, and of scores
    for (int i = lane; i < router.experts; i += 32)
      sums = sums + Two{expf(row[i] - highest), router.sigmoid ? sigmoid(row[i]) : 0};
    sums = over_lanes(sums, Sum{});
    const float log_sum = highest + logf(sums.a);
    const float all = router.sigmoid ? sums.b + kLeastSum : 1;  // that balanced scores are divided by
    sync_block();
    const auto probability = [&](int i) { return expf(row[i] - log_sum); };
    const auto score = [&](int i) { return router.sigmoid ? sigmoid(row[i]) : probability(i); };
    // With softmax all slopes affect its sum, with sigmoids only those of the balance.
    const auto slope = [&](int i) { return from.of_load(i) + (to_logits || router.sigmoid ? 0 : added[i]); };
    float mean = 0;
    for (int i = lane; i < router.experts; i += 32) mean += slope(i) * score(i) / all;
    mean = over_lanes(mean, Sum{});
    const float pull = 2 * from.z * log_sum;
    for (int i = lane; at.live && i < router.experts; i += 32) {
      const float s = score(i);
      float gradient = s * (slope(i) - mean + pull) + (to_logits ? added[i] : 0);
      if (router.sigmoid)
        gradient = ((slope(i) - mean) / all + added[i]) * s * (1 - s) + pull * probability(i);
      dlogits.row(at.token)[i] = from_float<T>(gradient);
    }
    sync_block();  // the next round's numbers take the place of these
  }
}

}  // namespace

void route_backward(const Queue& queue, const Router& router, Matrix logits, Matrix chosen,
                    const std::int32_t* counts, Matrix places, Matrix dweights, Matrix dlogits) {
  const std::size_t bytes = (static_cast<std::size_t>(logits.cols) * sizeof(float) + 15) / 16 * 16;
  const RoutingGradient from{chosen.as<const std::int32_t>(), counts,
                             router.load.as<const float>(),   places.as<const std::int32_t>(),
                             dweights.as<const float>(),      static_cast<float>(router.balance),
                             static_cast<float>(router.z)};
  with_element(dlogits.dtype, [&](auto type) {
    using T = decltype(type);
    launch(queue, grid_of_tokens(queue, logits.rows, bytes), routing_gradient_kernel<T>,
           View<const float>(logits), logits.rows, numbers_of(router, logits), from,
           static_cast<unsigned>(bytes), View<T>(dlogits));
  });
}

}  // namespace plumbline::cuda
