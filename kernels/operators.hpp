// The operators a training step is made of. One list, operator_list.inc, implemented by each backend folder
// (cpu/, cuda/, emulated/); the training code is written once over it.
//
// Conventions. Matrices are row-major; T = batch × sequence token rows, batch-major. "Storage type" is the
// type of the activations and weights, fp32, bf16 or fp16; sums inside an operator are always fp32. Every
// output is documented as "overwrites" or "accumulates into". Shapes or types that disagree throw Error
// naming the operator. A returned Number is valid once synchronize() has been called. Results are the same
// bit for bit on every call with the same inputs.
#pragma once

#include <cstdint>

#include "core/tensor/matrix.hpp"
#include "kernels/number.hpp"

namespace plumbline {

/// C = op(A)·op(B) [+ C] [+ bias], op(X) = X or Xᵀ. A and B have one storage type; C has it too, or fp32.
///
/// A and B may instead be of 8-bit floating point types, not both E5M2: then C =
/// A·Bᵀ·a_inverse_scale·b_inverse_scale [+ C] [+ bias], A as it is and B transposed, both contiguous
/// along the summed dimension (the only form that matrix units take before Blackwell; NVIDIA's cuBLASLt
/// documentation), C of any storage type, rounded once. CUDA needs m, n and k to be multiples of 16, and
/// operands without gaps.
struct Gemm {
  Matrix a;  // (m, k), or (k, m) when a_transposed
  Matrix b;  // (k, n), or (n, k) when b_transposed
  Matrix c;  // (m, n)
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;  // C is added to instead of overwritten
  Matrix bias{};            // (1, n) of the storage type, or empty
  /// (1, m) of any floating point type, or empty: it += column sums of A, as in bias_backward, where A is
  /// transposed and not 8-bit. C is then the gradient of a weight, A that of the layer's output, and this
  /// that of its bias.
  Matrix bias_gradient{};
  Matrix a_inverse_scale{};  // (1, 1) fp32, given exactly when A and B are 8-bit: factor from A's codes to
                             // numbers
  Matrix b_inverse_scale{};  // likewise
  /// A's rows, the length of C or, where A is transposed, of the sum, vary from call to call (those of an
  /// expert): a backend must not search for the fastest algorithm anew for each.
  bool rows_vary = false;
};

/// Sum that a block adds to the residual stream: sum = a + factor·b [+ bias], as in add_multiple; sum may be
/// a or b.
struct ResidualSum {
  Matrix a;  // (T, h)
  Matrix b;
  double factor = 1;  // of b
  Matrix bias{};      // (1, h), or empty
  Matrix sum;
};

/// Dropout of elements. The random numbers (dropout.hpp) of an element are always the same: in the forward,
/// in the backward, on any rank.
struct Dropout {
  double probability = 0;      // 0: nothing is dropped
  std::uint32_t seed = 0;      // of the run
  std::uint32_t step = 0;      // of training
  std::uint32_t site = 0;      // place in the model: embedding, after attention of layer l, …
  std::int64_t first_row = 0;  // token row 0 of the matrix, counted over the whole batch
};

/// ALiBi: amount subtracted from scores by distance (alibi.hpp), slope·(i - j) for the query at position i
/// and the key at j.
struct Alibi {
  std::int64_t heads = 0;  // query heads of the model, which slopes depend on; 0: nothing is subtracted
  double factor = 1;       // of all slopes
};

/// Element-wise functions of a feed-forward layer: x·Φ(x) with the normal distribution's Φ (Hendrycks &
/// Gimpel, arXiv:1606.08415), max(x, 0), and its square (So et al. 2021, arXiv:2109.08668).
enum class Pointwise { gelu_erf, relu, squared_relu };

/// Causal grouped-query attention of `batch` sequences. Query head i reads key/value head i / (heads /
/// kv_heads). Every sequence has keys() keys and values, batch-major as queries are, and the first query is
/// at position `past`. With a window W the query at position i sees the keys j with i - W < j <= i, with a
/// prefix p also those with j < p. A query that sees none of the given keys has result 0 and log-sum-exp
/// -inf.
struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t seq = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 1;
  std::int64_t window = 0;      // W, not negative; 0: a query sees all keys up to itself
  Dropout dropout{};            // of the probabilities, after the softmax
  std::int64_t first_head = 0;  // of the model's query heads; decides dropped elements, and slopes
  Alibi alibi{};
  /// Keys before this position are seen by every query; at most seq, 0: only those up to the query. Without
  /// window and ALiBi only.
  std::int64_t prefix = 0;
  std::int64_t past = 0;       // keys in front of the first query's own
  std::int64_t key_start = 0;  // position of the first key that is given
  std::int64_t key_count =
      0;  // number of given keys; 0: up to the last query's own. Parts of the keys without prefix only
  std::int64_t value_dim = 0;  // elements of a head of values and of the result; 0: head_dim

  std::int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
  std::int64_t keys() const { return key_count > 0 ? key_count : past + seq - key_start; }  // of a sequence
};

