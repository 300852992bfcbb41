// MoE operators against double arithmetic, over random routings, ties and experts without tokens among them.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/base/error.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

/// A routing of random sizes, as the operators left it.
struct Routed {
  Routed(std::int64_t tokens_, std::int64_t experts_, const Router& router_, Guarded logits_)
      : router(router_),
        tokens(tokens_),
        experts(experts_),
        logits(std::move(logits_)),
        bias(random_matrix(1, experts_, DType::fp32)),
        chosen(1, tokens_ * router_.top_k, DType::int32),
        counts(route()),
        rows(rows_of_first(experts_)),
        places(1, tokens_ * router_.top_k, DType::int32),
        token_of_row(1, rows, DType::int32),
        weights(1, rows, DType::fp32) {
    operators().arrange(router, logits, chosen, places, token_of_row, weights);
  }
  static Routed random() {
    Router router;
    router.groups = random_integer(1, 4);
    const std::int64_t size = random_integer(router.groups > 1 ? 2 : 1, 20 / router.groups);
    const std::int64_t experts = size * router.groups;
    const std::int64_t tokens = random_integer(1, 40);
    router.chosen_groups = random_integer(1, router.groups);
    router.top_k = random_integer(1, size * router.chosen_groups);
    router.normalized = random_integer(0, 1) == 1;
    router.sigmoid = random_integer(0, 1) == 1;
    router.scale = static_cast<double>(random_integer(1, 3)) / 2;
    router.capacity = random_integer(0, 2) == 0 ? 0 : random_integer(1, tokens);
    router.by_position = random_integer(0, 1) == 1;
    router.padded = random_integer(0, 1) == 1;
    router.multiple = random_integer(0, 1) == 0 ? 1 : random_integer(2, 16);
    return {tokens, experts, router, random_matrix(tokens, experts, DType::fp32, random_integer(0, 3), 2)};
  }

  std::vector<std::int64_t> route() {
    std::vector<std::int64_t> found(static_cast<std::size_t>(experts));
    if (router.sigmoid) router.bias = bias;
    operators().route(router, logits, chosen, found.data());
    return found;
  }
  /// By the definition of a capacity.
  std::int64_t kept_of(std::int64_t e) const {
    const std::int64_t chose = counts[static_cast<std::size_t>(e)];
    return router.capacity == 0 ? chose : std::min(chose, router.capacity);
  }
  /// And the multiple of rows.
  std::int64_t rows_of(std::int64_t e) const {
    std::int64_t filled = router.capacity > 0 && router.padded ? router.capacity : kept_of(e);
    while (filled % router.multiple != 0) ++filled;
    return filled;
  }
  std::int64_t rows_of_first(std::int64_t so_many) const {
    std::int64_t sum = 0;
    for (std::int64_t e = 0; e < so_many; ++e) sum += rows_of(e);
    return sum;
  }
  bool is_dropped(std::int64_t token, std::int64_t j) const {
    return chosen.matrix().as<std::int32_t>()[token * router.top_k + j] < 0;
  }
  std::int64_t expert(std::int64_t token, std::int64_t j) const {
    const std::int32_t found = chosen.matrix().as<std::int32_t>()[token * router.top_k + j];
    return found < 0 ? -1 - found : found;
  }
  std::int64_t place(std::int64_t token, std::int64_t j) const {
    return places.matrix().as<std::int32_t>()[token * router.top_k + j];
  }
  /// By the definition: of choice j of a token with these logits.
  double weight(const Dense& of, std::int64_t token, std::int64_t j) const {
    double sum_of_chosen = 0;
    for (std::int64_t i = 0; i < router.top_k; ++i) sum_of_chosen += score(of, token, expert(token, i));
    return router.scale * score(of, token, expert(token, j)) / (router.normalized ? sum_of_chosen : 1);
  }
  double score(const Dense& of, std::int64_t token, std::int64_t i) const {
    if (router.sigmoid) return 1 / (1 + std::exp(-of(token, i)));
    double all = 0;
    for (std::int64_t e = 0; e < experts; ++e) all += std::exp(of(token, e));
    return std::exp(of(token, i)) / all;
  }
  /// The experts of a token, best first.
  std::vector<std::int64_t> choice(const Dense& of, std::int64_t token) const {
    const auto counted = [&](std::int64_t i) {
      return score(of, token, i) + (router.sigmoid ? bias.read()(0, i) : 0);
    };
    const auto descending = [](std::vector<std::int64_t>& numbers, const auto& value) {
      std::stable_sort(numbers.begin(), numbers.end(),
                       [&](std::int64_t a, std::int64_t b) { return value(a) > value(b); });
    };
    const std::int64_t size = experts / router.groups;
    const auto best_two = [&](std::int64_t group) {
      std::vector<double> scores;
      scores.reserve(static_cast<std::size_t>(size));
      for (std::int64_t i = 0; i < size; ++i) scores.push_back(counted(group * size + i));
      std::sort(scores.begin(), scores.end(), std::greater<>());
      return scores[0] + (size > 1 ? scores[1] : 0);
    };
    std::vector<std::int64_t> groups(static_cast<std::size_t>(router.groups));
    std::iota(groups.begin(), groups.end(), 0);
    descending(groups, best_two);
    groups.resize(static_cast<std::size_t>(router.chosen_groups));
    std::vector<std::int64_t> order(static_cast<std::size_t>(experts));
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](std::int64_t i) {
      return std::find(groups.begin(), groups.end(), i / size) == groups.end();
    });
    descending(order, counted);
    return order;
  }

  Router router;
  std::int64_t tokens, experts;
  Guarded logits, bias, chosen;
  std::vector<std::int64_t> counts;  // tokens that chose each expert
  std::int64_t rows;
  Guarded places, token_of_row, weights;
};

