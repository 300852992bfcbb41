// Appends operator calls with the types and sizes of one stage, for analysis/work/operator_list*.cpp.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "analysis/work/operator_list.hpp"

namespace plumbline {

/// Reduction of a unit's gradient to `pieces` over `group`: a reduce-scatter, and, with optimizer instances,
/// the sum of the piece between them, else 0 elements. Instances of one rank each have only the sum.
std::pair<OperatorCall, OperatorCall> gradient_scatter(const StageShape& s, Group group, int pieces,
                                                       std::int64_t elements);

class CallList {
 public:
  /// Tickets are numbered from `tickets` + 1 on.
  explicit CallList(const StageShape& shape, int tickets = 0) : s_(shape), tickets_(tickets) {}

  /// The work of the last call. Throws std::bad_variant_access for other work.
  template <class Work>
  Work& last() {
    return calls.back().get<Work>();
  }
  void gemm(const char* label, GemmPass pass, std::int64_t out, std::int64_t in) {
    add(label, GemmCall{.pass = pass, .tokens = s_.stream.tokens, .out = out, .in = in});
  }
  /// One of a layer's products. In FP8 with the preparation of its operands: transposing for a weight
  /// gradient, quantizing the weights where ZeRO-3 keeps no quantized ones (bench/training/fp8.md).
  void linear(const char* label, GemmPass pass, std::int64_t out, std::int64_t in) {
    if (s_.numerics.fp8) prepare_operands(pass, out, in);
    gemm(label, pass, out, in);
    last<GemmCall>().fp8 = s_.numerics.fp8;
  }
  // MoE layers (operator_list_mixture.cpp):
  /// Adds the calls that run while rows are in transit; empty: none.
  using Meanwhile = std::function<void()>;
  /// add(rows) of every expert that has rows, which are spread evenly.
  template <class Add>
  void each_expert(const Add& add) {
    const std::int64_t all = s_.local_experts();
    const std::int64_t parts = s_.mlp_rows() / s_.moe.row_multiple;
    for (const std::int64_t more : {1, 0}) {
      const std::int64_t experts = more == 1 ? parts % all : all - parts % all;
      const std::size_t first = calls.size();
      const std::int64_t rows = (parts / all + more) * s_.moe.row_multiple;
      if (rows > 0 && experts > 0) add(rows);
      for (std::size_t i = first; i < calls.size(); ++i) calls[i].count = experts;
    }
  }
  /// Rows of `width` elements that the products of the experts read; nothing in the storage type.
  void quantize_rows(std::int64_t width);
  /// The same for all tokens, which a shared expert reads.
  void quantize_shared(std::int64_t width) {
    if (s_.moe.shared > 0) quantize(s_.stream.tokens * width);
  }
  /// The products of all experts.
  void grouped(const char* label, GemmPass pass, std::int64_t out, std::int64_t in);
  void router_product(GemmPass pass);
  /// All-to-all among the ranks that a layer's experts are spread over: rows of `width` elements of the
  /// rank's tokens to their experts, or back. Nothing if every rank has all experts.
  void rows_to_experts(const char* label, std::int64_t width, DType type, const Meanwhile& meanwhile = {});
  void rows_from_experts(const char* label, std::int64_t width, DType type, const Meanwhile& meanwhile = {});
  void tokens_to_experts(const char* exchange, const char* gather, const Meanwhile& meanwhile);
  void open_dispatch();
  void weights_from_experts();
  void exchange(const char* label, std::int64_t elements, DType type, bool hands_over,
                const Meanwhile& meanwhile);
  /// `of_shared` where the shared expert's calls run alongside exchanges of rows, else nothing.
  Meanwhile if_hidden(Meanwhile of_shared) const {
    return s_.overlap.shared_expert ? std::move(of_shared) : Meanwhile();
  }
  void among_experts(CallKind kind, const char* label, std::int64_t elements, DType type);
  void expert_scatter();
  /// From the router to the activation, the first time or `again`; then to the sum over the tensor ranks.
  void mixture_forward(bool again);
  void mixture_output();
  /// Part of the MoE layer that selective recomputation repeats.
  void mixture_again();
  void experts_activation();
  void shared_fc1();
  void shared_activation();
  /// Input gradients (I), weight gradients (W) or both (B).
  void mixture_backward(bool input, bool weight);
  struct ResultLabels;
  void add_up_choices(const ResultLabels& labels, const Meanwhile& product, const Meanwhile& after);
  void shared_output_gradients(bool input, bool weight);
  void shared_gradients(bool weight);
  void shared_input_weights();
  // Latent attention (operator_list_latent.cpp): from the first norm's output to queries, keys and values,
  // and back.
  void latent_forward();
  void latent_up_projection(bool again);
  void latent_backward(bool input, bool weight);
  void gather_compressed(const char* label);
  void gather_compressed(const char* label, DType type);
  void queries(GemmPass pass);
  void keys_values(GemmPass pass);
  void quantize_up_gradients();
  void compression(GemmPass pass);

