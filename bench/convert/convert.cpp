#include "bench/convert/convert.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "bench/convert/companions.hpp"
#include "bench/convert/named_model.hpp"
#include "bench/convert/target_folder.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/run_parallel.hpp"
#include "core/base/text_input.hpp"
#include "core/checkpoints/torch_writer.hpp"

namespace plumbline::convert {
namespace {

namespace fs = std::filesystem;

constexpr int kMostThreads = 4;
constexpr std::int64_t kSpareBytes = std::int64_t{16} << 20;  // headers, indexes, folders

/// The tokenizer's files: where the model's config.json is.
std::vector<PlannedText> companions(const ConvertRequest& request) {
  std::error_code error;
  fs::path folder = request.model.empty() ? request.from : request.model;
  if (!fs::is_directory(folder, error)) folder = folder.parent_path();
  return companions_in(folder.string());
}

/// Description of a conversion: the same text means the same files.
std::string account_of(const ConvertRequest& request, CheckpointFormat to, const Checkpoint& source,
                       const std::string& config) {
  OrderedJson files = OrderedJson::array();
  for (const std::string& file : source.files) {
    struct stat info = {};
    ::stat(file.c_str(), &info);
    files.push_back({{"file", printable(fs::absolute(file).lexically_normal().string(), 4000)},
                     {"bytes", info.st_size},
                     {"modified", fmt::format("{}.{:09}", info.st_mtim.tv_sec, info.st_mtim.tv_nsec)}});
  }
  OrderedJson account = {{"to", name_of(to)}};
  if (to == CheckpointFormat::megatron) {
    const MegatronTarget& target = request.megatron;
    account["tensor_model_parallel_size"] = target.sizes.tensor;
    account["pipeline_model_parallel_size"] = target.sizes.pipeline;
    account["virtual_pipeline_chunks"] = target.sizes.virtual_chunks;
    account["expert_model_parallel_size"] = target.sizes.expert;
    account["make_vocab_size_divisible_by"] = target.vocabulary_multiple;
    account["vocabulary_padding"] = target.padding == VocabularyPadding::zero ? "zero" : "repeat";
    account["grouped_experts"] = target.grouped_experts;
  } else {
    account["shard_bytes"] = request.shard_bytes;
  }
  account["from"] = name_of(source.format);
  account["from_files"] = std::move(files);
  account["config"] = config;
  return account.dump(2, ' ', true, OrderedJson::error_handler_t::replace) + "\n";
}

/// The config.json of weights that are FP8 no more.
std::string without_quantization(const std::string& config) {
  OrderedJson file = parse_json_object<OrderedJson>(config, "config.json");
  for (const char* key : {"quantization_config", "compression_config"}) file.erase(key);
  return file.dump(2, ' ', true, OrderedJson::error_handler_t::replace) + "\n";
}

/// Neither may be in the other: a target may be removed.
void refuse_nested(const std::string& from, const std::string& to) {
  const fs::path a = fs::weakly_canonical(from);
  const fs::path b = fs::weakly_canonical(to);
  const auto within = [](const fs::path& inner, const fs::path& outer) {
    const fs::path relative = inner.lexically_relative(outer);
    return !relative.empty() && *relative.begin() != "..";
  };
  if (within(a, b) || within(b, a)) {
    throw InputError(fmt::format(
        "TO: found {}, the same as or nested with FROM {}, expected a separate folder; name another folder",
        printable(to, 400), printable(from, 400)));
  }
}

/// Writes files on several threads; the first failure stops all.
class FileWriters {
 public:
  FileWriters(const FilePlan& plan, const TargetFolder& target, const ConvertProgress& progress)
      : plan_(plan), target_(target), progress_(progress) {
    for (const PlannedFile& file : plan.files) all_ += file.bytes();
  }

  void write_all(int threads) {
    run_parallel(static_cast<std::size_t>(threads), [this](std::size_t /*worker*/) { work(); });
  }

 private:
  void work() {
    for (std::size_t i = next_++; i < plan_.files.size() && !failed_; i = next_++) {
      try {
        write(plan_.files[i]);
      } catch (...) {
        failed_ = true;
        throw;
      }
    }
  }

  void write(const PlannedFile& file) {
    if (target_.has(file.path)) return advance(file.bytes());
    file.torch ? write_torch(file) : write_safetensors(file);
  }

  void advance(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    progress_({done_}, {all_});
  }