TEST(Routing, HundredRandomOnesAreWhatTheirDefinitionSays) {
  for (int trial = 0; trial < 100; ++trial) {
    const Routed r = Routed::random();
    const Dense logits = r.logits.read();
    std::vector<std::int64_t> counts(r.counts.size());
    std::vector<bool> taken(static_cast<std::size_t>(r.rows));
    const std::int32_t* const tokens = r.token_of_row.matrix().as<std::int32_t>();
    const float* const weights = r.weights.matrix().as<float>();
    for (std::int64_t t = 0; t < r.tokens; ++t) {
      const std::vector<std::int64_t> order = r.choice(logits, t);
      for (std::int64_t j = 0; j < r.router.top_k; ++j) {
        EXPECT_EQ(r.expert(t, j), order[static_cast<std::size_t>(j)]);
        ++counts[static_cast<std::size_t>(r.expert(t, j))];
        const std::int64_t row = r.place(t, j);
        EXPECT_EQ(row < 0, r.is_dropped(t, j));
        if (row < 0) continue;
        EXPECT_FALSE(taken.at(static_cast<std::size_t>(row)));
        taken[static_cast<std::size_t>(row)] = true;
        EXPECT_EQ(tokens[row], t);
        const std::int64_t first = r.rows_of_first(r.expert(t, j));
        EXPECT_GE(row, first);
        EXPECT_LT(row, first + r.rows_of(r.expert(t, j)));
        EXPECT_NEAR(weights[row], r.weight(logits, t, j), 1e-6);
      }
    }
    EXPECT_EQ(r.counts, counts);
    // Rows of one expert are in the order of their tokens; those that fill it up come last and count nothing.
    for (std::int64_t e = 0; e < r.experts; ++e) {
      const std::int64_t first = r.rows_of_first(e);
      const std::int64_t kept = r.kept_of(e);
      EXPECT_TRUE(std::is_sorted(tokens + first, tokens + first + kept));
      for (std::int64_t row = first; row < first + r.rows_of(e); ++row)
        EXPECT_EQ(taken[static_cast<std::size_t>(row)], row < first + kept);
      for (std::int64_t row = first + kept; row < first + r.rows_of(e); ++row) {
        EXPECT_EQ(weights[row], 0);
        EXPECT_EQ(tokens[row], 0);
      }
    }
    EXPECT_TRUE(r.chosen.intact() && r.places.intact() && r.token_of_row.intact() && r.weights.intact());
  }
}

