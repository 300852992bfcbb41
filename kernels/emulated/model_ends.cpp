// Emulated operators at the ends of the model and of the step: embeddings, loss, optimizer, plain passes.
#include "kernels/emulated/emulated_backend.hpp"

namespace plumbline::emulated {
namespace {

/// A matrix that stands for the touched rows of `table`, one per row of `rows`.
Matrix rows_touched(const Matrix& rows, const Matrix& table) {
  return {nullptr, rows.rows, table.cols, table.dtype};
}

}  // namespace

void EmulatedOperators::embedding_forward(Matrix /*tokens*/, Matrix table, std::int64_t /*first_token*/,
                                          Matrix y) {
  pass_over("embedding_forward", y.dtype, {rows_touched(y, table)}, {y});
}

void EmulatedOperators::embedding_backward(Matrix /*tokens*/, Matrix dy, std::int64_t /*first_token*/,
                                           Matrix dtable) {
  const Matrix rows = rows_touched(dy, dtable);
  pass_over("embedding_backward", dy.dtype, {dy, rows}, {rows});
}

void EmulatedOperators::position_forward(Matrix x, Matrix table, std::int64_t /*seq*/) {
  pass_over("position_forward", x.dtype, {x, rows_touched(x, table)}, {x});
}

void EmulatedOperators::position_backward(Matrix dy, Matrix dtable, std::int64_t /*seq*/) {
  const Matrix rows = rows_touched(dy, dtable);
  pass_over("position_backward", dy.dtype, {dy, rows}, {rows});
}

void EmulatedOperators::embedding_add(Matrix /*tokens*/, Matrix table, Matrix x) {
  pass_over("position_forward", x.dtype, {x, rows_touched(x, table)}, {x});
}

void EmulatedOperators::row_products(Matrix a, Matrix b, std::int64_t /*first*/, std::int64_t /*columns*/,
                                     Matrix /*sums*/) {
  pass_over("row_products", b.dtype, {a, b}, {});
}

void EmulatedOperators::scale_columns(Matrix x, Matrix /*squares*/) {
  pass_over("scale_columns", x.dtype, {x}, {x});
}

void EmulatedOperators::remove_row_parts(Matrix g, Matrix w, std::int64_t /*first*/, std::int64_t /*columns*/,
                                         Matrix /*sums*/) {
  pass_over("remove_row_parts", w.dtype, {g, w}, {g});
}

void EmulatedOperators::cross_entropy_max(Matrix logits, std::int64_t /*valid*/, Matrix /*row_max*/) {
  pass_over("cross_entropy_max", logits.dtype, {logits}, {});
}

void EmulatedOperators::cross_entropy_sums(Matrix logits, std::int64_t /*valid*/,
                                           std::int64_t /*first_token*/, Matrix /*targets*/,
                                           Matrix /*row_max*/, Matrix /*sums*/) {
  pass_over("cross_entropy_sums", logits.dtype, {logits}, {});
}

Number EmulatedOperators::cross_entropy_gradient(Matrix logits, std::int64_t /*valid*/,
                                                 std::int64_t /*first_token*/, Matrix /*targets*/,
                                                 Matrix /*row_max*/, Matrix /*sums*/, double /*scale*/) {
  pass_over("cross_entropy_gradient", logits.dtype, {logits}, {logits});
  return 0;
}

void EmulatedOperators::greedy_choice(Matrix logits, std::int64_t /*valid*/, Matrix /*choice*/) {
  pass_over("greedy_choice", logits.dtype, {logits}, {});
}

// Vocabulary parallelism in the times of operators that have a measured one.
void EmulatedOperators::vocab_softmax(Matrix logits, std::int64_t /*valid*/, Matrix /*row_max*/,
                                      Matrix /*row_sum*/) {
  pass_over("cross_entropy_gradient", logits.dtype, {logits}, {logits});
}

Number EmulatedOperators::vocab_combine(Matrix /*gathered*/, Matrix /*targets*/, std::int64_t /*columns*/,
                                        std::int64_t /*own*/, Matrix /*alpha*/) {
  return 0;
}

void EmulatedOperators::vocab_gradient(Matrix softmax, std::int64_t /*valid*/, std::int64_t /*first_token*/,
                                       Matrix /*targets*/, Matrix /*alpha*/, double /*scale*/) {
  pass_over("cross_entropy_gradient", softmax.dtype, {softmax}, {softmax});
}

void EmulatedOperators::vocab_input_gradient(Matrix product, Matrix /*table*/, std::int64_t /*first_token*/,
                                             Matrix /*targets*/, Matrix /*alpha*/, double /*scale*/) {
  pass_over("add", product.dtype, {product, product}, {product});
}

void EmulatedOperators::distillation_sums(Matrix student, Matrix teacher, std::int64_t /*valid*/,
                                          std::int64_t /*first_token*/, Matrix /*targets*/,
                                          double /*temperature*/, Matrix /*row_max*/, Matrix /*sums*/) {
  pass_over("distillation_sums", student.dtype, {student, teacher}, {});
}

void EmulatedOperators::distillation_divergence(Matrix student, Matrix teacher, std::int64_t /*valid*/,
                                                const Distillation& /*loss*/, Matrix /*row_max*/,
                                                Matrix /*sums*/, Matrix /*divergence*/) {
  pass_over("distillation_divergence", student.dtype, {student, teacher}, {});
}

Number EmulatedOperators::distillation_gradient(Matrix student, Matrix teacher, std::int64_t /*valid*/,
                                                std::int64_t /*first_token*/, Matrix /*targets*/,
                                                const Distillation& /*loss*/, Matrix /*row_max*/,
                                                Matrix /*sums*/, Matrix /*divergence*/, double /*scale*/) {
  pass_over("distillation_gradient", student.dtype, {student, teacher}, {student});
  return 0;
}

// Losses of reinforcement learning in the times of cross-entropy.
void EmulatedOperators::entropy_sums(Matrix logits, std::int64_t /*valid*/, Matrix /*row_max*/,
                                     Matrix /*entropies*/) {
  pass_over("cross_entropy_sums", logits.dtype, {logits}, {});
}

Number EmulatedOperators::policy_loss(Matrix /*targets*/, Matrix /*sums*/, Matrix /*entropies*/,
                                      Matrix /*tokens*/, const PolicyLoss& /*loss*/, double /*scale*/,
                                      Matrix /*factors*/) {
  return 0;
}

void EmulatedOperators::policy_gradient(Matrix logits, std::int64_t /*valid*/, std::int64_t /*first_token*/,
                                        Matrix /*targets*/, Matrix /*row_max*/, Matrix /*factors*/) {
  pass_over("cross_entropy_gradient", logits.dtype, {logits}, {logits});
}

Number EmulatedOperators::value_loss(Matrix /*targets*/, Matrix values, Matrix tokens, double /*clip*/,
                                     double /*scale*/, Matrix gradient) {
  pass_over("cross_entropy_gradient", gradient.dtype, {values, tokens}, {gradient});
  return 0;
}

void EmulatedOperators::softmax(Matrix x, std::int64_t /*valid*/, bool /*logarithm*/, Matrix y) {
  pass_over("softmax", x.dtype, {x, x}, {y});
}

Number EmulatedOperators::divergence_terms(Matrix p, Matrix log_s, std::int64_t /*valid*/, Matrix /*targets*/,
                                           Matrix terms) {
  pass_over("divergence_terms", p.dtype, {p, log_s, terms}, {terms});
  return 0;
}

void EmulatedOperators::log_softmax_backward(Matrix dy, Matrix log_s, std::int64_t /*valid*/,
                                             Matrix /*targets*/, double /*factor*/, Matrix dx) {
  pass_over("log_softmax_backward", dy.dtype, {dy, log_s}, {dx});
}

void EmulatedOperators::adam(Matrix parameter, Matrix gradient, Matrix master, Matrix moment1, Matrix moment2,
                             const AdamStep& /*step*/) {
  pass_over("adam", parameter.dtype, {parameter, gradient, master, moment1, moment2},
            {parameter, master, moment1, moment2});
}

void EmulatedOperators::sgd(Matrix parameter, Matrix gradient, Matrix master, const DescentStep& /*step*/) {
  pass_over("sgd", parameter.dtype, {parameter, gradient, master}, {parameter, master});
}

void EmulatedOperators::lion(Matrix parameter, Matrix gradient, Matrix master, Matrix momentum,
                             const LionStep& /*step*/) {
  pass_over("lion", parameter.dtype, {parameter, gradient, master, momentum}, {parameter, master, momentum});
}

void EmulatedOperators::momentum(Matrix gradient, Matrix momentum, Matrix update,
                                 const MomentumStep& /*step*/) {
  pass_over("momentum", gradient.dtype, {gradient, momentum}, {momentum, update});
}

void EmulatedOperators::normalize(Matrix x, double /*epsilon*/) {
  pass_over("normalize", x.dtype, {x, x}, {x});
}

void EmulatedOperators::weighted_sum(Matrix a, double /*of_a*/, Matrix b, double /*of_b*/, Matrix y) {
  pass_over("weighted_sum", y.dtype, {a, b}, {y});
}

Number EmulatedOperators::squared_norm(Matrix x) {
  pass_over("squared_norm", x.dtype, {x}, {});
  return 0;
}

void EmulatedOperators::fill(Matrix x, double /*value*/) {
  pass_over("fill", x.dtype, {}, {x});
}

void EmulatedOperators::copy(Matrix from, Matrix to) {
  pass_over("copy", to.dtype, {from}, {to});
}

void EmulatedOperators::scale(Matrix x, double /*factor*/) {
  pass_over("scale", x.dtype, {x}, {x});
}

void EmulatedOperators::upload(const void* /*host*/, Matrix /*x*/) {}

void EmulatedOperators::download(Matrix /*x*/, void* /*host*/) {}

}  // namespace plumbline::emulated
