// Copies of operands to the device and back.
#include "tests/kernels/cuda/staged_operators.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace plumbline::test {
namespace {

constexpr std::size_t kMargin = 256;
constexpr std::uint8_t kGuard = 0x5A;

/// The operands of one call. Equal addresses on the host are equal addresses on the device; slices of one
/// matrix become separate copies, each with the others' columns in its gaps.
class Call {
 public:
  Call(Operators& device, MemorySource& memory) : device_(device), memory_(memory) {}
  ~Call() {
    for (const Operand& operand : operands_) memory_.release(operand.device, bytes_of(operand));
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Matrix operator()(const Matrix& x) {
    if (x.data == nullptr) return x;
    const std::size_t span =
        x.rows == 0 || x.cols == 0
            ? 0
            : static_cast<std::size_t>(((x.rows - 1) * x.stride + x.cols) * size_of(x.dtype));
    for (const Operand& known : operands_) {
      if (known.host.data == x.data && known.span == span) return at(known, x);
    }
    // The same place within sixteen bytes as on the host: alignment decides which path a kernel takes.
    const std::size_t lead = kMargin + reinterpret_cast<std::uintptr_t>(x.data) % 16;
    const std::size_t size = (lead + span + kMargin + 3) / 4 * 4;
    Operand operand{x, nullptr, lead, span, std::vector<std::uint8_t>(size, kGuard)};
    operand.device = memory_.allocate({static_cast<std::int64_t>(size)});
    std::memcpy(operand.before.data() + lead, x.data, span);
    device_.upload(operand.before.data(), words(operand));
    operands_.push_back(std::move(operand));
    return at(operands_.back(), x);
  }

  /// Checks what surrounds the rows and brings the rows back.
  void finish() {
    for (const Operand& operand : operands_) {
      std::vector<std::uint8_t> after(operand.before.size());
      device_.download(words(operand), after.data());
      const Matrix& x = operand.host;
      const auto row_bytes = static_cast<std::size_t>(x.stride * size_of(x.dtype));
      const auto used = static_cast<std::size_t>(x.cols * size_of(x.dtype));
      for (std::size_t i = 0; i < after.size(); ++i) {
        const bool inside = i >= operand.lead && i < operand.lead + operand.span;
        if (inside && (row_bytes == 0 || (i - operand.lead) % row_bytes < used)) continue;
        if (after[i] == operand.before[i]) continue;
        ADD_FAILURE() << "byte " << i << " around the rows of a " << x.rows << "x" << x.cols
                      << " operand was overwritten";
        break;
      }
      for (std::int64_t row = 0; row < x.rows && used > 0; ++row) {
        std::memcpy(x.at(row, 0), after.data() + operand.lead + static_cast<std::size_t>(row) * row_bytes,
                    used);
      }
    }
  }

 private:
  struct Operand {
    Matrix host;
    void* device;
    std::size_t lead, span;
    std::vector<std::uint8_t> before;  // all bytes, as uploaded
  };
  static Bytes bytes_of(const Operand& operand) { return {static_cast<std::int64_t>(operand.before.size())}; }
  static Matrix words(const Operand& operand) {
    return {operand.device, 1, static_cast<std::int64_t>(operand.before.size() / 4), DType::int32};
  }
  static Matrix at(const Operand& operand, const Matrix& x) {
    return {static_cast<std::byte*>(operand.device) + operand.lead, x.rows, x.cols, x.stride, x.dtype};
  }
  Operators& device_;
  MemorySource& memory_;
  std::vector<Operand> operands_;
};

class StagedOperators final : public Operators {
 public:
  StagedOperators(std::unique_ptr<Operators> device, std::unique_ptr<MemorySource> memory)
      : device_(std::move(device)), memory_(std::move(memory)) {}

