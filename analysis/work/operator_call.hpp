// One operator call or collective of a training step: what the time model prices.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "analysis/hardware/hardware.hpp"
#include "core/base/units.hpp"
#include "core/parallel/layout.hpp"

namespace plumbline {

/// The bound of a kernel that moves data: the memory, or, of a mixer's kernels, less than the memory gives
/// (ScanRates of analysis/hardware/device.hpp).
enum class StreamRate : std::uint8_t { memory, convolution, recurrence };

/// Reads or writes memory, element by element.
struct StreamCall {
  const char* name = "";         // the operator's in kernels/operators.hpp; a literal
  std::int64_t elements = 0;     // of the largest matrix
  double bytes_per_element = 0;  // read and written, for the roofline
  std::int64_t width = 0;        // of a row; rope: head size
  bool random = false;           // draws a random number per element
  StreamRate rate = StreamRate::memory;
};

/// A product of a linear layer, of operands of the storage type unless said otherwise.
struct GemmCall {
  GemmPass pass = GemmPass::forward;
  std::int64_t tokens = 0;  // rows
  std::int64_t out = 0;     // output width
  std::int64_t in = 0;      // input width
  bool fp8 = false;
  bool block_scaled = false;   // with a scale per 32 elements of the FP8 operands (MXFP8)
  bool fp4 = false;            // NVFP4 operands instead
  bool bias_gradient = false;  // a weight's gradient, and with it that of the bias
  // Only in lists of other frameworks (framework_list.hpp).
  std::int64_t batch = 1;   // equal products in one call
  bool grouped = false;     // they are of the experts of a layer
  bool apart = false;       // a kernel each
  double spread = 0;        // standard deviation of their rows
  double result_bytes = 0;  // per element of the result, twice its size if added to; 0: as plumbline
  double reached = 0;  // experts with tokens, expected: `tokens` rows of all of them, in one grouped product
};

struct AttentionCall {
  bool backward = false;
  bool dropout = false;       // of its probabilities
  bool own_step = false;      // parts of a sequence are attended to by plumbline's own kernels
  bool cudnn = false;         // by cuDNN's kernels
  bool scores_apart = false;  // backward: gradients of all scores go through memory (kernels/cuda/README.md)
  bool unfused = false;       // keeps its probabilities
  bool fp8 = false;           // FP8 operands; only in lists of other frameworks
  double most_share = 0;      // of the peak that its kernels reach at most; 0: no such bound
  std::int64_t queries = 0;   // of a sequence
  std::int64_t head_dim = 0;  // the mean where values have another
  std::int64_t group = 0;     // query heads per key/value head
  std::int64_t heads = 0;     // times sequences
  std::int64_t window = 0;    // keys that a query sees, itself included; 0: all up to itself
  std::int64_t prefix = 0;    // first tokens of a sequence, which all of it sees
  std::int64_t past = 0;      // keys in front of the first query's own
  std::int64_t keys = 0;      // of a sequence, where all of them are in front of the queries
  bool cached = false;        // the keys and values in front of the queries come from a KV cache
  std::int64_t latent = 0;    // elements of a token in a compressed cache, which all heads read; 0: none
};

enum class CallKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  ring_shift,  // each member sends its buffer to the next one
  all_to_all   // each member sends an equal part of its buffer to every other one
};

/// A collective of a group, blocking or asynchronous.
struct CollectiveCall {
  CallKind kind = CallKind::all_reduce;
  Group group = Group::tensor;
  int ranks = 1;  // members of the group
  /// Of the reduced or broadcast buffer, the gathered output, the scattered input.
  std::int64_t elements = 0;
  /// 0: the rank waits until it is done. Otherwise the rank continues, and the collective runs on its group's
  /// lane until a WaitCall with the same number. Numbers belong to one part of an action.
  int ticket = 0;
  bool hands_over = false;  // all_to_all: in an overlapped pair the other action runs meanwhile
  double processors = 0;    // with a ticket: multiprocessors that it holds; 0: as NCCL does
  // Only in lists of other frameworks.
  int stride = 0;  // world ranks between neighbours of the group; 0: as the layout has it
  // all_to_all: for tokens that go once to every rank and node with one of `choices` experts, on at most
  // `most_nodes` nodes.
  std::int64_t choices = 0;
  std::int64_t most_nodes = 0;
  std::int64_t weights = 0;  // bytes of the tokens' weights for all experts, which travel with them
  bool combines = false;     // results come back, and are added up
};

/// Tensors are allocated.
struct AllocationCall {};

/// Adam on the processors of the host, for a rank's states in its memory.
struct HostUpdateCall {
  std::int64_t parameters = 0;
  double copied_bytes = 0;  // of a parameter, between device and host, before and behind it
};

/// Until the collective that was started under the same ticket is done.
struct WaitCall {
  int ticket = 0;
};

/// Launches of a call in another framework, where they matter (analysis/time/host_lane.hpp).
struct HostLaunch {
  bool reads = false;       // the host waits for the device before it launches them
  Seconds before{};         // for operators up to the call's own kernel, its launch included
  double product_s = 0;     // gemm: for each of `batch` products, on any host
  Seconds behind{};         // for operators behind its last kernel
  Seconds python_before{};  // the same for Python besides launches
  Seconds python_behind{};
};

/// One operator call or collective (or `count` equal ones). Names are literals: a list is made often.
struct OperatorCall {
  std::variant<StreamCall, GemmCall, AttentionCall, CollectiveCall, AllocationCall, HostUpdateCall, WaitCall>
      work;
  const char* label = "";    // its purpose, for people; label_of() adds the pass
  DType type = DType::bf16;  // storage type (collectives: of the buffer)
  double share = 1;          // of the call's time that counts: part of it is hidden, or it runs for a part
  std::int64_t count = 1;
  HostLaunch launch{};

  /// nullptr for other work.
  template <class Work>
  const Work* as() const {
    return std::get_if<Work>(&work);
  }
  /// Of work that is known. Throws std::bad_variant_access for other work.
  template <class Work>
  Work& get() {
    return std::get<Work>(work);
  }
  const CollectiveCall* collective() const { return as<CollectiveCall>(); }
  bool is(CallKind kind) const { return collective() != nullptr && collective()->kind == kind; }
  bool among(Group group) const { return collective() != nullptr && collective()->group == group; }
  /// A StreamCall's; else empty.
  std::string_view name() const { return as<StreamCall>() != nullptr ? as<StreamCall>()->name : ""; }
  /// A StreamCall's or CollectiveCall's; else 0.
  std::int64_t elements() const {
    if (const auto* stream = as<StreamCall>()) return stream->elements;
    return collective() != nullptr ? collective()->elements : 0;
  }
  Bytes bytes() const { return {elements() * size_of(type)}; }
};
/// "qkv forward", "fc2 weight_gradient, fp8", "rope".
std::string label_of(const OperatorCall& call);

/// Pairs of a query and a key that it sees, of one head and sequence.
double pairs_of(const AttentionCall& call);

/// Elements of keys and values that a call reads, those of its own queries included.
double read_elements(const AttentionCall& call);

/// FLOPs of one call times its count; 0 for anything but GEMM and attention.
Flops flops_of(const OperatorCall& call);

}  // namespace plumbline
