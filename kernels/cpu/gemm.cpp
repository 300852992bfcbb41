// Operators::gemm: which of oneDNN and the own products takes a product, and the cache of oneDNN primitives.
#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/matmul.hpp"

namespace plumbline::cpu {
namespace {

dnnl::memory::data_type onednn_type(DType type) {
  return type == DType::fp32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

/// A matrix of `rows` × `cols` as the product sees it; when transposed, memory holds its columns one by one.
dnnl::memory::desc view(std::int64_t rows, std::int64_t cols, std::int64_t stride, bool transposed,
                        DType type) {
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {{rows, cols}, onednn_type(type), strides};
}

/// A one-row matrix has no stride; giving each its tightest keeps them on oneDNN's fast path.
std::int64_t row_stride(const Matrix& x) {
  return x.rows == 1 ? x.cols : x.stride;
}

}  // namespace

std::size_t MatmulCache::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = 0;
  const auto mix = [&hash](std::int64_t value) { hash = mix_word(hash, static_cast<std::uint64_t>(value)); };
  for (const std::int64_t value : {key.m, key.n, key.k, key.a_stride, key.b_stride, key.c_stride}) mix(value);
  mix(static_cast<int>(key.type) | static_cast<int>(key.c_type) << 4 | key.a_transposed << 8 |
      key.b_transposed << 9 | key.accumulate << 10 | key.bias << 11);
  return hash;
}

MatmulCache::MatmulCache() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
  // Products with varying rows are made anew, from kernels of the latest of them. One has 0.1 MB, with AMX
  // 0.2 MB: with all of them memory would grow for thousands of steps.
  constexpr int kLatest = 64;
  dnnl::set_primitive_cache_capacity(kLatest);
}

const MatmulCache::Entry& MatmulCache::kept(const Key& key) {
  auto found = entries_.find(key);
  if (found == entries_.end()) found = entries_.emplace(key, make(key)).first;
  return found->second;
}

MatmulCache::Entry MatmulCache::make(const Key& key) const {
  const dnnl::memory::desc a = view(key.m, key.k, key.a_stride, key.a_transposed, key.type);
  const dnnl::memory::desc b = view(key.k, key.n, key.b_stride, key.b_transposed, key.type);
  const dnnl::memory::desc c = view(key.m, key.n, key.c_stride, false, key.c_type);
  const dnnl::memory::desc bias = key.bias ? view(1, key.n, key.n, false, key.type) : dnnl::memory::desc();
  dnnl::primitive_attr attributes;
  if (key.accumulate) {
    dnnl::post_ops add_to_c;
    add_to_c.append_sum(1.0F);
    attributes.set_post_ops(add_to_c);
  }
  const dnnl::matmul::desc operation =
      key.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  Entry entry;
  entry.primitive = dnnl::matmul(dnnl::matmul::primitive_desc(operation, attributes, engine_));
  entry.a = dnnl::memory(a, engine_, nullptr);
  entry.b = dnnl::memory(b, engine_, nullptr);
  entry.c = dnnl::memory(c, engine_, nullptr);
  entry.arguments = {{DNNL_ARG_SRC, entry.a}, {DNNL_ARG_WEIGHTS, entry.b}, {DNNL_ARG_DST, entry.c}};
  if (key.bias) {
    entry.bias = dnnl::memory(bias, engine_, nullptr);
    entry.arguments.emplace(DNNL_ARG_BIAS, entry.bias);
  }
  return entry;
}

void MatmulCache::run(const Gemm& gemm) {
  const bool bias = gemm.bias.data != nullptr;
  const Key key{gemm.c.rows,        gemm.c.cols,        gemm.a_transposed ? gemm.a.rows : gemm.a.cols,
                row_stride(gemm.a), row_stride(gemm.b), row_stride(gemm.c),
                gemm.a.dtype,       gemm.c.dtype,       gemm.a_transposed,
                gemm.b_transposed,  gemm.accumulate,    bias};
  try {
    std::optional<Entry> passing;
    const Entry& entry = gemm.rows_vary ? passing.emplace(make(key)) : kept(key);
    entry.a.set_data_handle(gemm.a.data);
    entry.b.set_data_handle(gemm.b.data);
    entry.c.set_data_handle(gemm.c.data);
    if (bias) entry.bias.set_data_handle(gemm.bias.data);
    entry.primitive.execute(stream_, entry.arguments);
    stream_.wait();
  } catch (const dnnl::error& error) {
    throw Error(fmt::format("gemm: oneDNN failed at {}x{}x{} {}: {}", key.m, key.n, key.k, name_of(key.type),
                            error.what()));
  }
}

