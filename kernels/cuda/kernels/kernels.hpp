// The kernels behind CudaOperators as host functions: each starts its work on the queue and returns. Shapes
// and types have been checked; matrices are in device memory. kernels/operators.hpp defines their results.
#pragma once

#include "kernels/cuda/device/element_math.cuh"
#include "kernels/cuda/device/queue.hpp"
#include "kernels/operators.hpp"

namespace plumbline::cuda {

// elementwise.cu
/// y = a + factor·b + bias.
void add(const Queue& queue, Matrix a, Matrix b, float factor, Matrix bias, Matrix y);
void weighted_sum(const Queue& queue, Matrix a, float of_a, Matrix b, float of_b, Matrix y);
void convert(const Queue& queue, Matrix from, Matrix to);  // types differ
void scale(const Queue& queue, Matrix x, float factor);
void fill(const Queue& queue, Matrix x, double value);

// dropout.cu
void dropout_mask(const Queue& queue, const Dropout& dropout, Matrix mask);
/// Backward is the same without bias and residual.
void dropout_add(const Queue& queue, Matrix x, Matrix bias, Matrix residual, Matrix mask, double probability,
                 Matrix y);

// activations.cu
void swiglu_forward(const Queue& queue, Matrix gate_up, Matrix y);
void swiglu_backward(const Queue& queue, Matrix dy, Matrix gate_up, Matrix dgate_up);
void gelu_forward(const Queue& queue, Matrix x, Matrix y);
void gelu_backward(const Queue& queue, Matrix dy, Matrix x, Matrix dx);
void geglu_forward(const Queue& queue, Matrix gate_up, Matrix y);
void geglu_backward(const Queue& queue, Matrix dy, Matrix gate_up, Matrix dgate_up);
void pointwise_forward(const Queue& queue, Pointwise function, Matrix x, Matrix y);
void pointwise_backward(const Queue& queue, Pointwise function, Matrix dy, Matrix x, Matrix dx);

// rope.cu
void rope_neighbours(const Queue& queue, Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim,
                     bool inverse);
void rope(const Queue& queue, Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool inverse);

// column_sums.cu. Sums over rows are taken in two stages through fp32 partial sums in scratch.
/// Rows of partial sums, each as wide as the matrix, that bias_backward needs.
std::int64_t bias_partials(const Queue& queue, std::int64_t rows, std::int64_t cols);
void bias_backward(const Queue& queue, Matrix dy, Matrix dbias, float* partials, std::int64_t count);
/// to (1, n) += the sum over `count` rows of partials, row i starting `stride` floats after row i - 1.
void add_partials(const Queue& queue, const float* partials, std::int64_t count, std::int64_t stride,
                  Matrix to);

// norms.cu. LayerNorm if mean has data, else RMSNorm.
void norm_forward(const Queue& queue, Matrix x, Matrix w, Matrix b, Matrix y, Matrix mean, Matrix rstd,
                  double epsilon);
/// Norm of a sum that the same kernel makes and stores.
void added_norm_forward(const Queue& queue, const ResidualSum& added, Matrix w, Matrix b, Matrix y,
                        Matrix mean, Matrix rstd, double epsilon);
/// Rows of partial weight gradients; LayerNorm's are twice as wide: dw, then db.
std::int64_t norm_partials(const Queue& queue, std::int64_t rows);
void norm_backward(const Queue& queue, Matrix dy, Matrix x, Matrix w, Matrix mean, Matrix rstd,
                   Matrix residual, Matrix dx, Matrix dw, Matrix db, float* partials, std::int64_t count);

// normed_rows.cu
void row_products(const Queue& queue, Matrix a, Matrix b, std::int64_t first, std::int64_t columns,
                  Matrix sums);
void scale_columns(const Queue& queue, Matrix x, Matrix squares);
void remove_row_parts(const Queue& queue, Matrix g, Matrix w, std::int64_t first, std::int64_t columns,
                      Matrix sums);

// head_norm.cu
void head_norm_forward(const Queue& queue, Matrix x, Matrix w, Matrix y, Matrix rstd, double epsilon);
constexpr std::int64_t kMostHeadNorm = 2048;  // elements of a head in head_norm_backward
/// Rows of partial weight gradients, each as wide as a head; items: tokens times heads.
std::int64_t head_norm_partials(const Queue& queue, std::int64_t items);
void head_norm_backward(const Queue& queue, Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix dx, Matrix dw,
                        float* partials);

// embedding.cu
void embedding_forward(const Queue& queue, Matrix tokens, Matrix table, std::int64_t first_token, Matrix y);
void embedding_add(const Queue& queue, Matrix tokens, Matrix table, Matrix x);
/// order: 1 int per token of scratch.
void embedding_backward(const Queue& queue, Matrix tokens, Matrix dy, std::int64_t first_token, Matrix dtable,
                        std::int32_t* order);
void position_forward(const Queue& queue, Matrix x, Matrix table, std::int64_t seq);
void position_backward(const Queue& queue, Matrix dy, Matrix dtable, std::int64_t seq);

// cross_entropy.cu
void cross_entropy_max(const Queue& queue, Matrix logits, std::int64_t valid, Matrix row_max);
void greedy_choice(const Queue& queue, Matrix logits, std::int64_t valid, Matrix choice);
void cross_entropy_sums(const Queue& queue, Matrix logits, std::int64_t valid, std::int64_t first_token,
                        Matrix targets, Matrix row_max, Matrix sums);
/// *loss (device memory) = the loss summed over rows.
void cross_entropy_gradient(const Queue& queue, Matrix logits, std::int64_t valid, std::int64_t first_token,
                            Matrix targets, Matrix row_max, Matrix sums, float scale, double* loss);

// policy_loss.cu
void entropy_sums(const Queue& queue, Matrix logits, std::int64_t valid, Matrix row_max, Matrix entropies);
/// *result (device memory) = the loss summed over rows.
void policy_loss(const Queue& queue, Matrix targets, Matrix sums, Matrix entropies, Matrix tokens,
                 const PolicyLoss& loss, double scale, Matrix factors, double* result);
void policy_gradient(const Queue& queue, Matrix logits, std::int64_t valid, std::int64_t first_token,
                     Matrix targets, Matrix row_max, Matrix factors);
/// Likewise.
void value_loss(const Queue& queue, Matrix targets, Matrix values, Matrix tokens, double clip, double scale,
                Matrix gradient, double* result);

// vocabulary.cu
void vocab_softmax(const Queue& queue, Matrix logits, std::int64_t valid, Matrix row_max, Matrix row_sum);
/// losses: T doubles of scratch. *result (device memory) = the loss summed over tokens.
void vocab_combine(const Queue& queue, Matrix gathered, Matrix targets, std::int64_t columns,
                   std::int64_t own, Matrix alpha, double* losses, double* result);
void vocab_gradient(const Queue& queue, Matrix softmax, std::int64_t valid, std::int64_t first_token,
                    Matrix targets, Matrix alpha, float scale);
void vocab_input_gradient(const Queue& queue, Matrix product, Matrix table, std::int64_t first_token,
                          Matrix targets, Matrix alpha, float scale);

// distillation.cu
void distillation_sums(const Queue& queue, Matrix student, Matrix teacher, std::int64_t valid,
                       std::int64_t first_token, Matrix targets, double temperature, Matrix row_max,
                       Matrix sums);
void distillation_divergence(const Queue& queue, Matrix student, Matrix teacher, std::int64_t valid,
                             const Distillation& loss, Matrix row_max, Matrix sums, Matrix divergence);
/// *total (device memory) = the loss summed over rows.
void distillation_gradient(const Queue& queue, Matrix student, Matrix teacher, std::int64_t valid,
                           std::int64_t first_token, Matrix targets, const Distillation& loss, Matrix row_max,
                           Matrix sums, Matrix divergence, double scale, double* total);

// eager_divergence.cu
void softmax(const Queue& queue, Matrix x, std::int64_t valid, bool logarithm, Matrix y);
/// row_sums: T doubles of scratch. *result (device memory) = the sum of the terms.
void divergence_terms(const Queue& queue, Matrix p, Matrix log_s, std::int64_t valid, Matrix targets,
                      Matrix terms, double* row_sums, double* result);
void log_softmax_backward(const Queue& queue, Matrix dy, Matrix log_s, std::int64_t valid, Matrix targets,
                          float factor, Matrix dx);

// fp8.cu
void fp8_amax(const Queue& queue, Matrix x, Matrix amax);
void fp8_scales(const Queue& queue, Matrix amaxes, double largest, int margin, Matrix scales);
void fp8_quantize(const Queue& queue, Matrix x, Matrix scales, Matrix amax, Matrix y);

// fp8_transpose.cu
void fp8_transpose(const Queue& queue, Matrix x, Matrix y);

// fp8_quantize_transpose.cu
void fp8_quantize_transpose(const Queue& queue, Matrix x, Matrix scales, Matrix amax, Matrix y,
                            Matrix transposed);

// optimizer.cu
void adam(const Queue& queue, Matrix parameter, Matrix gradient, Matrix master, Matrix moment1,
          Matrix moment2, const AdamFactors& factors);
void sgd(const Queue& queue, Matrix parameter, Matrix gradient, Matrix master, float decay, float factor);
void lion(const Queue& queue, Matrix parameter, Matrix gradient, Matrix master, Matrix momentum,
          const LionFactors& factors);
void momentum(const Queue& queue, Matrix gradient, Matrix momentum, Matrix update,
              const MomentumFactors& factors);
/// x /= max(sqrt(*sum), epsilon); *sum in device memory.
void divide_by_root(const Queue& queue, Matrix x, const double* sum, float epsilon);
/// Partial sums that squared_norm needs.
std::int64_t norm_sums(const Queue& queue, Matrix x);
/// *result (device memory) = Σ x².
void squared_norm(const Queue& queue, Matrix x, double* partials, std::int64_t count, double* result);

// expert_choice.cu
void choose_experts(const Queue& queue, const Router& router, Matrix logits, Matrix chosen);

// expert_rows.cu
/// int32 numbers of scratch that the functions below need.
std::int64_t routing_scratch(const Router& router, std::int64_t tokens, std::int64_t experts);
/// The choices of every expert, scratch's first numbers; `dropped`: those that are dropped, too.
void count_choices(const Queue& queue, Matrix chosen, std::int64_t experts, bool dropped,
                   std::int32_t* scratch);
/// Marks the choices beyond the router's capacity, right after count_choices. Leaves the counts unchanged.
void drop_choices(const Queue& queue, const Router& router, Matrix logits, Matrix chosen,
                  std::int32_t* scratch);
void arrange(const Queue& queue, const Router& router, Matrix logits, Matrix chosen, Matrix places,
             Matrix tokens, Matrix weights, std::int32_t* scratch);

// routing_backward.cu. counts: of every expert, device memory, or none if the load does not matter.
void route_backward(const Queue& queue, const Router& router, Matrix logits, Matrix chosen,
                    const std::int32_t* counts, Matrix places, Matrix dweights, Matrix dlogits);

// mixture_rows.cu
void sigmoid_forward(const Queue& queue, Matrix x, Matrix y);
void sigmoid_backward(const Queue& queue, Matrix dy, Matrix y, Matrix dx);
void scale_rows(const Queue& queue, Matrix x, Matrix factors, Matrix y);
void combine_rows(const Queue& queue, Matrix x, Matrix places, bool accumulate, Matrix y);

// latent_heads.cu
void join_heads(const Queue& queue, Matrix shared, Matrix own, std::int64_t count, Matrix y);
void split_heads(const Queue& queue, Matrix dy, std::int64_t count, Matrix shared, Matrix own);

// attention_merge.cu
void attention_merge(const Queue& queue, Matrix out, Matrix lse, Matrix part, Matrix part_lse);

// unfused_attention.cu
void repeat_heads(const Queue& queue, const AttentionShape& shape, Matrix k, Matrix v, Matrix repeated);
/// Scaled scores become probabilities, and with dropout a mask and dropped ones.
void keep_softmax(const Queue& queue, const AttentionShape& shape, const UnfusedAttention& kept, Matrix lse);
/// In kept.scores: the gradients of what was multiplied with the values become those of the unscaled scores.
void softmax_gradient(const Queue& queue, const AttentionShape& shape, const UnfusedAttention& kept);

// attention.cu. dots: (batch·heads, seq) fp32 of scratch.
void attention_forward(const Queue& queue, const AttentionShape& shape, Matrix q, Matrix k, Matrix v,
                       Matrix out, Matrix lse);
void attention_backward(const Queue& queue, const AttentionShape& shape, Matrix q, Matrix k, Matrix v,
                        Matrix out, Matrix lse, Matrix dout, Matrix dq, Matrix dk, Matrix dv, float* dots);

}  // namespace plumbline::cuda
