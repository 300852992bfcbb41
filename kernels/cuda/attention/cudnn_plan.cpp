// Attention graphs through cudnn-frontend. The only file that includes it: it takes more than a minute to
// compile.
#include "kernels/cuda/attention/cudnn_plan.hpp"

#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <unordered_map>

#include "core/base/error.hpp"
#include "kernels/cuda/device/error.hpp"
#include "kernels/score_scale.hpp"

// The library that cudnn-frontend calls into, by its rules a variable of this name.
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace plumbline::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;
using TensorPointer = std::shared_ptr<Tensor_attributes>;

void check(fe::error_t status, const char* call) {  // its message is not const
  if (status.is_bad()) throw Error(fmt::format("cuDNN {}: {}", call, status.get_message()));
}

/// A session with the library, or the properties of a device that is not there.
struct Target {
  cudnnHandle_t handle = nullptr;
  std::shared_ptr<const fe::DeviceProperties> described;
  int compute_capability = 0;

  Target() = default;
  ~Target() {
    if (handle != nullptr) static_cast<void>(fe::detail::destroy_handle(handle));
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
};

class Builder {
 public:
  Builder(const CudnnGraph& wanted, fe::graph::Graph& graph) : wanted_(wanted), graph_(graph) {}

  void build() {
    const TensorPointer q = input(kQ);
    const TensorPointer k = input(kK);
    const TensorPointer v = input(kV);
    const float scale = score_scale(wanted_.head_dim);
    const auto masked = [&](auto options) {
      options.set_name("attention").set_attn_scale(scale);
      options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
      // Aligned at the top left, a bound W on the left keeps the keys j with j + W > i.
      if (wanted_.window > 0) options.set_diagonal_band_left_bound(static_cast<int>(wanted_.window));
      return options;
    };
    if (!wanted_.backward) {
      auto [out, lse] = graph_.sdpa(q, k, v, masked(fe::graph::SDPA_attributes().set_generate_stats(true)));
      output(*out, kOut);
      output(*lse, kLse);
      return;
    }
    const auto options =
        fe::graph::SDPA_backward_attributes().set_deterministic_algorithm(wanted_.deterministic);
    auto [dq, dk, dv] =
        graph_.sdpa_backward(q, k, v, input(kOut), input(kDout), input(kLse), masked(options));
    output(*dq, kDq);
    output(*dk, kDk);
    output(*dv, kDv);
  }

 private:
  Tensor_attributes& lay_out(Tensor_attributes& tensor, Operand which) const {
    tensor.set_uid(which + 1);
    if (which == kLse) {
      return tensor.set_data_type(fe::DataType_t::FLOAT)
          .set_dim({wanted_.sequences, wanted_.heads, wanted_.seq, 1})
          .set_stride({wanted_.heads * wanted_.seq, wanted_.seq, 1, 1});
    }
    const bool shared = which == kK || which == kV || which == kDk || which == kDv;
    const std::int64_t row = wanted_.strides[which];
    const std::int64_t width = of_values(which) ? wanted_.value_dim : wanted_.head_dim;
    return tensor.set_dim({wanted_.sequences, shared ? wanted_.kv_heads : wanted_.heads, wanted_.seq, width})
        .set_stride({wanted_.seq * row, width, row, 1});
  }
  TensorPointer input(Operand which) {
    Tensor_attributes tensor;
    return graph_.tensor(lay_out(tensor, which));
  }
  void output(Tensor_attributes& tensor, Operand which) const { lay_out(tensor, which).set_output(true); }

  const CudnnGraph& wanted_;
  fe::graph::Graph& graph_;
};

class Plan final : public CudnnPlan {
 public:
  Plan(std::shared_ptr<Target> target, const CudnnGraph& wanted)
      : target_(std::move(target)), count_(wanted.backward ? kOperands : kLse + 1) {
    graph_.set_io_data_type(wanted.type == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT)
        .set_sm_version(target_->compute_capability);
    Builder(wanted, graph_).build();
    if (target_->described) graph_.set_device_properties(target_->described);
    check(graph_.validate(), "validate");
    check(graph_.build_operation_graph(target_->handle), "build_operation_graph");
    check(graph_.create_execution_plans({fe::HeurMode_t::A}), "create_execution_plans");
    check(graph_.check_support(), "check_support");
    check(graph_.build_plans(), "build_plans");
    check(graph_.get_workspace_size(workspace_), "get_workspace_size");
  }

  std::int64_t workspace() const override { return workspace_; }

  void run(const std::array<void*, kOperands>& pointers, void* workspace) override {
    std::unordered_map<std::int64_t, void*> by_uid;
    for (int i = 0; i < count_; ++i) by_uid.emplace(i + 1, pointers[static_cast<std::size_t>(i)]);
    check(graph_.execute(target_->handle, by_uid, workspace), "execute");
  }

 private:
  std::shared_ptr<Target> target_;
  int count_;
  fe::graph::Graph graph_;
  std::int64_t workspace_ = 0;
};

class Library final : public Cudnn {
 public:
  explicit Library(std::shared_ptr<Target> target) : target_(std::move(target)) {}

  std::unique_ptr<CudnnPlan> plan(const CudnnGraph& graph, std::string* why) override {
    try {
      return std::make_unique<Plan>(target_, graph);
    } catch (const std::exception& refusal) {
      if (why != nullptr) *why = refusal.what();
      return nullptr;
    }
  }
  std::string version() const override {
    const std::size_t number = fe::detail::get_backend_version();
    return fmt::format("cuDNN {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  }

 private:
  std::shared_ptr<Target> target_;
};

template <class Prepare>
std::unique_ptr<Cudnn> open(std::string* why, Prepare&& prepare) {
  try {
    if (fe::cudnn_dlhandle == nullptr) fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW);
    if (fe::cudnn_dlhandle == nullptr) throw Error(dlerror());
    auto target = std::make_shared<Target>();
    prepare(*target);
    return std::make_unique<Library>(std::move(target));
  } catch (const std::exception& failure) {
    if (why != nullptr) *why = failure.what();
    return nullptr;
  }
}

}  // namespace

std::unique_ptr<Cudnn> open_cudnn(int device, void* stream, std::string* why) {
  return open(why, [&](Target& target) {
    int major = 0;
    int minor = 0;
    PLUMBLINE_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    PLUMBLINE_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    target.compute_capability = 10 * major + minor;
    if (fe::detail::create_handle(&target.handle) != CUDNN_STATUS_SUCCESS ||
        fe::detail::set_stream(target.handle, static_cast<cudaStream_t>(stream)) != CUDNN_STATUS_SUCCESS) {
      throw Error("cuDNN: no handle on device " + std::to_string(device));
    }
  });
}

std::unique_ptr<Cudnn> describe_cudnn(std::string_view device, int compute_capability, std::string* why) {
  return open(why, [&](Target& target) {
    auto properties = std::make_shared<fe::DeviceProperties>();
    check(properties->deserialize({device.begin(), device.end()}), "device properties");
    target.described = std::move(properties);
    target.compute_capability = compute_capability;
  });
}

}  // namespace plumbline::cuda
