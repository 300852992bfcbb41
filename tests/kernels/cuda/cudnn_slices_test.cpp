// Calls of cuDNN, piece by piece, with a fake library: its plans here compute sums that are only correct when
// every operand of every slice begins where it should.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "analysis/memory/persistent_memory.hpp"
#include "kernels/cuda/attention/cudnn_attention.hpp"
#include "kernels/cuda/attention/cudnn_slices.hpp"
#include "kernels/cuda/attention/key_gradients.hpp"

namespace plumbline::cuda {
namespace {

int plans_made = 0;
int runs = 0;
std::int64_t workspace_wanted = 256;
int sums = 0;
std::vector<std::int64_t> windows_wanted;
std::vector<bool> deterministic_wanted;

/// Integers instead of 16-bit floats. out = q + k of the head's group and lse = the head's sum of q; dq = q +
/// dout + out, dk = Σ k + dout over its heads, dv = Σ v + lse over its heads. Elements beyond the values'
/// width count as 0.
class FakePlan final : public CudnnPlan {
 public:
  explicit FakePlan(const CudnnGraph& graph) : g_(graph) { ++plans_made; }
  std::int64_t workspace() const override { return workspace_wanted; }
  void run(const std::array<void*, kOperands>& at, void* workspace) override {
    ++runs;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(workspace) % 256, 0U);
    const auto element = [&](Operand which, std::int64_t token, std::int64_t head,
                             std::int64_t e) -> std::uint16_t& {
      const std::int64_t width = of_values(which) ? g_.value_dim : g_.head_dim;
      return static_cast<std::uint16_t*>(at[which])[token * g_.strides[which] + head * width + e];
    };
    const std::int64_t group = g_.heads / g_.kv_heads;
    for (std::int64_t token = 0; token < g_.sequences * g_.seq; ++token) {
      for (std::int64_t head = 0; head < g_.heads; ++head) {
        const std::int64_t kv = head / group;
        float& lse =
            static_cast<float*>(at[kLse])[(token / g_.seq * g_.heads + head) * g_.seq + token % g_.seq];
        if (!g_.backward) lse = 0;
        for (std::int64_t e = 0; e < g_.head_dim; ++e) {
          const std::uint16_t q = element(kQ, token, head, e);
          const bool valued = e < g_.value_dim;
          if (!g_.backward) {
            if (valued) element(kOut, token, head, e) = q + element(kK, token, kv, e);
            lse += q;
            continue;
          }
          const std::uint16_t dout = valued ? element(kDout, token, head, e) : 0;
          const std::uint16_t out = valued ? element(kOut, token, head, e) : 0;
          element(kDq, token, head, e) = q + dout + out;
          if (head % group == 0) element(kDk, token, kv, e) = 0;
          element(kDk, token, kv, e) += element(kK, token, kv, e) + dout;
          if (!valued) continue;
          if (head % group == 0) element(kDv, token, kv, e) = 0;
          element(kDv, token, kv, e) +=
              element(kV, token, kv, e) + static_cast<std::uint16_t>(static_cast<int>(lse));
        }
      }
    }
  }

 private:
  CudnnGraph g_;
};

class FakeCudnn final : public Cudnn {
 public:
  std::unique_ptr<CudnnPlan> plan(const CudnnGraph& graph, std::string* why) override {
    windows_wanted.push_back(graph.window);
    deterministic_wanted.push_back(graph.deterministic);
    if (graph.head_dim == 248) {
      if (why != nullptr) *why = "no NVRTC";
      return nullptr;
    }
    return std::make_unique<FakePlan>(graph);
  }
  std::string version() const override { return "fake"; }
};

/// One attention with q, k, v in one matrix whose rows are `gap` elements wider than they need to be.
struct Attention {
  AttentionShape s;
  std::int64_t q_cols = s.heads * s.head_dim, k_cols = s.kv_heads * s.head_dim;
  std::int64_t v_cols = s.kv_heads * s.values(), out_cols = s.heads * s.values();
  std::int64_t width, tokens = s.batch * s.seq;
  std::vector<std::uint16_t> qkv_data, dqkv_data, out_data, dout_data;
  std::vector<float> lse_data, scratch_data;

