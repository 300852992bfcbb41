// Small models and one gathered training step: common helpers of the training step's tests.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/work/routing/routed_rows.hpp"
#include "bench/training/trainer/trainer.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/config/run_config.hpp"
#include "core/run/communicator.hpp"

namespace plumbline::training {

/// A Qwen2-type model: RMSNorm, SwiGLU, rotary, grouped queries, QKV bias, tied embeddings.
ModelConfig small_qwen2();
/// A GPT-2-type model: LayerNorm, GELU, learned positions, biases everywhere, tied embeddings.
ModelConfig small_gpt2();
/// An MoE model of seven experts, which no number of rows divides evenly; Mixtral's, or Qwen3's if weights
/// are not normalised.
ModelConfig small_mixture(bool normalized);
/// DeepSeek's layers: the first three dense, latent attention, groups of experts whose scores have a bias, a
/// shared expert without a gate. GLM-4's without latent attention.
ModelConfig small_deepseek(bool latent);

/// Every way of recomputing that the tests go through.
struct Recomputation {
  const char* name;
  Recompute granularity;
  std::int64_t layers;
  RecomputeModules modules = kCoreAttention;
};
constexpr Recomputation kRecomputations[] = {
    {"none", Recompute::none, 1},
    {"selective", Recompute::selective, 1},
    {"full/1", Recompute::full, 1},
    {"full/2", Recompute::full, 2},
    {"layernorm", Recompute::selective, 1, {.layernorm = true}},
    {"block", Recompute::selective, 1, {.mla_up_proj = true, .mlp = true, .moe = true}},
    {"parts",
     Recompute::selective,
     1,
     {.core_attn = true,
      .moe_act = true,
      .layernorm = true,
      .mla_up_proj = true,
      .mlp = true,
      .shared_experts = true}}};
constexpr std::size_t kWithoutModules = 4;  // the first ones name none
/// Applies to an otherwise complete configuration. Modules that it lacks, or does not recompute, are left
/// out; if none are left, core attention is recomputed.
void set_recomputation(RunConfig& config, const Recomputation& recomputation);
/// Whether the compatibility table has no refusal that names recompute_modules.
bool modules_fit(const RunConfig& config);

/// Dropout of the hidden state and of attention.
struct Dropouts {
  const char* name;
  double hidden, attention;
};
constexpr Dropouts kDropouts[] = {{"no dropout", 0, 0}, {"dropout", 0.1, 0.1}};
void set_dropout(RunConfig& config, const Dropouts& dropout);

/// MPI's world.
int world_ranks();
int world_rank();

/// The configuration is valid and its schedule can be planned.
bool is_planned(const RunConfig& config);

/// Every tensor × pipeline × data split of this many ranks into powers of two.
std::vector<Layout> layouts_of(int ranks);
void set_layout(RunConfig& config, const Layout& layout);

/// Values by a tensor's name.
using Tensors = std::map<std::string, std::vector<float>>;
/// All of a safetensors file.
Tensors tensors_of(const std::string& path);

struct StepResult {
  double loss = 0;
  std::vector<double> module_losses;  // of the MTP modules
  double gradient_norm = 0;
  Tensors gradients;                               // whole tensors; on world rank 0 only
  std::vector<MeasuredMemory> memory;              // by world rank, at its peak; on all ranks
  std::vector<std::vector<MemorySample>> samples;  // by pipeline rank and action; on all ranks
  Traffic traffic;                                 // of this rank, in the step's actions
  std::vector<RoutedTokens> routing;               // of MoE layers, in the step; on all ranks
  std::vector<RoutedTokens> teacher_routing;       // the same for a teacher
};

/// Tokens of each of a model's experts in the last step, of all ranks. Collective.
std::vector<RoutedTokens> gather_routing(const std::vector<ExpertLoad>& loads, const ModelConfig& model,
                                         Communicator& communicator);

/// Random weights in which biases are not 0 and norms not 1, so that a mix-up shows.
SliceReader lively_weights(std::uint64_t seed);

/// One step of the configuration's schedule on the CPU, with its checkpoint or else with random weights whose
/// biases and norms are random too. Collective over the world.
StepResult one_step(const RunConfig& config, Communicator& communicator);
StepResult one_step(const RunConfig& config, const Schedule& schedule, Communicator& communicator);
/// The last of this many steps.
StepResult last_step(const RunConfig& config, const Schedule& schedule, int steps,
                     Communicator& communicator);
StepResult last_step(const RunConfig& config, int steps, Communicator& communicator);
/// One step from these weights.
StepResult one_step(const RunConfig& config, const SliceReader& weights, Communicator& communicator);
/// One step with these operators in place of the CPU's; they work on memory of the host.
StepResult one_step(const RunConfig& config, Operators& operators, Communicator& communicator);

/// Per tensor: the largest difference of any element over the reference's largest entry.
std::map<std::string, double> errors_of(const Tensors& reference, const Tensors& found);
/// The largest of these; the worst tensor's name in `worst`.
double largest_error(const Tensors& reference, const Tensors& found, std::string& worst);
/// The same in shares of a tensor's bound: `tolerance`, or `rounding`, by how much the reference's own 16-bit
/// numbers put that tensor off its fp32 value, if that is more.
double largest_share(const Tensors& reference, const Tensors& found, double tolerance,
                     const std::map<std::string, double>& rounding, std::string& worst);

/// Expects no gradient to differ by more than `tolerance` as errors_of() counts, of the tensors that either
/// side has; `what` names the case.
void expect_gradients(const Tensors& reference, const Tensors& found, double tolerance,
                      const std::string& what = "");
/// Expects loss, gradients and their norm to be those of a single rank, up to 1e-5. Where 16-bit numbers
/// round, a logit that is rounded otherwise may choose another expert: only the loss counts, up to `rounded`.
void expect_step(const StepResult& alone, const StepResult& found, bool rounds, double rounded = 1e-2);

/// Expects the same bits of loss, gradients and their norm.
void expect_same_bits(const StepResult& one, const StepResult& other, const std::string& what = "");
/// Bytes of activations, summed over all moments between actions.
std::int64_t kept(const StepResult& step);

/// No figure of any group differs.
bool same(const Traffic& a, const Traffic& b);

}  // namespace plumbline::training
