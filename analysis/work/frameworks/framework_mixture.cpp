#include "analysis/work/frameworks/framework_mixture.hpp"

namespace plumbline {
namespace {

// Bytes per element of a copy that puts rows in another order, read and written once.
constexpr double kReordered = 4;
// Without fusion scatter_add_ and the gradient of index_select add row by row, atomically (Megatron-Core,
// moe_utils.py, permute and unpermute): streaming so many bytes takes as long on an H100
// (results/recorded/nvidia-h100-80gb-hbm3, experts.txt).
constexpr double kScattered = 11;
constexpr double kAddedByIndex = 22;
// Bytes per element of a router in fp32, backward: its input is cast and read twice as wide, its gradient
// written so and cast back (Megatron-Core, moe_utils.py, RouterGatingLinearFunction). Such products run in
// TF32, at half the rate of 16 bits (Transformer Engine, common/gemm/cublaslt_gemm.cu).
constexpr double kRouterCasts = 6 + 6;
constexpr double kTf32 = 2;
// Bytes per expert score of Megatron's router, in fp32: softmax, top-k, map of the chosen, weights, load and
// load-balancing loss, each read or written once (moe_utils.py, topk_softmax_with_capacity and
// switch_load_balancing_loss).
constexpr double kRouted = 10 * 4;
constexpr double kRoutedBack = 6 * 4;
constexpr std::int64_t kWeight = 4;  // bytes of a token's weight
// Operators between the read of the tokens' counts and the kernel of the dispatch (Megatron-Core,
// token_dispatcher.py and fused_a2a.py): views of the counts, the buffer, two events, the kernel.
constexpr double kDispatchLaunch = 5;
constexpr double kActivationLaunch = 1;
// Bytes per element of the expert output biases, expert by expert: bias times token weights in fp32, sum with
// the output, all experts' results concatenated and rounded; backward the same and the sums over rows
// (Megatron-Core, moe/experts.py, _apply_bias of TEGroupedMLP, which no graph of a whole step captures).
constexpr double kBiased = 4 + 10 + 8 + 6;
constexpr double kBiasedBack = 6 + (8 + 4) + (8 + 4) + 6 + 4;
// PyTorch's kernels for it take as long as streaming so many: 0.638 and 1.02 ms for 16,384 rows of 2880 on an
// H100 (experts.txt).
constexpr double kBiasedEagerly = 35;
constexpr double kBiasedEagerlyBack = 56;
// Bytes per element of the activation's result that are read for the gradient of a token's weight: both
// halves of fc1's and the gradient. A sum over a row is no part of the activation's pointwise kernel
// (Megatron-Core, fusions/fused_bias_swiglu.py, weighted_swiglu_back).
constexpr double kWeightGradient = 4 + 2;
constexpr double kWeightGradientUngated = 2 + 2;
// Bytes per element of fc1 that clamp its halves and put them together again, in front of the fused
// activation, and back (Megatron-Core, fusions/fused_bias_geglu.py, weighted_bias_quick_geglu_impl with a
// clamp_value).
constexpr double kClamped = 4 + 4;
constexpr double kClampedBack = 6 + 4;
constexpr double kAddedGradient = 2 + 4;

}  // namespace

/// HybridEP's forward dispatch takes the tokens' weights along, its backward their gradients (Megatron-Core,
/// moe/fused_a2a.py, HybridEPDispatch).
void MixtureCalls::exchange(const char* label, bool weighted, bool combines, const Meanwhile& meanwhile) {
  const ExpertShape& e = s_.expert;
  // The fullest rank receives most.
  const auto own = static_cast<std::int64_t>(e.fullest * static_cast<double>(e.sent * width_));
  if (e.dispatcher == TokenDispatcher::flex) {
    const bool hybrid = s_.software->mixtures.hybrid_dispatch;
    const std::int64_t weights = own / width_ * s_.moe.experts * kWeight;
    calls_.dispatched(label, own, hybrid && weighted ? weights : 0, hybrid && combines);
  } else {
    calls_.expert_collective(CallKind::all_to_all, label, e.ranks, e.tensor, own * e.chosen);
  }
  if (e.overlapped) calls_.alongside();
  if (!hides_shared()) return;
  const int ticket = calls_.begin_exchange(label);
  meanwhile();
  calls_.end_exchange(ticket);
}

bool MixtureCalls::hides_shared() const {
  return s_.overlap.shared_expert && s_.moe.shared > 0 && s_.expert.ranks > 1 && !s_.expert.overlapped;
}

/// HybridEP gathers every token's choices, a byte per expert, and scans them (DeepEP hybrid-ep,
/// csrc/hybrid_ep/allgather and metadata_preprocessing); the all-to-all needs the counts of tokens by expert
/// (Megatron-Core, token_dispatcher.py, preprocess).
void MixtureCalls::tell_routing() {
  const ExpertShape& e = s_.expert;
  const bool flex = e.dispatcher == TokenDispatcher::flex;
  const std::int64_t told = (flex ? e.sent : 8) * s_.moe.experts * e.ranks;  // bytes
  calls_.expert_collective(CallKind::all_gather, flex ? "routing map all-gather" : "expert counts all-gather",
                           e.ranks, e.tensor, told / s_.numerics.e());
  if (flex) calls_.stream("scan routing map", told, 1);
}

void MixtureCalls::route(GemmPass pass) {
  const bool latent = s_.attention.latent() && s_.software->mixtures.fp32_latent_router;
  const bool wide = pass != GemmPass::forward && (latent || s_.software->mixtures.fp32_router);
  calls_.router(pass, wide ? kTf32 : 1);
  if (wide && pass == GemmPass::input_gradient)
    calls_.stream("router casts", s_.expert.sent * s_.stream.hidden, kRouterCasts);
}

/// The all-to-all sends tokens' weights, in fp32, in an exchange of their own (token_dispatch).
void MixtureCalls::exchange_weights() {
  const ExpertShape& e = s_.expert;
  if (e.dispatcher != TokenDispatcher::alltoall || s_.software->mixtures.weighted_results) return;
  calls_.expert_collective(CallKind::all_to_all, "expert weights exchange", e.ranks, e.tensor,
                           e.sent * e.chosen * kWeight / s_.numerics.e());
}

/// An overlapped exchange reads while the other micro-batch's experts, launched before, run (Megatron-Core,
/// combined_1f1b.py and model_chunk_schedule_plan.py).
bool MixtureCalls::reads() const {
  const bool dropless = !s_.moe.padded;
  const bool behind = s_.expert.overlapped;
  return dropless && !s_.graphs.step && !behind && s_.software->mixtures.expert_product_s > 0;
}

/// Kernels that quantize the rows of a grouped layer, expert by expert unless scaling is delayed; a scale of
/// the current tensor takes two more, for the largest value and the scale (Transformer Engine,
/// pytorch/csrc/extensions/cast.cpp, multi_tensor_quantize_impl; quantizer.cpp).
std::int64_t MixtureCalls::casts() const {
  const bool apart =
      s_.numerics.framework_fp8 && !s_.software->fp8.always && s_.numerics.fp8_recipe != Fp8Recipe::delayed;
  const int kernels = s_.numerics.fp8_recipe == Fp8Recipe::tensorwise ? 3 : 1;
  return apart ? kernels * s_.expert.local : 0;
}

/// Casts of both grouped layers' rows, `elements` in all. One graph of the step has them in one kernel.
void MixtureCalls::cast_rows(std::int64_t elements) {
  calls_.casts(elements, false, s_.graphs.step ? 1 : std::max<std::int64_t>(1, 2 * casts()));
}

bool MixtureCalls::weighs_in_activation() const {
  return !s_.software->mixtures.weighted_results && !s_.graphs.step;
}

/// Recipes with one graph of the step fuse an expert's operators (use_transformer_engine_op_fuser).
bool MixtureCalls::clamps() const {
  return is_gpt_oss(s_) && s_.mlp.swiglu && !s_.graphs.step;
}

/// Experts' rows are filled up to what FP8 products need by a copy, unless the dispatcher's kernels do it
/// (Megatron-Core, experts.py, quantization_padding; skip_routed_expert_padding in moe_utils.py).
void MixtureCalls::pad(const char* label) {
  if (!s_.numerics.framework_fp8 || s_.moe.padded || s_.expert.dispatcher == TokenDispatcher::flex) return;
  calls_.stream(label, s_.expert.rows * width_, kReordered);
}

void MixtureCalls::dispatch(const char* label, bool first, const Meanwhile& meanwhile) {
  const ExpertShape& e = s_.expert;
  const std::int64_t rows = e.rows * width_;
  if (e.dispatcher == TokenDispatcher::allgather) {
    calls_.expert_collective(CallKind::all_gather, label, e.ranks * e.tensor, 1,
                             e.sent * width_ * e.ranks * e.tensor);
    return calls_.stream("permute", rows, kReordered);
  }
  const bool travels = e.ranks > 1;
  if (travels && first && !e.overlapped) tell_routing();
  if (e.dispatcher != TokenDispatcher::flex || !travels) {
    calls_.stream("permute", e.sent * e.chosen * width_, kReordered);
  }
  if (travels) exchange(label, first, false, meanwhile);
  if (travels && first && reads() && !e.overlapped) calls_.launched(kDispatchLaunch, true);
  if (travels && !e.overlapped) exchange_weights();
  calls_.expert_collective(CallKind::all_gather, "expert tensor all-gather", e.tensor, 1, rows);
  if (travels && e.local > 1) calls_.stream("sort by expert", rows, kReordered);
}

void MixtureCalls::combine(const char* label, bool backward, const Meanwhile& meanwhile) {
  const ExpertShape& e = s_.expert;
  const std::int64_t rows = e.rows * width_;
  if (e.dispatcher == TokenDispatcher::allgather) {
    calls_.stream("unpermute", rows, kReordered);
    return calls_.expert_collective(CallKind::reduce_scatter, label, e.ranks * e.tensor, 1,
                                    e.sent * width_ * e.ranks * e.tensor);
  }
  const bool travels = e.ranks > 1;
  if (travels && e.local > 1) calls_.stream("sort by expert", rows, kReordered);
  calls_.expert_collective(CallKind::reduce_scatter, "expert tensor reduce-scatter", e.tensor, 1, rows);
  if (travels) exchange(label, backward, true, meanwhile);
  if (e.dispatcher != TokenDispatcher::flex || !travels) {
    const double plain = backward ? kAddedByIndex : kScattered;
    calls_.stream("unpermute", e.sent * e.chosen * width_,
                  s_.software->mixtures.plain_permutation ? plain : kReordered);
  }
}

double MixtureCalls::activation_bytes() const {
  if (!s_.mlp.swiglu) return 4;
  return s_.software->kernels.compiled ? 6 : 10;
}
double MixtureCalls::activation_backward_bytes() const {
  if (!s_.mlp.swiglu) return 6;
  return s_.software->kernels.compiled ? 10 : 16;
}

void MixtureCalls::shared_up(GemmPass pass) {
  const std::int64_t up = s_.mlp.swiglu ? 2 * s_.moe.shared : s_.moe.shared;
  if (pass == GemmPass::input_gradient) {
    calls_.casts(s_.stream.tokens * (s_.stream.hidden + up), false);
    calls_.stream("add", s_.stream.rows * s_.stream.hidden, 6);
  }
  calls_.linear("shared fc1", pass, up, s_.stream.hidden);
  if (pass != GemmPass::forward) return;
  calls_.stream("shared swiglu", s_.stream.tokens * s_.moe.shared, activation_bytes());
  calls_.casts(s_.stream.tokens * s_.stream.hidden, true);
}

void MixtureCalls::shared_down(GemmPass pass) {
  calls_.linear("shared fc2", pass, s_.stream.hidden, s_.moe.shared);
  if (pass == GemmPass::input_gradient)
    calls_.stream("shared swiglu backward", s_.stream.tokens * s_.moe.shared, activation_backward_bytes());
  if (pass != GemmPass::forward) return;
  calls_.casts(s_.stream.tokens * s_.moe.shared, false);
  calls_.stream("add", s_.stream.rows * s_.stream.hidden, 6);
}

void MixtureCalls::shared(GemmPass pass) {
  if (s_.moe.shared == 0) return;
  if (pass == GemmPass::forward) {
    shared_up(pass);
    return shared_down(pass);
  }
  shared_down(pass);
  shared_up(pass);
}

/// Projections to the experts' width and back, of the rank's own rows of the stream (Megatron-Core,
/// moe/moe_layer.py, fc1_latent_proj and fc2_latent_proj).
void MixtureCalls::to_latent(GemmPass pass) {
  if (s_.moe.latent == 0) return;
  calls_.rows_linear("to experts", pass, s_.moe.latent, s_.stream.hidden, 1);
  calls_.casts(s_.expert.sent * (pass == GemmPass::forward ? s_.stream.hidden : s_.moe.latent), false);
}
void MixtureCalls::from_latent(GemmPass pass) {
  if (s_.moe.latent == 0) return;
  calls_.rows_linear("from experts", pass, s_.stream.hidden, s_.moe.latent, 1);
  calls_.casts(s_.expert.sent * (pass == GemmPass::forward ? s_.moe.latent : s_.stream.hidden), false);
}

void MixtureCalls::activation() {
  if (clamps()) calls_.stream("clamp gate", s_.expert.rows * s_.expert.fc1, kClamped);
  calls_.stream("swiglu", s_.expert.rows * s_.expert.ffn, activation_bytes());
  calls_.casts(s_.expert.rows * s_.expert.ffn, false,
               s_.graphs.step ? 1 : std::max<std::int64_t>(1, casts()));
}

void MixtureCalls::forward() {
  const ExpertShape& e = s_.expert;
  route(GemmPass::forward);
  calls_.stream("route", e.sent * s_.moe.experts, kRouted);
  if (!hides_shared()) shared(GemmPass::forward);
  to_latent(GemmPass::forward);
  dispatch("expert dispatch forward", true, [&] { shared_up(GemmPass::forward); });
  pad("pad experts");
  calls_.grouped("fc1", GemmPass::forward, e.fc1, width_);
  // An exchange read the counts of the rank's experts before. Flex leaves them in the host's memory (DeepEP,
  // num_recv_tokens_per_expert_list; csrc/hybrid_ep/executor since December 2025, dispatch_preprocess).
  const bool known = e.ranks > 1 && e.dispatcher != TokenDispatcher::allgather;
  launched_grouped(!known);
  if (clamps()) calls_.stream("clamp gate", e.rows * e.fc1, kClamped);
  // Multiplied with the token's weight in the same kernel.
  calls_.stream("swiglu", e.rows * e.ffn, activation_bytes());
  if (reads()) calls_.launched(kActivationLaunch);
  calls_.grouped("fc2", GemmPass::forward, width_, e.ffn);
  launched_grouped(false);
  if (s_.predicted.feed_forward_bias) {
    calls_.stream("expert biases", e.rows * width_, s_.graphs.step ? kBiased : kBiasedEagerly);
    if (reads()) calls_.launched(kBiasOperators, false, static_cast<double>(e.local - 1) * kBiasOperators);
  }
  cast_rows(e.rows * (width_ + e.ffn));
  if (s_.software->mixtures.weighted_results) calls_.stream("weigh results", e.sent * e.chosen * width_, 4);
  pad("unpad experts");
  combine("expert combine forward", false, [&] { shared_down(GemmPass::forward); });
  from_latent(GemmPass::forward);
}

void MixtureCalls::backward_input() {
  const ExpertShape& e = s_.expert;
  if (s_.software->mixtures.weighted_results) calls_.stream("weigh backward", e.sent * e.chosen * width_, 8);
  from_latent(GemmPass::input_gradient);
  dispatch("expert combine backward", false, [&] { shared_down(GemmPass::input_gradient); });
  pad("pad experts");
  if (s_.predicted.feed_forward_bias)
    calls_.stream("expert biases backward", e.rows * width_,
                  s_.graphs.step ? kBiasedBack : kBiasedEagerlyBack);
  calls_.grouped("fc2", GemmPass::input_gradient, width_, e.ffn);
  calls_.stream("swiglu backward", e.rows * e.ffn, activation_backward_bytes());
  if (weighs_in_activation())
    calls_.stream("token weights backward", e.rows * e.ffn,
                  s_.mlp.swiglu ? kWeightGradient : kWeightGradientUngated);
  // FP8 casts of the gradients sum fc1's biases as well (Transformer Engine, module/grouped_linear.py).
  if (s_.predicted.feed_forward_bias && !s_.numerics.framework_fp8)
    calls_.stream("expert biases backward", e.rows * e.fc1, 2);
  if (s_.predicted.feed_forward_bias && hooked() && !s_.graphs.step)
    calls_.each("add bias gradients", s_.expert.local, e.fc1 + s_.stream.hidden, kAddedGradient);
  if (clamps()) calls_.stream("clamp gate backward", e.rows * e.fc1, kClampedBack);
  calls_.grouped("fc1", GemmPass::input_gradient, e.fc1, width_);
  cast_rows(e.rows * (width_ + e.fc1));
  pad("unpad experts");
  combine("expert dispatch backward", true, [&] { shared_up(GemmPass::input_gradient); });
  to_latent(GemmPass::input_gradient);
  if (!hides_shared()) shared(GemmPass::input_gradient);
  calls_.stream("route backward", e.sent * s_.moe.experts, kRoutedBack);
  route(GemmPass::input_gradient);
  calls_.stream("add", e.sent * s_.stream.hidden, 6);
}

void MixtureCalls::backward_weight() {
  calls_.grouped("fc2", GemmPass::weight_gradient, width_, s_.expert.ffn);
  calls_.grouped("fc1", GemmPass::weight_gradient, s_.expert.fc1, width_);
  from_latent(GemmPass::weight_gradient);
  to_latent(GemmPass::weight_gradient);
  shared(GemmPass::weight_gradient);
  route(GemmPass::weight_gradient);
}

}  // namespace plumbline
