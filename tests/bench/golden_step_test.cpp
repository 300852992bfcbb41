// Loss and gradients of real checkpoints against PyTorch and transformers (tests/golden), in every split.
#include <fmt/format.h>
#include <gtest/gtest.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/safetensors.hpp"
#include "tests/bench/training_support.hpp"

namespace plumbline::training {
namespace {

std::map<std::string, std::vector<float>> load_tensors(const std::string& path) {
  const TensorFile file(path);
  std::map<std::string, std::vector<float>> tensors;
  for (const std::string& name : file.names()) {
    const StoredTensor& tensor = file.get(name);
    std::vector<float>& values = tensors[name];
    for (std::int64_t i = 0; i < tensor.elements(); ++i) values.push_back(tensor.at(i));
  }
  return tensors;
}

class GoldenStep : public testing::TestWithParam<const char*> {};

TEST_P(GoldenStep, LossAndGradientsEqualPyTorchs) {
  const std::string folder = fmt::format("{}/tests/golden/{}", PLUMBLINE_SOURCE_DIR, GetParam());
  std::ifstream expected_file(folder + "/expected.json");
  const nlohmann::json expected = nlohmann::json::parse(expected_file);
  const auto gradients = load_tensors(folder + "/gradients.safetensors");
  RunConfig config = load_run_config(folder + "/run.yaml", {});
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const Layout& layout : layouts_of(ranks)) {
    set_layout(config, layout);
    if (why_invalid(config)) continue;  // three layers do not make four stages
    const std::string name =
        fmt::format("{} tp{} pp{} dp{}", GetParam(), layout.tensor, layout.pipeline, layout.data);
    MpiCommunicator communicator(config.layout());
    const StepResult found = one_step(config, communicator);
    EXPECT_NEAR(found.loss / expected["loss"].get<double>(), 1, 1e-5) << name;
    if (communicator.rank() != 0) continue;
    std::string worst;
    const double error = largest_error(gradients, found.gradients, worst);
    EXPECT_LE(error, 1e-4) << name << ": " << worst;
    fmt::print("{}: largest error {:.2e} ({})\n", name, error, worst);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenStep, testing::Values("qwen2", "llama", "gpt2"));

}  // namespace
}  // namespace plumbline::training