  Attention(const AttentionShape& shape, std::int64_t gap, bool deterministic = false)
      : s(shape), width(q_cols + k_cols + v_cols + gap), lse_data(s.batch * s.heads * s.seq) {
    std::mt19937 random(7);
    for (auto* data : {&qkv_data, &dqkv_data}) data->resize(tokens * width + 8);
    for (auto* data : {&out_data, &dout_data}) data->resize(tokens * out_cols + 8);
    for (auto* data : {&qkv_data, &dout_data}) {
      for (std::uint16_t& x : *data) x = random() % 16;
    }
    scratch_data.resize(attention_scratch_elements(s, DType::bf16, deterministic));
  }
  Matrix part(std::vector<std::uint16_t>& data, int i) const {
    const Matrix all(aligned(data), tokens, q_cols + k_cols + v_cols, width, DType::bf16);
    if (i == 2) return all.columns(q_cols + k_cols, v_cols);
    return i == 0 ? all.columns(0, q_cols) : all.columns(q_cols, k_cols);
  }
  Matrix rows(std::vector<std::uint16_t>& data) const {
    return {aligned(data), tokens, out_cols, DType::bf16};
  }
  Matrix lse() { return {lse_data.data(), s.batch * s.heads, s.seq, DType::fp32}; }
  Matrix scratch() {
    return {scratch_data.data(), 1, static_cast<std::int64_t>(scratch_data.size()), DType::fp32};
  }
  static void* aligned(std::vector<std::uint16_t>& data) {
    return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(data.data()) + 15) / 16 * 16);
  }
  bool forward(CudnnAttention& by) {
    return by.forward(s, part(qkv_data, 0), part(qkv_data, 1), part(qkv_data, 2), rows(out_data), lse(),
                      scratch());
  }
  bool backward(CudnnAttention& by) {
    return by.backward(s, part(qkv_data, 0), part(qkv_data, 1), part(qkv_data, 2), rows(out_data), lse(),
                       rows(dout_data), part(dqkv_data, 0), part(dqkv_data, 1), part(dqkv_data, 2),
                       scratch());
  }
};

std::uint16_t value(const Matrix& x, std::int64_t row, std::int64_t col) {
  return *static_cast<std::uint16_t*>(x.at(row, col));
}

void check_values(Attention& a, const std::string& what) {
  const AttentionShape& s = a.s;
  const std::int64_t group = s.heads / s.kv_heads;
  for (std::int64_t token = 0; token < a.tokens; token += 61) {
    for (std::int64_t kv = 0; kv < s.kv_heads; ++kv) {
      std::uint16_t lses = 0;
      for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) {
        std::uint16_t sum = 0;
        for (std::int64_t e = 0; e < s.head_dim; ++e) {
          sum += value(a.part(a.qkv_data, 0), token, head * s.head_dim + e);
        }
        ASSERT_EQ(a.lse_data[(token / s.seq * s.heads + head) * s.seq + token % s.seq], sum) << what;
        lses += sum;
      }
      for (std::int64_t e = 0; e < s.head_dim; ++e) {
        const bool valued = e < s.values();
        const std::int64_t kv_col = kv * s.head_dim + e;
        const std::int64_t v_col = kv * s.values() + e;
        const std::uint16_t k = value(a.part(a.qkv_data, 1), token, kv_col);
        std::uint16_t dk = group * k;
        for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) {
          const std::int64_t col = head * s.head_dim + e;
          const std::uint16_t q = value(a.part(a.qkv_data, 0), token, col);
          const std::int64_t out_col = head * s.values() + e;
          const std::uint16_t dout = valued ? value(a.rows(a.dout_data), token, out_col) : 0;
          if (valued) {
            ASSERT_EQ(value(a.rows(a.out_data), token, out_col), q + k) << what;
          }
          ASSERT_EQ(value(a.part(a.dqkv_data, 0), token, col), q + dout + (valued ? q + k : 0)) << what;
          dk += dout;
        }
        ASSERT_EQ(value(a.part(a.dqkv_data, 1), token, kv_col), dk) << what;
        if (!valued) continue;
        ASSERT_EQ(value(a.part(a.dqkv_data, 2), token, v_col),
                  static_cast<std::uint16_t>(group * value(a.part(a.qkv_data, 2), token, v_col) + lses))
            << what;
      }
    }
  }
}

