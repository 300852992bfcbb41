#include "bench/training/operators/pair.hpp"

#include "bench/training/layer/norm.hpp"
#include "bench/training/parameters/views.hpp"
#include "bench/training/tape/pass.hpp"
#include "bench/training/tape/reverse.hpp"

namespace plumbline::training {
namespace {

Matrix own_columns(const TrainingContext& context, const Matrix& all) {
  const std::int64_t columns = all.cols / context.tensor_size();
  return all.columns(context.tensor_rank() * columns, columns);
}

void norm_both(Pass& pass, const PairInput& of, Slot embedded, Slot hidden, Slot pair, Slot statistics) {
  const TrainingContext& context = pass.context;
  const std::int64_t h = context.shape.hidden;
  const Matrix to = pass.make(pair, context.shape.rows, 2 * h);
  const Matrix stats = pass.make(statistics, 2, context.shape.rows);
  norm_forward(context, pass[embedded], of.embedding_norm, {}, to.columns(0, h), stats.row_range(0, 1));
  norm_forward(context, pass[hidden], of.hidden_norm, {}, to.columns(h, h), stats.row_range(1, 1));
}

void join(Pass& pass, const PairInput& of, Slot pair, Slot x) {
  const TrainingContext& context = pass.context;
  const Matrix to = pass.make_stream(x);
  const AllRows rows = context.gather_rows(pass[pair]);
  context.sum_over_tensor_ranks(to, [&](const Matrix& sum) {
    if (context.tensor_size() > 1) context.operators.fill(sum, 0);
    context.operators.gemm({.a = rows,
                            .b = view_of(*of.join, pass.weights().unit_row),
                            .c = own_columns(context, sum),
                            .b_transposed = true});
  });
}

void pair_gradient(Pass& pass, const PairInput& of, const Matrix& all_rows, Slot dpair) {
  const TrainingContext& context = pass.context;
  const Matrix to = pass.make(dpair, context.shape.rows, 2 * context.shape.hidden);
  context.sum_over_tensor_ranks(to, [&](const Matrix& sum) {
    context.operators.gemm(
        {.a = own_columns(context, all_rows), .b = view_of(*of.join, pass.weights().unit_row), .c = sum});
  });
}

void join_weight_gradient(Pass& pass, const PairInput& of, const Matrix& all_rows, Slot pair) {
  const TrainingContext& context = pass.context;
  const Matrix dweight = view_of(*of.join, pass.rank.gradients.open(of.layer->unit));
  const AllRows rows = context.gather_rows(pass[pair]);
  context.operators.gemm({.a = own_columns(context, all_rows),
                          .b = rows,
                          .c = dweight,
                          .a_transposed = true,
                          .accumulate = true});
}

}  // namespace

Slot norm_pair(Tape& tape, const PairInput& of, Slot embedded, Slot hidden, Slot x) {
  const Slot pair = tape.slot("module input pair");
  const Slot statistics = tape.fp32_slot("module input statistics");
  const auto backward = [=](Reverse& reverse) {
    const Slot dy = reverse.gradient(pair);
    const bool joint = reverse.joint();
    Slot dembedded;
    if (joint) {
      dembedded = reverse.overwrite(reverse.gradient(x));
      reverse.pass_on(embedded, dembedded);
    } else {
      dembedded = reverse.make_fixed(embedded, "gradient of module", Category::workspace);
    }
    const Reverse::Sum sum = reverse.accumulate(hidden, "gradient of final norm", Category::workspace);
    reverse.step({.reads = {dy, embedded, hidden, statistics, sum.before},
                  .makes = {dembedded, sum.after},
                  .run = [=](Pass& pass) {
                    const std::int64_t h = pass.context.shape.hidden;
                    const Matrix both = pass[dy];
                    const Matrix stats = pass[statistics];
                    norm_backward(pass.context, both.columns(0, h), pass[embedded], of.embedding_norm,
                                  stats.row_range(0, 1), {},
                                  joint ? pass[dembedded] : pass.make_stream(dembedded),
                                  of.embedding_norm_gradient, {});
                    norm_backward(pass.context, both.columns(h, h), pass[hidden], of.hidden_norm,
                                  stats.row_range(1, 1), pass[sum.before], pass[sum.after],
                                  of.hidden_norm_gradient, {});
                  }});
  };
  tape.add({.forward = {.reads = {embedded, hidden},
                        .makes = {pair, statistics},
                        .run = [=](Pass& pass) { norm_both(pass, of, embedded, hidden, pair, statistics); }},
            .backward = backward});
  return pair;
}

void join_pair(Tape& tape, const PairInput& of, Slot pair, Slot x) {
  const auto backward = [=](Reverse& reverse) {
    const Slot dy = reverse.gradient(x);
    const Slot dx = reverse.make_fixed(pair, "gradient of module input pair", Category::workspace);
    reverse.product(
        dy, pair, dx,
        {[=](Pass& pass) {
           const AllRows all = pass.context.gather_rows(pass[dy]);
           pair_gradient(pass, of, all, dx);
           join_weight_gradient(pass, of, all, pair);
         },
         [=](Pass& pass) { pair_gradient(pass, of, pass.context.gather_rows(pass[dy]), dx); },
         [=](Pass& pass) { join_weight_gradient(pass, of, pass.context.gather_rows(pass[dy]), pair); }});
  };
  tape.add({.forward = {.reads = {pair}, .makes = {x}, .run = [=](Pass& pass) { join(pass, of, pair, x); }},
            .backward = backward});
}

}  // namespace plumbline::training
