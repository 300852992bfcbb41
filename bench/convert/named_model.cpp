#include "bench/convert/named_model.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/families/checkpoint_config.hpp"

namespace plumbline::convert {
namespace {

constexpr std::size_t kMostConfigBytes = std::size_t{1} << 20;

}  // namespace

NamedModel model_of(const std::string& folder, const std::string& named) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path path = named.empty() ? fs::path(folder) / "config.json" : fs::path(named);
  if (!named.empty() && fs::is_directory(path, error)) path /= "config.json";
  if (!named.empty() && !fs::exists(path, error)) {
    ModelConfig preset = resolve_model(named);
    std::string config = to_checkpoint_config(preset);
    return {std::move(preset), std::move(config)};
  }
  if (!fs::exists(path, error)) {
    throw InputError(fmt::format(
        "{}: holds no config.json; expected one, or the model as --model (a preset, or another config.json)",
        printable(folder, 400)));
  }
  ModelConfig model = load_model_config(path.string());
  if (!model.predicted.names.empty()) {
    throw InputError(
        fmt::format("{}: found a {} with {}, expected a model that `run` executes; it is predicted only",
                    printable(path.string(), 400), model.architecture, model.predicted.names));
  }
  return {std::move(model), read_text_file(path.string(), kMostConfigBytes)};
}

}  // namespace plumbline::convert