/// Tensors of attention that keeps its probabilities. Square ones have a number for every query and key of
/// every head of every sequence, (batch·heads·seq, seq), contiguous and of the storage type unless said
/// otherwise. Each backend places the elements in them as it likes.
struct UnfusedAttention {
  Matrix scores;         // in the backward: their gradient. Contents irrelevant before and after a call
  Matrix probabilities;  // of the softmax
  Matrix mask{};         // uint8, 1 where a probability stays; empty without dropout
  Matrix dropped{};      // the probabilities after dropout; empty without dropout
  /// Keys, then values, of every query head but the first of its group, copied from the group's key/value
  /// head: (T, (heads - kv_heads)·(head_dim + values())).
  Matrix repeated{};
};

/// The router of an MoE layer (Shazeer et al. 2017, arXiv:1701.06538) and its load-balancing losses.
struct Router {
  std::int64_t top_k = 1;  // experts of a token
  bool normalized = true;  // a token's weights are divided by their sum
  bool sigmoid = false;    // scores are 1/(1 + e^-logit) instead of a softmax of the logits
  /// Number of equal groups of experts; a token's experts are in the chosen_groups whose two best have the
  /// largest sum.
  std::int64_t groups = 1;
  std::int64_t chosen_groups = 1;
  double scale = 1;  // of a token's weights
  Matrix bias{};     // (1, E) fp32, added to scores for the choice alone; or empty
  /// Rows of an expert at most (Megatron-LM, apply_router_token_dropping); 0: any number.
  std::int64_t capacity = 0;
  bool by_position = false;   // the excess is dropped from the end, not from the smallest weight
  bool padded = false;        // every expert is padded to it
  std::int64_t multiple = 1;  // of the rows of an expert: it is filled up to one
  double balance = 0;  // route_backward: weight of p_te·n_e, summed over tokens and experts, in the loss
  /// The n_e of a token are those of this many neighbours, a sequence; 0: of all tokens.
  std::int64_t balanced_tokens = 0;
  Matrix load{};  // (1, E) fp32: the n_e of every token, where they are not those of `chosen`; or empty
  double z = 0;   // likewise logsumexp², summed over tokens

  /// Rows of an expert that `tokens` tokens have chosen.
  std::int64_t rows_of(std::int64_t tokens) const {
    const bool bound = capacity > 0 && (padded || tokens > capacity);
    return ((bound ? capacity : tokens) + multiple - 1) / multiple * multiple;
  }
};

struct AdamStep {
  double learning_rate = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double gradient_scale = 1;  // clipping factor, multiplied into the gradient
  std::int64_t step = 1;      // 1 for the first step: bias correction
};

/// Decoupled weight decay, then the step: parameter·(1 - learning_rate·weight_decay) -
/// learning_rate·gradient_scale·gradient.
struct DescentStep {
  double learning_rate = 1e-4;
  double weight_decay = 0;
  double gradient_scale = 1;  // clipping factor, or that of an update's size
};

/// momentum = keep·momentum + add·g, then update = of_gradient·g + of_momentum·momentum, with g =
/// gradient_scale·gradient.
struct MomentumStep {
  double keep = 0.9;
  double add = 1;
  double of_gradient = 0;
  double of_momentum = 1;
  double gradient_scale = 1;
};

/// Lion (Chen et al. 2023, arXiv:2302.06675, algorithm 2) with decoupled weight decay.
struct LionStep {
  double learning_rate = 1e-4;
  double beta1 = 0.9;   // of the momentum in the update
  double beta2 = 0.99;  // of the momentum that is kept
  double weight_decay = 0;
  double gradient_scale = 1;
};

/// The loss of distillation (Hinton et al. 2015, arXiv:1503.02531): (1-λ)·KL + λ·CE of every token. KL
/// compares p = softmax(teacher/τ) and s = softmax(student/τ); CE is the student's cross-entropy with its
/// target.
struct Distillation {
  double temperature = 1;  // τ
  bool reverse = false;    // KL = Σ s·(log s - log p) instead of Σ p·(log p - log s)
  double lm_weight = 0;    // λ
};

/// The policy's loss in reinforcement learning: -min(ρA, clip(ρ, 1 - clip_low, 1 + clip_high)·A) with ρ = p ÷
/// p_old and the advantage A (PPO, arXiv:1707.06347 eq. 7), plus kl_coef·KL, minus entropy_coef·entropy. With
/// r = log p_reference - log p, KL is -r (1), r²/2 (2) or exp(r) - 1 - r (3; GRPO, arXiv:2402.03300 eq. 4).
struct PolicyLoss {
  double clip_low = 0.2;
  double clip_high = 0.2;
  double kl_coef = 0;
  int kl = 3;
  double entropy_coef = 0;
};

/// In place of a first token: the table has a row for every token, found already.
constexpr std::int64_t kRowPerToken = -1;

class Operators {
 public:
  virtual ~Operators() = default;

#define PLUMBLINE_OPERATOR(type, name, parameters, arguments) virtual type name parameters = 0;
#include "kernels/operator_list.inc"

  /// fp32 elements of scratch that attention (forward and backward) needs.
  virtual std::int64_t attention_scratch(const AttentionShape& shape, DType type) const = 0;
};

}  // namespace plumbline
