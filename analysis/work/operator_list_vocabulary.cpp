// IF, S, T and IB, and the five collectives between them and F and B (bench/training/vocabulary.md).
#include "analysis/work/action_parts.hpp"
#include "analysis/work/parameter_units.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

void scores(const StageShape& s, CallList& list) {
  const auto e = static_cast<double>(s.numerics.e());
  list.gemm("output layer", GemmPass::forward, s.ends.outputs, s.stream.hidden);
  list.convert_logits();
  list.loss_pass("cross_entropy_max", 1);
  list.loss_pass("cross_entropy_sums", 1);
  list.loss_pass("cross_entropy_gradient", 2);  // the shard's softmax
  list.allocations(2 + (s.vocabulary.last_rank ? 0 : 1));
  if (s.vocabulary.two_barriers) return;
  list.convert_logits();  // the softmax
  list.gemm("output layer", GemmPass::input_gradient, s.ends.outputs, s.stream.hidden);
  list.allocations(1);
  if (s.sharding.zero >= 3) {
    list.memory("embedding_forward", s.stream.tokens * s.stream.hidden, 2 * e);  // target rows
    list.allocations(1);
  }
  list.memory("add", s.stream.tokens * s.stream.hidden, 12, DType::fp32);  // dX, once C1 is done
}

void gradient(const StageShape& s, CallList& list) {
  list.loss_pass("cross_entropy_gradient", 2);
  list.convert_logits();
  if (s.vocabulary.two_barriers) {
    list.gemm("output layer", GemmPass::input_gradient, s.ends.outputs, s.stream.hidden);
    list.allocations(s.vocabulary.last_rank ? 1 : 0);
  }
  list.gemm("output layer", GemmPass::weight_gradient, s.ends.outputs, s.stream.hidden);
}

}  // namespace

ActionWork vocabulary_work(const StageShape& s, ActionType type) {
  if (!s.vocabulary.carries) {
    throw InputError("operators: " + std::string(name_of(type)) + " on stage " +
                     std::to_string(s.place.stage) +
                     ", expected it on the lowest stage of a rank, with vocab_parallel");
  }
  WorkBuilder builder(s);
  const std::int64_t unit = padded_vocabulary_unit(s);
  const std::int64_t stream = s.stream.tokens * s.stream.hidden;
  const auto e = static_cast<double>(s.numerics.e());
  switch (type) {
    case ActionType::input_forward:
      builder.once({.values = true, .shard = true}, unit, [&](CallList& list) {
        list.memory("embedding_forward", stream, 2 * e);
        list.allocations(s.vocabulary.first_rank ? 1 : 0);
      });
      break;
    case ActionType::vocab_forward:
      builder.once({.values = true, .shard = true}, unit, [&](CallList& list) { scores(s, list); });
      break;
    case ActionType::vocab_backward:
      builder.once({.values = s.vocabulary.two_barriers, .gradient = true, .shard = true}, unit,
                   [&](CallList& list) { gradient(s, list); });
      break;
    default:
      builder.once({false, true}, unit, [&](CallList& list) {
        list.memory("embedding_backward", stream, e + 2 * static_cast<double>(s.numerics.g()));
      });
      break;
  }
  return std::move(builder.work);
}

VocabularyCollectives vocabulary_collectives(const StageShape& s, const Layout& layout) {
  const std::int64_t stream = s.stream.tokens * s.stream.hidden;
  const int pipeline = layout.pipeline;
  const int model = layout.pipeline * layout.tensor;
  const auto call = &CallList::collective_call;
  return {
      call(CallKind::broadcast, "hidden broadcast", Group::vocab_hidden, pipeline, stream, s.numerics.type),
      call(CallKind::all_gather, "statistics all-gather", Group::vocab_statistics, model,
           std::int64_t{3} * s.vocabulary.shards * s.stream.tokens, DType::fp32),
      call(CallKind::all_reduce, "hidden gradient all-reduce", Group::vocab_gradient, model, stream,
           DType::fp32),
      call(CallKind::all_reduce, "embedding all-reduce", Group::embedding_output, model, stream,
           s.numerics.type),
      call(CallKind::broadcast, "embedding gradient broadcast", Group::embedding_gradient, pipeline, stream,
           s.numerics.type),
  };
}

std::vector<OperatorCall> vocabulary_calls_of(const StageShape& s, ActionType type, const Layout& layout) {
  const VocabularyCollectives all = vocabulary_collectives(s, layout);
  const VocabularyShape& at = s.vocabulary;
  std::vector<OperatorCall> calls;
  if (type == ActionType::vocab_forward) {
    if (!at.last_rank) calls.push_back(all.hidden);
    calls.push_back(all.statistics);
    if (!at.two_barriers) calls.push_back(all.gradient);
  }
  if (type == ActionType::vocab_backward && at.two_barriers) calls.push_back(all.gradient);
  if (type == ActionType::input_forward) calls.push_back(all.embedding);
  if (type == ActionType::input_backward && !at.first_rank) calls.push_back(all.embedding_gradient);
  return calls;
}

}  // namespace plumbline