struct Case {
  AttentionShape shape;
  bool deterministic;
  AttentionSlice slice;
  int calls;
  int sums;  // of gradients of keys or values
};
AttentionShape latent(const AttentionShape& keys, std::int64_t values) {
  AttentionShape shape = keys;
  shape.value_dim = values;
  return shape;
}
const Case kCases[] = {
    {latent({3, 37, 4, 4, 24}, 16), true, {3, 4, 1}, 1, 0},
    {latent({4, 2048, 24, 24, 16}, 8), true, {1, 24, 1}, 4, 0},
    {latent({3, 37, 4, 4, 24}, 8), false, {3, 4, 1}, 1, 0},
    {{3, 37, 4, 2, 8}, true, {3, 2, 2}, 1, 0},       // everything at once
    {{4, 2048, 24, 24, 8}, true, {1, 24, 1}, 4, 0},  // 8 MiB a head: 32 of 96
    // 16 MiB a key/value head: 16 of 24, four sequences would not divide 6
    {{6, 2048, 8, 4, 8}, true, {3, 4, 2}, 2, 0},
    {{2, 4096, 12, 12, 8}, true, {1, 6, 1}, 4, 0},  // 32 MiB a head
    {{1, 8192, 8, 2, 8}, true, {1, 1, 4}, 2, 0},    // 512 MiB a key/value head: more than is comfortable
    // 1280 MiB a key/value head: two of its ten query heads at a time, for two heads of two sequences
    {{2, 8192, 20, 2, 8}, true, {1, 1, 2}, 20, 8},
    {{1, 16384, 3, 1, 8}, true, {1, 1, 1}, 3, 2},  // 512 MiB a query head
    {{3, 37, 4, 2, 8}, false, {3, 2, 2}, 1, 0},
    {{1, 16384, 3, 1, 8}, false, {1, 1, 3}, 1, 0},
};

TEST(CudnnSlices, CoverEveryHeadOnce) {
  for (const auto& [shape, deterministic, slice, calls, summed] : kCases) {
    const std::string what = fmt::format("batch {} seq {} heads {}, {}deterministic", shape.batch, shape.seq,
                                         shape.heads, deterministic ? "" : "not ");
    EXPECT_EQ(backward_slice(shape, DType::bf16, deterministic), slice) << what;
    for (const std::int64_t gap : {0, 16}) {
      Attention attention(shape, gap, deterministic);
      CudnnAttention by(0, Queue{}, true, deterministic);
      plans_made = runs = sums = 0;
      deterministic_wanted.clear();
      ASSERT_TRUE(attention.forward(by)) << what;
      EXPECT_EQ(runs, 1) << what;
      ASSERT_TRUE(attention.backward(by)) << what;
      EXPECT_EQ(runs, 1 + calls) << what;
      EXPECT_EQ(sums, summed) << what;
      check_values(attention, what);
      ASSERT_TRUE(attention.forward(by));
      EXPECT_EQ(plans_made, 2) << what << ": plans are kept";
      EXPECT_EQ(deterministic_wanted, (std::vector<bool>{false, deterministic})) << what;
    }
  }
}

// Gradients of queries, twice, of keys and values, and the sums: up to 256 MiB.
TEST(CudnnSlices, AreLargeWhereTheMemoryIsLinear) {
  struct Row {
    AttentionShape shape;
    AttentionSlice slice;
  };
  constexpr Row kRows[] = {
      {{1, 4096, 32, 8, 128}, {1, 8, 4}},    // 25 MiB a key/value head
      {{1, 8192, 32, 8, 128}, {1, 4, 4}},    // 48 MiB
      {{4, 1024, 32, 8, 128}, {4, 8, 4}},    // 6 MiB
      {{16, 1024, 32, 8, 128}, {4, 8, 4}},   // 48 MiB a sequence: five would not divide 16
      {{2, 32768, 32, 8, 128}, {1, 1, 4}},   // 193 MiB
      {{1, 131072, 32, 8, 128}, {1, 1, 4}},  // 770 MiB, no cliff
      {{1, 1 << 20, 8, 1, 128}, {1, 1, 8}},
      {{1, 65536, 24, 24, 64}, {1, 6, 1}},  // 32 MiB: seven would not divide 24
  };
  for (const auto& [shape, slice] : kRows) {
    EXPECT_EQ(backward_slice(shape, DType::bf16, false), slice) << shape.batch << " x " << shape.seq;
  }
}