  void write_torch(const PlannedFile& file) {
    std::vector<TorchDictionary> dictionaries;
    dictionaries.reserve(file.dictionaries.size());
    for (const PlannedDictionary& planned : file.dictionaries) {
      TorchDictionary dictionary{planned.key, {}};
      dictionary.tensors.reserve(planned.tensors.size());
      for (const PlannedTensor& tensor : planned.tensors)
        dictionary.tensors.push_back({tensor.name, tensor.type, tensor.shape});
      dictionaries.push_back(std::move(dictionary));
    }
    TorchFileWriter writer(target_.path_of(file.path), dictionaries);
    for (const PlannedDictionary& dictionary : file.dictionaries) {
      for (const PlannedTensor& tensor : dictionary.tensors) {
        if (failed_) return;
        stream(tensor, [&](std::span<const std::byte> bytes) { writer.write(bytes); });
      }
    }
    writer.finish();
  }

  void write_safetensors(const PlannedFile& file) {
    const std::vector<PlannedTensor>& tensors = file.dictionaries.front().tensors;
    std::vector<TensorFileWriter::Entry> entries;
    entries.reserve(tensors.size());
    for (const PlannedTensor& tensor : tensors) entries.push_back({tensor.name, tensor.type, tensor.shape});
    TensorFileWriter writer(target_.path_of(file.path), std::move(entries));
    for (const PlannedTensor& tensor : tensors) {
      if (failed_) return;
      stream(tensor, [&](std::span<const std::byte> bytes) { writer.append(tensor.name, bytes); });
    }
    writer.finish();
  }

  template <class Sink>
  void stream(const PlannedTensor& tensor, const Sink& sink) {
    stream_tensor(tensor, [&](std::span<const std::byte> bytes) {
      sink(bytes);
      advance(static_cast<std::int64_t>(bytes.size()));
    });
  }

  const FilePlan& plan_;
  const TargetFolder& target_;
  const ConvertProgress& progress_;
  std::int64_t all_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::int64_t done_ = 0;
};

void check_space(const FilePlan& plan, const TargetFolder& target, const std::string& to) {
  std::int64_t needed = kSpareBytes;
  for (const PlannedFile& file : plan.files) needed += target.has(file.path) ? 0 : file.bytes();
  const std::int64_t free = target.free_bytes();
  if (needed <= free) return;
  throw OutputError(fmt::format(
      "TO: {0}: found {2} free, expected {1}; make room or name a folder on another disk", printable(to, 400),
      readable_bytes(static_cast<double>(needed)), readable_bytes(static_cast<double>(free))));
}

/// One thread per file at most: writers of one file only wait for each other.
int threads_for(const ConvertRequest& request, std::size_t files) {
  const auto processors = static_cast<int>(std::thread::hardware_concurrency());
  const int most = request.threads > 0 ? request.threads : std::clamp(processors, 1, kMostThreads);
  return std::min(most, static_cast<int>(std::min<std::size_t>(files, kMostThreads)));
}

}  // namespace

ConvertReport convert_checkpoint(const ConvertRequest& request, const ConvertProgress& progress) {
  ConvertReport report;
  report.from = format_of(request.from);
  refuse_nested(request.from, request.to);
  report.to =
      request.format.value_or(report.from == CheckpointFormat::hugging_face ? CheckpointFormat::megatron
                                                                            : CheckpointFormat::hugging_face);
  const NamedModel named = model_of(request.from, request.model);
  report.architecture = named.model.architecture;
  // Between folders of Hugging Face, too: the layouts know nothing else.
  if (const auto reason = why_not_megatron(named.model)) throw InputError(*reason);
  Checkpoint source = open_checkpoint(request.from, named.model);
  std::sort(source.files.begin(), source.files.end());
  report.from_sizes = source.sizes;
  report.optimizer = source.optimizer;
  report.unused = source.unused;
  std::sort(report.unused.begin(), report.unused.end());
  report.unused.erase(std::unique(report.unused.begin(), report.unused.end()), report.unused.end());
  FilePlan plan = report.to == CheckpointFormat::megatron
                      ? plan_megatron(named.model, request.megatron, source)
                      : plan_hugging_face(named.model, source, request.shard_bytes);
  plan.texts.push_back(
      {"config.json", source.dequantized ? without_quantization(named.config) : named.config});
  for (PlannedText& companion : companions(request)) plan.texts.push_back(std::move(companion));

  TargetFolder target(request.to, request.overwrite, account_of(request, report.to, source, named.config));
  check_space(plan, target, request.to);
  for (const PlannedFile& file : plan.files) {
    report.files_kept += target.has(file.path) ? 1 : 0;
    report.written += Bytes{target.has(file.path) ? 0 : file.bytes()};
    for (const PlannedDictionary& dictionary : file.dictionaries)
      report.tensors += std::ssize(dictionary.tensors);
  }
  report.files = std::ssize(plan.files);
  try {
    FileWriters(plan, target, progress).write_all(threads_for(request, plan.files.size()));
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw Error(fmt::format("{}; the next conversion goes on from here", error.what()), error.code());
  }
  for (const PlannedText& text : plan.texts) write_whole_file(target.path_of(text.path), text.text);
  target.publish();
  return report;
}

}  // namespace plumbline::convert
