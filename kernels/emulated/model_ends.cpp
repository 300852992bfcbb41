// Emulated operators at the ends of the model and of the step: embeddings, loss, optimizer, plain passes.
#include "kernels/emulated/checks.hpp"
#include "kernels/emulated/emulated_backend.hpp"

namespace plumbline::emulated {
namespace {

bool ids_of(const Matrix& tokens, const Matrix& x) {
  return has_shape(tokens, 1, x.rows) && tokens.dtype == DType::int32;
}

/// A matrix that stands for the touched rows of `table`, one per row of `rows`.
Matrix rows_touched(const Matrix& rows, const Matrix& table) {
  return {nullptr, rows.rows, table.cols, table.dtype};
}

bool same_length(const Matrix& x, const Matrix& parameter) {
  return x.contiguous() && x.elements() == parameter.elements();
}
/// Checks both outputs of a distillation and its statistics.
bool distilled(const Matrix& student, const Matrix& teacher, std::int64_t valid, const Matrix& row_max,
               const Matrix& sums) {
  return has_shape(teacher, student.rows, student.cols) && valid >= 0 && valid <= student.cols &&
         statistics(row_max, 2, student.rows) && statistics(sums, 4, student.rows);
}
bool is_master(const Matrix& master, const Matrix& parameter) {
  return parameter.dtype == DType::fp32 ? master.empty()
                                        : same_length(master, parameter) && master.dtype == DType::fp32;
}

}  // namespace

void EmulatedOperators::embedding_forward(Matrix tokens, Matrix table, std::int64_t /*first_token*/,
                                          Matrix y) {
  require(ids_of(tokens, y) && table.cols == y.cols && table.dtype == y.dtype, "embedding_forward",
          {tokens, table, y});
  pass_over("embedding_forward", y.dtype, {rows_touched(y, table)}, {y});
}

void EmulatedOperators::embedding_backward(Matrix tokens, Matrix dy, std::int64_t /*first_token*/,
                                           Matrix dtable) {
  require(ids_of(tokens, dy) && dtable.cols == dy.cols, "embedding_backward", {tokens, dy, dtable});
  const Matrix rows = rows_touched(dy, dtable);
  pass_over("embedding_backward", dy.dtype, {dy, rows}, {rows});
}

void EmulatedOperators::position_forward(Matrix x, Matrix table, std::int64_t seq) {
  require(seq > 0 && seq <= table.rows && table.cols == x.cols && table.dtype == x.dtype, "position_forward",
          {x, table});
  pass_over("position_forward", x.dtype, {x, rows_touched(x, table)}, {x});
}

void EmulatedOperators::position_backward(Matrix dy, Matrix dtable, std::int64_t seq) {
  require(seq > 0 && seq <= dtable.rows && dtable.cols == dy.cols, "position_backward", {dy, dtable});
  const Matrix rows = rows_touched(dy, dtable);
  pass_over("position_backward", dy.dtype, {dy, rows}, {rows});
}

void EmulatedOperators::embedding_add(Matrix tokens, Matrix table, Matrix x) {
  require_embedding_add(tokens, table, x);
  pass_over("position_forward", x.dtype, {x, rows_touched(x, table)}, {x});
}

void EmulatedOperators::row_products(Matrix a, Matrix b, std::int64_t first, std::int64_t columns,
                                     Matrix sums) {
  require_row_products("row_products", a, b, first, columns, sums);
  pass_over("row_products", b.dtype, {a, b}, {});
}

void EmulatedOperators::scale_columns(Matrix x, Matrix squares) {
  require_scale_columns(x, squares);
  pass_over("scale_columns", x.dtype, {x}, {x});
}

void EmulatedOperators::remove_row_parts(Matrix g, Matrix w, std::int64_t first, std::int64_t columns,
                                         Matrix sums) {
  require_row_products("remove_row_parts", g, w, first, columns, sums);
  pass_over("remove_row_parts", w.dtype, {g, w}, {g});
}

void EmulatedOperators::cross_entropy_max(Matrix logits, std::int64_t valid, Matrix row_max) {
  require(valid >= 0 && valid <= logits.cols && statistics(row_max, 1, logits.rows), "cross_entropy_max",
          {logits, row_max});
  pass_over("cross_entropy_max", logits.dtype, {logits}, {});
}

void EmulatedOperators::cross_entropy_sums(Matrix logits, std::int64_t valid, std::int64_t /*first_token*/,
                                           Matrix targets, Matrix row_max, Matrix sums) {
  require(valid >= 0 && valid <= logits.cols && statistics(row_max, 1, logits.rows) &&
              ids_of(targets, logits) && statistics(sums, 2, logits.rows),
          "cross_entropy_sums", {logits, targets, row_max, sums});
  pass_over("cross_entropy_sums", logits.dtype, {logits}, {});
}

Number EmulatedOperators::cross_entropy_gradient(Matrix logits, std::int64_t valid,
                                                 std::int64_t /*first_token*/, Matrix targets, Matrix row_max,
                                                 Matrix sums, double /*scale*/) {
  require(valid >= 0 && valid <= logits.cols && statistics(row_max, 1, logits.rows) &&
              ids_of(targets, logits) && statistics(sums, 2, logits.rows),
          "cross_entropy_gradient", {logits, targets, row_max, sums});
  pass_over("cross_entropy_gradient", logits.dtype, {logits}, {logits});
  return 0;
}

// Vocabulary parallelism in the times of operators that have a measured one.
void EmulatedOperators::vocab_softmax(Matrix logits, std::int64_t valid, Matrix row_max, Matrix row_sum) {
  require(valid >= 0 && valid <= logits.cols && statistics(row_max, 1, logits.rows) &&
              statistics(row_sum, 1, logits.rows),
          "vocab_softmax", {logits, row_max, row_sum});
  pass_over("cross_entropy_gradient", logits.dtype, {logits}, {logits});
}

Number EmulatedOperators::vocab_combine(Matrix gathered, Matrix targets, std::int64_t columns,
                                        std::int64_t own, Matrix alpha) {
  require(statistics(gathered, gathered.rows, targets.cols) && gathered.rows % 3 == 0 &&
              has_shape(targets, 1, gathered.cols, DType::int32) && columns > 0 && own >= 0 &&
              own < gathered.rows / 3 && statistics(alpha, 1, gathered.cols),
          "vocab_combine", {gathered, targets, alpha});
  return 0;
}

void EmulatedOperators::vocab_gradient(Matrix softmax, std::int64_t valid, std::int64_t /*first_token*/,
                                       Matrix targets, Matrix alpha, double /*scale*/) {
  require(
      valid >= 0 && valid <= softmax.cols && ids_of(targets, softmax) && statistics(alpha, 1, softmax.rows),
      "vocab_gradient", {softmax, targets, alpha});
  pass_over("cross_entropy_gradient", softmax.dtype, {softmax}, {softmax});
}

void EmulatedOperators::vocab_input_gradient(Matrix product, Matrix table, std::int64_t first_token,
                                             Matrix targets, Matrix alpha, double /*scale*/) {
  require(product.dtype == DType::fp32 && table.cols == product.cols &&
              (first_token != kRowPerToken || table.rows == product.rows) && ids_of(targets, product) &&
              statistics(alpha, 1, product.rows),
          "vocab_input_gradient", {product, table, targets, alpha});
  pass_over("add", product.dtype, {product, product}, {product});
}

void EmulatedOperators::distillation_sums(Matrix student, Matrix teacher, std::int64_t valid,
                                          std::int64_t /*first_token*/, Matrix targets,
                                          double /*temperature*/, Matrix row_max, Matrix sums) {
  require(distilled(student, teacher, valid, row_max, sums) && ids_of(targets, student), "distillation_sums",
          {student, teacher, targets, row_max, sums});
  pass_over("distillation_sums", student.dtype, {student, teacher}, {});
}

void EmulatedOperators::distillation_divergence(Matrix student, Matrix teacher, std::int64_t valid,
                                                const Distillation& /*loss*/, Matrix row_max, Matrix sums,
                                                Matrix divergence) {
  require(distilled(student, teacher, valid, row_max, sums) && statistics(divergence, 1, student.rows),
          "distillation_divergence", {student, teacher, row_max, sums, divergence});
  pass_over("distillation_divergence", student.dtype, {student, teacher}, {});
}

Number EmulatedOperators::distillation_gradient(Matrix student, Matrix teacher, std::int64_t valid,
                                                std::int64_t /*first_token*/, Matrix targets,
                                                const Distillation& /*loss*/, Matrix row_max, Matrix sums,
                                                Matrix divergence, double /*scale*/) {
  require(distilled(student, teacher, valid, row_max, sums) && ids_of(targets, student) &&
              statistics(divergence, 1, student.rows),
          "distillation_gradient", {student, teacher, targets, row_max, sums, divergence});
  pass_over("distillation_gradient", student.dtype, {student, teacher}, {student});
  return 0;
}

void EmulatedOperators::softmax(Matrix x, std::int64_t valid, bool /*logarithm*/, Matrix y) {
  require(alike(x, y) && valid >= 0 && valid <= x.cols, "softmax", {x, y});
  pass_over("softmax", x.dtype, {x, x}, {y});
}

Number EmulatedOperators::divergence_terms(Matrix p, Matrix log_s, std::int64_t valid, Matrix targets,
                                           Matrix terms) {
  require(alike(p, log_s) && alike(terms, p) && valid >= 0 && valid <= p.cols && ids_of(targets, p),
          "divergence_terms", {p, log_s, targets, terms});
  pass_over("divergence_terms", p.dtype, {p, log_s, terms}, {terms});
  return 0;
}

void EmulatedOperators::log_softmax_backward(Matrix dy, Matrix log_s, std::int64_t valid, Matrix targets,
                                             double /*factor*/, Matrix dx) {
  require(alike(dy, log_s) && alike(dx, dy) && valid >= 0 && valid <= dy.cols && ids_of(targets, dy),
          "log_softmax_backward", {dy, log_s, targets, dx});
  pass_over("log_softmax_backward", dy.dtype, {dy, log_s}, {dx});
}

void EmulatedOperators::adam(Matrix parameter, Matrix gradient, Matrix master, Matrix moment1, Matrix moment2,
                             const AdamStep& /*step*/) {
  require(same_length(gradient, parameter) && is_master(master, parameter) &&
              same_length(moment1, parameter) && same_length(moment2, parameter) &&
              moment1.dtype == DType::fp32 && moment2.dtype == DType::fp32,
          "adam", {parameter, gradient, master, moment1, moment2});
  pass_over("adam", parameter.dtype, {parameter, gradient, master, moment1, moment2},
            {parameter, master, moment1, moment2});
}

void EmulatedOperators::sgd(Matrix parameter, Matrix gradient, Matrix master, double /*learning_rate*/,
                            double /*gradient_scale*/) {
  require(same_length(gradient, parameter) && is_master(master, parameter), "sgd",
          {parameter, gradient, master});
  pass_over("sgd", parameter.dtype, {parameter, gradient, master}, {parameter, master});
}

Number EmulatedOperators::squared_norm(Matrix x) {
  pass_over("squared_norm", x.dtype, {x}, {});
  return 0;
}

void EmulatedOperators::fill(Matrix x, double /*value*/) {
  pass_over("fill", x.dtype, {}, {x});
}

void EmulatedOperators::copy(Matrix from, Matrix to) {
  require(has_shape(from, to.rows, to.cols), "copy", {from, to});
  pass_over("copy", to.dtype, {from}, {to});
}

void EmulatedOperators::scale(Matrix x, double /*factor*/) {
  pass_over("scale", x.dtype, {x}, {x});
}

void EmulatedOperators::upload(const void* /*host*/, Matrix x) {
  require(x.contiguous(), "upload", {x});
}

void EmulatedOperators::download(Matrix x, void* /*host*/) {
  require(x.contiguous(), "download", {x});
}

}  // namespace plumbline::emulated
