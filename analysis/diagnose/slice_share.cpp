#include "analysis/diagnose/slice_share.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <initializer_list>
#include <string>
#include <vector>

namespace plumbline {
namespace {

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [text](std::string_view part) { return text.find(part) != text.npos; });
}

bool is_any(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

bool is_attention(std::string_view name) {
  return has_any(name, {"scaled_dot_product", "flash", "fmha", "_efficient_attention", "FlexAttention",
                        "flex_attention", "FusedAttn", "AttnFunc", "attn_fwd", "attn_bwd"});
}

std::string lower(std::string_view text) {
  std::string copy(text);
  std::transform(copy.begin(), copy.end(), copy.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return copy;
}

/// Words of a group's description: "mesh_dp_shard" has three.
std::vector<std::string> words_of_group(std::string_view description) {
  std::vector<std::string> words(1);
  for (const char c : lower(description.substr(0, 200))) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

TimeShare share_of_description(std::string_view description) {
  bool tensor = false;
  bool pipeline = false;
  bool data = false;
  for (const std::string& word : words_of_group(description)) {
    data |= is_any(word, {"dp", "data", "ddp", "fsdp", "hsdp", "shard", "replicate", "zero", "embedding"});
    pipeline |= is_any(word, {"pp", "pipeline", "pipe"});
    tensor |=
        is_any(word, {"tp", "tensor", "cp", "context", "ep", "expert", "sp", "sequence", "etp", "model"});
  }
  return data       ? TimeShare::data
         : pipeline ? TimeShare::pipeline
         : tensor   ? TimeShare::tensor
                    : TimeShare::unknown;
}

/// First two members of a list such as "[0, 2, 4]"; the stride is their difference. 0: not known.
int stride_of(std::string_view ranks) {
  std::array<int, 2> first{};
  std::size_t found = 0;
  for (std::size_t i = 0; i < ranks.size() && found < 2;) {
    int value = 0;
    const auto [end, error] = std::from_chars(ranks.data() + i, ranks.data() + ranks.size(), value);
    if (error == std::errc()) {
      first[found++] = value;
      i = static_cast<std::size_t>(end - ranks.data());
    } else {
      ++i;
    }
  }
  return found == 2 ? first[1] - first[0] : 0;
}

/// Share by the place of ranks: tensor-parallel ranks are neighbours, pipeline stages are farthest apart.
TimeShare share_of_place(const TracedMessage& message, std::string_view ranks, const GroupSizes& sizes) {
  const auto size = message.group_size;
  const int stride = stride_of(ranks);
  if (sizes.tensor == 0 || size < 2) return TimeShare::unknown;
  const int inner = sizes.tensor * std::max(1, sizes.context);
  const bool inside = sizes.tensor > 1 ? (size == sizes.tensor || size == inner) && stride == 1
                                       : sizes.context > 1 && size == sizes.context && stride == 1;
  if (inside) return TimeShare::tensor;
  const int stages = std::max(1, sizes.pipeline);
  const int data = std::max(1, sizes.data);
  if (stages > 1 && size == stages && (stride == inner * data || stride == 0)) return TimeShare::pipeline;
  if (data > 1 && (size == data || size == std::int64_t{data} * std::max(1, sizes.context)))
    return TimeShare::data;
  return TimeShare::unknown;
}

}  // namespace

bool is_communication(std::string_view name) {
  return name.starts_with("nccl") || name.starts_with("gloo:") || name.starts_with("c10d::") ||
         name.starts_with("_c10d_functional::") || name.starts_with("c10d_functional::") ||
         name == "record_param_comms" ||
         has_any(name, {"ncclKernel", "ncclDevKernel", "rccl", "nvshmem", "mscclpp",
                        "hccl:", "cross_device_reduce", "deep_ep"});
}

std::optional<TimeShare> share_of_host(std::string_view name, SliceKind kind) {
  if (kind == SliceKind::garbage) return TimeShare::garbage;
  if (kind == SliceKind::annotation) {
    if (name.starts_with("Optimizer.step#")) return TimeShare::optimizer;
    if (name.starts_with("enumerate(DataLoader)") ||
        has_any(name, {"DataLoaderIter.__next__", "dataloader_next"}))
      return TimeShare::loading;
    if (name.starts_with("Python GC") || name.starts_with("gc.collect")) return TimeShare::garbage;
    return std::nullopt;
  }
  if (kind != SliceKind::op) return std::nullopt;
  if (name.starts_with("Optimizer.step#")) return TimeShare::optimizer;
  if (name.starts_with("enumerate(DataLoader)")) return TimeShare::loading;
  if (name.starts_with("ProfilerStep")) return std::nullopt;
  if (is_attention(name)) return TimeShare::attention;
  if (is_any(name, {"aten::mm",
                    "aten::addmm",
                    "aten::bmm",
                    "aten::baddbmm",
                    "aten::matmul",
                    "aten::linear",
                    "aten::mv",
                    "aten::addmv",
                    "aten::addbmm",
                    "aten::_scaled_mm",
                    "aten::_grouped_mm",
                    "aten::_scaled_grouped_mm",
                    "aten::convolution",
                    "aten::_convolution",
                    "aten::conv2d",
                    "aten::convolution_backward",
                    "aten::mkldnn_convolution",
                    "aten::cudnn_convolution",
                    "aten::mkldnn_linear",
                    "aten::_addmm_activation"}))
    return TimeShare::product;
  return TimeShare::other;
}

TimeShare share_of_kernel(std::string_view kernel, std::optional<TimeShare> launched_by) {
  if (launched_by == TimeShare::optimizer) return TimeShare::optimizer;
  const bool attention =
      is_attention(kernel) || has_any(kernel, {"attention", "Attention", "softmax_fp32_mha"});
  if (attention || launched_by == TimeShare::attention) return TimeShare::attention;
  std::string name = lower(kernel.substr(0, 300));
  if (const std::size_t library = name.find("fbgemm"); library != std::string::npos)
    name.replace(library, std::string_view("fbgemm").size(), "fb");
  if (has_any(name, {"gemm", "cijk_", "nvjet", "xmma", "cutlass", "wgrad", "dgrad", "splitkreduce",
                     "convolve", "implicit_con", "winograd", "matmul", "_mm_", "conv2d"}))
    return TimeShare::product;
  if (launched_by == TimeShare::product && !has_any(name, {"elementwise", "copy", "reduce_kernel"}))
    return TimeShare::product;
  if (has_any(name, {"adam", "optimizer", "multi_tensor_apply"}) && !has_any(name, {"l2norm", "scale"}))
    return TimeShare::optimizer;
  return TimeShare::other;
}

bool is_point_to_point(std::string_view name, std::string_view collective) {
  if (!collective.empty()) {
    const std::string kind = lower(collective);
    return has_any(kind, {"send", "recv", "coalesced_p2p", "isend"}) && !has_any(kind, {"all"});
  }
  return has_any(name, {"SendRecv", ":send", ":recv", "::send", "::recv", "nccl:coalesced"});
}

TimeShare share_of_message(const ProfileTrace& trace, std::string_view name, const TracedMessage* message,
                           const GroupSizes& sizes) {
  const std::string_view collective = message != nullptr ? trace.text(message->collective) : "";
  if (message != nullptr) {
    const TimeShare described = share_of_description(trace.text(message->description));
    if (described != TimeShare::unknown) return described;
    const TimeShare named = share_of_description(trace.text(message->group));
    if (named != TimeShare::unknown) return named;
    const TimeShare placed = share_of_place(*message, trace.text(message->ranks), sizes);
    if (placed != TimeShare::unknown) return placed;
  }
  if (is_point_to_point(name, collective)) return TimeShare::pipeline;
  const std::string kind = lower(collective.empty() ? name : collective);
  if (has_any(kind, {"alltoall", "all_to_all", "all2all"})) return TimeShare::tensor;
  // Only one group of all ranks: replicas, where nothing else is known.
  return TimeShare::data;
}

bool is_synchronisation(std::string_view name) {
  return has_any(name, {"Synchronize", "aten::item", "_local_scalar_dense"});
}

int bytes_of_dtype(std::string_view dtype) {
  struct Size {
    std::string_view name;
    int bytes;
  };
  constexpr Size kSizes[] = {{"Float", 4}, {"BFloat16", 2}, {"Half", 2},          {"Double", 8},
                             {"Byte", 1},  {"Char", 1},     {"Int", 4},           {"Long", 8},
                             {"Bool", 1},  {"Short", 2},    {"Float8_e4m3fn", 1}, {"Float8_e5m2", 1}};
  for (const Size& size : kSizes) {
    if (size.name == dtype) return size.bytes;
  }
  return 0;
}

}  // namespace plumbline
