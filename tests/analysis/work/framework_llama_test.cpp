// Llama as torchtitan writes it: products in parts, complex rotation, copied heads, what runs again.
#include "tests/analysis/work/framework_runs.hpp"
namespace plumbline::framework_llama_test {
namespace {

using namespace frameworks;

struct Layer {
  double projections = 0;         // calls of qkv and fc1
  double rotation = 0, norm = 0;  // bytes per element
  double copied = 0;              // bytes per token, of heads
  double added = 0;               // bytes per element, of input gradients
};

double bytes_of(const std::vector<OperatorCall>& calls, const char* name) {
  for (const OperatorCall& call : calls) {
    if (const auto* stream = call.as<StreamCall>(); stream != nullptr && call.name() == name)
      return stream->bytes_per_element;
  }
  return 0;
}

Layer layer_of(const StageShape& shape, LayerPass pass) {
  UnitWork work;
  framework_layer(shape, pass, 0, false, work);
  Layer found;
  const bool forward = pass == LayerPass::forward;
  for (const OperatorCall& call : work.calls) {
    if (call.as<GemmCall>() != nullptr &&
        (std::string_view(call.label) == "qkv" || std::string_view(call.label) == "fc1"))
      ++found.projections;
    if (call.name() == "repeat heads")
      found.copied = static_cast<double>(2 * call.elements()) / static_cast<double>(shape.stream.tokens);
    if (call.name() == "add gradients of inputs") found.added += call.as<StreamCall>()->bytes_per_element;
  }
  found.rotation = bytes_of(work.calls, "rope");
  found.norm = bytes_of(work.calls, forward ? "norm" : "norm backward");
  return found;
}

RunConfig with_sequences(const char* software, int tensor) {
  RunConfig config = llama(software, tensor, 1);
  config.parallel.sequence_parallel = tensor > 1;
  config.parallel.dp.zero_stage = 3;
  return config;
}

TEST(FrameworkLlama, ComputesInPartsWhatOthersJoin) {
  struct Case {
    const char* software;
    int tensor;
    Layer forward, backward;
  };
  const double copied = 2 * (2 * 4096 + 2 * 1024);
  for (const Case& c : {Case{"torchtitan", 1, {5, 20, 36, copied, 0}, {5, 20, 92, copied, 12 + 6}},
                        Case{"torchtitan-compile", 1, {5, 20, 4, copied, 0}, {5, 20, 10, copied, 4 + 2}},
                        Case{"torchtitan-2025", 4, {5, 20, 4, copied / 4, 0}, {5, 20, 10, copied / 4, 8 + 6}},
                        Case{"llm-foundry", 1, {2, 12, 4, 0, 0}, {2, 12, 10, 0, 0}}}) {
    const StageShape shape = first_shape(with_sequences(c.software, c.tensor));
    for (const LayerPass pass : {LayerPass::forward, LayerPass::backward_input}) {
      const Layer expected = pass == LayerPass::forward ? c.forward : c.backward;
      const Layer found = layer_of(shape, pass);
      EXPECT_EQ(found.projections, expected.projections) << c.software;
      EXPECT_EQ(found.rotation, expected.rotation) << c.software;
      EXPECT_EQ(found.norm, expected.norm) << c.software;
      EXPECT_EQ(found.copied, expected.copied) << c.software;
      EXPECT_EQ(found.added, expected.added) << c.software;
    }
  }
}

/// Elements that a layer's forward sends around the ring.
std::int64_t sent_around(const RunConfig& config) {
  UnitWork work;
  framework_layer(first_shape(config), LayerPass::forward, 0, false, work);
  std::int64_t sent = 0;
  for (const OperatorCall& call : work.calls) sent += call.is(CallKind::ring_shift) ? call.elements() : 0;
  return sent;
}

TEST(FrameworkLlama, IsOnlyTorchtitansOwn) {
  RunConfig config = with_sequences("torchtitan", 1);
  config.model.norms.qk = true;
  EXPECT_EQ(layer_of(first_shape(config), LayerPass::forward).rotation, 12) << "Qwen3 has no complex numbers";
  config.parallel.context = 2;
  EXPECT_EQ(sent_around(config), 2048 * (1024 + 1024)) << "keys and values of half of the tokens";
  config.model.norms.qk = false;
  EXPECT_EQ(sent_around(config), 2048 * (4096 + 4096)) << "copied for every query head";
  config = with_sequences("torchtitan", 1);
  config.model.activation = Activation::gelu;
  EXPECT_EQ(layer_of(first_shape(config), LayerPass::forward).projections, 2);
}

// Selective recomputation keeps queries, values, gate and the second product; a kept scattered sum spares the
// projection in compiled code. Full recomputation ends at the second product's input.
TEST(FrameworkLlama, RunsAgainWhatIsNotKept) {
  struct Case {
    const char* software;
    int tensor;
    Recompute granularity;
    double weights;  // of the products that run again, of all ranks
    int gathers, sums;
  };
  const double k = 4096 * 1024, o = 4096 * 4096, up = 4096 * 14336;
  for (const Case& c : {Case{"torchtitan", 1, Recompute::selective, k + o + up, 0, 0},
                        Case{"torchtitan", 4, Recompute::selective, k + o + up, 2, 0},
                        Case{"torchtitan-compile", 4, Recompute::selective, k + up, 2, 0},
                        Case{"torchtitan-compile", 4, Recompute::full, 2 * (k + o + up), 2, 1},
                        Case{"llm-foundry", 4, Recompute::full, 2 * (k + o) + 3 * up, 2, 2}}) {
    RunConfig config = with_sequences(c.software, c.tensor);
    config.recompute.granularity = c.granularity;
    UnitWork work;
    framework_recomputation(first_shape(config), 0, work);
    double weights = 0;
    int gathers = 0, sums = 0;
    for (const OperatorCall& call : work.calls) {
      if (const auto* product = call.as<GemmCall>())
        weights += call.share * static_cast<double>(product->out * product->in * c.tensor);
      if (call.is(CallKind::all_gather)) gathers += static_cast<int>(call.count);
      if (call.is(CallKind::reduce_scatter)) sums += static_cast<int>(call.count);
    }
    EXPECT_EQ(weights, c.weights) << c.software << c.tensor;
    EXPECT_EQ(gathers, c.gathers) << c.software << c.tensor;
    EXPECT_EQ(sums, c.sums) << c.software << c.tensor;
  }
}

}  // namespace
}  // namespace plumbline::framework_llama_test
