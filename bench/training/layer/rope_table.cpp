// Rotary tables: cos and sin of position × frequency, with Llama 3.1's frequency scaling.
#include <cmath>
#include <numbers>
#include <vector>

#include "bench/training/parameters/block_positions.hpp"
#include "bench/training/parameters/context.hpp"

namespace plumbline::training {
namespace {

/// Frequency of pair `i` of `width` elements (Su et al. 2021, arXiv:2104.09864, eq. 15), scaled as in Llama
/// 3.1. Long wavelengths are divided by the factor, short ones kept, intermediate ones interpolated.
double frequency(const ModelConfig& model, std::int64_t i, std::int64_t width) {
  const double base =
      std::pow(model.rotary.theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
  const RopeScaling& scaling = model.rotary.scaling;
  if (scaling.factor == 1) return base;
  const double wavelength = 2 * std::numbers::pi / base;
  const double original = static_cast<double>(scaling.original_max_positions);
  if (wavelength > original / scaling.low_freq_factor) return base / scaling.factor;
  if (wavelength < original / scaling.high_freq_factor) return base;
  const double smooth = (original / wavelength - scaling.low_freq_factor) /
                        (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - smooth) * base / scaling.factor + smooth * base;
}

void upload_tables(const TrainingContext& context, const Matrix& cos_table, const Matrix& sin_table) {
  const std::int64_t half = cos_table.cols;
  const SequenceChunks chunks = context.chunks();
  std::vector<float> cos(static_cast<std::size_t>(cos_table.elements()));
  std::vector<float> sin(cos.size());
  // With two positions a token has the first turns half of the pairs, the second the others.
  const bool two = context.model().position.of_blocks;
  const std::int64_t pairs = two ? half / 2 : half;
  for (std::int64_t i = 0; i < half; ++i) {
    const double step = frequency(context.model(), i % pairs, 2 * pairs);
    for (std::int64_t row = 0; row < cos_table.rows; ++row) {
      const BlockPosition at = block_position(row, context.config.batch.prefix_length);
      // Blocks are of whole sequences; conversations take the rows of their positions.
      const bool all = context.config.batch.dynamic_context_parallel;
      const std::int64_t place = all ? row : chunks.position(row);
      const double angle = static_cast<double>(!two ? place : i < pairs ? at.position : at.block) * step;
      cos[static_cast<std::size_t>(row * half + i)] = static_cast<float>(std::cos(angle));
      sin[static_cast<std::size_t>(row * half + i)] = static_cast<float>(std::sin(angle));
    }
  }
  context.operators.upload(cos.data(), cos_table);
  context.operators.upload(sin.data(), sin_table);
}

}  // namespace

SharedBuffers make_shared_buffers(const TrainingContext& context) {
  SharedBuffers shared;
  const ModelConfig& model = context.model();
  if (model.position.kind == Positions::rotary) {
    const BatchConfig& batch = context.config.batch;
    const std::int64_t seq = batch.dynamic_context_parallel ? batch.seq_length : context.chunks().tokens();
    const std::int64_t half = model.rotated() / 2;
    shared.rope_cos = context.make_fp32(Category::workspace, "rotary table", seq, half);
    shared.rope_sin = context.make_fp32(Category::workspace, "rotary table", seq, half);
    // The emulated backend reads no memory.
    if (context.config.machine.backend != Backend::emulated)
      upload_tables(context, shared.rope_cos, shared.rope_sin);
  }
  return shared;
}

}  // namespace plumbline::training
