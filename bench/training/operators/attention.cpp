#include "bench/training/operators/attention.hpp"

#include <utility>
#include <vector>

#include "bench/training/layer/layer_attention.hpp"
#include "bench/training/layer/unfused_attention.hpp"
#include "bench/training/tape/pass.hpp"
#include "bench/training/tape/reverse.hpp"

namespace plumbline::training {
namespace {

/// Tensors that attention leaves for its backward.
struct Results {
  Slot attention, log_sum_exp;
  Slot of_heads;
  Slot probabilities, repeated, mask, dropped;
};

Results result_slots(Tape& tape) {
  const TrainingContext& context = tape.context;
  Results made;
  made.attention = tape.slot("layer attention");
  made.log_sum_exp = tape.fp32_slot("layer log-sum-exp");
  if (exchanges_heads(context.config.parallel)) made.of_heads = tape.slot("layer attention of heads");
  if (!is_unfused(context)) return made;
  made.probabilities = tape.slot("layer attention probabilities");
  if (context.config.numerics.attention_dropout > 0) {
    made.mask = tape.slot({"layer attention dropout mask", context.kept, DType::uint8});
    made.dropped = tape.slot("layer dropped probabilities");
  }
  made.repeated = tape.slot("layer keys and values per head");
  return made;
}

AttentionTensors tensors_of(const Pass& pass, const AttentionInput& input, const Results& results) {
  return {.qkv = pass[input.qkv],
          .normed = pass.view(input.normed),
          .attention = pass[results.attention],
          .log_sum_exp = pass[results.log_sum_exp],
          .attention_of_heads = pass.view(results.of_heads),
          .probabilities = pass.view(results.probabilities),
          .repeated = pass.view(results.repeated),
          .probability_mask = pass.view(results.mask),
          .dropped_probabilities = pass.view(results.dropped)};
}

void attend(Pass& pass, const Layer& layer, const AttentionInput& input, const Results& results) {
  const TrainingContext& context = pass.context;
  const LayerWidths& shape = context.shape;
  const AttentionShape attention = pass.dropout.attention(layer.index);
  pass.make(results.attention, shape.tokens, shape.attended);
  pass.make(results.log_sum_exp, attention.batch * attention.heads, attention.seq);
  if (results.of_heads) pass.make(results.of_heads, shape.tokens, shape.attended);
  if (results.probabilities) {
    const std::int64_t rows = attention.batch * attention.heads * attention.seq;
    for (const Slot scores : {results.probabilities, results.mask, results.dropped})
      if (scores) pass.make(scores, rows, context.config.batch.seq_length);
    pass.make(results.repeated, shape.tokens, 2 * (shape.query - shape.key));
  }
  attention_forward(context, pass.rank.shared, pass.dropout, layer, tensors_of(pass, input, results));
}

}  // namespace

AttentionInput prepare_queries_keys(Tape& tape, const Layer& layer, Slot qkv) {
  const bool norms = !layer.values.query_norm.empty();
  const Slot prepared = tape.overwritten(qkv);
  const Slot normed = norms ? tape.slot("layer normed queries and keys") : Slot();
  const Slot statistics = norms ? tape.fp32_slot("layer head statistics") : Slot();
  const Layer* const of = &layer;
  const auto forward = [=](Pass& pass) {
    const LayerWidths& shape = pass.context.shape;
    AttentionTensors tensors{.qkv = pass[qkv]};
    if (norms) {
      // Heads that are exchanged come back here, with their values.
      const std::int64_t values = exchanges_heads(pass.context.config.parallel) ? shape.key : 0;
      tensors.normed = pass.make(normed, shape.tokens, shape.query + shape.key + values);
      tensors.normed_stats =
          norms_whole_rows(pass.context)
              ? pass.make(statistics, 2, shape.tokens)
              : pass.make(statistics, shape.tokens, shape.attention.heads + shape.attention.kv_heads);
    }
    prepare_attention(pass.context, pass.rank.shared, *of, tensors);
  };
  const auto backward = [=](Reverse& reverse) {
    const Slot dy = reverse.gradient(prepared);
    const Slot dx = reverse.overwrite(dy);
    reverse.pass_on(qkv, dx);
    Step step{.reads = {dy, statistics}, .makes = {dx}};
    if (norms) step.reads.push_back(prepared);
    step.run = [=](Pass& pass) {
      AttentionTensors tensors;
      if (norms) tensors = {.qkv = pass[prepared], .normed_stats = pass[statistics]};
      prepare_attention_backward(pass.context, pass.rank.shared, *of, tensors,
                                 QueryKeyValue(pass.context.shape, pass[dy]));
    };
    reverse.step(std::move(step));
  };
  tape.add({.forward = {.reads = {qkv}, .makes = {prepared, normed, statistics}, .run = forward},
            .backward = backward});
  return {prepared, normed};
}

AttentionInput exchange_heads(Tape& tape, const Layer& layer, AttentionInput input) {
  const TrainingContext& context = tape.context;
  if (!exchanges_heads(context.config.parallel)) return input;
  AttentionInput made = input;
  Slot& exchanged = input.normed ? made.normed : made.qkv;
  const Slot before = exchanged;
  exchanged = tape.overwritten(before);
  const Layer* const of = &layer;
  tape.add({.forward = {.reads = {input.qkv, input.normed},
                        .makes = {exchanged},
                        .run =
                            [=](Pass& pass) {
                              exchange_heads(pass.context, pass.dropout, *of,
                                             {.qkv = pass[input.qkv], .normed = pass.view(input.normed)});
                            }},
            // Attention's backward leaves the gradient by token.
            .backward =
                [=](Reverse& reverse) {
                  if (!input.normed) reverse.pass_on(input.qkv, reverse.gradient(made.qkv));
                },
            .repeats = context.config.recompute.selected().mla_up_proj});
  return made;
}

Slot core_attention(Tape& tape, const Layer& layer, AttentionInput input) {
  const TrainingContext& context = tape.context;
  const Results results = result_slots(tape);
  const std::vector<Slot> kept = {results.attention,     results.log_sum_exp, results.of_heads,
                                  results.probabilities, results.repeated,    results.mask,
                                  results.dropped};
  const Layer* const of = &layer;
  const auto backward = [=](Reverse& reverse) {
    const Slot dy = reverse.gradient(results.attention);
    const Slot dx = reverse.make(input.qkv, "gradient of qkv");
    Step step{.reads = kept, .makes = {dx}};
    step.reads.insert(step.reads.end(), {dy, input.qkv, input.normed});
    step.run = [=](Pass& pass) {
      const LayerWidths& shape = pass.context.shape;
      const QueryKeyValue gradients(shape, pass.make(dx, shape.tokens, shape.qkv));
      attention_backward(pass.context, pass.rank.shared, pass.dropout, *of, tensors_of(pass, input, results),
                         pass[dy], gradients);
    };
    reverse.step(std::move(step));
  };
  tape.add({.forward = {.reads = {input.qkv, input.normed},
                        .makes = kept,
                        .run = [=](Pass& pass) { attend(pass, *of, input, results); }},
            .backward = backward,
            .repeats = context.config.recompute.selected().core_attn});
  return results.attention;
}

}  // namespace plumbline::training