/// Rows beyond an expert's capacity are the choices that came last, or those with the smallest weights.
TEST(Routing, DropsWhatIsOverTheCapacity) {
  std::int64_t dropped = 0;
  for (int trial = 0; trial < 100; ++trial) {
    const Routed r = Routed::random();
    const Dense logits = r.logits.read();
    for (std::int64_t e = 0; e < r.experts; ++e) {
      std::vector<double> kept;
      std::vector<double> left;
      std::int64_t last_kept = -1;
      std::int64_t first_left = r.tokens;
      for (std::int64_t t = 0; t < r.tokens; ++t) {
        for (std::int64_t j = 0; j < r.router.top_k; ++j) {
          if (r.expert(t, j) != e) continue;
          (r.is_dropped(t, j) ? left : kept).push_back(r.weight(logits, t, j));
          if (!r.is_dropped(t, j)) last_kept = t;
          if (r.is_dropped(t, j)) first_left = std::min(first_left, t);
        }
      }
      const auto chose = r.counts[static_cast<std::size_t>(e)];
      const std::int64_t over =
          r.router.capacity == 0 ? 0 : std::max<std::int64_t>(0, chose - r.router.capacity);
      EXPECT_EQ(std::ssize(left), over);
      dropped += over;
      if (over == 0) continue;
      if (r.router.by_position) {
        EXPECT_LT(last_kept, first_left);
      } else {
        EXPECT_GE(*std::min_element(kept.begin(), kept.end()),
                  *std::max_element(left.begin(), left.end()) - 1e-6);
      }
    }
  }
  EXPECT_GT(dropped, 100);
}

TEST(Routing, OfEqualWeightsTheLaterIsDropped) {
  for (const bool by_position : {false, true}) {
    Guarded logits(4, 3, DType::fp32);
    operators().fill(logits, 0.5);
    Router router;
    router.top_k = 2;
    router.capacity = 3;
    router.by_position = by_position;
    const Routed r(4, 3, router, std::move(logits));
    EXPECT_EQ(r.counts, (std::vector<std::int64_t>{4, 4, 0}));
    EXPECT_EQ(r.rows, 6);
    for (std::int64_t t = 0; t < 4; ++t) {
      EXPECT_EQ(r.place(t, 0), t < 3 ? t : -1);
      EXPECT_EQ(r.place(t, 1), t < 3 ? 3 + t : -1);
    }
  }
}

