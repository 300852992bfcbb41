// Context of a training step on one rank, which every part of it works with.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bench/training/parameters/conversations.hpp"
#include "bench/training/parameters/layer_widths.hpp"
#include "bench/training/parameters/loss_scaler.hpp"
#include "bench/training/parameters/running_load.hpp"
#include "bench/training/parameters/sequence_chunks.hpp"
#include "core/config/run_config.hpp"
#include "core/run/communicator.hpp"
#include "core/run/turns.hpp"
#include "core/tensor/arena.hpp"
#include "kernels/operators.hpp"

namespace plumbline::training {

/// Category of buffers that a backward needs only until it is done.
inline constexpr Category kPassing = Category::workspace;

/// All T rows of a tensor of the residual stream: gathered into memory of their own with sequence
/// parallelism, else the tensor itself.
struct AllRows {
  Tensor held;
  Matrix rows;
  operator const Matrix&() const { return rows; }  // NOLINT: passed where a view is wanted
  void reset() { held.reset(); }
};

/// References only; the creator keeps them alive.
struct TrainingContext {
  const RunConfig& config;
  LayerWidths shape;  // of a micro-batch; in generation of the pass in progress
  Operators& operators;
  Communicator& communicator;
  Arena& arena;
  Seconds& tensor_communication;  // time spent in collectives over tensor, context and expert group so far
  const Category kept = Category::activations;  // of a forward's kept tensors: a teacher's is its own
  Turns* const turns = nullptr;  // if exchanges of experts are hidden behind another action's computation
  RunningLoads* const running_loads = nullptr;  // of the step's forwards, with global_aux_loss
  const bool inference = false;                 // forwards only: there are no gradients
  LossScaler* const loss_scaler = nullptr;      // with fp16
  const bool sequence_parallel = config.parallel.effective_sequence_parallel();
  const bool frozen = config.finetune.lora();  // adapters alone have gradients
  const bool tensor_overlap = config.parallel.effective_tp_comm_overlap();

  const ModelConfig& model() const { return config.model; }
  std::int64_t outputs() const { return shape.outputs(model()); }
  /// Factor of all losses, and so of gradients.
  double loss_scale() const { return loss_scaler == nullptr ? 1 : loss_scaler->scale(); }
  int tensor_size() const { return config.parallel.tensor; }
  int tensor_rank() const { return communicator.layout().coordinates(communicator.rank()).tensor; }
  /// World rank of a member of the tensor group, whose ranks are neighbours.
  int world_rank(int member) const { return communicator.rank() - tensor_rank() + member; }
  /// This rank's chunks of every sequence.
  SequenceChunks chunks() const {
    return {config, communicator.layout().coordinates(communicator.rank()).data};
  }
  /// A collective of the ranks that share a sequence, or a layer's experts.
  template <class Call>
  void over_context_ranks(Call&& call) const {
    const Seconds start = communicator.now();
    call(communicator);
    tensor_communication += communicator.now() - start;
  }
  /// The same for one that is started and runs alongside `compute`: `start` returns its ticket.
  template <class Start, class Compute>
  void alongside(Start&& start, Compute&& compute) const {
    Ticket ticket;
    over_context_ranks([&](Communicator& over) { ticket = start(over); });
    compute();
    over_context_ranks([&](Communicator& over) { over.wait(ticket); });
  }
  /// The same if there is another action to compute meanwhile; else `call` is awaited.
  template <class Start, class Call>
  void while_another_computes(Start&& start, Call&& call) const {
    if (turns == nullptr || !turns->shared()) return over_context_ranks(call);
    alongside(start, [&] { turns->hand_over(); });
  }
  /// Type of partial sums that go over the tensor ranks.
  DType sum_type() const {
    return config.parallel.tp.reduce_in_fp32 ? DType::fp32 : config.numerics.precision;
  }
  /// A tensor of the storage type.
  Tensor make(Category category, const char* holder, std::int64_t rows, std::int64_t cols) const {
    return arena.allocate(category, holder, rows, cols, config.numerics.precision);
  }
  Tensor make_fp32(Category category, const char* holder, std::int64_t rows, std::int64_t cols) const {
    return arena.allocate(category, holder, rows, cols, DType::fp32);
  }
  /// A tensor of the residual stream: (R, h) of the storage type.
  Tensor make_stream(Category category, const char* holder) const {
    return make(category, holder, shape.rows, shape.hidden);
  }
  /// The same with all rows: (T, h).
  Tensor make_all_rows(Category category, const char* holder) const {
    return make(category, holder, shape.tokens, shape.hidden);
  }
  /// This tensor rank's rows of (T, columns).
  Matrix own_rows(const Matrix& all) const {
    return sequence_parallel ? all.row_range(tensor_rank() * shape.rows, shape.rows) : all;
  }
  /// Sum or maximum over the tensor-parallel group, in place.
  void reduce_over_tensor_ranks(const Matrix& x, ReduceOp op) const;
  /// With sequence parallelism: the sum over the group of its rows of `all` (T, h).
  void scatter_over_tensor_ranks(const Matrix& all, const Matrix& rows) const;
  AllRows gather_rows(const Matrix& rows, Category category = Category::workspace) const;
  /// Waits for a started call; returns the wait.
  Seconds time_waited(Ticket& ticket) const;
  /// For a collective over the tensor group that was started.
  void wait_for_tensor_ranks(Ticket& ticket) const;
  /// A product whose tensor ranks hold partial sums: gemm.c (R, h) becomes its rows of the sum over the
  /// group, rounded to its type once. 16-bit partial sums (tp_reduce_in_fp32 false) round once per rank and
  /// hop, so the tensor split is visible in the gradients.
  void gemm_over_tensor_ranks(Gemm gemm) const;
  /// The same for any result of `compute` of type sum_type() or, on one rank, of `result`'s, in the given (T,
  /// columns of result).
  void sum_over_tensor_ranks(const Matrix& result, const std::function<void(const Matrix&)>& compute) const;
  /// The same for a layer. With tensor_overlap the rows of every tensor rank are summed while those of the
  /// next are computed.
  void layer_gemm_over_tensor_ranks(const Gemm& gemm) const;
};

class CoreAttention;

/// Rotary tables, attention scratch: shared by the layers of a model on a rank.
struct SharedBuffers {
  /// (seq/CP, half of the rotated elements) fp32; seq rows with dynamic_context_parallel; empty without
  /// rotary embeddings.
  Tensor rope_cos;
  Tensor rope_sin;
  Matrix attention_scratch;
  /// Generation: positions (1, T) int32 of a pass's tokens, which rotary tables then have a row each for; and
  /// the attention over all tokens of their sequences. Empty: sequences are whole.
  Matrix positions{};
  const CoreAttention* attention = nullptr;
  /// With packed_sequence, in an action: the micro-batch's conversations, each of which attends to itself
  /// alone and begins at position 0. Null: one sequence.
  const Conversations* conversations = nullptr;
  double* attended_pairs = nullptr;  // backwards of packed sequences add their pairs of tokens
};
/// The rotary tables; the scratch is for its owner to put in, since a teacher uses the student's.
SharedBuffers make_shared_buffers(const TrainingContext& context);
/// Enough for the layers of the model, and of the teacher if there is one.
Tensor make_attention_scratch(const TrainingContext& context);

/// The configuration of a distillation's teacher as a model of its own, whole on every data rank. Nothing is
/// recomputed, dropped or in FP8; no capacity of experts, no teacher.
RunConfig teacher_config(const RunConfig& config);

}  // namespace plumbline::training
