#include "analysis/work/frameworks/framework_mamba.hpp"

namespace plumbline {

void MambaCalls::kernel(const char* name, double bytes, StreamRate rate) {
  // Per element of the mixer, of which a token has `inner`.
  calls_.scanned(name, s_.stream.tokens * mamba_.inner(), bytes / static_cast<double>(mamba_.inner()), rate);
}

/// Context parallelism: every rank gets whole sequences of its part of the heads (mamba_context_parallel.py).
void MambaCalls::exchange(std::int64_t width) {
  calls_.context_exchange(s_.stream.tokens * width);
}

/// Tokens stand before sequences outside of the mixer: a copy if there are several.
void MambaCalls::transpose(std::int64_t width) {
  if (s_.stream.batch > 1) calls_.stream("transpose", s_.stream.tokens * width, 4);
}

double MambaCalls::states() const {
  return 4.0 * static_cast<double>(mamba_.inner() * mamba_.state) / static_cast<double>(mamba_.chunk);
}
double MambaCalls::grouped() const {
  return 2.0 * static_cast<double>(mamba_.groups * mamba_.state);
}
double MambaCalls::chunk_products() const {
  return 4.0 * static_cast<double>(mamba_.groups * mamba_.chunk);
}

void MambaCalls::forward() {
  const auto inner = 2.0 * static_cast<double>(mamba_.inner());  // bytes of a token in 16 bits
  const auto steps = 8.0 * static_cast<double>(mamba_.heads);    // of step sizes and their sums in fp32
  calls_.linear("mamba in", GemmPass::forward, mamba_.projected(), s_.stream.hidden);
  exchange(mamba_.projected());
  transpose(mamba_.projected());
  kernel("convolution", 4.0 * static_cast<double>(mamba_.convolved()), StreamRate::convolution);
  kernel("mamba steps", 1.25 * steps);
  kernel("mamba states", inner + grouped() + steps + states());
  kernel("mamba state passing", 1.5 * states());
  kernel("mamba chunk products", 2 * grouped() + chunk_products());
  // Reads chunks' products, x, C, gates and states in 16 bits; writes the result with gate and without.
  kernel("mamba scan", chunk_products() + 4 * inner + grouped() + states() / 2 + steps);
  transpose(mamba_.inner());
  exchange(mamba_.inner());
  kernel("mamba norm", 2 * inner, StreamRate::memory);
  calls_.linear("mamba out", GemmPass::forward, s_.stream.hidden, mamba_.inner());
}

/// The convolution, step sizes, states and chunks' products are computed again.
void MambaCalls::backward_input() {
  const auto inner = 2.0 * static_cast<double>(mamba_.inner());
  const auto steps = 8.0 * static_cast<double>(mamba_.heads);
  const auto convolved = 2.0 * static_cast<double>(mamba_.convolved());
  calls_.linear("mamba out", GemmPass::input_gradient, s_.stream.hidden, mamba_.inner());
  kernel("mamba norm backward", 3 * inner, StreamRate::memory);
  exchange(mamba_.inner());
  transpose(mamba_.inner());
  kernel("convolution", 2 * convolved, StreamRate::convolution);
  kernel("mamba steps", 1.75 * steps);
  kernel("mamba chunk products", 2 * grouped() + chunk_products());
  kernel("mamba states", inner + grouped() + steps + states());
  kernel("mamba state passing", 2 * states());
  kernel("mamba gate backward", 6 * inner);
  kernel("mamba states backward", grouped() + inner + steps + states());
  kernel("mamba state passing backward", 3 * states());
  kernel("mamba scan backward", 3 * inner + chunk_products() + grouped() + steps + states() / 2);
  kernel("mamba B backward", inner + 3 * grouped() + steps + states() / 2);
  kernel("mamba C backward", inner + 3 * grouped() + steps + states() / 2);
  kernel("mamba chunk products backward", 2 * inner + 3 * chunk_products() + 10 * grouped() + steps);
  kernel("mamba steps backward", 2 * inner + chunk_products() + 8 * steps);
  kernel("convolution backward", 3 * convolved, StreamRate::convolution);
  transpose(mamba_.projected());
  exchange(mamba_.projected());
  calls_.linear("mamba in", GemmPass::input_gradient, mamba_.projected(), s_.stream.hidden);
}

void MambaCalls::backward_weight() {
  calls_.linear("mamba out", GemmPass::weight_gradient, s_.stream.hidden, mamba_.inner());
  calls_.linear("mamba in", GemmPass::weight_gradient, mamba_.projected(), s_.stream.hidden);
}

}  // namespace plumbline