TEST(CudnnSlices, OwnKernelsDoTheRest) {
  const AttentionShape good{2, 33, 4, 2, 16};
  const auto refused = [](Attention attention, bool wanted = true) {
    CudnnAttention by(0, Queue{}, wanted, true);
    return !attention.forward(by) && !attention.backward(by);
  };
  EXPECT_FALSE(refused(Attention(good, 0)));
  EXPECT_TRUE(refused(Attention(good, 0), false));
  EXPECT_TRUE(refused(Attention(good, 4))) << "rows off 16-byte boundaries";
  EXPECT_TRUE(refused(Attention({2, 33, 4, 2, 12}, 0))) << "head size";
  EXPECT_TRUE(refused(Attention({2, 33, 4, 2, 248}, 0))) << "no plan";
  EXPECT_TRUE(refused(Attention({2, 1, 4, 2, 16}, 0))) << "one token";
  AttentionShape drops = good;
  drops.dropout.probability = 0.1;
  EXPECT_TRUE(refused(Attention(drops, 0)));
  AttentionShape biased = good;
  biased.alibi = {4, 0.5};
  EXPECT_TRUE(refused(Attention(biased, 0))) << "linear biases";
  AttentionShape prefixed = good;
  prefixed.prefix = 3;
  EXPECT_TRUE(refused(Attention(prefixed, 0))) << "a prefix";
  EXPECT_TRUE(refused(Attention(latent(good, 8), 0))) << "narrower values that query heads share";
  EXPECT_TRUE(refused(Attention(latent({2, 33, 4, 4, 16}, 24), 0))) << "wider values";
  EXPECT_TRUE(refused(Attention(latent({2, 33, 4, 4, 16}, 12), 0))) << "values of twelve";
  EXPECT_FALSE(cudnn_takes(good, DType::fp32));
  workspace_wanted = 1 << 20;
  EXPECT_TRUE(refused(Attention(good, 0))) << "a workspace larger than the scratch";
  workspace_wanted = 256;
  const AttentionShape of_2_gib{1, 32768, 4, 1, 128};
  EXPECT_TRUE(backward_slice(of_2_gib, DType::bf16, true).empty()) << "2 GiB of dP";
  EXPECT_FALSE(backward_slice(of_2_gib, DType::bf16, false).empty());
  EXPECT_TRUE(cudnn_takes(of_2_gib, DType::bf16)) << "forward all the same";
}

TEST(CudnnSlices, WhoComputedWhatAndWhyIsKept) {
  struct Row {
    AttentionShape shape;
    std::int64_t gap;
    std::int64_t workspace;
    const char* why;  // of forward and backward
  };
  AttentionShape drops{2, 33, 4, 2, 16};
  drops.dropout.probability = 0.1;
  const Row rows[] = {
      {{2, 33, 4, 2, 16}, 0, 256, ""},
      {{2, 33, 4, 2, 16}, 4, 256, "rows or heads are off 16-byte boundaries"},
      {{2, 33, 4, 2, 12}, 0, 256, "cuDNN takes head sizes that are multiples of 8 up to 256"},
      {{2, 33, 4, 2, 248}, 0, 256, "no NVRTC"},
      {drops, 0, 256, "probabilities drop, and cuDNN would drop others than every other backend"},
      {{2, 33, 4, 2, 16}, 0, 1 << 20, "cuDNN wants 1048576 bytes of workspace, the scratch has 57376"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.why);
    Attention attention(row.shape, row.gap);
    CudnnAttention by(0, Queue{}, true, false);
    workspace_wanted = row.workspace;
    for (int call = 0; call < 2; ++call) EXPECT_EQ(attention.forward(by), *row.why == '\0');
    EXPECT_EQ(attention.backward(by), *row.why == '\0');
    workspace_wanted = 256;
    const std::string what = fmt::format("bf16, batch 2, seq 33, heads 4/2 x {}", row.shape.head_dim);
    const std::string who = *row.why == '\0' ? "fake" : "own kernels";
    const std::string order = *row.why == '\0' ? ", sums in any order" : "";
    EXPECT_EQ(by.choices(),
              (std::vector<KernelChoice>{{"attention_forward " + what, who, row.why},
                                         {"attention_backward " + what, who + order, row.why}}));
  }
  CudnnAttention alike(0, Queue{}, true, true);
  EXPECT_TRUE(Attention({2, 33, 4, 2, 16}, 0, true).backward(alike));
  EXPECT_EQ(alike.choices().at(0).by, "fake, deterministic");
  Attention too_long({1, 32768, 2, 1, 8}, 0, true);
  EXPECT_FALSE(too_long.backward(alike));
  EXPECT_EQ(alike.choices().at(1).why,
            "deterministic, and the gradient of the scores of one query head takes more than 1 GiB");
  AttentionShape chunk{2, 33, 4, 2, 16};
  chunk.past = 30;
  CudnnAttention shared(0, Queue{}, true, false);
  for (int call = 0; call < 2; ++call) EXPECT_FALSE(Attention(chunk, 0).forward(shared));
  EXPECT_EQ(shared.choices(),
            (std::vector<KernelChoice>{{"attention_forward bf16, batch 2, seq 33, heads 4/2 x 16, keys 63",
                                        "own kernels", "queries and keys are parts of a sequence"}}));
  CudnnAttention unwanted(0, Queue{}, false, false);
  EXPECT_FALSE(Attention({2, 33, 4, 2, 16}, 0).forward(unwanted));
  EXPECT_EQ(unwanted.choices().at(0).why, "not asked for");
}

