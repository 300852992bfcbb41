#include "bench/convert/layout.hpp"

#include <algorithm>
#include <utility>

namespace plumbline::convert {

TensorBuilder::TensorBuilder(std::string name, std::int64_t cols, std::string also) {
  tensor_.name = std::move(name);
  tensor_.also = std::move(also);
  tensor_.vector = cols == 0;
  tensor_.cols = std::max<std::int64_t>(cols, 1);
}

TensorBuilder& TensorBuilder::rows(const std::string& of, std::int64_t row, std::int64_t count) {
  tensor_.blocks.push_back({of, row, 0, count, tensor_.cols, tensor_.rows, 0});
  tensor_.rows += count;
  return *this;
}

TensorLayout cut_rows(const TensorLayout& tensor, std::int64_t first, std::int64_t count) {
  TensorLayout cut = tensor;
  cut.rows = count;
  cut.blocks.clear();
  for (Block block : tensor.blocks) {
    const std::int64_t begin = std::max(first, block.at_row);
    const std::int64_t end = std::min(first + count, block.at_row + block.rows);
    if (begin >= end) continue;
    block.row += begin - block.at_row;
    block.rows = end - begin;
    block.at_row = begin - first;
    cut.blocks.push_back(block);
  }
  return cut;
}

TensorLayout cut_cols(const TensorLayout& tensor, std::int64_t first, std::int64_t count) {
  TensorLayout cut = tensor;
  cut.cols = count;
  cut.blocks.clear();
  for (Block block : tensor.blocks) {
    const std::int64_t begin = std::max(first, block.at_col);
    const std::int64_t end = std::min(first + count, block.at_col + block.cols);
    if (begin >= end) continue;
    block.col += begin - block.at_col;
    block.cols = end - begin;
    block.at_col = begin - first;
    cut.blocks.push_back(block);
  }
  return cut;
}

std::vector<Part> parts(bool with_bias) {
  if (with_bias) return {{".weight", false}, {".bias", true}};
  return {{".weight", false}};
}

TensorLayout interleaved_qkv(const ModelConfig& model, const std::string& own, const std::string& name,
                             const Part& part) {
  const std::int64_t d = model.head_dim;
  const std::int64_t queries = model.heads / model.kv_heads * d;
  TensorBuilder tensor(name + part.suffix, part.bias ? 0 : model.hidden);
  for (std::int64_t group = 0; group < model.kv_heads; ++group) {
    tensor.rows(own + "query" + part.suffix, group * queries, queries)
        .rows(own + "key" + part.suffix, group * d, d)
        .rows(own + "value" + part.suffix, group * d, d);
  }
  return tensor.done();
}

}  // namespace plumbline::convert
