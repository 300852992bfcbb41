#include "bench/training/weights/adapter_merge.hpp"

#include <string_view>
#include <utility>

namespace plumbline::training {
namespace {

constexpr std::string_view kPeftPrefix = "base_model.model.";
constexpr std::string_view kFactorA = ".lora_A.weight";
constexpr std::string_view kFactorB = ".lora_B.weight";
constexpr std::string_view kWeightEnd = ".weight";

/// The name without `end`, and without PEFT's prefix.
std::string module_of(const std::string& name, std::string_view end) {
  const std::size_t from = name.starts_with(kPeftPrefix) ? kPeftPrefix.size() : 0;
  return name.substr(from, name.size() - end.size() - from);
}

}  // namespace

void AdapterMerge::take(NamedTensor&& tensor) {
  if (tensor.name.ends_with(kFactorA)) {
    a_[module_of(tensor.name, kFactorA)] = std::move(tensor);
  } else if (tensor.name.ends_with(kFactorB)) {
    const std::string module = module_of(tensor.name, kFactorB);
    NamedTensor weight = std::move(weights_.at(module));
    weights_.erase(module);
    add(weight, a_.at(module), tensor);
    a_.erase(module);
    sink_(std::move(weight));
  } else if (tensor.shape.size() == 2 && tensor.name.ends_with(kWeightEnd)) {
    weights_[module_of(tensor.name, kWeightEnd)] = std::move(tensor);
  } else {
    sink_(std::move(tensor));
  }
}

void AdapterMerge::finish() {
  for (auto& [module, weight] : weights_) sink_(std::move(weight));
  weights_.clear();
}

void AdapterMerge::add(NamedTensor& weight, const NamedTensor& a, const NamedTensor& b) const {
  const std::int64_t rank = a.shape[0];
  const std::int64_t inputs = a.shape[1];
  const std::int64_t outputs = b.shape[0];
  const auto at = [](const NamedTensor& tensor, std::int64_t row, std::int64_t col) {
    return static_cast<double>(tensor.values[static_cast<std::size_t>(row * tensor.shape[1] + col)]);
  };
  for (std::int64_t row = 0; row < outputs; ++row) {
    for (std::int64_t col = 0; col < inputs; ++col) {
      double sum = 0;
      for (std::int64_t k = 0; k < rank; ++k) sum += at(b, row, k) * at(a, k, col);
      const std::int64_t index = transposed_ ? col * outputs + row : row * inputs + col;
      weight.values[static_cast<std::size_t>(index)] += static_cast<float>(scale_ * sum);
    }
  }
}

}  // namespace plumbline::training
