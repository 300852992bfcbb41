// `plumbline topology`: a network, and the bandwidth of a configuration's groups on it.
#include <fmt/format.h>

#include <memory>

#include "analysis/hardware/hardware.hpp"
#include "analysis/topology/fabric_generators.hpp"
#include "analysis/topology/host_names.hpp"
#include "analysis/topology/slurm_topology.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/number_range.hpp"
#include "bench/measure/machine/named_hardware.hpp"
#include "bench/plan/plan.hpp"
#include "bench/show/views/cluster/collectives_report.hpp"
#include "bench/show/views/cluster/topology_report.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"
#include "core/base/text_input.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline {
namespace {

struct TopologyOptions {
  std::string network;
  std::string slurm;
  int gpus_per_node = 8;
  double oversubscription = 1;
  int tensor = 1, pipeline = 1, context = 1;
  std::int64_t gpus = 0;
  std::string order = "tp-cp-dp-pp";
  std::string hosts;
  std::string config;
  bool forward = false;
  bool sharp = false;
  std::string collective;
  std::vector<std::string> sizes = {"64KiB", "1MiB", "16MiB", "256MiB", "4GiB"};
  std::string hardware;
  double port = 50, cable = 50, nvlink = 450;
  bool json = false;
};

Fabric fabric_of(const TopologyOptions& options) {
  if (options.network.empty() == options.slurm.empty()) {
    throw InputError("topology: expected either NETWORK, such as superpod-b200:16, or --slurm FILE");
  }
  if (!options.network.empty()) return make_fabric(options.network);
  return fabric_of(read_slurm_topology(options.slurm), options.gpus_per_node, options.oversubscription);
}

Forwarding forwarding_of(const TopologyOptions& options) {
  return options.forward ? Forwarding::own_node : Forwarding::none;
}

RankOrder order_of(const TopologyOptions& options, std::int64_t gpus) {
  const std::int64_t replica = std::int64_t{options.tensor} * options.context * options.pipeline;
  if (gpus % replica != 0) {
    throw InputError(
        fmt::format("topology: found {} GPUs, expected a multiple of tp x cp x pp = {}", gpus, replica));
  }
  return rank_order(options.order, {{"tp", options.tensor},
                                    {"cp", options.context},
                                    {"dp", static_cast<int>(gpus / replica)},
                                    {"pp", options.pipeline}});
}

/// All orders of the axes of a configuration, on all or the given hosts.
int search_placement(const TopologyOptions& options, const Fabric& fabric, const std::vector<int>& nodes,
                     const LinkRates& rates) {
  Overrides overrides;
  if (options.gpus > 0) overrides.push_back({"world_size", std::to_string(options.gpus)});
  std::string note;
  const RunConfig config = load_run_config(options.config, overrides, &note);
  if (!note.empty()) say(fmt::format("note: {}\n", note));
  if (const auto reason = why_invalid(config)) throw InputError(fmt::format("topology: {}", *reason));
  const ParallelConfig& parallel = config.parallel;
  const RankOrder sizes = {
      {"tp", parallel.tensor}, {"cp", parallel.context}, {"dp", parallel.data()}, {"pp", parallel.pipeline}};
  const std::vector<std::int64_t> gpus = place_ranks(fabric, parallel.world_size, nodes);
  const StepBytes sent = step_bytes(config, step_for(config));
  const std::vector<OrderTimes> orders =
      search_orders(fabric, sizes, sent.axes, sent.experts, gpus, rates, forwarding_of(options));
  // As search_orders writes it: axes of one rank last.
  std::string usual;
  for (const bool single : {false, true}) {
    for (const RankAxis& axis : sizes) {
      if ((axis.size == 1) == single) usual += (usual.empty() ? "" : "-") + axis.name;
    }
  }
  fmt::print("{}", options.json ? orders_json(orders, usual)
                                : topology_text(fabric, {}) + orders_text(orders, usual, 6));
  return static_cast<int>(ExitCode::done);
}

/// Accelerator with the network of the collectives' times: --hardware, or that of the published cluster.
std::string hardware_of(const TopologyOptions& options) {
  if (!options.hardware.empty()) return options.hardware;
  if (options.network.starts_with("superpod-b200")) return "b200-sxm-180gb";
  return options.network.starts_with("superpod-b300") ? "b300-sxm-270gb" : "h100-sxm-80gb";
}

/// One collective along every axis of more than one rank.
int show_collective(const TopologyOptions& options, const Fabric& fabric, const RankOrder& order,
                    const std::vector<std::int64_t>& gpus, const LinkRates& rates) {
  const GroupCall call = group_call_named(options.collective);
  std::vector<Bytes> sizes;
  sizes.reserve(options.sizes.size());
  for (const std::string& size : options.sizes) {
    sizes.push_back(parse_bytes(size, "topology: --sizes"));
    if (sizes.back().value < 1) throw InputError("topology: --sizes: found 0, expected bytes such as 64KiB");
  }
  const HardwareProfile hardware = accelerator_named(hardware_of(options));
  std::vector<AxisCollective> axes;
  axes.reserve(order.size());
  for (const RankAxis& axis : order) {
    if (axis.size < 2) continue;
    const auto groups = placed(groups_along(order, axis.name), gpus);
    axes.push_back(
        {axis.name, groups.size(), hardware.name,
         collective_times(fabric, groups, call, sizes, rates, {forwarding_of(options), options.sharp},
                          hardware.accelerator()->constants.network)});
  }
  if (axes.empty()) throw InputError("topology: --collective: found one rank, expected two at least");
  fmt::print("{}", options.json ? collectives_json(call, sizes, axes)
                                : topology_text(fabric, {}) + collectives_text(call, sizes, axes));
  return static_cast<int>(ExitCode::done);
}

int run_topology(const TopologyOptions& options) {
  const Fabric fabric = fabric_of(options);
  const std::vector<int> nodes =
      options.hosts.empty() ? std::vector<int>{}
                            : nodes_named(fabric, expand_hosts(options.hosts, "topology: --hosts",
                                                               static_cast<std::size_t>(fabric.nodes)));
  const LinkRates rates{{1e9 * options.nvlink}, {1e9 * options.port}, {1e9 * options.cable}};
  if (!options.config.empty()) return search_placement(options, fabric, nodes, rates);
  const std::int64_t there =
      nodes.empty() ? fabric.gpus() : static_cast<std::int64_t>(nodes.size()) * fabric.gpus_per_node;
  const RankOrder order = order_of(options, options.gpus > 0 ? options.gpus : there);
  const std::vector<std::int64_t> gpus = place_ranks(fabric, options.gpus > 0 ? options.gpus : there, nodes);
  if (!options.collective.empty()) return show_collective(options, fabric, order, gpus, rates);
  const bool asked =
      options.tensor * options.pipeline * options.context > 1 || options.gpus > 0 || !nodes.empty();
  std::vector<AxisRates> axes;
  if (asked) axes = axis_rates(fabric, order, gpus, rates, forwarding_of(options));
  fmt::print("{}", options.json ? topology_json(fabric, axes) : topology_text(fabric, axes));
  return static_cast<int>(ExitCode::done);
}

void add_rank_options(CLI::App& command, TopologyOptions& options) {
  const CLI::Validator sizes = number_from(1, 1 << 20);
  command.add_option("--gpus", options.gpus, "Number of GPUs with ranks (default: all)")->check(sizes);
  command.add_option("--tp", options.tensor, "Tensor-parallel size")->check(sizes)->capture_default_str();
  command.add_option("--cp", options.context, "Context-parallel size")->check(sizes)->capture_default_str();
  command.add_option("--pp", options.pipeline, "Pipeline-parallel size")->check(sizes)->capture_default_str();
  command.add_option("--rank-order", options.order, "Rank order of the axes, fastest-varying first")
      ->capture_default_str();
  auto* collective =
      command.add_option("--collective", options.collective,
                         "Collective to time along each axis, with every algorithm: all-reduce, all-gather, "
                         "reduce-scatter or all-to-all");
  command.add_option("--sizes", options.sizes, "Buffer sizes for --collective")
      ->needs(collective)
      ->delimiter(',')
      ->type_name("BYTES[,BYTES...]")
      ->capture_default_str();
  command
      .add_option("--config", options.config,
                  "Configuration whose rank orders are compared by the traffic of a step, in place of sizes")
      ->excludes("--tp", "--cp", "--pp", "--rank-order", "--collective")
      ->type_name("CONFIG");
  command.add_option("--hosts", options.hosts, "Hosts of the --slurm file in rank order, such as n[1-4]");
}

void add_rate_options(CLI::App& command, TopologyOptions& options) {
  const CLI::Validator rates = number_from(1e-3, 1e6);
  command.add_flag("--forward", options.forward, "PXN: forward messages to another rail over NVLink first");
  command.add_flag("--sharp", options.sharp, "SHARP: in-network reduction of all-reduces, for --collective")
      ->needs("--collective");
  command
      .add_option("--hardware", options.hardware,
                  "Accelerator whose network gives the times, for --collective (default: of NETWORK, or "
                  "h100-sxm-80gb)")
      ->type_name("NAME");
  command.add_option("--nvlink", options.nvlink, "NVLink bandwidth of a GPU, one direction, in GB/s")
      ->check(rates)
      ->capture_default_str();
  command.add_option("--port", options.port, "Bandwidth of a GPU's network port, in GB/s")
      ->check(rates)
      ->capture_default_str();
  command.add_option("--cable", options.cable, "Bandwidth of a cable between switches, in GB/s")
      ->check(rates)
      ->capture_default_str();
}

}  // namespace

void add_topology_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("topology", "Print a cluster network and the bandwidth of parallel groups on it");
  const auto options = std::make_shared<TopologyOptions>();
  command->add_option(
      "NETWORK", options->network,
      "Network: superpod-b200:UNITS, superpod-b300:UNITS, fat-tree:PORTS, rail-only:NODES or llama3:PODS");
  command->add_option("--slurm", options->slurm, "Slurm topology.conf or topology.yaml, in place of NETWORK")
      ->type_name("TOPOLOGY.conf");
  command->add_option("--gpus-per-node", options->gpus_per_node, "GPUs per node, for --slurm")
      ->needs("--slurm")
      ->check(number_from(1, 64))
      ->capture_default_str();
  command
      ->add_option("--oversubscription", options->oversubscription,
                   "Oversubscription for --slurm: GPUs below a switch per uplink")
      ->needs("--slurm")
      ->check(number_from(0.1, 1000.0))
      ->capture_default_str();
  add_rank_options(*command, *options);
  add_rate_options(*command, *options);
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->callback([=, &action] { action = [=] { return run_topology(*options); }; });
}

}  // namespace plumbline
