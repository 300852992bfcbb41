// Copies of operands to the device and back.
#include "tests/kernels/cuda/staged_operators.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <type_traits>
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

  Gemm operator()(const Gemm& gemm) {
    Gemm staged = gemm;
    for (Matrix* x : {&staged.a, &staged.b, &staged.c, &staged.bias, &staged.bias_gradient,
                      &staged.a_inverse_scale, &staged.b_inverse_scale}) {
      *x = (*this)(*x);
    }
    return staged;
  }
  ResidualSum operator()(const ResidualSum& added) {
    ResidualSum staged = added;
    for (Matrix* x : {&staged.a, &staged.b, &staged.bias, &staged.sum}) *x = (*this)(*x);
    return staged;
  }
  UnfusedAttention operator()(const UnfusedAttention& kept) {
    UnfusedAttention staged = kept;
    for (Matrix* x : {&staged.scores, &staged.probabilities, &staged.mask, &staged.dropped, &staged.repeated})
      *x = (*this)(*x);
    return staged;
  }
  Router operator()(const Router& router) {
    Router staged = router;
    staged.bias = (*this)(router.bias);
    staged.load = (*this)(router.load);
    return staged;
  }
  template <class T>
  const T& operator()(const T& no_operand) {
    return no_operand;
  }

  /// Checks the bytes around the rows and copies the rows back.
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

#define PLUMBLINE_OPERATOR(type, name, parameters, arguments) \
  type name parameters override {                             \
    return call(&Operators::name, std::tie arguments);        \
  }
#include "kernels/operator_list.inc"
  std::int64_t attention_scratch(const AttentionShape& shape, DType type) const override {
    return device_->attention_scratch(shape, type);
  }

 private:
  /// The operator on the device, its matrices taken there before and fetched after.
  template <class Result, class... Parameters, class... Arguments>
  Result call(Result (Operators::*run)(Parameters...), const std::tuple<Arguments...>& arguments) {
    Call at(*device_, *memory_);
    const auto on_device = [&](const auto&... argument) { return (device_.get()->*run)(at(argument)...); };
    if constexpr (std::is_void_v<Result>) {
      std::apply(on_device, arguments);
      at.finish();
    } else {
      const Result result = std::apply(on_device, arguments);
      at.finish();
      return result;
    }
  }

  std::unique_ptr<Operators> device_;
  std::unique_ptr<MemorySource> memory_;
};

}  // namespace

std::unique_ptr<Operators> stage(std::unique_ptr<Operators> device, std::unique_ptr<MemorySource> memory) {
  return std::make_unique<StagedOperators>(std::move(device), std::move(memory));
}

}  // namespace plumbline::test