  /// A tensor that a layer's product reads, in FP8; nothing if products are of the storage type.
  void quantize(std::int64_t elements) { quantize_operand(elements, false); }
  /// The same for a tensor of the stream; sequence parallelism leaves every tensor rank a part.
  void quantize_stream() {
    quantize_operand(s_.stream.rows * s_.stream.hidden, s_.sharding.sequence_parallel);
  }
  /// The gradient of latent attention's compressing product, likewise.
  void quantize_compression() {
    quantize_operand(s_.stream.rows * s_.attention.compressed(), s_.sharding.sequence_parallel);
  }
  /// As it is, transposed, or both ways at once.
  enum class Ways { plain, transposed, both };
  void quantize_weight(std::int64_t elements, Ways ways) { quantize_whole_or_split(elements, false, ways); }
  void transpose(std::int64_t elements) { memory("fp8_transpose", elements, 2, DType::fp8_e4m3); }
  /// Attention over the micro-batch's sequences, or over this rank's part of them.
  void attention(bool is_backward, std::int64_t window) {
    if (s_.cp.ranks > 1 && s_.traits.attends_by_chunk) return shared_attention(is_backward, window);
    whole_attention(is_backward, window);
  }
  /// Before attention, with cp_comm_type a2a and a2a+p2p: exchanges queries, keys and values of the rank's
  /// tokens for those of its part of the heads.
  void exchange_heads();
  void whole_attention(bool is_backward, std::int64_t window);
  /// `traffic`: bytes read and written per element of the largest matrix.
  void memory(const char* name, std::int64_t elements, double traffic) {
    memory(name, elements, traffic, s_.numerics.type);
  }
  /// Row-wise operators, which start anew with every row, or head, of `width` elements.
  void rows(const char* name, std::int64_t elements, double traffic, std::int64_t width) {
    if (elements == 0) return;
    memory(name, elements, traffic);
    last<StreamCall>().width = width;
  }
  /// The same for all tokens, one call per packed conversation; `width` elements of a token, `head` of a row.
  void by_conversation(const char* name, std::int64_t width, double traffic, std::int64_t head);
  void memory(const char* name, std::int64_t elements, double traffic, DType type) {
    if (elements > 0) calls.push_back(memory_call(name, elements, traffic, type));
  }
  static OperatorCall memory_call(const char* name, std::int64_t elements, double traffic, DType type) {
    return {.work = StreamCall{.name = name, .elements = elements, .bytes_per_element = traffic},
            .label = name,
            .type = type};
  }
  /// The stream so far plus a block's result; with dropout the kept part of that.
  void residual_sum();
  /// This and the two below: nothing without dropout of the stream (bench/training/dropout.md).
  void dropout_mask() {
    if (!s_.block.dropout) return;
    memory("dropout_mask", s_.stream.rows * s_.stream.hidden, 1, DType::uint8);
    allocations(1);
  }
  void drop_embedded();
  void dropout_backward(bool in_place);
  /// The loss goes over the logits or their fp32 copy; `times`: how often it reads or writes an element.
  void loss_pass(const char* name, double times) {
    const DType type = s_.ends.loss_in_fp32 ? DType::fp32 : s_.numerics.type;
    memory(name, s_.stream.tokens * s_.ends.outputs, times * static_cast<double>(size_of(type)), type);
  }
  /// Into their fp32 copy, or back from it, in a new tensor; nothing without one.
  void convert_logits() {
    if (!s_.ends.loss_in_fp32) return;
    memory("copy", s_.stream.tokens * s_.ends.outputs, 4 + static_cast<double>(s_.numerics.e()));
    allocations(1);
  }
  /// Nothing for a group of one or an empty buffer.
  void collective(CallKind kind, const char* label, Group group, int ranks, std::int64_t elements,
                  DType type) {
    if (ranks > 1 && elements > 0)
      calls.push_back(collective_call(kind, label, group, ranks, elements, type));
  }
  static OperatorCall collective_call(CallKind kind, const char* label, Group group, int ranks,
                                      std::int64_t elements, DType type) {
    return {.work = CollectiveCall{.kind = kind, .group = group, .ranks = ranks, .elements = elements},
            .label = label,
            .type = type};
  }
  void tensor_all_reduce(const char* label, std::int64_t elements, DType type) {
    collective(CallKind::all_reduce, label, Group::tensor, s_.sharding.tensor, elements, type);
  }
  /// Partial sums of a product, summed over the tensor ranks and, in fp32, rounded into their tensor.
  void sum_over_tensor_ranks(const char* all_reduce, const char* reduce_scatter) {
    sum_over_tensor_ranks(all_reduce, reduce_scatter, s_.stream.hidden);
  }
  /// The same for rows of `width` elements.
  void sum_over_tensor_ranks(const char* all_reduce, const char* reduce_scatter, std::int64_t width);
  void round_sums() { round_sums(s_.stream.hidden); }
  void round_sums(std::int64_t width) {
    if (s_.numerics.rounds_sums())
      memory("copy", s_.stream.rows * width, 4 + static_cast<double>(s_.numerics.e()));
    allocations((s_.sharding.sequence_parallel ? 1 : 0) + (s_.numerics.rounds_sums() ? 1 : 0));
  }
  /// The last collective of that label is started instead of awaited. Returns its ticket.
  int start_collective(const char* label) {
    std::size_t at = calls.size() - 1;
    while (calls[at].label != label) --at;
    return calls[at].get<CollectiveCall>().ticket = next_ticket();
  }
  int next_ticket() { return ++tickets_; }
  void wait(int ticket) { calls.push_back({.work = WaitCall{ticket}}); }
  // With tensor_overlap (operator_list_tensor_overlap.cpp):
  /// A layer's product of the gathered rows of a stream tensor, block by block. Every tensor rank's rows are
  /// broadcast while the product of the previous ones is computed, its own first. `whole`: all rows are
  /// needed afterwards.
  void linear_of_gathered(const char* gather, const char* label, GemmPass pass, std::int64_t out,
                          std::int64_t in, bool whole);
  /// A layer's product whose tensor ranks hold partial sums. Each row block is reduced to its tensor rank
  /// while the product of the next is computed.
  void linear_summed(const char* scatter, const char* label, GemmPass pass, std::int64_t out,
                     std::int64_t in);
  /// Both gradients of a layer's product whose input is a stream tensor. The input is gathered during the
  /// input gradient; that gradient is reduce-scattered during the weight gradient and the calls that `after`
  /// adds.
  template <class After>
  void linear_backward_bulk(const char* gather, const char* scatter, const char* label, std::int64_t out,
                            std::int64_t in, After&& after) {
    gathered_operand(gather);
    const int gathered = start_collective(gather);
    linear(label, GemmPass::input_gradient, out, in);
    wait(gathered);
    collective(CallKind::reduce_scatter, scatter, Group::tensor, s_.sharding.tensor,
               s_.stream.tokens * s_.stream.hidden, s_.numerics.sum_type());
    const int scattered = start_collective(scatter);
    linear(label, GemmPass::weight_gradient, out, in);
    after();
    wait(scattered);
    round_sums();
  }
  /// The whole of a stream tensor, which sequence parallelism splits over tensor ranks.
  void gathered(const char* label) { gathered(label, s_.numerics.type); }
  /// The same for rows of `width` elements.
  void gathered_wide(const char* label, std::int64_t width) {
    if (!s_.sharding.sequence_parallel) return;
    collective(CallKind::all_gather, label, Group::tensor, s_.sharding.tensor, s_.stream.tokens * width,
               s_.numerics.type);
    allocations(1);
  }
  /// The same for the operand of a layer's product.
  void gathered_operand(const char* label) {
    gathered(label, s_.numerics.fp8 ? DType::fp8_e4m3 : s_.numerics.type);
  }
  void allocations(std::int64_t count) {
    if (count == 0) return;
    calls.push_back({.work = AllocationCall{}, .label = "tensor allocations", .count = count});
  }

