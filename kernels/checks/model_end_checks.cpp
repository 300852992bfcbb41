// Requirements of the operators at the ends of a model: embeddings, losses, the output layer's rows.
#include "kernels/checks/arguments.hpp"
#include "kernels/checks/operator_checks.hpp"

namespace plumbline::checks {
namespace {

constexpr const char* kLoss =
    "logits (T,n) of a floating point type with valid <= n, targets (1,T) int32, row_max (1,T), sums (2,T) "
    "fp32";
constexpr const char* kDistillation =
    "student and teacher (T,n) with valid <= n, temperature > 0, targets (1,T) int32, row_max (2,T), sums "
    "(4,T), divergence (1,T) fp32";
constexpr const char* kEager = "matrices (T,n) fp32 with valid <= n, targets (1,T) int32";
constexpr std::int64_t kLargestColumn = std::int64_t{1} << 24;  // as a number of fp32
constexpr std::int64_t kRowsPerShard = 3;                       // of vocab_combine's gathered numbers

bool are_ids(const Matrix& ids, const Matrix& of) {
  return is_row(ids, of, DType::int32);
}

void require_rows(const char* op, const Matrix& tokens, const Matrix& table, const Matrix& x) {
  require(is_storage(x) && are_ids(tokens, x) && table.cols == x.cols && table.dtype == x.dtype, op,
          "tokens (1,T) int32, table (rows,h), x or y (T,h) of one floating point type",
          {{"tokens", tokens}, {"table", table}, {"x or y", x}});
}

void require_sums(const char* op, const Matrix& logits, std::int64_t valid, const Matrix& targets,
                  const Matrix& row_max, const Matrix& sums) {
  require(is_logits(logits, valid) && is_row(row_max, logits, DType::fp32) && are_ids(targets, logits) &&
              has_shape(sums, 2, logits.rows, DType::fp32),
          op, kLoss, {{"logits", logits}, {"targets", targets}, {"row_max", row_max}, {"sums", sums}});
}

bool are_distilled(const Matrix& student, const Matrix& teacher, std::int64_t valid, double temperature,
                   const Matrix& row_max, const Matrix& sums) {
  return is_logits(student, valid) && is_storage(teacher) && same_shape(student, teacher) &&
         temperature > 0 && has_shape(row_max, 2, student.rows, DType::fp32) &&
         has_shape(sums, 4, student.rows, DType::fp32);
}

bool are_eager(const Matrix& a, const Matrix& b, const Matrix& c, std::int64_t valid) {
  return a.dtype == DType::fp32 && is_logits(a, valid) && alike(a, b) && alike(a, c);
}

void require_row_products(const char* op, const Matrix& a, const Matrix& b, std::int64_t first,
                          std::int64_t columns, const Matrix& sums) {
  require(is_storage(a) && is_storage(b) && a.rows == 1 && same_shape(a, b) && first >= 0 && columns > 0 &&
              has_shape(sums, 2, sums.cols, DType::fp32) && sums.contiguous(),
          op, "two (1, n) floating point, first not negative, columns positive, sums (2, rows) fp32",
          {{"a", a}, {"b", b}, {"sums", sums}});
}

}  // namespace

void embedding_forward(Matrix tokens, Matrix table, std::int64_t /*first_token*/, Matrix y) {
  require_rows("embedding_forward", tokens, table, y);
}

void embedding_backward(Matrix tokens, Matrix dy, std::int64_t /*first_token*/, Matrix dtable) {
  require(is_storage(dy) && is_storage(dtable) && are_ids(tokens, dy) && dtable.cols == dy.cols,
          "embedding_backward", "tokens (1,T) int32, dy (T,h), dtable (rows,h)",
          {{"tokens", tokens}, {"dy", dy}, {"dtable", dtable}});
}

void embedding_add(Matrix tokens, Matrix table, Matrix x) {
  require_rows("embedding_add", tokens, table, x);
}

void position_forward(Matrix x, Matrix table, std::int64_t seq) {
  require(is_storage(x) && seq > 0 && seq <= table.rows && table.cols == x.cols && table.dtype == x.dtype,
          "position_forward", "x (T,h), table (positions >= seq, h) of one floating point type",
          {{"x", x}, {"table", table}});
}

void position_backward(Matrix dy, Matrix dtable, std::int64_t seq) {
  require(is_storage(dy) && is_storage(dtable) && seq > 0 && seq <= dtable.rows && dtable.cols == dy.cols,
          "position_backward", "dy (T,h), dtable (positions >= seq, h)", {{"dy", dy}, {"dtable", dtable}});
}

void cross_entropy_max(Matrix logits, std::int64_t valid, Matrix row_max) {
  require(is_logits(logits, valid) && is_row(row_max, logits, DType::fp32), "cross_entropy_max", kLoss,
          {{"logits", logits}, {"row_max", row_max}});
}

void cross_entropy_sums(Matrix logits, std::int64_t valid, std::int64_t /*first_token*/, Matrix targets,
                        Matrix row_max, Matrix sums) {
  require_sums("cross_entropy_sums", logits, valid, targets, row_max, sums);
}

void cross_entropy_gradient(Matrix logits, std::int64_t valid, std::int64_t /*first_token*/, Matrix targets,
                            Matrix row_max, Matrix sums, double /*scale*/) {
  require_sums("cross_entropy_gradient", logits, valid, targets, row_max, sums);
}

void greedy_choice(Matrix logits, std::int64_t valid, Matrix choice) {
  require(
      is_logits(logits, valid) && valid <= kLargestColumn && has_shape(choice, 3, logits.rows, DType::fp32),
      "greedy_choice", "logits (T,n) of a floating point type with valid <= n and 2^24, choice (3,T) fp32",
      {{"logits", logits}, {"choice", choice}});
}

void vocab_softmax(Matrix logits, std::int64_t valid, Matrix row_max, Matrix row_sum) {
  require(is_logits(logits, valid) && is_row(row_max, logits, DType::fp32) &&
              is_row(row_sum, logits, DType::fp32),
          "vocab_softmax", "logits (T,n) with valid <= n, row_max and row_sum (1,T) fp32",
          {{"logits", logits}, {"row_max", row_max}, {"row_sum", row_sum}});
}

void vocab_combine(Matrix gathered, Matrix targets, std::int64_t columns, std::int64_t own, Matrix alpha) {
  require(gathered.dtype == DType::fp32 && gathered.rows % kRowsPerShard == 0 && columns > 0 && own >= 0 &&
              own < gathered.rows / kRowsPerShard && has_shape(targets, 1, gathered.cols, DType::int32) &&
              has_shape(alpha, 1, gathered.cols, DType::fp32),
          "vocab_combine", "gathered (3N,T) fp32, targets (1,T) int32, 0 <= own < N, alpha (1,T) fp32",
          {{"gathered", gathered}, {"targets", targets}, {"alpha", alpha}});
}

void vocab_gradient(Matrix softmax, std::int64_t valid, std::int64_t /*first_token*/, Matrix targets,
                    Matrix alpha, double /*scale*/) {
  require(is_logits(softmax, valid) && are_ids(targets, softmax) && is_row(alpha, softmax, DType::fp32),
          "vocab_gradient", "softmax (T,n) with valid <= n, targets (1,T) int32, alpha (1,T) fp32",
          {{"softmax", softmax}, {"targets", targets}, {"alpha", alpha}});
}

void vocab_input_gradient(Matrix product, Matrix table, std::int64_t first_token, Matrix targets,
                          Matrix alpha, double /*scale*/) {
  require(
      product.dtype == DType::fp32 && is_storage(table) && table.cols == product.cols &&
          (first_token != kRowPerToken || table.rows == product.rows) && are_ids(targets, product) &&
          is_row(alpha, product, DType::fp32),
      "vocab_input_gradient",
      "product (T,h) fp32, table (n,h) or with a row per token (T,h), targets (1,T) int32, alpha (1,T) fp32",
      {{"product", product}, {"table", table}, {"targets", targets}, {"alpha", alpha}});
}

void distillation_sums(Matrix student, Matrix teacher, std::int64_t valid, std::int64_t /*first_token*/,
                       Matrix targets, double temperature, Matrix row_max, Matrix sums) {
  require(are_distilled(student, teacher, valid, temperature, row_max, sums) && are_ids(targets, student),
          "distillation_sums", kDistillation,
          {{"student", student},
           {"teacher", teacher},
           {"targets", targets},
           {"row_max", row_max},
           {"sums", sums}});
}

void distillation_divergence(Matrix student, Matrix teacher, std::int64_t valid, const Distillation& loss,
                             Matrix row_max, Matrix sums, Matrix divergence) {
  require(are_distilled(student, teacher, valid, loss.temperature, row_max, sums) &&
              is_row(divergence, student, DType::fp32),
          "distillation_divergence", kDistillation,
          {{"student", student},
           {"teacher", teacher},
           {"row_max", row_max},
           {"sums", sums},
           {"divergence", divergence}});
}

void distillation_gradient(Matrix student, Matrix teacher, std::int64_t valid, std::int64_t /*first_token*/,
                           Matrix targets, const Distillation& loss, Matrix row_max, Matrix sums,
                           Matrix divergence, double /*scale*/) {
  require(are_distilled(student, teacher, valid, loss.temperature, row_max, sums) &&
              are_ids(targets, student) && is_row(divergence, student, DType::fp32),
          "distillation_gradient", kDistillation,
          {{"student", student},
           {"teacher", teacher},
           {"targets", targets},
           {"row_max", row_max},
           {"sums", sums},
           {"divergence", divergence}});
}

void entropy_sums(Matrix logits, std::int64_t valid, Matrix row_max, Matrix entropies) {
  require(is_logits(logits, valid) && is_row(row_max, logits, DType::fp32) &&
              is_row(entropies, logits, DType::fp32),
          "entropy_sums", "logits (T,n) with valid <= n, row_max and entropies (1,T) fp32",
          {{"logits", logits}, {"row_max", row_max}, {"entropies", entropies}});
}

void policy_loss(Matrix targets, Matrix sums, Matrix entropies, Matrix tokens, const PolicyLoss& loss,
                 double /*scale*/, Matrix factors) {
  const std::int64_t rows = targets.cols;
  require(has_shape(targets, 1, rows, DType::int32) && has_shape(sums, 2, rows, DType::fp32) &&
              has_shape(tokens, 4, rows, DType::fp32) && has_shape(factors, 3, rows, DType::fp32) &&
              (has_shape(entropies, 1, rows, DType::fp32) ||
               (loss.entropy_coef == 0 && entropies.elements() == 0)) &&
              loss.kl >= 1 && loss.kl <= 3,
          "policy_loss",
          "targets (1,T) int32, sums (2,T), entropies (1,T) or without entropy none, tokens (4,T), factors "
          "(3,T) fp32, kl 1, 2 or 3",
          {{"targets", targets},
           {"sums", sums},
           {"entropies", entropies},
           {"tokens", tokens},
           {"factors", factors}});
}

void policy_gradient(Matrix logits, std::int64_t valid, std::int64_t /*first_token*/, Matrix targets,
                     Matrix row_max, Matrix factors) {
  require(is_logits(logits, valid) && are_ids(targets, logits) && is_row(row_max, logits, DType::fp32) &&
              has_shape(factors, 3, logits.rows, DType::fp32),
          "policy_gradient",
          "logits (T,n) with valid <= n, targets (1,T) int32, row_max (1,T), factors (3,T) fp32",
          {{"logits", logits}, {"targets", targets}, {"row_max", row_max}, {"factors", factors}});
}

void value_loss(Matrix targets, Matrix values, Matrix tokens, double clip, double /*scale*/,
                Matrix gradient) {
  const std::int64_t rows = targets.cols;
  require(has_shape(targets, 1, rows, DType::int32) && has_shape(values, 1, rows, DType::fp32) &&
              has_shape(tokens, 4, rows, DType::fp32) && has_shape(gradient, rows, 1, gradient.dtype) &&
              clip >= 0,
          "value_loss",
          "targets (1,T) int32, values (1,T), tokens (4,T) fp32, gradient (T,1), clip of at least 0",
          {{"targets", targets}, {"values", values}, {"tokens", tokens}, {"gradient", gradient}});
}

void softmax(Matrix x, std::int64_t valid, bool /*logarithm*/, Matrix y) {
  require(are_eager(x, y, y, valid), "softmax", kEager, {{"x", x}, {"y", y}});
}

void divergence_terms(Matrix p, Matrix log_s, std::int64_t valid, Matrix targets, Matrix terms) {
  require(are_eager(p, log_s, terms, valid) && are_ids(targets, p), "divergence_terms", kEager,
          {{"p", p}, {"log_s", log_s}, {"targets", targets}, {"terms", terms}});
}

void log_softmax_backward(Matrix dy, Matrix log_s, std::int64_t valid, Matrix targets, double /*factor*/,
                          Matrix dx) {
  require(are_eager(dy, log_s, dx, valid) && are_ids(targets, dy), "log_softmax_backward", kEager,
          {{"dy", dy}, {"log_s", log_s}, {"targets", targets}, {"dx", dx}});
}

void row_products(Matrix a, Matrix b, std::int64_t first, std::int64_t columns, Matrix sums) {
  require_row_products("row_products", a, b, first, columns, sums);
}

void scale_columns(Matrix x, Matrix squares) {
  require(is_storage(x) && has_shape(squares, 1, x.cols, DType::fp32), "scale_columns",
          "x (T, n) floating point, squares (1, n) fp32", {{"x", x}, {"squares", squares}});
}

void remove_row_parts(Matrix g, Matrix w, std::int64_t first, std::int64_t columns, Matrix sums) {
  require_row_products("remove_row_parts", g, w, first, columns, sums);
}

}  // namespace plumbline::checks