TEST(CudnnSlices, WindowsShorterThanTheSequenceReachTheLibrary) {
  CudnnAttention by(0, Queue{}, true, false);
  windows_wanted.clear();
  for (const std::int64_t window : {0, 20, 37, 1000, 3}) {
    Attention attention({1, 37, 4, 2, 8, window}, 0);
    EXPECT_TRUE(attention.forward(by) && attention.backward(by)) << window;
    EXPECT_EQ(attention.scratch_data.size(),
              attention_scratch_elements({1, 37, 4, 2, 8}, DType::bf16, false));
  }
  EXPECT_EQ(windows_wanted, (std::vector<std::int64_t>{0, 0, 20, 20, 3, 3}))
      << "forward and backward of each";
}

TEST(CudnnSlices, ScratchIsTheFormula) {
  struct Row {
    AttentionShape shape;
    DType type;
    std::int64_t elements;
    std::int64_t deterministic;
  };
  const Row rows[] = {
      {{2, 100, 4, 2, 64}, DType::fp32, 2 * 4 * 100, 2 * 4 * 100},
      {{2, 100, 4, 2, 12}, DType::bf16, 2 * 4 * 100, 2 * 4 * 100},
      // Eight heads: gradients of 100 and 104 queries, sums, keys and values; of 128·128 scores, sums, keys
      // and values.
      {{2, 100, 4, 2, 64},
       DType::bf16,
       (4 * 8 * 204 * 64 + 4 * 8 * 100 + 4 * 8 * 100 * 64 + 2048) / 4,
       (2 * 8 * 128 * 128 + 4 * 8 * 100 + 4 * 8 * 100 * 64 + 2048) / 4},
      {{2, 130, 4, 4, 64},
       DType::fp16,
       (4 * 8 * 266 * 64 + 4 * 8 * 130 + 2048) / 4,
       (2 * 8 * 192 * 256 + 4 * 8 * 130 + 2048) / 4},
      // All 32 heads; eight of them, two of eight key/value heads.
      {{1, 4096, 32, 8, 128},
       DType::bf16,
       (std::int64_t{4} * 32 * 4096 * 128 * 3 + 4 * 32 * 4096 + 2048) / 4,
       (std::int64_t{2} * 8 * 4096 * 4096 + 4 * 8 * 4096 + 4 * 8 * 4096 * 128 + 2048) / 4},
      // One of four query heads, and four times the gradients of keys and values.
      {{1, 16384, 4, 1, 128},
       DType::bf16,
       (std::int64_t{4} * 4 * 16384 * 128 * 3 + 4 * 4 * 16384 + 2048) / 4,
       (std::int64_t{2} * 16384 * 16384 + 4 * 16384 + 4 * 4 * 16384 * 128 + 2048) / 4},
      // All forty; two of ten.
      {{2, 8192, 20, 2, 64},
       DType::bf16,
       (std::int64_t{4} * 40 * 8192 * 64 * 3 + 4 * 40 * 8192 + 2048) / 4,
       (std::int64_t{2} * 2 * 8192 * 8192 + 4 * 2 * 8192 + 4 * 2 * 8192 * 64 + 4 * 5 * 8192 * 64 + 2048) / 4},
      {{1, 32768, 4, 1, 128},
       DType::bf16,
       (std::int64_t{4} * 4 * 32768 * 128 * 3 + 4 * 4 * 32768 + 2048) / 4,
       4 * 32768},
  };
  for (const auto& [shape, type, elements, deterministic] : rows) {
    EXPECT_EQ(attention_scratch_elements(shape, type, false), elements) << shape.seq << " " << shape.head_dim;
    EXPECT_EQ(attention_scratch_elements(shape, type, true), deterministic)
        << shape.seq << " " << shape.head_dim;
    AttentionShape drops = shape;
    drops.dropout.probability = 0.5;
    EXPECT_EQ(attention_scratch_elements(drops, type, false), elements);
  }
  // Parts of a sequence: Σ dout·out of every row.
  AttentionShape part{2, 100, 4, 2, 64};
  part.past = 30;
  EXPECT_EQ(attention_scratch_elements(part, DType::bf16, false), 2 * 4 * 100);
  part.past = 0;
  part.key_count = 100;
  EXPECT_EQ(attention_scratch_elements(part, DType::bf16, true), 2 * 4 * 100);
}

