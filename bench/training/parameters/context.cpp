#include "bench/training/parameters/context.hpp"

#include <algorithm>

namespace plumbline::training {

void TrainingContext::reduce_over_tensor_ranks(const Matrix& x, ReduceOp op) const {
  if (tensor_size() == 1) return;
  const Seconds start = communicator.now();
  communicator.all_reduce(Group::tensor, x, op);
  tensor_communication += communicator.now() - start;
}

void TrainingContext::scatter_over_tensor_ranks(const Matrix& all, const Matrix& rows) const {
  const Seconds start = communicator.now();
  communicator.reduce_scatter(Group::tensor, all, rows);
  tensor_communication += communicator.now() - start;
}

AllRows TrainingContext::gather_rows(const Matrix& rows, Category category) const {
  AllRows all;
  all.rows = rows;
  if (!sequence_parallel) return all;
  all.held = arena.allocate(category, "gathered sequence", shape.tokens, rows.cols, rows.dtype);
  all.rows = all.held;
  const Seconds start = communicator.now();
  communicator.all_gather(Group::tensor, rows, all.rows);
  tensor_communication += communicator.now() - start;
  return all;
}

void TrainingContext::gemm_over_tensor_ranks(Gemm gemm) const {
  const Matrix result = gemm.c;
  sum_over_tensor_ranks(result, [&](const Matrix& to) {
    gemm.c = to;
    operators.gemm(gemm);
  });
}

void TrainingContext::sum_over_tensor_ranks(const Matrix& result,
                                            const std::function<void(const Matrix&)>& compute) const {
  const bool rounds = result.dtype != sum_type();
  if (!sequence_parallel && (tensor_size() == 1 || !rounds)) {
    compute(result);
    reduce_over_tensor_ranks(result, ReduceOp::sum);
    return;
  }
  const Tensor partial = arena.allocate(Category::workspace, "tensor-parallel partial sums", shape.tokens,
                                        result.cols, sum_type());
  compute(partial);
  if (!sequence_parallel) {
    reduce_over_tensor_ranks(partial, ReduceOp::sum);
    operators.copy(partial, result);
  } else if (!rounds) {
    scatter_over_tensor_ranks(partial, result);
  } else {
    const Tensor piece = make_fp32(Category::workspace, "tensor-parallel sums", result.rows, result.cols);
    scatter_over_tensor_ranks(partial, piece);
    operators.copy(piece, result);
  }
}

void TrainingContext::wait_for_tensor_ranks(Ticket& ticket) const {
  if (!ticket) return;
  const Seconds start = communicator.now();
  communicator.wait(ticket);
  tensor_communication += communicator.now() - start;
}

void TrainingContext::layer_gemm_over_tensor_ranks(const Gemm& gemm) const {
  if (!tensor_overlap) return gemm_over_tensor_ranks(gemm);
  const Matrix result = gemm.c;
  const bool rounds = result.dtype != sum_type();
  const Tensor partial = arena.allocate(Category::workspace, "tensor-parallel partial sums", shape.tokens,
                                        result.cols, sum_type());
  Tensor piece;
  if (rounds) piece = make_fp32(Category::workspace, "tensor-parallel sums", result.rows, result.cols);
  const Matrix sum = rounds ? piece.matrix() : result;
  Ticket reduced;
  for (int rank = 0; rank < tensor_size(); ++rank) {
    Gemm block = gemm;
    block.a = gemm.a.row_range(rank * shape.rows, shape.rows);
    block.c = partial.matrix().row_range(rank * shape.rows, shape.rows);
    operators.gemm(block);
    wait_for_tensor_ranks(reduced);
    reduced = communicator.start_reduce(Group::tensor, world_rank(rank), block.c, sum);
  }
  wait_for_tensor_ranks(reduced);
  if (rounds) operators.copy(piece, result);
}

Seconds TrainingContext::time_waited(Ticket& ticket) const {
  if (!ticket) return {};
  const Seconds start = communicator.now();
  communicator.wait(ticket);
  return communicator.now() - start;
}

RunConfig teacher_config(const RunConfig& config) {
  RunConfig teacher = config;
  teacher.model = *config.distillation.teacher;
  teacher.distillation.teacher.reset();
  teacher.numerics.fp8.format = Fp8Format::none;
  teacher.numerics.hidden_dropout = teacher.numerics.attention_dropout = 0;
  teacher.parallel.dp.zero_stage = 0;
  teacher.parallel.dp.hpz_partition_size = teacher.parallel.dp.optimizer_instances = 1;
  teacher.parallel.dp.overlap_param_gather.reset();
  teacher.parallel.ep.shared_expert_overlap = false;
  teacher.mixture = MixtureConfig();
  teacher.recompute.granularity = Recompute::none;
  return teacher;
}

Tensor make_attention_scratch(const TrainingContext& context) {
  const auto wanted = [&](const AttentionShape& shape) {
    AttentionShape largest = shape;
    if (const SequenceChunks chunks = context.chunks();
        chunks.count > 1) {  // a chunk against a whole sequence or another; of some heads a sequence
      const CpCommType type = context.config.parallel.cp.comm_type;
      const std::int64_t seq = context.config.batch.seq_length;
      const int members = context.config.parallel.head_ranks();
      largest.heads /= members;
      largest.kv_heads /= members;
      largest.seq = seq;
      if (type != CpCommType::a2a) {
        largest.batch = 1;
        largest.seq = chunks.length * members;
        largest.past = seq - largest.seq;
        if (type != CpCommType::all_gather) largest.key_count = largest.seq;
      }
      if (context.config.batch.dynamic_context_parallel) {  // a conversation of this rank alone
        largest.seq = chunks.tokens();
        largest.past = largest.key_count = 0;
      }
    }
    return context.operators.attention_scratch(largest, context.config.numerics.precision);
  };
  std::int64_t elements = wanted(context.shape.attention);
  if (context.config.distillation.teacher) {
    elements = std::max(elements, wanted(LayerWidths(teacher_config(context.config)).attention));
  }
  return context.make_fp32(Category::workspace, "attention scratch", 1, elements);
}

}  // namespace plumbline::training
