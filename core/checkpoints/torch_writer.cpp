#include "core/checkpoints/torch_writer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/checkpoints/pickle.hpp"
#include "core/files/safetensors_header.hpp"

namespace plumbline {
namespace {

// Megatron's version with queries, keys and values group by group. A whole number: PyTorch 1.13 reads no
// other with weights_only.
constexpr std::int64_t kCheckpointVersion = 3;
constexpr std::string_view kFolder = "model_optim_rng/";

std::string_view storage_name(StoredType type) {
  switch (type) {
    case StoredType::bf16:
      return "BFloat16Storage";
    case StoredType::fp16:
      return "HalfStorage";
    case StoredType::int32:
      return "IntStorage";
    case StoredType::int64:
      return "LongStorage";
    case StoredType::fp8_e4m3:  // written as bf16
    case StoredType::fp32:
      break;
  }
  return "FloatStorage";
}

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * shape[i - 1];
  return strides;
}

void add_tensor(PickleWriter& pickle, const TorchDictionary::Entry& entry, std::size_t number) {
  pickle.text(entry.name);
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.begin_tuple();
  pickle.begin_tuple();
  pickle.text("storage");
  pickle.global("torch", storage_name(entry.type));
  pickle.text(fmt::format("{}", number));
  pickle.text("cpu");
  pickle.integer(elements_of(entry.shape));
  pickle.end_tuple();
  pickle.persistent();
  pickle.integer(0);
  pickle.integers(entry.shape);
  pickle.integers(strides_of(entry.shape));
  pickle.boolean(false);
  pickle.global("collections", "OrderedDict");
  pickle.integers({});
  pickle.call();
  pickle.end_tuple();
  pickle.call();
}

std::string pickle_of(const std::vector<TorchDictionary>& dictionaries) {
  PickleWriter pickle;
  pickle.begin_dict();
  pickle.text("checkpoint_version");
  pickle.integer(kCheckpointVersion);
  pickle.text("iteration");
  pickle.integer(1);
  std::size_t number = 0;
  for (const TorchDictionary& dictionary : dictionaries) {
    pickle.text(dictionary.key);
    pickle.begin_dict();
    for (const TorchDictionary::Entry& entry : dictionary.tensors) add_tensor(pickle, entry, number++);
    pickle.end_dict();
  }
  pickle.end_dict();
  return pickle.finish();
}

}  // namespace

TorchFileWriter::TorchFileWriter(std::string path, const std::vector<TorchDictionary>& dictionaries)
    : path_(std::move(path)) {
  for (const TorchDictionary& dictionary : dictionaries) {
    for (const TorchDictionary::Entry& entry : dictionary.tensors)
      sizes_.push_back(elements_of(entry.shape) * size_of(entry.type));
  }
  try {
    partial_.emplace(path_);
  } catch (const std::system_error& error) {
    throw OutputError(fmt::format("{}: cannot be written: {}; expected a path in a writable folder", path_,
                                  std::strerror(error.code().value())));
  }
  zip_ = std::make_unique<ZipWriter>(partial_->descriptor(), path_);
  zip_->add(fmt::format("{}data.pkl", kFolder), pickle_of(dictionaries));
  zip_->add(fmt::format("{}byteorder", kFolder), "little");
}

void TorchFileWriter::begin_next() {
  if (next_ == sizes_.size()) throw Error(fmt::format("{}: more bytes than its tensors have", path_));
  left_ = sizes_[next_];
  zip_->begin(fmt::format("{}data/{}", kFolder, next_), left_);
  ++next_;
  if (left_ == 0) zip_->end();
}

void TorchFileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (left_ == 0) begin_next();
    const auto count = std::min(bytes.size(), static_cast<std::size_t>(left_));
    zip_->write(bytes.first(count));
    left_ -= static_cast<std::int64_t>(count);
    if (left_ == 0) zip_->end();
    bytes = bytes.subspan(count);
  }
}

void TorchFileWriter::finish() {
  while (left_ == 0 && next_ < sizes_.size() && sizes_[next_] == 0)
    begin_next();  // nobody writes their bytes
  if (left_ != 0 || next_ != sizes_.size()) throw Error(fmt::format("{}: tensors were not written", path_));
  zip_->add(fmt::format("{}version", kFolder), "3\n");
  zip_->finish();
  try {
    if (::fsync(partial_->descriptor()) != 0) throw std::system_error(errno, std::generic_category());
    partial_->commit();
    partial_.reset();
  } catch (const std::system_error& error) {
    throw OutputError(fmt::format("{}: cannot be written: {}", path_, std::strerror(error.code().value())));
  }
}

}  // namespace plumbline
