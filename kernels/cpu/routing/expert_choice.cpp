#include "kernels/cpu/routing/expert_choice.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/routing/token_weights.hpp"

namespace plumbline::cpu {
namespace {

/// The `count` largest of the scores that `allowed` admits. They are distinct for any scores, NaN too.
template <class Allowed>
void choose_largest(const float* scores, std::int64_t all, std::int32_t* chosen, std::int64_t count,
                    const Allowed& allowed) {
  for (std::int64_t j = 0; j < count; ++j) {
    std::int64_t best = -1;
    for (std::int64_t i = 0; i < all; ++i) {
      if (!allowed(i) || (best >= 0 && !(scores[i] > scores[best]))) continue;
      const bool taken = std::find(chosen, chosen + j, static_cast<std::int32_t>(i)) != chosen + j;
      if (!taken) best = i;
    }
    chosen[j] = static_cast<std::int32_t>(best);
  }
}

/// Chooses experts for one token after the other.
class ExpertChoice {
 public:
  ExpertChoice(const Router& router, std::int64_t experts)
      : router_(router),
        experts_(experts),
        scores_(static_cast<std::size_t>(experts)),
        of_groups_(static_cast<std::size_t>(router.groups)),
        groups_(static_cast<std::size_t>(router.chosen_groups)) {}

  void operator()(const float* logits, std::int32_t* chosen) {
    const auto all = [](std::int64_t) { return true; };
    if (router_.groups == 1) return choose_largest(scores(logits), experts_, chosen, router_.top_k, all);
    const float* score = scores(logits);
    const std::int64_t size = experts_ / router_.groups;
    for (std::int64_t group = 0; group < router_.groups; ++group) {
      std::int32_t best[2];
      const std::int64_t count = std::min<std::int64_t>(2, size);
      choose_largest(score + group * size, size, best, count, all);
      float sum = 0;
      for (std::int64_t i = 0; i < count; ++i) sum += score[group * size + best[i]];
      of_groups_[static_cast<std::size_t>(group)] = sum;
    }
    choose_largest(of_groups_.data(), router_.groups, groups_.data(), router_.chosen_groups, all);
    choose_largest(score, experts_, chosen, router_.top_k, [&](std::int64_t expert) {
      return std::find(groups_.begin(), groups_.end(), static_cast<std::int32_t>(expert / size)) !=
             groups_.end();
    });
  }

 private:
  /// Numbers that are compared. The softmax preserves the order of the logits.
  const float* scores(const float* logits) {
    const bool biased = router_.bias.data != nullptr;
    if (!router_.sigmoid && !biased && router_.groups == 1) return logits;
    const float highest = *std::max_element(logits, logits + experts_);
    std::transform(logits, logits + experts_, scores_.begin(), [&](float logit) {
      return router_.sigmoid ? logistic(logit) : std::exp(logit - highest);
    });
    if (!router_.sigmoid) {
      const float sum = std::accumulate(scores_.begin(), scores_.end(), 0.0F);
      for (float& score : scores_) score /= sum;
    }
    for (std::int64_t i = 0; biased && i < experts_; ++i)
      scores_[static_cast<std::size_t>(i)] += router_.bias.as<float>()[i];
    return scores_.data();
  }

  const Router& router_;
  const std::int64_t experts_;
  std::vector<float> scores_, of_groups_;
  std::vector<std::int32_t> groups_;
};

}  // namespace

void choose_experts(const Router& router, const Matrix& logits, const Matrix& chosen) {
  ExpertChoice choose(router, logits.cols);
  for (std::int64_t t = 0; t < logits.rows; ++t)
    choose(row_of<float>(logits, t), chosen.as<std::int32_t>() + t * router.top_k);
}

void drop_what_is_over(const Router& router, const Matrix& logits, const Matrix& chosen) {
  struct Choice {
    float weight;
    std::int64_t at;  // among the chosen
  };
  std::vector<std::vector<Choice>> of_experts(static_cast<std::size_t>(logits.cols));
  std::int32_t* const all = chosen.as<std::int32_t>();
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const std::int64_t first = t * router.top_k;
    const TokenWeights weight(router, row_of<float>(logits, t), logits.cols, all + first);
    for (std::int64_t at = first; at < first + router.top_k; ++at)
      of_experts[static_cast<std::size_t>(all[at])].push_back({weight(all[at]), at});
  }
  for (std::vector<Choice>& choices : of_experts) {
    if (std::ssize(choices) <= router.capacity) continue;
    if (!router.by_position) {
      std::stable_sort(choices.begin(), choices.end(),
                       [](const Choice& a, const Choice& b) { return a.weight > b.weight; });
    }
    for (std::size_t i = static_cast<std::size_t>(router.capacity); i < choices.size(); ++i)
      all[choices[i].at] = dropped(all[choices[i].at]);
  }
}

}  // namespace plumbline::cpu
