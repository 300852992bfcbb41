// Every CUDA operator once or twice with a host thread per CUDA thread (host_threads.cpp), for
// ThreadSanitizer: races.sh. Prints each operator's name before it runs.
#include <fmt/format.h>

#include <cstdio>
#include <vector>

#include "bench/measure/calibrate/operator_cases.hpp"
#include "core/tensor/arena.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kTokens = 96;  // rows enough for more than two blocks
constexpr std::int64_t kHidden = 72;

class Races {
 public:
  explicit Races(DType type) : type_(type) {}

  void run() {
    OperatorShape shape;
    shape.batch = 2;
    shape.seq = kTokens / 2;
    shape.hidden = kHidden;
    shape.heads = 2;
    shape.kv_heads = 1;
    shape.head_dim = 64;
    shape.ffn = 48;
    shape.vocab = 144;
    shape.parameters = 5000;
    shape.type = type_;
    for (const OperatorCase& one : operator_cases(operators_, shape)) {
      say(one.name.c_str());
      one.run();
    }
    rows();
    latent();
    distillation();
    mixture(false);
    mixture(true);
  }

 private:
  void say(const char* name) const {
    fmt::print("{} {}\n", name, name_of(type_));
    std::fflush(stdout);
  }
  Matrix make(std::int64_t rows, std::int64_t cols, DType type) { return operands_.matrix(rows, cols, type); }

  void rows() {
    say("head norms, positions, rows and columns");
    const Matrix x = make(kTokens, kHidden, type_);
    const Matrix dx = make(kTokens, kHidden, type_);
    const Matrix w = make(1, kHidden / 3, type_);
    const Matrix rstd = make(kTokens, 3, DType::fp32);
    const Matrix dw = make(1, kHidden / 3, DType::fp32);
    operators_.head_norm_forward(x, w, dx, rstd, 1e-6);
    operators_.head_norm_backward(dx, x, w, rstd, dx, dw);
    const Matrix table = make(kTokens / 2, kHidden, DType::fp32);
    operators_.position_forward(x, make(kTokens / 2, kHidden, type_), kTokens / 2);
    operators_.position_backward(x, table, kTokens / 2);
    const Matrix sums = make(2, kTokens, DType::fp32);
    operators_.row_products(x.reshaped(1, x.elements()), dx.reshaped(1, x.elements()), 0, kHidden, sums);
    operators_.remove_row_parts(x.reshaped(1, x.elements()), dx.reshaped(1, x.elements()), 0, kHidden, sums);
    operators_.fill(sums, 2);
    operators_.scale_columns(make(kHidden, kTokens, type_), sums.row_range(0, 1));
    operators_.scale_rows(x, sums.row_range(1, 1), dx);
    operators_.sigmoid_forward(x, dx);
    operators_.sigmoid_backward(x, dx, dx);
  }

  void latent() {
    say("heads of two parts");
    const Matrix shared = make(kTokens, 8, type_);
    const Matrix own = make(kTokens, 24, type_);
    const Matrix y = make(kTokens, 48, type_);
    operators_.join_heads(shared, own, 3, y);
    operators_.split_heads(y, 3, shared, own);
  }

  void distillation() {
    say("distillation");
    constexpr std::int64_t kVocabulary = 4096;  // ids of make()
    constexpr std::int64_t kRows = 6;
    const Matrix student = make(kRows, kVocabulary, type_);
    const Matrix teacher = make(kRows, kVocabulary, type_);
    const Matrix targets = make(1, kRows, DType::int32);
    const Matrix row_max = make(2, kRows, DType::fp32);
    const Matrix sums = make(4, kRows, DType::fp32);
    const Matrix divergence = make(1, kRows, DType::fp32);
    Distillation loss;
    loss.temperature = 2;
    loss.lm_weight = 0.5;
    operators_.cross_entropy_max(student, kVocabulary, row_max.row_range(0, 1));
    operators_.cross_entropy_max(teacher, kVocabulary, row_max.row_range(1, 1));
    operators_.distillation_sums(student, teacher, kVocabulary, 0, targets, loss.temperature, row_max, sums);
    operators_.distillation_divergence(student, teacher, kVocabulary, loss, row_max, sums, divergence);
    operators_.distillation_gradient(student, teacher, kVocabulary, 0, targets, loss, row_max, sums,
                                     divergence, 1);
    const Matrix factors = make(3, kRows, DType::fp32);
    operators_.entropy_sums(teacher, kVocabulary, row_max.row_range(1, 1), divergence);
    operators_.policy_loss(targets, sums.row_range(0, 2), divergence, make(4, kRows, DType::fp32),
                           {.entropy_coef = 0.1}, 1, factors);
    operators_.policy_gradient(teacher, kVocabulary, 0, targets, row_max.row_range(1, 1), factors);
    operators_.value_loss(targets, row_max.row_range(0, 1), make(4, kRows, DType::fp32), 0.2, 1,
                          make(kRows, 1, type_));
    const Matrix p = make(kRows, kVocabulary, DType::fp32);
    const Matrix log_s = make(kRows, kVocabulary, DType::fp32);
    operators_.softmax(make(kRows, kVocabulary, DType::fp32), kVocabulary, false, p);
    operators_.softmax(make(kRows, kVocabulary, DType::fp32), kVocabulary, true, log_s);
    const Matrix terms = make(kRows, kVocabulary, DType::fp32);
    operators_.divergence_terms(p, log_s, kVocabulary, targets, terms);
    operators_.log_softmax_backward(p, log_s, kVocabulary, targets, 1, terms);
  }

  void mixture(bool capacity) {
    say(capacity ? "mixture with a capacity" : "mixture");
    constexpr std::int64_t kExperts = 12;
    constexpr std::int64_t kChoices = 640;  // more than two tiles of them
    Router router;
    router.top_k = 2;
    router.balance = 0.01;
    router.z = 0.001;
    if (capacity) {
      router.capacity = 40;
      router.padded = true;
    }
    const Matrix logits = make(kChoices / router.top_k, kExperts, DType::fp32);
    const Matrix chosen = make(1, kChoices, DType::int32);
    std::vector<std::int64_t> counts(kExperts);
    operators_.route(router, logits, chosen, counts.data());
    std::int64_t rows = 0;
    for (const std::int64_t count : counts) rows += router.rows_of(count);
    const Matrix places = make(1, kChoices, DType::int32);
    const Matrix tokens = make(1, rows, DType::int32);
    const Matrix weights = make(1, rows, DType::fp32);
    operators_.arrange(router, logits, chosen, places, tokens, weights);
    operators_.route_backward(router, logits, chosen, places, weights,
                              make(logits.rows, kExperts, DType::fp32));
    operators_.combine_rows(make(rows, 16, type_), places, false, make(logits.rows, 16, type_));
  }

  DType type_;
  cuda::CudaOperators operators_{CudaOptions{}};
  std::unique_ptr<MemorySource> memory_ = host_memory();
  DeviceOperands operands_{operators_, *memory_};
};

}  // namespace
}  // namespace plumbline

int main() {
  for (const plumbline::DType type : {plumbline::DType::fp32, plumbline::DType::bf16})
    plumbline::Races(type).run();
  fmt::print("all operators ran\n");
  return 0;
}