  void gemm(const Gemm& g) override {
    Call at(*device_, *memory_);
    Gemm staged = g;
    staged.a = at(g.a);
    staged.b = at(g.b);
    staged.c = at(g.c);
    staged.bias = at(g.bias);
    device_->gemm(staged);
    at.finish();
  }
  void rmsnorm_forward(Matrix x, Matrix w, Matrix y, Matrix rstd, double epsilon) override {
    Call at(*device_, *memory_);
    device_->rmsnorm_forward(at(x), at(w), at(y), at(rstd), epsilon);
    at.finish();
  }
  void rmsnorm_backward(Matrix dy, Matrix x, Matrix w, Matrix rstd, Matrix residual, Matrix dx,
                        Matrix dw) override {
    Call at(*device_, *memory_);
    device_->rmsnorm_backward(at(dy), at(x), at(w), at(rstd), at(residual), at(dx), at(dw));
    at.finish();
  }
  void layernorm_forward(Matrix x, Matrix w, Matrix b, Matrix y, Matrix mean, Matrix rstd,
                         double epsilon) override {
    Call at(*device_, *memory_);
    device_->layernorm_forward(at(x), at(w), at(b), at(y), at(mean), at(rstd), epsilon);
    at.finish();
  }
  void layernorm_backward(Matrix dy, Matrix x, Matrix w, Matrix mean, Matrix rstd, Matrix residual, Matrix dx,
                          Matrix dw, Matrix db) override {
    Call at(*device_, *memory_);
    device_->layernorm_backward(at(dy), at(x), at(w), at(mean), at(rstd), at(residual), at(dx), at(dw),
                                at(db));
    at.finish();
  }
  void rope(Matrix x, Matrix cos, Matrix sin, std::int64_t head_dim, bool inverse) override {
    Call at(*device_, *memory_);
    device_->rope(at(x), at(cos), at(sin), head_dim, inverse);
    at.finish();
  }
  void attention_forward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out, Matrix lse,
                         Matrix scratch) override {
    Call at(*device_, *memory_);
    device_->attention_forward(shape, at(q), at(k), at(v), at(out), at(lse), at(scratch));
    at.finish();
  }
  void attention_backward(const AttentionShape& shape, Matrix q, Matrix k, Matrix v, Matrix out, Matrix lse,
                          Matrix dout, Matrix dq, Matrix dk, Matrix dv, Matrix scratch) override {
    Call at(*device_, *memory_);
    device_->attention_backward(shape, at(q), at(k), at(v), at(out), at(lse), at(dout), at(dq), at(dk),
                                at(dv), at(scratch));
    at.finish();
  }
  std::int64_t attention_scratch(const AttentionShape& shape, DType type) const override {
    return device_->attention_scratch(shape, type);
  }
  void swiglu_forward(Matrix gate_up, Matrix y) override {
    Call at(*device_, *memory_);
    device_->swiglu_forward(at(gate_up), at(y));
    at.finish();
  }
  void swiglu_backward(Matrix dy, Matrix gate_up, Matrix dgate_up) override {
    Call at(*device_, *memory_);
    device_->swiglu_backward(at(dy), at(gate_up), at(dgate_up));
    at.finish();
  }
  void gelu_forward(Matrix x, Matrix y) override {
    Call at(*device_, *memory_);
    device_->gelu_forward(at(x), at(y));
    at.finish();
  }
  void gelu_backward(Matrix dy, Matrix x, Matrix dx) override {
    Call at(*device_, *memory_);
    device_->gelu_backward(at(dy), at(x), at(dx));
    at.finish();
  }
  void add(Matrix a, Matrix b, Matrix bias, Matrix y) override {
    Call at(*device_, *memory_);
    device_->add(at(a), at(b), at(bias), at(y));
    at.finish();
  }
  void bias_backward(Matrix dy, Matrix dbias) override {
    Call at(*device_, *memory_);
    device_->bias_backward(at(dy), at(dbias));
    at.finish();
  }
  void embedding_forward(Matrix tokens, Matrix table, std::int64_t first_token, Matrix y) override {
    Call at(*device_, *memory_);
    device_->embedding_forward(at(tokens), at(table), first_token, at(y));
    at.finish();
  }
  void embedding_backward(Matrix tokens, Matrix dy, std::int64_t first_token, Matrix dtable) override {
    Call at(*device_, *memory_);
    device_->embedding_backward(at(tokens), at(dy), first_token, at(dtable));
    at.finish();
  }
  void position_forward(Matrix x, Matrix table, std::int64_t seq) override {
    Call at(*device_, *memory_);
    device_->position_forward(at(x), at(table), seq);
    at.finish();
  }
  void position_backward(Matrix dy, Matrix dtable, std::int64_t seq) override {
    Call at(*device_, *memory_);
    device_->position_backward(at(dy), at(dtable), seq);
    at.finish();
  }
  void cross_entropy_max(Matrix logits, std::int64_t valid, Matrix row_max) override {
    Call at(*device_, *memory_);
    device_->cross_entropy_max(at(logits), valid, at(row_max));
    at.finish();
  }
  void cross_entropy_sums(Matrix logits, std::int64_t valid, std::int64_t first_token, Matrix targets,
                          Matrix row_max, Matrix sums) override {
    Call at(*device_, *memory_);
    device_->cross_entropy_sums(at(logits), valid, first_token, at(targets), at(row_max), at(sums));
    at.finish();
  }
  double cross_entropy_gradient(Matrix logits, std::int64_t valid, std::int64_t first_token, Matrix targets,
                                Matrix row_max, Matrix sums, double scale) override {
    Call at(*device_, *memory_);
    const double loss = device_->cross_entropy_gradient(at(logits), valid, first_token, at(targets),
                                                        at(row_max), at(sums), scale);
    at.finish();
    return loss;
  }
  void distillation_sums(Matrix student, Matrix teacher, std::int64_t valid, std::int64_t first_token,
                         Matrix targets, double temperature, Matrix row_max, Matrix sums) override {
    Call at(*device_, *memory_);
    device_->distillation_sums(at(student), at(teacher), valid, first_token, at(targets), temperature,
                               at(row_max), at(sums));
    at.finish();
  }
  void distillation_divergence(Matrix student, Matrix teacher, std::int64_t valid, const Distillation& loss,
                               Matrix row_max, Matrix sums, Matrix divergence) override {
    Call at(*device_, *memory_);
    device_->distillation_divergence(at(student), at(teacher), valid, loss, at(row_max), at(sums),
                                     at(divergence));
    at.finish();
  }
  double distillation_gradient(Matrix student, Matrix teacher, std::int64_t valid, std::int64_t first_token,
                               Matrix targets, const Distillation& loss, Matrix row_max, Matrix sums,
                               Matrix divergence, double scale) override {
    Call at(*device_, *memory_);
    const double total =
        device_->distillation_gradient(at(student), at(teacher), valid, first_token, at(targets), loss,
                                       at(row_max), at(sums), at(divergence), scale);
    at.finish();
    return total;
  }
  void softmax(Matrix x, std::int64_t valid, bool logarithm, Matrix y) override {
    Call at(*device_, *memory_);
    device_->softmax(at(x), valid, logarithm, at(y));
    at.finish();
  }
  double divergence_terms(Matrix p, Matrix log_s, std::int64_t valid, Matrix targets, Matrix terms) override {
    Call at(*device_, *memory_);
    const double total = device_->divergence_terms(at(p), at(log_s), valid, at(targets), at(terms));
    at.finish();
    return total;
  }
  void log_softmax_backward(Matrix dy, Matrix log_s, std::int64_t valid, Matrix targets, double factor,
                            Matrix dx) override {
    Call at(*device_, *memory_);
    device_->log_softmax_backward(at(dy), at(log_s), valid, at(targets), factor, at(dx));
    at.finish();
  }
  void adam(Matrix parameter, Matrix gradient, Matrix master, Matrix moment1, Matrix moment2,
            const AdamStep& step) override {
    Call at(*device_, *memory_);
    device_->adam(at(parameter), at(gradient), at(master), at(moment1), at(moment2), step);
    at.finish();
  }
  void sgd(Matrix parameter, Matrix gradient, Matrix master, double learning_rate,
           double gradient_scale) override {
    Call at(*device_, *memory_);
    device_->sgd(at(parameter), at(gradient), at(master), learning_rate, gradient_scale);
    at.finish();
  }
  double squared_norm(Matrix x) override {
    Call at(*device_, *memory_);
    const double norm = device_->squared_norm(at(x));
    at.finish();
    return norm;
  }
  void fill(Matrix x, double value) override {
    Call at(*device_, *memory_);
    device_->fill(at(x), value);
    at.finish();
  }
  void copy(Matrix from, Matrix to) override {
    Call at(*device_, *memory_);
    device_->copy(at(from), at(to));
    at.finish();
  }
  void scale(Matrix x, double factor) override {
    Call at(*device_, *memory_);
    device_->scale(at(x), factor);
    at.finish();
  }
  void upload(const void* host, Matrix x) override {
    Call at(*device_, *memory_);
    device_->upload(host, at(x));
    at.finish();
  }
  void download(Matrix x, void* host) override {
    Call at(*device_, *memory_);
    device_->download(at(x), host);
    at.finish();
  }
  void synchronize() override { device_->synchronize(); }

 private:
  std::unique_ptr<Operators> device_;
  std::unique_ptr<MemorySource> memory_;
};

}  // namespace

std::unique_ptr<Operators> stage(std::unique_ptr<Operators> device, std::unique_ptr<MemorySource> memory) {
  return std::make_unique<StagedOperators>(std::move(device), std::move(memory));
}

}  // namespace plumbline::test
