// Moves parameters between a rank's memory and whole tensors under Hugging Face names: fresh random values,
// loading a checkpoint into any split, and gathering a split model again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/training/stage/rank_stages.hpp"

namespace plumbline::training {

/// Writes the elements of one slice to `out`, rows `stride` apart, in (out, in) orientation.
using SliceReader =
    std::function<void(const Parameter& parameter, const Slice& slice, float* out, std::int64_t stride)>;

/// Normal weights of standard deviation `std_dev`, norms 1, biases 0; large slices by `threads` threads, 0:
/// one per processor of this process. An element's value depends only on the seed, its tensor's name and its
/// place in that tensor, so every split of a model starts equal. Counter-based random numbers: Philox 4x32
/// (Salmon et al. 2011, doi:10.1145/2063384.2063405) through Random123.
SliceReader random_weights(std::uint64_t seed, double std_dev, int threads = 0);

/// Parameters of LoRA's adapters by `adapters`, others by `base`.
SliceReader with_adapters(SliceReader base, SliceReader adapters);
/// The adapters that PEFT saved in the folder `lora_weights`. Throws InputError as checkpoint_weights and
/// check_adapter_config, when a tensor is not used, and when linear layers that share an A here (`frozen`
/// lora) have different ones.
SliceReader adapter_weights(const RunConfig& config);
/// The parameters that a run starts from: of its files, or random ones.
SliceReader initial_weights(const RunConfig& config);

/// A checkpoint folder of Hugging Face or Megatron, of any split, or a safetensors file. Throws InputError
/// when a tensor is missing or has another shape.
SliceReader checkpoint_weights(const std::string& path, const ModelConfig& model);

/// Fills the parameters (and master weights); padding is zero. Collective over the data ranks.
void load_weights(RankStages& stages, const SliceReader& reader);
/// The same for the teacher, which must be there.
void load_teacher_weights(RankStages& stages, const SliceReader& reader);
/// The same for a model that is only evaluated, or generates.
void load_weights(const RankResources& model, const SliceReader& reader);

/// A whole tensor under its Hugging Face name, row-major in the checkpoint's own orientation.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// Shape of the slice's whole tensor as the checkpoint stores it.
std::vector<std::int64_t> checkpoint_shape(const Slice& slice);

/// trained: values of parameters that have gradients.
enum class Gathered { values, gradients, trained };

/// Assembles the slices and pieces of one replica, tensor by tensor in model order, and passes each to `sink`
/// on world rank 0. The parts of a vocabulary that is split over all ranks come first. Collective over the
/// world; the other ranks' sinks are not called.
void gather_weights(RankStages& stages, Gathered what, const std::function<void(NamedTensor&&)>& sink);

}  // namespace plumbline::training