bool MatmulCache::has_bf16() {
  if (!has_bf16_) {
    try {
      make({1, 1, 1, 1, 1, 1, DType::bf16, DType::bf16, false, false, false, false});
      has_bf16_ = true;
    } catch (const dnnl::error&) {
      has_bf16_ = false;
    }
  }
  return *has_bf16_;
}

void CpuOperators::gemm(const Gemm& gemm) {
  product(gemm);
  if (gemm.bias_gradient.data != nullptr) bias_backward(gemm.a, gemm.bias_gradient);
}

void CpuOperators::product(const Gemm& gemm) {
  if (gemm.c.empty()) return;
  if (gemm.a.empty()) {  // k = 0: an empty sum
    if (!gemm.accumulate) fill(gemm.c, 0);
    return;
  }
  if (is_fp8(gemm.a.dtype)) return fp8_gemm(gemm);
  multiply_matrices(gemm);
}

void CpuOperators::multiply_matrices(const Gemm& gemm) {
  // oneDNN multiplies bf16 with AVX-512, and fp16 on few processors and in few versions.
  if (gemm.a.dtype == DType::fp16 || !matmul_.has_bf16()) {
    if (PackedGemm::suits(gemm) && PackedGemm::is_fast()) return packed_.run(gemm);
    if (gemm.a.dtype != DType::fp32) return widened_gemm(gemm);
  }
  const std::int64_t k = gemm.a_transposed ? gemm.a.rows : gemm.a.cols;
  if (gemm.a.dtype == DType::bf16 && k % 2 != 0) return even_gemm(gemm);
  matmul_.run(gemm);
}

void CpuOperators::even_gemm(const Gemm& gemm) {
  const auto padded = [&](std::size_t slot, const Matrix& x, bool by_rows) {
    const Matrix even = buffer(slot, by_rows ? x.rows + 1 : x.rows, by_rows ? x.cols : x.cols + 1, x.dtype);
    fill(by_rows ? even.row_range(x.rows, 1) : even.columns(x.cols, 1), 0);
    copy(x, by_rows ? even.row_range(0, x.rows) : even.columns(0, x.cols));
    return even;
  };
  Gemm even = gemm;
  even.a = padded(4, gemm.a, gemm.a_transposed);
  even.b = padded(5, gemm.b, !gemm.b_transposed);
  matmul_.run(even);
}

Matrix CpuOperators::buffer(std::size_t slot, std::int64_t rows, std::int64_t cols, DType type) {
  const auto floats = static_cast<std::size_t>((rows * cols * size_of(type) + 3) / 4);
  if (buffers_[slot].size() < floats) buffers_[slot].resize(floats);
  return {buffers_[slot].data(), rows, cols, type};
}

void CpuOperators::widened_gemm(const Gemm& gemm) {
  const auto widened = [&](std::size_t slot, const Matrix& x, bool filled) {
    if (x.data == nullptr || x.dtype == DType::fp32) return x;
    const Matrix wide = buffer(slot, x.rows, x.cols, DType::fp32);
    if (filled) copy(x, wide);
    return wide;
  };
  Gemm wide = gemm;
  wide.a = widened(0, gemm.a, true);
  wide.b = widened(1, gemm.b, true);
  wide.c = widened(2, gemm.c, gemm.accumulate);
  wide.bias = widened(3, gemm.bias, true);
  matmul_.run(wide);
  if (gemm.c.dtype != DType::fp32) copy(wide.c, gemm.c);
}

}  // namespace plumbline::cpu
