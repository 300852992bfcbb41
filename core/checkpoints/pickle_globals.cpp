// Names that a checkpoint's pickle may have.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/checkpoints/pickle.hpp"

namespace plumbline {
namespace {

/// "module name", or "module." for all names below it.
constexpr std::string_view kAllowedGlobals[] = {
    "_codecs encode",
    "_io BytesIO",
    "argparse Namespace",
    "builtins bytearray",
    "builtins getattr",  // members of enumerations, as Python 3.11 writes them
    "builtins set",
    "__builtin__ bytearray",
    "__builtin__ set",
    "collections OrderedDict",
    "megatron.",
    "numpy dtype",
    "numpy ndarray",
    "numpy.core.multiarray _reconstruct",
    "numpy.core.multiarray scalar",
    "numpy._core.multiarray _reconstruct",
    "numpy._core.multiarray scalar",
    "pathlib PosixPath",
    "pathlib._local PosixPath",
    "signal Signals",
    "torch Size",
    "torch bfloat16",
    "torch bool",
    "torch float16",
    "torch float32",
    "torch float64",
    "torch float8_e4m3fn",
    "torch float8_e5m2",
    "torch int16",
    "torch int32",
    "torch int64",
    "torch int8",
    "torch uint8",
    "torch BFloat16Storage",
    "torch BoolStorage",
    "torch ByteStorage",
    "torch CharStorage",
    "torch DoubleStorage",
    "torch FloatStorage",
    "torch HalfStorage",
    "torch IntStorage",
    "torch LongStorage",
    "torch ShortStorage",
    "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_tensor_v2",
    // The .metadata of torch.distributed.checkpoint: the places of stored tensors, and, in some versions of
    // Megatron, their writers.
    "torch.distributed._shard.sharded_tensor.metadata MEM_FORMAT_ENCODING",
    "torch.distributed._shard.sharded_tensor.metadata TensorProperties",
    "torch.distributed.checkpoint.filesystem _StorageInfo",
    "torch.distributed.checkpoint.filesystem _StoragePrefix",
    "torch.distributed.checkpoint.metadata BytesStorageMetadata",
    "torch.distributed.checkpoint.metadata ChunkStorageMetadata",
    "torch.distributed.checkpoint.metadata Metadata",
    "torch.distributed.checkpoint.metadata MetadataIndex",
    "torch.distributed.checkpoint.metadata StorageMeta",
    "torch.distributed.checkpoint.metadata TensorProperties",
    "torch.distributed.checkpoint.metadata TensorStorageMetadata",
    "torch.distributed.checkpoint.metadata _MEM_FORMAT_ENCODING",
    "torch.distributed.checkpoint.planner BytesIOWriteData",
    "torch.distributed.checkpoint.planner SavePlan",
    "torch.distributed.checkpoint.planner TensorWriteData",
    "torch.distributed.checkpoint.planner WriteItem",
    "torch.distributed.checkpoint.planner WriteItemType",
    "torch.serialization _get_layout",
    "torch.storage UntypedStorage",
};

}  // namespace

bool is_allowed_global(std::string_view global) {
  return std::any_of(std::begin(kAllowedGlobals), std::end(kAllowedGlobals), [&](std::string_view allowed) {
    return allowed.ends_with('.') ? global.starts_with(allowed) : global == allowed;
  });
}

}  // namespace plumbline