TEST(Routing, OfEqualLogitsTheLowerNumberIsChosen) {
  Guarded logits(3, 5, DType::fp32);
  operators().fill(logits, 0.5);
  Router router;
  router.top_k = 2;
  const Routed r(3, 5, router, std::move(logits));
  EXPECT_EQ(r.counts, (std::vector<std::int64_t>{3, 3, 0, 0, 0}));
  for (std::int64_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(r.weights.matrix().as<float>()[i], 0.5F);
}

/// For any logits of a diverged model routing stays within its memory.
TEST(Routing, LogitsThatAreNoNumbersChooseDifferentExperts) {
  Guarded logits(2, 4, DType::fp32);
  operators().fill(logits, std::nan(""));
  Router router;
  router.top_k = 3;
  const Routed r(2, 4, router, std::move(logits));
  EXPECT_EQ(std::accumulate(r.counts.begin(), r.counts.end(), std::int64_t{0}), 6);
  EXPECT_EQ(r.expert(0, 0), 0);
  EXPECT_EQ(r.expert(0, 1), 1);
  EXPECT_EQ(r.expert(0, 2), 2);
}

TEST(Routing, GradientOfLogitsIsNumericallyThatOfWeightsBalanceAndZ) {
  for (int trial = 0; trial < 20; ++trial) {
    Routed r = Routed::random();
    r.router.balance = 0.03;
    if (trial % 2 == 1) r.router.balanced_tokens = r.tokens % 2 == 0 ? r.tokens / 2 : r.tokens;
    const std::int64_t together = r.router.balanced_tokens > 0 ? r.router.balanced_tokens : r.tokens;
    const Guarded loads = random_matrix(1, r.experts, DType::fp32);
    if (trial % 3 == 2) r.router.load = loads.matrix();
    // The tokens of expert e in the sequence of token t, dropped ones too, or the given load.
    const auto load = [&](std::int64_t t, std::int64_t e) {
      if (trial % 3 == 2) return loads.read()(0, e);
      std::int64_t count = 0;
      for (std::int64_t other = t / together * together; other < (t / together + 1) * together; ++other)
        for (std::int64_t j = 0; j < r.router.top_k; ++j) count += int{r.expert(other, j) == e};
      return static_cast<double>(count);
    };
    r.router.z = 0.02;
    const Guarded dweights = random_matrix(1, r.rows, DType::fp32);
    const Guarded found(r.tokens, r.experts, DType::fp32);
    operators().route_backward(r.router, r.logits, r.chosen, r.places, dweights, found);
    const Dense gradients = dweights.read();
    const auto loss = [&](const Dense& logits) {
      return dense(1, 1, [&](auto, auto) {
        double sum = 0;
        for (std::int64_t t = 0; t < r.tokens; ++t) {
          double all = 0;
          double scores = 0;
          for (std::int64_t i = 0; i < r.experts; ++i) all += std::exp(logits(t, i));
          for (std::int64_t i = 0; i < r.experts; ++i) scores += r.score(logits, t, i);
          for (std::int64_t i = 0; i < r.experts; ++i)
            sum += r.router.balance * r.score(logits, t, i) / scores * load(t, i);
          sum += r.router.z * std::log(all) * std::log(all);
          for (std::int64_t j = 0; j < r.router.top_k; ++j)
            if (!r.is_dropped(t, j)) sum += gradients(0, r.place(t, j)) * r.weight(logits, t, j);
        }
        return sum;
      });
    };
    const Dense one = dense(1, 1, [](auto, auto) { return 1.0; });
    const Dense expected = numerical_gradient(loss, r.logits.read(), one);
    for (std::int64_t t = 0; t < r.tokens; ++t) {
      for (std::int64_t i = 0; i < r.experts; ++i)
        EXPECT_NEAR(found.read()(t, i), expected(t, i), 2e-6) << t << " " << i;
    }
    EXPECT_TRUE(found.intact());
  }
}

TEST(Routing, RowsAreScaledAndAddedUp) {
  for (const Storage& storage : storages()) {
    const Guarded x = random_matrix(6, 19, storage.type, storage.gap);
    const Guarded factors = random_matrix(1, 6, DType::fp32);
    const Guarded scaled(6, 19, storage.type, storage.gap);
    operators().scale_rows(x, factors, scaled);
    const Dense expected =
        dense(6, 19, [&](auto i, auto j) { return x.read()(i, j) * factors.read()(0, i); });
    expect_close(scaled, expected, tolerance(storage.type), describe(storage));
    const Guarded places(1, 6, DType::int32);
    const std::int32_t order[] = {5, 0, 2, -1, 3, 4};
    std::copy(std::begin(order), std::end(order), places.matrix().as<std::int32_t>());
    for (const DType sums : {storage.type, DType::fp32}) {
      const Guarded y(3, 19, sums);
      operators().combine_rows(x, places, false, y);
      const auto term = [&](auto place, auto j) { return place < 0 ? 0.0 : x.read()(place, j); };
      const Dense sum =
          dense(3, 19, [&](auto t, auto j) { return term(order[2 * t], j) + term(order[2 * t + 1], j); });
      const Dense terms = dense(3, 19, [&](auto t, auto j) {
        return std::fabs(term(order[2 * t], j)) + std::fabs(term(order[2 * t + 1], j));
      });
      expect_close(y, sum, tolerance(sums), describe(storage), terms);
      const Guarded onto = random_matrix(3, 19, sums);
      const Dense before = onto.read();
      operators().combine_rows(x, places, true, onto);
      expect_close(onto, dense(3, 19, [&](auto t, auto j) { return before(t, j) + sum(t, j); }),
                   tolerance(sums), describe(storage),
                   dense(3, 19, [&](auto t, auto j) { return std::fabs(before(t, j)) + terms(t, j); }));
    }
  }
}

/// Rows that another rank has are none.
TEST(Routing, OfRowsThatAreAddedUpSomeMayBeElsewhere) {
  const Guarded x = random_matrix(2, 19, DType::fp32);
  const Guarded places(1, 6, DType::int32);
  const std::int32_t order[] = {-1, 1, -1, -1, 0, 1};
  std::copy(std::begin(order), std::end(order), places.matrix().as<std::int32_t>());
  const Guarded y(3, 19, DType::fp32);
  operators().combine_rows(x, places, false, y);
  const Dense expected = dense(3, 19, [&](auto t, auto j) {
    return t == 0 ? x.read()(1, j) : t == 1 ? 0.0 : x.read()(0, j) + x.read()(1, j);
  });
  expect_close(y, expected, 1e-6, "places below 0");
}

TEST(Routing, SigmoidAndItsSlope) {
  for (const Storage& storage : storages()) {
    const Guarded x = random_matrix(3, 21, storage.type, storage.gap, 3);
    const Guarded y(3, 21, storage.type, storage.gap);
    operators().sigmoid_forward(x, y);
    const Dense expected = dense(3, 21, [&](auto i, auto j) { return 1 / (1 + std::exp(-x.read()(i, j))); });
    expect_close(y, expected, tolerance(storage.type), describe(storage));
    const Guarded dy = random_matrix(3, 21, storage.type, storage.gap);
    const Dense slope =
        dense(3, 21, [&](auto i, auto j) { return dy.read()(i, j) * y.read()(i, j) * (1 - y.read()(i, j)); });
    operators().sigmoid_backward(dy, y, dy);
    expect_close(dy, slope, tolerance(storage.type), describe(storage));
  }
}

TEST(Routing, RefusesWhatDoesNotFit) {
  const Guarded logits = random_matrix(4, 3, DType::fp32);
  const Guarded chosen(1, 8, DType::int32);
  const Guarded numbers(1, 8, DType::fp32);
  std::int64_t counts[3];
  Router router;
  router.top_k = 4;
  EXPECT_THROW(operators().route(router, logits, chosen, counts), Error);
  router.top_k = 2;
  EXPECT_THROW(operators().route(router, logits, numbers, counts), Error);
  EXPECT_THROW(operators().arrange(router, logits, chosen, chosen, chosen, chosen), Error);
  EXPECT_THROW(operators().route_backward(router, logits, chosen, chosen, numbers, numbers), Error);
  router.capacity = 5;  // more than there are tokens
  EXPECT_THROW(operators().route(router, logits, chosen, counts), Error);
  router.capacity = 2;
  router.padded = true;  // six rows
  EXPECT_THROW(operators().arrange(router, logits, chosen, chosen, chosen, numbers), Error);
  EXPECT_THROW(operators().scale_rows(logits, numbers, logits), Error);
  EXPECT_THROW(operators().combine_rows(logits, numbers, false, logits), Error);
}

}  // namespace
}  // namespace plumbline::test