TEST(CudnnSlices, ScratchIsWhatThePredictionSays) {
  std::mt19937 random(11);
  const auto pick = [&](std::initializer_list<std::int64_t> of) {
    return *(of.begin() + random() % of.size());
  };
  for (int i = 0; i < 600; ++i) {
    StageShape predicted;
    predicted.numerics.cuda = true;
    predicted.numerics.deterministic = i % 2 == 1;
    predicted.numerics.type = i % 5 == 0 ? DType::fp32 : i % 5 == 1 ? DType::fp16 : DType::bf16;
    predicted.stream.batch = pick({1, 2, 3, 6, 8});
    predicted.stream.seq = pick({1, 2, 100, 1000, 1024, 4096, 8192, 16384, 32768});
    predicted.attention.kv_heads = pick({1, 2, 3, 8, 12});
    predicted.attention.heads = predicted.attention.kv_heads * pick({1, 2, 4, 7});
    predicted.attention.head_dim = pick({8, 20, 64, 128, 256, 264});
    const AttentionShape shape{predicted.stream.batch, predicted.stream.seq, predicted.attention.heads,
                               predicted.attention.kv_heads, predicted.attention.head_dim};
    EXPECT_EQ(attention_scratch_elements(shape, predicted.numerics.type, predicted.numerics.deterministic),
              attention_scratch_elements(predicted))
        << shape.batch << " x " << shape.seq << ", heads " << shape.heads << "/" << shape.kv_heads;
    // Context parallelism: a block of a ring, a chunk against gathered keys, whole sequences of some heads.
    for (const CpCommType type : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a}) {
      StageShape cut = predicted;
      cut.stream.seq *= 4;
      cut.cp.ranks = 2;
      cut.cp.comm_type = type;
      cut.cp.head_ranks = type == CpCommType::a2a ? 2 : 1;
      if (cut.attention.kv_heads % cut.cp.head_ranks != 0) continue;
      AttentionShape largest = shape;
      largest.heads /= cut.cp.head_ranks;
      largest.kv_heads /= cut.cp.head_ranks;
      largest.seq = cut.stream.seq;
      if (type != CpCommType::a2a) {
        largest.batch = 1;
        largest.seq = predicted.stream.seq;
        largest.past = cut.stream.seq - predicted.stream.seq;
        largest.key_count = type == CpCommType::p2p ? predicted.stream.seq : 0;
      }
      EXPECT_EQ(attention_scratch_elements(largest, cut.numerics.type, cut.numerics.deterministic),
                attention_scratch_elements(cut))
          << cp_comm_type_name(type) << " " << largest.seq << ", heads " << largest.heads;
    }
  }
}

}  // namespace

// The sum over the same integers.
void sum_key_gradients(const Queue& /*queue*/, const Matrix& parts, const Matrix& sum) {
  ++sums;
  for (std::int64_t row = 0; row < sum.rows; ++row) {
    for (std::int64_t col = 0; col < sum.cols; ++col) {
      std::uint16_t total = 0;
      for (std::int64_t part = row; part < parts.rows; part += sum.rows) total += value(parts, part, col);
      *static_cast<std::uint16_t*>(sum.at(row, col)) = total;
    }
  }
}

std::unique_ptr<Cudnn> open_cudnn(int /*device*/, void* /*stream*/, std::string* /*why*/) {
  return std::make_unique<FakeCudnn>();
}

}  // namespace plumbline::cuda