  std::vector<OperatorCall> calls;

 private:
  template <class Work>
  void add(const char* label, const Work& work) {
    calls.push_back({.work = work, .label = label, .type = s_.numerics.type});
  }
  /// Over sequences that ranks share (operator_list_context.cpp).
  void shared_attention(bool is_backward, std::int64_t window);
  void gather_keys_values(const char* label);
  void chunk_attention(bool is_backward, std::int64_t window, std::int64_t past, std::int64_t keys);
  void one_attention(bool is_backward, std::int64_t window);
  void gathered_attention(bool is_backward, std::int64_t window);
  /// Sequences of a ring, or conversations of one length.
  struct RingPart {
    std::int64_t chunk = 0;  // tokens
    std::int64_t rows = 0;   // elements of a chunk, per element of a row of the rank's tokens
    std::int64_t count = 0;
    double share = 1;  // of micro-batches
  };
  struct Ring {
    int ranks = 1;
    double share = 1;  // of micro-batches
    std::vector<RingPart> parts;
  };
  void ring_attention(bool is_backward, std::int64_t window);
  void dynamic_attention(bool is_backward);
  void ring_attention(bool is_backward, std::int64_t window, const Ring& ring);
  void ring_blocks(bool is_backward, std::int64_t window, const Ring& ring, int step);
  int ring_message(const char* label, const Ring& ring);
  void attention_of_heads(bool is_backward, std::int64_t window);
  void exchange_parts(const char* label, std::int64_t width);
  void copy_parts(std::int64_t width);
  void reorder_chunks(int ranks, std::int64_t width);
  /// Once per sequence.
  void per_sequence(const char* name, std::int64_t elements, double traffic);
  /// One row block; there are as many as tensor ranks.
  void row_block(const char* label, GemmPass pass, std::int64_t out, std::int64_t in);
  void gathered(const char* label, DType type) {
    if (!s_.sharding.sequence_parallel) return;
    collective(CallKind::all_gather, label, Group::tensor, s_.sharding.tensor,
               s_.stream.tokens * s_.stream.hidden, type);
    allocations(1);
  }
  void prepare_experts(GemmPass pass, std::int64_t out, std::int64_t in);
  void prepare_operands(GemmPass pass, std::int64_t out, std::int64_t in);
  void quantize_operand(std::int64_t elements, bool split_by_rows);
  /// Tensorwise a tensor has scales of its own, which are 1 before they are found; those of weights are held.
  void begin_scales(std::int64_t count) {
    if (s_.numerics.fp8_tensorwise) memory("fill", 2 * count, 4, DType::fp32);
  }
  /// Tensorwise scaling needs the tensor's amax first. Delayed scales are there already, and amax is noted on
  /// the way.
  void quantize_whole_or_split(std::int64_t elements, bool split_by_rows, Ways ways = Ways::plain);

  const StageShape& s_;
  int tickets_;
};

/// IF, S, T and IB.
ActionWork vocabulary_work(const StageShape& shape, ActionType type);

/// Work of the last stage on both models' outputs, from the teacher's logits or final norm output on.
void distillation_loss(const StageShape& shape, CallList& list);

}  // namespace plumbline
